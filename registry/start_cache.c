// SPDX-License-Identifier: Apache-2.0
#include "registry/start_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "registry/history_db.h"

/* how long to wait for another thread's analysis of the same start */
#define WAIT_NS (30 * NS_PER_S)

/* A start that a thread analyses. */
struct start_making {
	int64_t id;
	/* the start's revision when the analysis was requested */
	int64_t revision;
	struct start_making *next;
};

struct start_cache {
	struct db *db;
	size_t max_bytes;
	/* protects the members below and all start_found.refs */
	pthread_mutex_t lock;
	pthread_cond_t made; /* signalled when an analysis ends */
	struct start_making *making;
	struct start_found *first; /* most recently used first */
	size_t bytes;
	uint64_t hits, misses;
};

int start_cache_new(struct db *db, size_t max_bytes, struct start_cache **ret,
		    struct error *err)
{
	struct start_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	c->db = db;
	c->max_bytes = max_bytes;
	(void)pthread_mutex_init(&c->lock, NULL);
	cond_init(&c->made);
	*ret = c;
	return 0;
}

static void found_free(struct start_found *f)
{
	if (!f)
		return;
	start_report_fini(&f->report);
	start_set_free(f->set);
	free(f->blames);
	for (size_t i = 0; i < ARRAY_SIZE(f->texts); i++)
		free(f->texts[i]);
	free(f);
}

void start_cache_free(struct start_cache *c)
{
	if (!c)
		return;
	while (c->first) {
		struct start_found *f = c->first;

		c->first = f->next;
		found_free(f);
	}
	(void)pthread_cond_destroy(&c->made);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ------------------------------------------------------------------- the list --- */

/* Remove an entry from the list, and drop the list's reference; true: it was the last. */
static bool unlink_at(struct start_cache *c, struct start_found **at)
{
	struct start_found *f = *at;

	*at = f->next;
	c->bytes -= f->bytes;
	return --f->refs == 0;
}

/*
 * Find a start of this revision and move it to the front. Otherwise return NULL and set `*ret_old`
 * to an entry of an older revision, if any, which stays listed until it is replaced. Both results
 * are references.
 */
static struct start_found *find_entry(struct start_cache *c, int64_t id,
				      int64_t revision,
				      struct start_found **ret_old)
{
	struct start_found *found = NULL;

	*ret_old = NULL;
	(void)pthread_mutex_lock(&c->lock);
	for (struct start_found **at = &c->first; *at; at = &(*at)->next) {
		struct start_found *f = *at;

		if (f->head.id != id)
			continue;
		f->refs++;
		if (f->head.revision == revision) {
			*at = f->next;
			f->next = c->first;
			c->first = f;
			found = f;
		} else {
			*ret_old = f;
		}
		break;
	}
	c->hits += found != NULL;
	(void)pthread_mutex_unlock(&c->lock);
	return found;
}

/* Add `f` to the list, remove older revisions of the same start, and remove the least recently used
 * entries beyond the memory limit. */
static void keep_found(struct start_cache *c, struct start_found *f)
{
	struct start_found *gone = NULL;
	size_t sum = 0;

	(void)pthread_mutex_lock(&c->lock);
	c->misses++;
	f->refs++;
	f->next = c->first;
	c->first = f;
	c->bytes += f->bytes;
	for (struct start_found **at = &c->first; *at;) {
		struct start_found *e = *at;

		sum += e->bytes;
		if (e == f ||
		    (sum <= c->max_bytes && e->head.id != f->head.id)) {
			at = &e->next;
			continue;
		}
		sum -= e->bytes;
		if (unlink_at(c, at)) {
			e->next = gone;
			gone = e;
		}
	}
	(void)pthread_mutex_unlock(&c->lock);
	while (gone) {
		struct start_found *next = gone->next;

		found_free(gone);
		gone = next;
	}
}

void start_cache_put(struct start_cache *c, const struct start_found *f)
{
	struct start_found *own = (struct start_found *)(uintptr_t)f;
	bool is_last;

	if (!f)
		return;
	(void)pthread_mutex_lock(&c->lock);
	is_last = --own->refs == 0;
	(void)pthread_mutex_unlock(&c->lock);
	if (is_last)
		found_free(own);
}

void start_cache_get_stats(struct start_cache *c, struct start_cache_stats *ret)
{
	(void)pthread_mutex_lock(&c->lock);
	*ret = (struct start_cache_stats){ c->hits, c->misses, c->bytes };
	(void)pthread_mutex_unlock(&c->lock);
}

/* ----------------------------------------------------------------- one at once --- */

static bool is_made(const struct start_cache *c, int64_t id)
{
	const struct start_making *m = c->making;

	while (m && m->id != id)
		m = m->next;
	return m;
}

/* Find an analysis at least as new as the request; a reference, or NULL. */
static struct start_found *find_made(struct start_cache *c,
				     const struct start_making *m)
{
	for (struct start_found *f = c->first; f; f = f->next)
		if (f->head.id == m->id && f->head.revision >= m->revision) {
			f->refs++;
			c->hits++;
			return f;
		}
	return NULL;
}

/* Wait while another thread analyses the same start, and use its result. The page requests a start
 * and its bars at the same time; without this, both would analyse. The result is used even if
 * events came after the request: otherwise waiting threads would analyse a running start one after
 * another. NULL: the caller has to analyse. */
static struct start_found *begin_making(struct start_cache *c,
					struct start_making *m)
{
	struct start_found *found = NULL;
	int64_t until = clock_now_ns() + WAIT_NS;
	bool waits = true;

	(void)pthread_mutex_lock(&c->lock);
	while (!found && waits && is_made(c, m->id)) {
		waits = cond_wait_until(&c->made, &c->lock, until);
		found = find_made(c, m);
	}
	if (!found) {
		m->next = c->making;
		c->making = m;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return found;
}

static void end_making(struct start_cache *c, const struct start_making *m)
{
	struct start_making **at = &c->making;

	(void)pthread_mutex_lock(&c->lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	(void)pthread_cond_broadcast(&c->made);
	(void)pthread_mutex_unlock(&c->lock);
}

/* ------------------------------------------------------------------- analysis --- */

struct start_search {
	struct start_cache *cache;
	/* analyse the start if it is not in the cache */
	bool is_made;
	struct start_found *made;        /* new analysis, owned by the search */
	const struct start_found *found; /* reference to the cached analysis */
	/* reference to a cached analysis of an older revision */
	const struct start_found *old;
	struct stage_base base; /* events of `old` */
	int64_t revision;
};

/* Look the start up in the cache. Returns 1: not found, so read its events. */
static int on_searched_start(void *arg, const struct job_start *s)
{
	const char *texts[] = { s->job, s->image, s->label };
	struct start_search *k = arg;
	struct start_found *old;

	/* A repeated transaction gets here twice: drop the references of the first run. */
	start_cache_put(k->cache, k->found);
	start_cache_put(k->cache, k->old);
	k->found = find_entry(k->cache, s->id, s->revision, &old);
	k->old = old;
	k->revision = s->revision;
	k->base = (struct stage_base){ .set = NULL };
	if (old && old->has_events && !old->left_out)
		k->base = (struct stage_base){ old->set, old->head.revision };
	if (k->found || !k->is_made)
		return 0;
	found_free(k->made);
	k->made = calloc(1, sizeof(*k->made));
	if (!k->made)
		return -ENOMEM;
	k->made->head = *s;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		k->made->texts[i] = strdup(texts[i]);
		if (!k->made->texts[i])
			return -ENOMEM;
	}
	k->made->head.job = k->made->texts[0];
	k->made->head.image = k->made->texts[1];
	k->made->head.label = k->made->texts[2];
	k->made->head.summary = "";
	return 1;
}

static size_t memory_of_start(const struct start_found *f)
{
	const struct start_report *r = &f->report;

	return sizeof(*f) +
	       (r->n_runs + 1) * (sizeof(*r->runs) + sizeof(*r->cells)) +
	       r->n_nodes * 512 + r->n_stages * 512 + start_set_bytes(f->set) +
	       f->n_blames * sizeof(*f->blames);
}

static int analyse_start(struct start_cache *c, struct start_found *f,
			 struct error *err)
{
	AUTO_FREE struct start_past *past = NULL;
	int rc = start_report_make(f->set, &f->report, err);

	if (rc < 0)
		return rc;
	/* Keep the events while the start is not finished: more may come. */
	f->has_events = f->head.received > time(NULL) - HISTORY_QUIET_S;
	if (!f->has_events)
		start_set_drop_events(f->set);
	past = calloc(f->report.n_nodes + 1, sizeof(*past));
	if (!past)
		return error_nomem(err);
	rc = history_db_past(c->db, f->head.id, &f->report, past, err);
	if (rc == 0)
		rc = start_blame_find(&f->report, past, &f->blames,
				      &f->n_blames, err);
	f->bytes = memory_of_start(f);
	return rc;
}

/* Get a start. `*ret` NULL: it is not in the cache, and `is_made` is false. */
static int get_start(struct start_cache *c, struct start_making *m,
		     bool is_made, const struct start_found **ret,
		     struct error *err)
{
	struct start_search k = { .cache = c, .is_made = is_made };
	struct start_set *set = NULL;
	int64_t left_out = 0;
	int rc = stage_db_get(c->db, m->id, on_searched_start, &k, &k.base,
			      &set, &left_out, err);

	start_cache_put(c, k.old);
	m->revision = k.revision;
	if (rc == 0 && (k.found || !is_made)) {
		found_free(k.made);
		start_set_free(set);
		*ret = k.found;
		return 0;
	}
	if (rc == 0) {
		k.made->set = set;
		k.made->left_out = left_out;
		k.made->refs = 1;
		rc = analyse_start(c, k.made, err);
	}
	if (rc < 0) {
		start_cache_put(c, k.found);
		found_free(k.made);
		return rc;
	}
	keep_found(c, k.made);
	*ret = k.made;
	return 0;
}

int start_cache_get(struct start_cache *c, int64_t id,
		    const struct start_found **ret, struct error *err)
{
	const struct start_found *found = NULL;
	struct start_making m = { .id = id };
	int rc = get_start(c, &m, false, &found, err);

	if (rc == 0 && !found)
		found = begin_making(c, &m);
	if (rc == 0 && !found) {
		rc = get_start(c, &m, true, &found, err);
		end_making(c, &m);
	}
	if (rc == 0)
		*ret = found;
	return rc;
}
