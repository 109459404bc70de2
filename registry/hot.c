// SPDX-License-Identifier: Apache-2.0
#include "registry/hot.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "common/clock.h"
#include "common/hash.h"
#include "recorder/trace.h"

#define STALE_MS 1000
/* memory of the decoded recordings of one merge */
#define MERGE_MEMORY_MAX (64u << 20)
#define HOT_ENTRIES_MAX 65536u
/* lists that clients still read may take so many times --list-memory */
#define LENT_FACTOR 2u
#define MERGES_WAITING 2u /* threads that may wait for the running merge */

/* A cached list with its count of users; callers see only `list`. */
struct kept_hot {
	struct hot_list_text list;
	unsigned int refs; /* users; protected by hot.lock */
};

/* Cache entry of one start. */
struct slot {
	int64_t start, version, made_ms;
	struct kept_hot *kept; /* NULL: no list yet */
	/* a thread makes the list; the slot must not be freed */
	bool busy;
	/* threads that wait for the list; the slot must not be freed */
	unsigned int waiters;
	/* attempts to make the list, failed ones included */
	uint64_t tries;
	struct error error; /* error of the last attempt; code 0: none */
	UT_hash_handle hh;
	TAILQ_ENTRY(slot) lru;
};

struct hot {
	struct db *db;
	uint64_t bytes_max;
	int64_t timeout_ns;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t ready, merged;
	bool is_merging; /* merges run one at a time, to bound their memory */
	unsigned int n_to_merge;
	struct slot *slots;
	TAILQ_HEAD(slot_list, slot) lru; /* least recently used first */
	/* bytes of all lists in memory: cached, or still read by clients */
	uint64_t lent;
	struct hot_stats stats;
};

int hot_new(struct db *db, uint64_t bytes_max, int64_t timeout_ns,
	    struct hot **ret, struct error *err)
{
	struct hot *h = calloc(1, sizeof(*h));
	pthread_condattr_t attr;

	if (!h)
		return error_nomem(err);
	h->db = db;
	h->bytes_max = bytes_max;
	h->timeout_ns = timeout_ns;
	TAILQ_INIT(&h->lru);
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->ready, &attr);
	pthread_cond_init(&h->merged, &attr);
	pthread_condattr_destroy(&attr);
	*ret = h;
	return 0;
}

/* ------------------------------------------------------------------ the cache --- */

static void unref_cached_list(struct hot *h, struct kept_hot *k)
{
	if (!k || --k->refs > 0)
		return;
	h->lent -= k->list.trace.len;
	buf_fini(&k->list.trace);
	free(k);
}

static void drop_cached_list(struct hot *h, struct slot *s)
{
	if (!s->kept)
		return;
	h->stats.bytes -= s->kept->list.trace.len;
	h->stats.lists--;
	unref_cached_list(h, s->kept);
	s->kept = NULL;
}

static void free_slot(struct hot *h, struct slot *s)
{
	drop_cached_list(h, s);
	HASH_DEL(h->slots, s);
	TAILQ_REMOVE(&h->lru, s, lru);
	free(s);
}

void hot_free(struct hot *h)
{
	struct slot *s;

	if (!h)
		return;
	while ((s = TAILQ_FIRST(&h->lru)))
		free_slot(h, s);
	pthread_cond_destroy(&h->ready);
	pthread_cond_destroy(&h->merged);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static struct slot *find_slot(struct hot *h, int64_t start)
{
	struct slot *s;

	HASH_FIND(hh, h->slots, &start, sizeof(start), s);
	if (s) {
		TAILQ_REMOVE(&h->lru, s, lru);
		TAILQ_INSERT_TAIL(&h->lru, s, lru);
		return s;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->start = start;
	HASH_ADD(hh, h->slots, start, sizeof(s->start), s);
	if (!hash_has_added(s)) {
		free(s);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&h->lru, s, lru);
	return s;
}

static void shrink_cache(struct hot *h)
{
	struct slot *s, *next;

	for (s = TAILQ_FIRST(&h->lru); s && h->stats.bytes > h->bytes_max;
	     s = next) {
		next = TAILQ_NEXT(s, lru);
		if (!s->busy && s->waiters == 0)
			free_slot(h, s);
	}
}

/* Free a slot without a list: shrink_cache() frees slots only while lists take too much memory. */
static void free_empty_slot(struct hot *h, struct slot *s)
{
	if (!s->busy && s->waiters == 0 && !s->kept)
		free_slot(h, s);
}

static void keep_list(struct hot *h, struct slot *s, struct kept_hot *k,
		      int64_t version, int64_t made_ms)
{
	drop_cached_list(h, s);
	s->kept = k;
	s->version = version;
	s->made_ms = made_ms;
	h->lent += k->list.trace.len;
	h->stats.bytes += k->list.trace.len;
	h->stats.lists++;
}

/* -------------------------------------------------------------------- merging --- */

struct runs {
	struct trace *traces[VOTES_MAX];
	struct trace_run runs[VOTES_MAX];
	size_t n;
};

static void runs_fini(struct runs *r)
{
	for (size_t i = 0; i < r->n; i++)
		trace_free(r->traces[i]);
}

static int load_run(struct hot *h, int64_t start, const struct vote *v,
		    int64_t now, struct runs *r, struct error *err)
{
	AUTO_BUF blob = BUF_INIT;
	int rc = trace_db_vote(h->db, start, v, &blob, err);

	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = trace_decode(blob.data, blob.len, &r->traces[r->n], err);
	if (rc < 0)
		return rc;
	r->runs[r->n].trace = r->traces[r->n];
	r->runs[r->n].weight = retention_weight(now - v->received);
	r->n++;
	return 0;
}

/* Load recordings, the smallest first, up to a bound of memory. Huge recordings of a hostile node
 * are then the ones left out. */
static int load_runs(struct hot *h, int64_t start, struct runs *r,
		     struct error *err)
{
	struct vote votes[VOTES_MAX];
	size_t n = 0;
	uint64_t memory = 0;
	int64_t now = clock_wall_ms() / 1000;
	int rc = trace_db_votes(h->db, start, votes, &n, err);

	for (size_t i = 0; i < n && rc == 0; i++) {
		memory += votes[i].memory;
		if (memory > MERGE_MEMORY_MAX && i > 0)
			break;
		rc = load_run(h, start, &votes[i], now, r, err);
	}
	votes_free(votes, n);
	if (rc == 0 && r->n == 0)
		rc = error_set(err, ENOENT, "its recordings have gone");
	return rc;
}

static int merge_start(struct hot *h, int64_t start, struct hot_row *ret,
		       struct error *err)
{
	const struct trace_merge_config cfg = {
		.min_confidence = HOT_MIN_CONFIDENCE,
		.entries_max = HOT_ENTRIES_MAX,
	};
	AUTO_FINI(runs) r = { .n = 0 };
	AUTO(trace) merged = NULL;
	int rc = load_runs(h, start, &r, err);

	if (rc == 0)
		rc = trace_merge(r.runs, r.n, &cfg, &merged, err);
	if (rc == 0)
		rc = trace_encode(merged, &ret->trace, err);
	ret->votes = (int64_t)r.n;
	return rc;
}

static struct timespec wait_deadline(const struct hot *h)
{
	int64_t until = clock_now_ns() + h->timeout_ns;

	return (struct timespec){ .tv_sec = until / NS_PER_S,
				  .tv_nsec = until % NS_PER_S };
}

/* Wait until no other merge runs. Only a few threads may wait, so that constant merges do not take
 * all threads. */
static int merge_begin(struct hot *h, struct error *err)
{
	const struct timespec until = wait_deadline(h);
	int rc = 0;

	pthread_mutex_lock(&h->lock);
	if (h->is_merging && h->n_to_merge >= MERGES_WAITING)
		rc = ETIMEDOUT;
	h->n_to_merge++;
	while (rc == 0 && h->is_merging)
		rc = pthread_cond_timedwait(&h->merged, &h->lock, &until);
	h->n_to_merge--;
	if (rc == 0)
		h->is_merging = true;
	pthread_mutex_unlock(&h->lock);
	return rc ? error_set(err, EBUSY, "other lists are being merged") : 0;
}

static void merge_end(struct hot *h)
{
	pthread_mutex_lock(&h->lock);
	h->is_merging = false;
	pthread_cond_signal(&h->merged);
	pthread_mutex_unlock(&h->lock);
}

static int merge_one(struct hot *h, const struct start *s, struct hot_row *ret,
		     struct error *err)
{
	int64_t begun = clock_now_ns();
	int rc = merge_begin(h, err);

	if (rc < 0)
		return rc;
	buf_reset(&ret->trace);
	ret->version = s->version;
	ret->made_ms = clock_wall_ms();
	rc = merge_start(h, s->id, ret, err);
	merge_end(h);
	/* If the list cannot be stored, other replicas have to merge it themselves; that is no
	 * failure here. */
	if (rc == 0 && trace_db_hot_put(h->db, s->id, ret, NULL) < 0)
		rc = 0;
	pthread_mutex_lock(&h->lock);
	h->stats.merges_total++;
	h->stats.merge_ns_total += (uint64_t)(clock_now_ns() - begun);
	h->stats.merge_failures_total += rc < 0;
	pthread_mutex_unlock(&h->lock);
	return error_wrap(err, rc, "merge");
}

static int make_cached_list(struct hot_row *row, struct kept_hot **ret,
			    struct error *err)
{
	struct kept_hot *k = calloc(1, sizeof(*k));
	char text[DIGEST_STR_MAX];
	struct digest d;

	if (!k || digest_of(row->trace.data, row->trace.len, &d) < 0) {
		free(k);
		return error_nomem(err);
	}
	k->refs = 1;
	k->list.votes = (uint64_t)row->votes;
	k->list.trace = row->trace;
	row->trace = (struct buf)BUF_INIT;
	digest_format(&d, text);
	snprintf(k->list.etag, sizeof(k->list.etag), "\"%.32s\"",
		 strchr(text, ':') + 1);
	*ret = k;
	return 0;
}

/* A list from the future is stale too: the clock of the replica that made it was ahead. */
static bool is_stale(int64_t made_ms)
{
	int64_t now = clock_wall_ms();

	return made_ms > now || now - made_ms >= STALE_MS;
}

/* Get the list from the database. Merge it again if its version is old and it was made over a
 * second ago. With -EBUSY, `*ret` may be set to an older list. */
static int make_list(struct hot *h, const struct start *s, bool may_merge,
		     struct hot_row *row, struct kept_hot **ret,
		     struct error *err)
{
	int found = trace_db_hot(h->db, s->id, row, err);
	int rc = found;

	if (may_merge &&
	    (rc == -ENOENT ||
	     (rc == 0 && row->version < s->version && is_stale(row->made_ms))))
		rc = merge_one(h, s, row, err);
	if (rc == 0)
		return make_cached_list(row, ret, err);
	/* Another merge is running: use the older list, if the database has one. */
	if (rc == -EBUSY && found == 0)
		(void)!make_cached_list(row, ret, NULL);
	return rc;
}

/* ------------------------------------------------------------------------ get --- */

static bool is_usable(const struct slot *slot, const struct start *s)
{
	return slot->kept && (slot->version >= s->version || slot->busy ||
			      !is_stale(slot->made_ms));
}

static int wait_ready(struct hot *h, struct slot *slot, const struct start *s,
		      struct error *err)
{
	const struct timespec t = wait_deadline(h);
	uint64_t tries = slot->tries;
	int rc = 0;

	slot->waiters++;
	while (rc == 0 && slot->busy && !is_usable(slot, s))
		rc = pthread_cond_timedwait(&h->ready, &h->lock, &t);
	slot->waiters--;
	if (rc)
		return error_set(err, EBUSY, "the list is being merged");
	/* The thread that made the list failed: return its error to each waiting thread. */
	if (slot->tries == tries || !slot->error.code || is_usable(slot, s))
		return 0;
	if (err)
		*err = slot->error;
	return -slot->error.code;
}

/* Make the slot's list. Called with the lock held, and releases it while the list is made. */
static int fill_slot(struct hot *h, struct slot *slot, const struct start *s,
		     bool may_merge, struct error *err)
{
	struct hot_row row = { .version = 0 };
	struct error why = ERROR_INIT;
	struct kept_hot *k = NULL;
	int rc;

	if (h->lent > h->bytes_max * LENT_FACTOR)
		return error_set(err, EBUSY, "too many lists are being sent");
	slot->busy = true;
	h->stats.misses_total++;
	pthread_mutex_unlock(&h->lock);
	rc = make_list(h, s, may_merge, &row, &k, &why);
	pthread_mutex_lock(&h->lock);
	slot->busy = false;
	slot->tries++;
	/* A caller that may not merge leaves no error for the waiting threads, because these may
	 * merge themselves. */
	slot->error = may_merge ? why : (struct error)ERROR_INIT;
	if (rc < 0 && err)
		*err = why;
	if (k)
		keep_list(h, slot, k, row.version, row.made_ms);
	buf_fini(&row.trace);
	pthread_cond_broadcast(&h->ready);
	return rc;
}

/* End a call for the slot's list: lend the list if `rc` is 0, and unlock. */
static int lend_cached_list(struct hot *h, struct slot *slot, int rc,
			    struct hot_list_text **ret)
{
	if (rc == 0) {
		slot->kept->refs++;
		*ret = &slot->kept->list;
	}
	free_empty_slot(h, slot);
	shrink_cache(h);
	pthread_mutex_unlock(&h->lock);
	return rc;
}

int hot_get(struct hot *h, const struct start *s, struct hot_list_text **ret,
	    struct error *err)
{
	struct slot *slot;
	int rc = 0;

	pthread_mutex_lock(&h->lock);
	slot = find_slot(h, s->id);
	if (!slot) {
		pthread_mutex_unlock(&h->lock);
		return error_nomem(err);
	}
	if (is_usable(slot, s))
		h->stats.hits_total++;
	while (rc == 0 && !is_usable(slot, s))
		rc = slot->busy ? wait_ready(h, slot, s, err)
				: fill_slot(h, slot, s, true, err);
	/* The merge is busy: use an older list. */
	if (rc == -EBUSY && slot->kept)
		rc = 0;
	if (rc == 0)
		h->stats.stale_total += slot->version < s->version;
	return lend_cached_list(h, slot, rc, ret);
}

int hot_get_merged(struct hot *h, const struct start *s,
		   struct hot_list_text **ret, struct error *err)
{
	struct slot *slot;
	int rc = 0;

	pthread_mutex_lock(&h->lock);
	slot = find_slot(h, s->id);
	if (!slot) {
		pthread_mutex_unlock(&h->lock);
		return error_nomem(err);
	}
	if (!slot->kept)
		rc = slot->busy ? error_set(err, ENOENT, "it is being merged")
				: fill_slot(h, slot, s, false, err);
	return lend_cached_list(h, slot, rc, ret);
}

void hot_put(struct hot *h, struct hot_list_text *l)
{
	struct kept_hot *k = container_of(l, struct kept_hot, list);

	pthread_mutex_lock(&h->lock);
	unref_cached_list(h, k);
	pthread_mutex_unlock(&h->lock);
}

void hot_get_stats(struct hot *h, struct hot_stats *ret)
{
	pthread_mutex_lock(&h->lock);
	*ret = h->stats;
	pthread_mutex_unlock(&h->lock);
}
