// SPDX-License-Identifier: Apache-2.0
/*
 * Fetching a list of blocks: the contract of device_fetch_list(). The core decides what to fetch
 * when; the caller's thread reports arrived blocks and asks its owner's pace for more bytes.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"
#include "p2p/engine/engine.h"

#define TICK_NS (50 * NS_PER_MS) /* a cancel is seen within this time */
/* Bytes that are requested from the pace at once, and how far ahead. */
#define LEAVE_BYTES MIB
#define LEAVE_AHEAD (16 * MIB)
#define NONE UINT32_MAX

struct fetch {
	struct lister l;
	uint32_t *first; /* by piece: first position in the list, or NONE */
	/* By position: next position of the same piece, or NONE. */
	uint32_t *same;
	size_t n_told;  /* pieces reported */
	uint64_t leave; /* bytes that the pace allows */
	int64_t resume_ns;
};

static bool is_cancelled(const struct fetch *f)
{
	const volatile bool *cancel = f->l.list->cancel;

	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

static int check_list(const struct p2p_image *i, const struct device_list *l,
		      struct error *err)
{
	if (l->priority == SOURCE_DEMAND || l->n >= NONE)
		return error_set(err, EINVAL, "image %s: no such list",
				 i->label);
	for (size_t k = 0; k < l->n; k++)
		if (l->blocks[k] >= i->map->n_blocks)
			return error_set(err, EINVAL,
					 "image %s: block %u of %zu", i->label,
					 l->blocks[k], i->map->n_blocks);
	return 0;
}

/* Collect the pieces of the list, each once, and note which are here. */
static void make_pieces(struct fetch *f)
{
	struct lister *l = &f->l;
	struct p2p_image *i = l->i;

	memset(f->first, 0xff, i->n * sizeof(*f->first));
	for (uint32_t k = (uint32_t)l->list->n; k-- > 0;) {
		uint32_t piece = i->places.of[l->list->blocks[k]];

		f->same[k] = f->first[piece];
		f->first[piece] = k;
	}
	for (uint32_t k = 0; k < l->list->n; k++) {
		uint32_t piece = i->places.of[l->list->blocks[k]];

		if (f->first[piece] != k)
			continue;
		l->pieces[l->n++] = piece;
		if (image_holds(i, piece))
			l->held[piece / 8] |= (uint8_t)(1u << piece % 8);
	}
}

static void report_blocks_of_piece(const struct fetch *f, const struct came *c)
{
	const struct device_list *list = f->l.list;
	uint32_t cost = c->cost;

	for (uint32_t k = f->first[c->piece]; k != NONE; k = f->same[k]) {
		if (list->have)
			list->have(list->arg, list->blocks[k], cost);
		cost = 0;
	}
}

/* Report arrived pieces, or wait a moment for one. Returns the first failure. */
static int list_collect(struct fetch *f, uint64_t *ret_came)
{
	struct lister *l = &f->l;
	struct came some[64];
	size_t n;
	int rc;

	(void)pthread_mutex_lock(&l->lock);
	if (l->n_taken == l->n_came && l->rc == 0 && f->n_told < l->n) {
		int64_t now = clock_now_ns(), until = now + TICK_NS;

		if (f->resume_ns > now && f->resume_ns < until)
			until = f->resume_ns;
		(void)cond_wait_until(&l->progress, &l->lock, until);
	}
	n = l->n_came - l->n_taken;
	n = n < ARRAY_SIZE(some) ? n : ARRAY_SIZE(some);
	memcpy(some, l->came + l->n_taken, n * sizeof(*some));
	l->n_taken += n;
	*ret_came = l->came_bytes;
	rc = l->rc;
	(void)pthread_mutex_unlock(&l->lock);
	for (size_t k = 0; k < n; k++)
		report_blocks_of_piece(f, &some[k]);
	f->n_told += n;
	return rc;
}

static void set_paused(void *arg)
{
	struct lister *l = arg;

	want_pause(l, !l->is_paused);
}

/* Ask the owner of the list whether more bytes may be fetched now; if not, fetching pauses. */
static void fetch_ask_pace(struct fetch *f, uint64_t came)
{
	const struct device_list *list = f->l.list;
	int64_t now = clock_now_ns();

	if (!list->pause)
		return;
	while (now >= f->resume_ns && f->leave < came + LEAVE_AHEAD) {
		int64_t wait = list->pause(list->arg, LEAVE_BYTES);

		if (wait > 0)
			f->resume_ns = now + wait;
		else
			f->leave += LEAVE_BYTES;
	}
	if (f->l.is_paused != (came >= f->leave))
		engine_run(f->l.i->p, set_paused, &f->l);
}

static void begin_wanting_list(void *arg)
{
	want_list(arg);
}

static void end_wanting_list(void *arg)
{
	want_no_list(arg);
}

static int list_fetch(struct fetch *f, struct error *err)
{
	struct lister *l = &f->l;
	bool cancelled = false;
	uint64_t came = 0;
	int rc = 0;

	if (is_cancelled(f))
		return error_set(err, ECANCELED, "image %s: prefetch stopped",
				 l->i->label);
	if (l->list->pause)
		l->is_paused = true;
	engine_run(l->i->p, begin_wanting_list, l);
	while (rc == 0 && f->n_told < l->n) {
		cancelled = is_cancelled(f);
		if (cancelled)
			break;
		fetch_ask_pace(f, came);
		rc = list_collect(f, &came);
	}
	engine_run(l->i->p, end_wanting_list, l);
	/* Pieces that came before the end are still reported. */
	while (l->n_taken < l->n_came)
		(void)list_collect(f, &came);
	if (rc < 0 && err)
		*err = l->err;
	if (rc == 0 && cancelled && f->n_told < l->n)
		return error_set(err, ECANCELED, "image %s: prefetch stopped",
				 l->i->label);
	return rc;
}

int p2p_image_fetch(struct p2p_image *i, const struct device_list *list,
		    struct error *err)
{
	AUTO_FREE uint32_t *first = NULL, *same = NULL, *pieces = NULL;
	AUTO_FREE uint8_t *awaited = NULL, *held = NULL;
	AUTO_FREE struct came *came = NULL;
	struct fetch f = {
		.l = { .i = i, .list = list, .lock = PTHREAD_MUTEX_INITIALIZER }
	};
	int rc = check_list(i, list, err);

	if (rc < 0 || list->n == 0)
		return rc;
	f.first = first = malloc(i->n * sizeof(*first));
	f.same = same = malloc(list->n * sizeof(*same));
	f.l.pieces = pieces = malloc(list->n * sizeof(*pieces));
	f.l.came = came = malloc(list->n * sizeof(*came));
	f.l.awaited = awaited = calloc(i->n / 8 + 1, 1);
	f.l.held = held = calloc(i->n / 8 + 1, 1);
	if (!first || !same || !pieces || !came || !awaited || !held)
		return error_nomem(err);
	cond_init(&f.l.progress);
	make_pieces(&f);
	rc = list_fetch(&f, err);
	(void)pthread_cond_destroy(&f.l.progress);
	(void)pthread_mutex_destroy(&f.l.lock);
	return rc;
}
