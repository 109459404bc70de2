// SPDX-License-Identifier: Apache-2.0
#include "objects/oci_hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mutex.h"

#define AWAY_FIRST_NS (30 * NS_PER_S)
#define AWAY_MOST_NS (300 * NS_PER_S)
#define PROBE_NS (30 * NS_PER_S) /* what a caller who is let through may take */
#define THROTTLED_MOST_NS (3600 * NS_PER_S)

struct oci_host {
	char name[OCI_HOST_ROOM]; /* "": the place is free */
	int64_t noted_ns;
	unsigned int n_away; /* times in a row; 0: it is there */
	int64_t away_until_ns;
	bool is_probed;   /* a caller was let through since n_away last grew */
	bool is_refusing; /* while n_away: it costs no time to ask it */
	struct error why; /* while n_away */
	int64_t throttled_until_ns;
	unsigned int n_logins;
};

#define WAITS_MAX 128u

/* A request that is under way. */
struct oci_wait {
	char host[OCI_HOST_ROOM]; /* "": the place is free */
	char what[96];
	int64_t since_ns;
	const atomic_int_fast64_t *heard_ns;
};

struct oci_hosts {
	pthread_mutex_t lock; /* protects the rest */
	struct oci_host list[OCI_HOSTS_MAX];
	struct oci_wait waits[WAITS_MAX];
};

struct oci_hosts *oci_hosts_new(void)
{
	struct oci_hosts *h = calloc(1, sizeof(*h));

	if (h)
		(void)pthread_mutex_init(&h->lock, NULL);
	return h;
}

void oci_hosts_free(struct oci_hosts *h)
{
	if (!h)
		return;
	(void)pthread_mutex_destroy(&h->lock);
	free(h);
}

void oci_hosts_forget(struct oci_hosts *h)
{
	AUTO_UNLOCK held = mutex_hold(&h->lock);

	for (size_t i = 0; i < OCI_HOSTS_MAX; i++) {
		h->list[i].n_away = 0;
		h->list[i].throttled_until_ns = 0;
	}
}

/* Without hosts nothing is held, and none is found. */
static pthread_mutex_t *lock_hosts_if_any(struct oci_hosts *h)
{
	return h ? mutex_hold(&h->lock) : NULL;
}

/* With the lock, as the next. */
static struct oci_host *find_host(struct oci_hosts *h, const char *name)
{
	for (size_t i = 0; h && i < OCI_HOSTS_MAX; i++)
		if (strcmp(h->list[i].name, name) == 0)
			return &h->list[i];
	return NULL;
}

/* NULL: its name is too long, or there are no hosts. */
static struct oci_host *take_host(struct oci_hosts *h, const char *name)
{
	struct oci_host *host = find_host(h, name);

	if (!h || strlen(name) >= OCI_HOST_ROOM)
		return NULL;
	if (!host) {
		host = &h->list[0];
		for (size_t i = 1; i < OCI_HOSTS_MAX; i++)
			if (h->list[i].noted_ns < host->noted_ns)
				host = &h->list[i];
		*host = (struct oci_host){ .n_away = 0 };
		strcpy(host->name, name);
	}
	host->noted_ns = clock_now_ns();
	return host;
}

static int check_host(struct oci_host *host, int64_t now_ns, struct error *err)
{
	if (host->throttled_until_ns > now_ns)
		return error_set(err, EBUSY,
				 "it asked for no more requests for %" PRId64
				 " s yet: a login may have a higher limit",
				 (host->throttled_until_ns - now_ns) /
						 NS_PER_S +
					 1);
	if (!host->n_away)
		return 0;
	if (host->away_until_ns > now_ns && host->is_refusing)
		return 1;
	if (host->away_until_ns > now_ns)
		return error_set(err, ETIMEDOUT,
				 "it is away, and is asked again in %" PRId64
				 " s: %.150s",
				 (host->away_until_ns - now_ns) / NS_PER_S + 1,
				 host->why.msg);
	host->away_until_ns = now_ns + PROBE_NS;
	host->is_probed = true;
	return 0;
}

int oci_hosts_check(struct oci_hosts *h, const char *host, int64_t now_ns,
		    struct error *err)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	struct oci_host *found = find_host(h, host);

	return found ? check_host(found, now_ns, err) : 0;
}

/* Requests that fail together are one time. */
static void note_unreachable_host(struct oci_hosts *h, const char *host,
				  bool is_refusing, const struct error *why,
				  int64_t now_ns)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	struct oci_host *found = take_host(h, host);
	int64_t wait = AWAY_FIRST_NS;

	if (found && (!found->n_away || found->is_probed)) {
		for (unsigned int n = 0;
		     n < found->n_away && wait < AWAY_MOST_NS; n++)
			wait *= 2;
		found->n_away++;
		found->is_probed = false;
		found->away_until_ns =
			now_ns + (wait < AWAY_MOST_NS ? wait : AWAY_MOST_NS);
	}
	if (found) {
		found->why = *why;
		found->is_refusing = is_refusing;
	}
}

void oci_hosts_note_away(struct oci_hosts *h, const char *host,
			 const struct error *why, int64_t now_ns)
{
	note_unreachable_host(h, host, false, why, now_ns);
}

void oci_hosts_note_refusing(struct oci_hosts *h, const char *host,
			     const struct error *why, int64_t now_ns)
{
	note_unreachable_host(h, host, true, why, now_ns);
}

void oci_hosts_note_throttled(struct oci_hosts *h, const char *host,
			      int64_t wait_ns, int64_t now_ns)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	struct oci_host *found = take_host(h, host);

	if (found)
		found->throttled_until_ns =
			now_ns + (wait_ns < THROTTLED_MOST_NS
					  ? wait_ns
					  : THROTTLED_MOST_NS);
}

void oci_hosts_answered(struct oci_hosts *h, const char *host)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	struct oci_host *found = find_host(h, host);

	if (found)
		found->n_away = 0;
}

unsigned int oci_hosts_logins(struct oci_hosts *h, const char *host)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	const struct oci_host *found = find_host(h, host);

	return found ? found->n_logins : 0;
}

void oci_hosts_note_login(struct oci_hosts *h, const char *host)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);
	struct oci_host *found = take_host(h, host);

	if (found)
		found->n_logins++;
}

unsigned int oci_hosts_begin_wait(struct oci_hosts *h, const char *host,
				  const char *what,
				  const atomic_int_fast64_t *heard_ns)
{
	AUTO_UNLOCK held = lock_hosts_if_any(h);

	for (unsigned int i = 0; h && *host && i < WAITS_MAX; i++) {
		struct oci_wait *w = &h->waits[i];

		if (*w->host)
			continue;
		(void)snprintf(w->host, sizeof(w->host), "%s", host);
		(void)snprintf(w->what, sizeof(w->what), "%s",
			       what ? what : "");
		w->since_ns = clock_now_ns();
		w->heard_ns = heard_ns;
		return i + 1;
	}
	return 0;
}

void oci_hosts_end_wait(struct oci_hosts *h, unsigned int wait)
{
	AUTO_UNLOCK held = wait ? lock_hosts_if_any(h) : NULL;

	if (wait)
		h->waits[wait - 1] = (struct oci_wait){ .host = "" };
}

static int64_t silence_of_wait_ns(const struct oci_wait *w, int64_t now_ns)
{
	int64_t heard = atomic_load(w->heard_ns);

	return now_ns - (heard > w->since_ns ? heard : w->since_ns);
}

/* With the lock.  NULL: none of them is silent. */
static const struct oci_wait *
find_longest_silent_wait(const struct oci_hosts *h, const char *host,
			 int64_t now_ns, unsigned int *ret_n)
{
	const struct oci_wait *longest = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < WAITS_MAX; i++) {
		const struct oci_wait *w = &h->waits[i];

		if (strcmp(w->host, host) != 0 ||
		    silence_of_wait_ns(w, now_ns) < OCI_HOSTS_SILENT_NS)
			continue;
		(*ret_n)++;
		if (!longest || silence_of_wait_ns(w, now_ns) >
					silence_of_wait_ns(longest, now_ns))
			longest = w;
	}
	return longest;
}

/* Is it the first of its host that is silent? */
static bool is_first_silent(const struct oci_hosts *h, size_t i, int64_t now_ns)
{
	const struct oci_wait *w = &h->waits[i];

	if (!*w->host || silence_of_wait_ns(w, now_ns) < OCI_HOSTS_SILENT_NS)
		return false;
	for (size_t j = 0; j < i; j++)
		if (strcmp(h->waits[j].host, w->host) == 0 &&
		    silence_of_wait_ns(&h->waits[j], now_ns) >=
			    OCI_HOSTS_SILENT_NS)
			return false;
	return true;
}

bool oci_hosts_get_silent(struct oci_hosts *h, size_t k, int64_t now_ns,
			  char host[OCI_HOST_ROOM], int64_t *ret_ns,
			  struct error *ret_why)
{
	AUTO_UNLOCK held = mutex_hold(&h->lock);
	const struct oci_wait *w = NULL;
	unsigned int n;

	for (size_t i = 0; i < WAITS_MAX && !w; i++)
		if (is_first_silent(h, i, now_ns) && k-- == 0)
			w = find_longest_silent_wait(h, h->waits[i].host,
						     now_ns, &n);
	if (w) {
		strcpy(host, w->host);
		*ret_ns = silence_of_wait_ns(w, now_ns);
		(void)error_set(ret_why, ETIMEDOUT,
				"it took %u request%s and has sent no byte "
				"since, the longest for %s",
				n, n == 1 ? "" : "s", w->what);
	}
	return w;
}

bool oci_hosts_get(struct oci_hosts *h, size_t k, int64_t now_ns,
		   char host[OCI_HOST_ROOM], int64_t *ret_left_ns,
		   struct error *ret_why)
{
	AUTO_UNLOCK held = mutex_hold(&h->lock);
	bool found = false;

	for (size_t i = 0; i < OCI_HOSTS_MAX && !found; i++) {
		struct oci_host *one = &h->list[i];
		bool is_throttled = one->throttled_until_ns > now_ns;

		found = *one->name && (is_throttled || one->n_away) && k-- == 0;
		if (!found)
			continue;
		strcpy(host, one->name);
		*ret_left_ns = (is_throttled ? one->throttled_until_ns
					     : one->away_until_ns) -
			       now_ns;
		if (is_throttled)
			(void)!check_host(one, now_ns, ret_why);
		else
			*ret_why = one->why;
	}
	return found;
}
