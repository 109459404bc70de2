// SPDX-License-Identifier: Apache-2.0
/* Readers put entries into the queue in batches, so that the lock is taken once for many
 * entries. */
#include "snapshotter/convert/entry_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mutex.h"

#define BATCH_BYTES (64 * KIB)
/* bytes that the reader of the layer in turn may be ahead */
#define TURN_BYTES MIB

struct queued_entry {
	struct layer_entry entry;
	struct queued_entry *next;
};

struct entry_batch {
	struct entry_batch *next;
	struct queued_entry *first, *last;
	size_t used, size; /* bytes of `room` */
	uint64_t room[];
};

struct queued_layer {
	struct entry_batch *filling; /* used by the layer's reader alone */
	/* The members below are under the lock. */
	struct entry_batch *first, *last;
	uint64_t bytes;
	bool ended;
};

struct entry_queue {
	size_t n_layers;
	struct queued_layer *layers;
	/* used by the taking thread alone, like the next member */
	struct entry_batch *taken;
	struct queued_entry *at;
	pthread_mutex_t lock; /* for the members below, and the layers */
	/* readers wait for room, the taking thread for moved */
	pthread_cond_t room, moved;
	/* the next layer to read, and the one to take */
	size_t next, turn;
	uint64_t bytes, peak;
	bool woken, stopped;
};

struct entry_queue *entry_queue_new(size_t n_layers)
{
	struct entry_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	(void)pthread_mutex_init(&q->lock, NULL);
	(void)pthread_cond_init(&q->room, NULL);
	(void)pthread_cond_init(&q->moved, NULL);
	q->n_layers = n_layers;
	q->layers = calloc(n_layers + 1, sizeof(*q->layers));
	if (q->layers)
		return q;
	entry_queue_free(q);
	return NULL;
}

void entry_queue_free(struct entry_queue *q)
{
	if (!q)
		return;
	for (size_t i = 0; q->layers && i < q->n_layers; i++) {
		struct queued_layer *l = &q->layers[i];

		while (l->first) {
			struct entry_batch *b = l->first;

			l->first = b->next;
			free(b);
		}
		free(l->filling);
	}
	free(q->layers);
	free(q->taken);
	(void)pthread_cond_destroy(&q->moved);
	(void)pthread_cond_destroy(&q->room);
	(void)pthread_mutex_destroy(&q->lock);
	free(q);
}

/* ----------------------------------------------------------------- copies --- */

static size_t text_bytes(const char *s)
{
	return s ? round_up(strlen(s) + 1, sizeof(uint64_t)) : 0;
}

static size_t entry_bytes(const struct layer_entry *e)
{
	size_t n = sizeof(struct queued_entry) + text_bytes(e->path) +
		   text_bytes(e->link);

	for (const struct xattr *x = e->xattrs; x; x = x->next)
		n += sizeof(*x) + text_bytes(x->name) +
		     round_up(x->size, sizeof(uint64_t));
	return n;
}

static void *batch_room(struct entry_batch *b, size_t n)
{
	void *p = b->room + b->used / sizeof(uint64_t);

	b->used += round_up(n, sizeof(uint64_t));
	return p;
}

static const void *batch_copy(struct entry_batch *b, const void *p, size_t n)
{
	return p ? memcpy(batch_room(b, n), p, n) : NULL;
}

static const char *batch_text(struct entry_batch *b, const char *s)
{
	return batch_copy(b, s, s ? strlen(s) + 1 : 0);
}

static const struct xattr *batch_xattrs(struct entry_batch *b,
					const struct xattr *from)
{
	struct xattr *first = NULL, **to = &first;

	for (; from; from = from->next) {
		struct xattr *x = batch_room(b, sizeof(*x));

		*x = (struct xattr){
			.name = batch_text(b, from->name),
			.value = batch_copy(b, from->value, from->size),
			.size = from->size,
		};
		*to = x;
		to = &x->next;
	}
	return first;
}

static void batch_add(struct entry_batch *b, const struct layer_entry *e)
{
	struct queued_entry *k = batch_room(b, sizeof(*k));

	k->entry = *e;
	k->entry.path = batch_text(b, e->path);
	k->entry.link = batch_text(b, e->link);
	k->entry.xattrs = batch_xattrs(b, e->xattrs);
	k->next = NULL;
	if (b->last)
		b->last->next = k;
	else
		b->first = k;
	b->last = k;
}

static uint64_t batch_bytes(const struct entry_batch *b)
{
	return sizeof(*b) + b->size;
}

/* ---------------------------------------------------- --- reading threads --- */

bool entry_queue_begin(struct entry_queue *q, size_t *ret_layer)
{
	bool begins;

	(void)pthread_mutex_lock(&q->lock);
	while (!q->stopped && q->next < q->n_layers &&
	       q->next > q->turn + ENTRY_QUEUE_AHEAD)
		(void)pthread_cond_wait(&q->room, &q->lock);
	begins = !q->stopped && q->next < q->n_layers;
	if (begins)
		*ret_layer = q->next++;
	(void)pthread_mutex_unlock(&q->lock);
	return begins;
}

bool entry_queue_await_turn(struct entry_queue *q, size_t layer)
{
	bool stopped;

	(void)pthread_mutex_lock(&q->lock);
	while (!q->stopped && q->turn != layer)
		(void)pthread_cond_wait(&q->room, &q->lock);
	stopped = q->stopped;
	(void)pthread_mutex_unlock(&q->lock);
	return !stopped;
}

static bool is_full(const struct entry_queue *q, size_t layer)
{
	return layer == q->turn ? q->layers[layer].bytes >= TURN_BYTES
				: q->bytes >= ENTRY_QUEUE_BYTES;
}

/* Put the reader's batch into the queue.  False: the queue was stopped. */
static bool put_batch(struct entry_queue *q, size_t layer)
{
	struct queued_layer *l = &q->layers[layer];
	struct entry_batch *b = l->filling;
	bool stopped;

	if (!b)
		return true;
	(void)pthread_mutex_lock(&q->lock);
	while (!q->stopped && is_full(q, layer))
		(void)pthread_cond_wait(&q->room, &q->lock);
	stopped = q->stopped;
	if (!stopped) {
		l->filling = NULL;
		if (l->last)
			l->last->next = b;
		else
			l->first = b;
		l->last = b;
		l->bytes += batch_bytes(b);
		q->bytes += batch_bytes(b);
		if (q->bytes > q->peak)
			q->peak = q->bytes;
		(void)pthread_cond_signal(&q->moved);
	}
	(void)pthread_mutex_unlock(&q->lock);
	return !stopped;
}

int entry_queue_put(struct entry_queue *q, size_t layer,
		    const struct layer_entry *e, struct error *err)
{
	struct queued_layer *l = &q->layers[layer];
	size_t need = entry_bytes(e);

	if (l->filling && l->filling->size - l->filling->used < need &&
	    !put_batch(q, layer))
		return error_set(err, ECANCELED, "another layer failed");
	if (!l->filling) {
		size_t size = need > BATCH_BYTES ? need : BATCH_BYTES;

		l->filling = malloc(sizeof(*l->filling) + size);
		if (!l->filling)
			return error_nomem(err);
		*l->filling = (struct entry_batch){ .size = size };
	}
	batch_add(l->filling, e);
	return 0;
}

void entry_queue_end(struct entry_queue *q, size_t layer)
{
	/* If the queue was stopped before the last entries had room, the layer does not count
	 * as ended: the taking thread would take another layer's failure for a missing entry. */
	bool is_whole = put_batch(q, layer);

	(void)pthread_mutex_lock(&q->lock);
	q->layers[layer].ended = is_whole;
	(void)pthread_cond_signal(&q->moved);
	(void)pthread_mutex_unlock(&q->lock);
}

void entry_queue_wake(struct entry_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	q->woken = true;
	(void)pthread_cond_signal(&q->moved);
	(void)pthread_mutex_unlock(&q->lock);
}

/* ------------------------------------------------------ --- taking thread --- */

/* Give the next batch of the layer in turn to the taking thread.  The lock is held. */
static enum entry_taken take_batch(struct entry_queue *q)
{
	struct queued_layer *l = &q->layers[q->turn];

	while (!q->woken && !q->stopped && !l->first && !l->ended)
		(void)pthread_cond_wait(&q->moved, &q->lock);
	if (q->stopped && !l->ended)
		return ENTRY_STOPPED;
	if (l->first) {
		q->taken = l->first;
		q->at = q->taken->first;
		l->first = q->taken->next;
		if (!l->first)
			l->last = NULL;
		return ENTRY_TAKEN;
	}
	q->woken = false;
	if (!l->ended)
		return ENTRY_WAKE;
	q->turn++;
	(void)pthread_cond_broadcast(&q->room);
	return ENTRY_END;
}

enum entry_taken entry_queue_take(struct entry_queue *q,
				  const struct layer_entry **ret)
{
	enum entry_taken taken = ENTRY_TAKEN;

	if (!q->at) {
		(void)pthread_mutex_lock(&q->lock);
		if (q->taken) {
			q->layers[q->turn].bytes -= batch_bytes(q->taken);
			q->bytes -= batch_bytes(q->taken);
			(void)pthread_cond_broadcast(&q->room);
			free(steal_ptr(&q->taken));
		}
		taken = take_batch(q);
		(void)pthread_mutex_unlock(&q->lock);
	}
	if (taken == ENTRY_TAKEN) {
		*ret = &q->at->entry;
		q->at = q->at->next;
	}
	return taken;
}

void entry_queue_stop(struct entry_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	q->stopped = true;
	(void)pthread_cond_broadcast(&q->room);
	(void)pthread_cond_signal(&q->moved);
	(void)pthread_mutex_unlock(&q->lock);
}

uint64_t entry_queue_peak(struct entry_queue *q)
{
	AUTO_UNLOCK held = mutex_hold(&q->lock);

	return q->peak;
}
