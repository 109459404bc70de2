// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/outages.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define HOSTS_MAX 64 /* hosts beyond these are waited for too, but not logged */

struct outage {
	char host[OUTAGE_HOST_MAX]; /* "": this entry is free */
	int64_t since_ns;
	unsigned int n_waiting; /* number of reads that wait */
	struct error why;
};

/* A repository whose login is refused. */
struct login_outage {
	/* "host/repository"; "": this entry is free */
	char place[OUTAGE_PLACE_MAX];
	int64_t since_ns;
	struct error why;
};

struct outages {
	struct oci_watch watch;
	atomic_uint n; /* number of hosts; also read without the lock */
	pthread_mutex_t lock;
	struct outage hosts[HOSTS_MAX];
	struct login_outage logins[HOSTS_MAX];
	struct back_offs back_offs;
};

/* The lock is held, as in the functions below.  NULL: the host has no outage. */
static struct outage *find_outage(struct outages *o, const char *host)
{
	for (size_t i = 0; i < HOSTS_MAX; i++)
		if (strcmp(o->hosts[i].host, host) == 0)
			return &o->hosts[i];
	return NULL;
}

static struct outage *begin_outage(struct outages *o, const char *host)
{
	struct outage *h = find_outage(o, "");

	if (!h || strlen(host) >= sizeof(h->host))
		return NULL;
	strcpy(h->host, host);
	h->since_ns = clock_now_ns();
	atomic_fetch_add(&o->n, 1);
	return h;
}

static void outages_on_wait(struct oci_watch *w, const char *host,
			    const struct error *why)
{
	struct outages *o = container_of(w, struct outages, watch);
	struct outage *h;
	bool is_new;

	(void)pthread_mutex_lock(&o->lock);
	h = find_outage(o, host);
	is_new = !h;
	if (!h)
		h = begin_outage(o, host);
	if (h) {
		h->n_waiting++;
		h->why = *why;
	}
	(void)pthread_mutex_unlock(&o->lock);
	if (is_new && h)
		log_warning(
			"origin",
			"waiting for registry=\"%s\" reason=\"%s\" "
			"effect=\"reads of what is not on the node wait, up "
			"to --read-timeout\"",
			host, why->msg);
}

/*
 * When a read fails in the end, the registry's entry stays: it is down until some read
 * succeeds.  A read that succeeds while others wait is of another blob or repository, so the
 * outage is not over.
 */
static void outages_on_end(struct oci_watch *w, const char *host, bool waited,
			   bool is_good)
{
	struct outages *o = container_of(w, struct outages, watch);
	int64_t since = 0;
	struct outage *h;
	bool is_over = false;

	if (!atomic_load(&o->n))
		return;
	(void)pthread_mutex_lock(&o->lock);
	h = find_outage(o, host);
	if (h) {
		h->n_waiting -= waited && h->n_waiting;
		is_over = is_good && !h->n_waiting;
	}
	if (is_over) {
		since = h->since_ns;
		*h = (struct outage){ .host = "" };
		atomic_fetch_sub(&o->n, 1);
	}
	(void)pthread_mutex_unlock(&o->lock);
	if (is_over)
		log_info("origin",
			 "registry=\"%s\" answers again after_ms=%" PRId64,
			 host, (clock_now_ns() - since) / NS_PER_MS);
}

static void outages_on_back_off(struct oci_watch *w, const char *host,
				bool is_throttled, bool is_over)
{
	struct outages *o = container_of(w, struct outages, watch);

	back_offs_note(&o->back_offs, host, is_throttled, is_over,
		       clock_now_ns());
}

/* The lock is held.  NULL: the repository has no login outage. */
static struct login_outage *find_login(struct outages *o, const char *place)
{
	for (size_t i = 0; i < HOSTS_MAX; i++)
		if (strcmp(o->logins[i].place, place) == 0)
			return &o->logins[i];
	return NULL;
}

static void outages_on_login(struct oci_watch *w, const char *host,
			     const char *repo, const struct error *why)
{
	struct outages *o = container_of(w, struct outages, watch);
	char place[OUTAGE_PLACE_MAX];
	struct login_outage *l;
	int len = snprintf(place, sizeof(place), "%s/%s", host, repo);

	if (len < 0 || (size_t)len >= sizeof(place))
		return;
	(void)pthread_mutex_lock(&o->lock);
	l = find_login(o, place);
	if (!l && why)
		l = find_login(o, "");
	if (l && why)
		*l = (struct login_outage){ .since_ns = clock_now_ns(),
					    .why = *why };
	if (l)
		strcpy(l->place, why ? place : "");
	(void)pthread_mutex_unlock(&o->lock);
	if (why)
		log_warning(
			"origin",
			"the login is refused repository=\"%s\" reason=\"%s\" "
			"effect=\"blocks that are not on the node cannot be "
			"read\" action=\"a new one is asked for in a while\"",
			place, why->msg);
	else
		log_info("origin", "the login works again repository=\"%s\"",
			 place);
}

static void outages_on_misread(struct oci_watch *w, const char *host,
			       const struct error *why)
{
	(void)w;
	log_warning("origin",
		    "no mirrors registry=\"%s\" reason=\"%s\" "
		    "action=\"the registry itself is asked\" cure=\"mend the "
		    "file, then reload\"",
		    host, why->msg);
}

struct outages *outages_new(void)
{
	struct outages *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->watch = (struct oci_watch){ .waits = outages_on_wait,
				       .ended = outages_on_end,
				       .backs_off = outages_on_back_off,
				       .login = outages_on_login,
				       .misread = outages_on_misread };
	back_offs_init(&o->back_offs);
	(void)pthread_mutex_init(&o->lock, NULL);
	return o;
}

void outages_free(struct outages *o)
{
	if (!o)
		return;
	(void)pthread_mutex_destroy(&o->lock);
	back_offs_fini(&o->back_offs);
	free(o);
}

struct oci_watch *outages_watch(struct outages *o)
{
	return &o->watch;
}

struct back_offs *outages_back_offs(struct outages *o)
{
	return &o->back_offs;
}

bool outages_get(struct outages *o, size_t k, char host[OUTAGE_HOST_MAX],
		 int64_t *ret_ns, struct error *ret_why)
{
	bool found = false;

	(void)pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < HOSTS_MAX && !found; i++) {
		const struct outage *h = &o->hosts[i];

		found = *h->host && k-- == 0;
		if (found) {
			strcpy(host, h->host);
			*ret_ns = clock_now_ns() - h->since_ns;
			*ret_why = h->why;
		}
	}
	(void)pthread_mutex_unlock(&o->lock);
	return found;
}

bool outages_get_login(struct outages *o, size_t k,
		       char place[OUTAGE_PLACE_MAX], int64_t *ret_ns,
		       struct error *ret_why)
{
	bool found = false;

	(void)pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < HOSTS_MAX && !found; i++) {
		const struct login_outage *l = &o->logins[i];

		found = *l->place && k-- == 0;
		if (found) {
			strcpy(place, l->place);
			*ret_ns = clock_now_ns() - l->since_ns;
			*ret_why = l->why;
		}
	}
	(void)pthread_mutex_unlock(&o->lock);
	return found;
}
