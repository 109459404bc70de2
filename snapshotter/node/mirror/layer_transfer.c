// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/mirror/layer_transfer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/thread.h"

#define QUIET_NS \
	(20 * NS_PER_S) /* without a byte of peers; twice that at most */
#define ALIVE_NS (30 * NS_PER_S)
#define TICK_NS (50 * NS_PER_MS)

/* Random part of a wait, so that waiting nodes do not go to the registry all at once. */
static int64_t random_ns(int64_t max)
{
	uint64_t chance = 0;

	(void)!getrandom(&chance, sizeof(chance), 0);
	return (int64_t)(chance % (uint64_t)max);
}

static bool is_cancelled(const struct layer_transfer *l)
{
	return __atomic_load_n(l->cancel, __ATOMIC_RELAXED);
}

/* ------------------------------------ --- without peers: by ranges --- */

struct range_fetch {
	struct layer_transfer *l;
	uint32_t n;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	uint32_t next; /* first piece that no thread reads */
	unsigned int running;
	int rc; /* first failure */
	struct error err;
};

struct range_sink {
	struct source_sink base;
	struct layer_transfer *l;
	struct range_fetch *all; /* NULL: no other thread waits for pieces */
	uint8_t *room;           /* buffer of the piece that is received */
	uint32_t piece, filled;
};

static int put_piece(struct range_sink *s, struct error *err)
{
	int rc = layer_file_put(s->l->file, s->piece, s->room, NULL, err);

	if (rc < 0)
		return rc;
	s->piece++;
	s->filled = 0;
	s->l->moved(s->l->arg);
	(void)pthread_mutex_lock(&s->all->lock);
	(void)pthread_cond_signal(&s->all->changed);
	(void)pthread_mutex_unlock(&s->all->lock);
	return 0;
}

static int range_put(struct source_sink *sink, uint64_t pos, const void *data,
		     size_t len, struct error *err)
{
	struct range_sink *s = container_of(sink, struct range_sink, base);
	const uint8_t *from = data;
	int rc = 0;

	(void)pos;
	while (rc == 0 && len) {
		uint32_t whole = layer_piece_bytes(s->l->size, s->piece);
		size_t n = whole - s->filled;

		n = len < n ? len : n;
		memcpy(s->room + s->filled, from, n);
		s->filled += (uint32_t)n;
		from += n;
		len -= n;
		if (s->filled == whole)
			rc = put_piece(s, err);
	}
	return rc;
}

/* Take the next pieces that no thread reads; 0: there are none, or a thread failed. */
static uint32_t take_range(struct range_fetch *r, uint32_t *ret_first)
{
	uint32_t n = 0;

	(void)pthread_mutex_lock(&r->lock);
	while (r->next < r->n && layer_file_has(r->l->file, r->next))
		r->next++;
	while (r->rc == 0 && !is_cancelled(r->l) && n < LAYER_RANGE_PIECES &&
	       r->next + n < r->n && !layer_file_has(r->l->file, r->next + n))
		n++;
	*ret_first = r->next;
	r->next += n;
	(void)pthread_mutex_unlock(&r->lock);
	return n;
}

static int read_range(struct range_fetch *r, uint32_t first, uint32_t n,
		      uint8_t *room, struct error *err)
{
	struct layer_transfer *l = r->l;
	struct range_sink sink = { .base.put = range_put,
				   .l = l,
				   .all = r,
				   .room = room,
				   .piece = first };
	struct source_req req = { .off = (uint64_t)first * LAYER_PIECE,
				  .priority = SOURCE_HOT,
				  .pace = l->pace };

	req.len = (uint64_t)(n - 1) * LAYER_PIECE +
		  layer_piece_bytes(l->size, first + n - 1);
	return source_read(l->registry, &req, &sink.base, err);
}

static void *range_main(void *arg)
{
	struct range_fetch *r = arg;
	AUTO_FREE uint8_t *room = malloc(LAYER_PIECE);
	struct error err = ERROR_INIT;
	uint32_t first, n;
	int rc = room ? 0 : error_nomem(&err);

	while (rc == 0 && (n = take_range(r, &first)))
		rc = read_range(r, first, n, room, &err);
	(void)pthread_mutex_lock(&r->lock);
	if (rc < 0 && r->rc == 0) {
		r->rc = rc;
		r->err = err;
	}
	r->running--;
	(void)pthread_cond_signal(&r->changed);
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Hash the pieces in order while the other threads fetch, until they have ended. */
static int hash_pieces_while_fetched(struct range_fetch *r, struct error *err)
{
	bool is_last;
	int rc = 0;

	do {
		(void)pthread_mutex_lock(&r->lock);
		if (r->running)
			(void)cond_wait_until(&r->changed, &r->lock,
					      clock_now_ns() + TICK_NS);
		is_last = r->running == 0;
		(void)pthread_mutex_unlock(&r->lock);
		if (rc == 0)
			rc = layer_file_hash(r->l->file, err);
	} while (!is_last);
	return rc;
}

static void count_running(struct range_fetch *r, int n)
{
	(void)pthread_mutex_lock(&r->lock);
	r->running += (unsigned int)n;
	(void)pthread_mutex_unlock(&r->lock);
}

static int fetch_by_ranges(struct layer_transfer *l, struct error *err)
{
	struct range_fetch r = { .l = l,
				 .n = layer_pieces(l->size),
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	struct thread threads[LAYER_STREAMS_MAX] = { { .is_started = false } };
	int rc = 0;

	cond_init(&r.changed);
	for (size_t k = 0; k < l->streams && rc == 0; k++) {
		count_running(&r, 1);
		rc = thread_start(&threads[k], range_main, &r, err);
		if (rc < 0)
			count_running(&r, -1);
	}
	/* If some threads could not start, the others fetch everything. */
	if (threads[0].is_started)
		rc = hash_pieces_while_fetched(&r, err);
	for (size_t k = 0; k < l->streams; k++)
		thread_join(&threads[k]);
	if (rc == 0 && r.rc < 0) {
		*err = r.err;
		rc = r.rc;
	}
	if (rc == 0 && is_cancelled(l))
		rc = error_set(err, ECANCELED, "not wanted any more");
	(void)pthread_cond_destroy(&r.changed);
	(void)pthread_mutex_destroy(&r.lock);
	return rc;
}

/* ------------------------------------------------------- with peers --- */

struct swarm_fetch {
	struct layer_transfer *l;
	volatile bool stop; /* true: the fetch has to end */
	int64_t alive_ns;   /* when fetch_next_piece_for_pull() ran last */
	struct error err;
	int rc;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	bool has_ended;
};

static int mend_piece(struct layer_transfer *l, uint32_t piece, uint8_t *room,
		      struct error *err);

/*
 * Fetch the next piece that containerd waits for from the registry, so that it can be sent
 * before the whole layer is verified.  containerd's CRI ends a pull when nothing came for
 * minutes, as happens with a layer of many GB.
 */
static void fetch_next_piece_for_pull(struct swarm_fetch *s)
{
	struct layer_transfer *l = s->l;
	int64_t now = clock_now_ns();
	AUTO_FREE uint8_t *room = NULL;
	uint64_t pos;
	uint32_t piece;

	if (now - s->alive_ns < ALIVE_NS)
		return;
	s->alive_ns = now;
	pos = layer_file_readable(l->file, 0, l->size);
	if (pos == l->size)
		return;
	piece = (uint32_t)(pos / LAYER_PIECE);
	room = malloc(LAYER_PIECE);
	/* Ignore a failure: the next piece tries again. */
	if (room && layer_file_has(l->file, piece))
		(void)!mend_piece(l, piece, room, NULL);
}

/* A piece came; called on the fetch's thread, which is idle then. */
static void on_swarm_piece(void *arg, uint32_t block, uint32_t bytes)
{
	struct swarm_fetch *s = arg;

	(void)block;
	(void)bytes;
	s->l->moved(s->l->arg);
	if (s->rc == 0)
		s->rc = layer_file_hash(s->l->file, &s->err);
	fetch_next_piece_for_pull(s);
}

static int fetch_all_pieces_of_swarm(struct swarm_fetch *s, struct error *err)
{
	struct layer_transfer *l = s->l;
	uint32_t n = layer_pieces(l->size);
	AUTO_FREE uint32_t *blocks = calloc(n + 1, sizeof(*blocks));
	const struct device_list list = { .blocks = blocks,
					  .n = n,
					  .priority = SOURCE_HOT,
					  .streams = 1,
					  .have = on_swarm_piece,
					  .arg = s,
					  .cancel = &s->stop };

	if (!blocks)
		return error_nomem(err);
	for (uint32_t k = 0; k < n; k++)
		blocks[k] = l->first + k;
	return p2p_image_fetch(l->p2p, &list, err);
}

static void *swarm_main(void *arg)
{
	struct swarm_fetch *s = arg;
	struct error err = ERROR_INIT;
	int rc = fetch_all_pieces_of_swarm(s, &err);

	(void)pthread_mutex_lock(&s->lock);
	if (s->rc == 0 && rc < 0) {
		s->rc = rc;
		s->err = err;
	}
	s->has_ended = true;
	(void)pthread_cond_signal(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Wait until the fetch has ended; true: it was stopped because no byte came for too long. */
static bool watch_swarm(struct swarm_fetch *s)
{
	int64_t begun = clock_now_ns(), quiet = QUIET_NS + random_ns(QUIET_NS);
	bool is_stalled = false;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->has_ended) {
		struct p2p_progress at;
		int64_t now = clock_now_ns(), last;

		p2p_image_progress(s->l->p2p, &at);
		last = at.moved_ns > begun ? at.moved_ns : begun;
		is_stalled = is_stalled || now - last > quiet;
		if (is_stalled || is_cancelled(s->l))
			__atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
		(void)cond_wait_until(&s->changed, &s->lock, now + TICK_NS);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return is_stalled;
}

/* Get the missing pieces from the registry if the swarm brings nothing: the tracker may send
 * this node only to peers that it does not trust. */
static int fetch_rest(struct layer_transfer *l, struct error *err)
{
	uint32_t n = layer_pieces(l->size);
	AUTO_FREE bool *had = calloc(n + 1, sizeof(*had));
	int rc = had ? 0 : error_nomem(err);

	for (uint32_t k = 0; rc == 0 && k < n; k++)
		had[k] = layer_file_has(l->file, k);
	if (rc == 0)
		rc = fetch_by_ranges(l, err);
	for (uint32_t k = 0; rc == 0 && k < n; k++)
		if (!had[k] && !layer_file_is_doubtful(l->file, k))
			p2p_image_came(l->p2p, l->first + k);
	return rc;
}

static int fetch_of_swarm(struct layer_transfer *l, struct error *err)
{
	struct swarm_fetch s = { .l = l,
				 .alive_ns = clock_now_ns(),
				 .err = ERROR_INIT,
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	struct thread thread = { .is_started = false };
	bool is_stalled = false;
	int rc;

	cond_init(&s.changed);
	rc = thread_start(&thread, swarm_main, &s, err);
	if (rc == 0) {
		is_stalled = watch_swarm(&s);
		thread_join(&thread);
		rc = s.rc;
		if (rc < 0)
			*err = s.err;
	}
	(void)pthread_cond_destroy(&s.changed);
	(void)pthread_mutex_destroy(&s.lock);
	return rc == -ECANCELED && is_stalled && !is_cancelled(l)
		       ? fetch_rest(l, err)
		       : rc;
}

/* ---------------------------------------------------- --- verification --- */

/* Replace a peer's piece by the registry's bytes; report the peer if they differ. */
static int mend_piece(struct layer_transfer *l, uint32_t piece, uint8_t *room,
		      struct error *err)
{
	const struct source_req req = {
		.off = (uint64_t)piece * LAYER_PIECE,
		.len = layer_piece_bytes(l->size, piece),
		.priority = SOURCE_HOT,
		.pace = l->pace,
	};
	const char *liar = NULL;
	int rc = source_read_into(l->registry, &req, room, err);

	if (rc == 0)
		rc = layer_file_mend(l->file, piece, room, &liar, err);
	if (rc == 0 && liar)
		l->liar(l->arg, liar);
	if (rc == 0)
		l->moved(l->arg);
	return rc;
}

/* The layer's digest is wrong, so a peer sent wrong bytes: replace all peers' pieces, which
 * shows who. */
static int mend_layer(struct layer_transfer *l, struct error *err)
{
	AUTO_FREE uint8_t *room = malloc(LAYER_PIECE);
	int rc = room ? 0 : error_nomem(err);

	for (uint32_t k = 0; k < layer_pieces(l->size) && rc == 0; k++) {
		if (!layer_file_is_doubtful(l->file, k))
			continue;
		if (is_cancelled(l))
			return error_set(err, ECANCELED, "not wanted any more");
		rc = mend_piece(l, k, room, err);
	}
	return rc;
}

int layer_transfer_run(struct layer_transfer *l, struct error *err)
{
	int rc = l->p2p ? fetch_of_swarm(l, err) : fetch_by_ranges(l, err);

	if (rc == 0)
		rc = layer_file_verify(l->file, err);
	if (rc == -EBADMSG && l->p2p) {
		rc = mend_layer(l, err);
		if (rc == 0)
			rc = layer_file_verify(l->file, err);
	}
	if (rc == -EBADMSG)
		layer_file_drop(l->file);
	if (rc == 0 && l->p2p)
		p2p_image_vouch(l->p2p, l->first, layer_pieces(l->size));
	return rc;
}
