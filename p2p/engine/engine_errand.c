// SPDX-License-Identifier: Apache-2.0
/* Threads for what may hang, and whose turn it is to have one. */
#include "p2p/engine/engine_errand.h"

#include <string.h>

#include "common/clock.h"
#include "common/registry_host.h"
#include "p2p/engine/engine.h"

/* A read that ends after so long without a byte: its host hangs. */
#define HANG_NS (3 * NS_PER_S)
#define HANGS_FOR_NS (30 * NS_PER_S)

/* Threads of each kind, and how many of them one image has at most. */
static const struct {
	unsigned int threads, most;
} sizes[ERRANDS] = {
	[ERRAND_URGENT] = { 12, 4 },
	/* A registry of object storage has a rate for each connection: a node that is alone
	 * needs many of them. */
	[ERRAND_BULK] = { 24, 12 },
	[ERRAND_PERMIT] = { 4, 1 },
};

int errands_start(struct p2p *p, struct error *err)
{
	int rc = 0;

	LIST_INIT(&p->hosts);
	for (unsigned int k = 0; k < ERRANDS; k++)
		TAILQ_INIT(&p->errands[k].waiting);
	for (unsigned int k = 0; k < ERRANDS && rc == 0; k++)
		rc = pool_new(p->loop, sizes[k].threads, 0, &p->errands[k].pool,
			      err);
	return rc;
}

void errands_free(struct p2p *p)
{
	for (unsigned int k = 0; k < ERRANDS; k++)
		pool_free(p->errands[k].pool);
}

int errands_join(struct p2p_image *i, struct error *err)
{
	char name[REGISTRY_HOST_MAX];
	struct errand_host *h;

	registry_host_name(i->repo, name);
	LIST_FOREACH(h, &i->p->hosts, link)
	if (strcmp(h->name, name) == 0)
		break;
	if (!h) {
		h = calloc(1, sizeof(*h) + strlen(name) + 1);
		if (!h)
			return error_nomem(err);
		memcpy(h->name, name, strlen(name) + 1);
		LIST_INSERT_HEAD(&i->p->hosts, h, link);
	}
	h->n_images++;
	i->errands.host = h;
	return 0;
}

void errands_leave(struct p2p_image *i)
{
	if (!i->errands.host || --i->errands.host->n_images)
		return;
	LIST_REMOVE(i->errands.host, link);
	free(i->errands.host);
}

static bool has_one_host(const struct p2p *p)
{
	return !LIST_NEXT(LIST_FIRST(&p->hosts), link);
}

/* Threads that the host may have: half of those that the others leave, or where there
 * are no others all.  One is kept for a host that has none. */
static unsigned int room_of(const struct p2p_image *i, enum errand_kind kind,
			    int64_t now)
{
	const struct errand_host *h = i->errands.host;
	unsigned int left =
		sizes[kind].threads -
		(i->p->errands[kind].n_running - h->n_errands[kind]);
	unsigned int room = has_one_host(i->p) ? left : (left + 1) / 2;

	if (h->hangs_until > now)
		return left > 1 ? 1 : 0;
	if (left > 1 && room == left)
		room--;
	return room;
}

/* Within a host that is the only one, an image may have half of what the others leave;
 * where the host has half itself, three quarters. */
static bool may_begin(const struct p2p_image *i, enum errand_kind kind,
		      int64_t now)
{
	unsigned int room = room_of(i, kind, now), left;
	unsigned int n = i->errands.n_running[kind];

	if (n >= sizes[kind].most || i->errands.host->n_errands[kind] >= room)
		return false;
	left = room - (i->errands.host->n_errands[kind] - n);
	return n < (has_one_host(i->p) ? (left + 1) / 2 : left - left / 4);
}

/* The least is first. */
static uint64_t rank_of(const struct errand *e, int64_t now)
{
	return (uint64_t)(e->i->errands.host->hangs_until > now) << 63 |
	       (uint64_t)e->i->errands.host->n_errands[e->kind] << 32 |
	       e->i->errands.n_running[e->kind];
}

/* The first of the host, then of the image, with the fewest threads, and last those of
 * hosts that hang; NULL: nobody may. */
static struct errand *errand_pick(const struct errand_threads *l, int64_t now)
{
	struct errand *e, *best = NULL;

	TAILQ_FOREACH(e, &l->waiting, link)
	{
		if (best &&
		    (best->i == e->i || rank_of(best, now) <= rank_of(e, now)))
			continue;
		if (may_begin(e->i, e->kind, now))
			best = e;
	}
	return best;
}

static void errand_unwait(struct errand_threads *l, struct errand *e)
{
	TAILQ_REMOVE(&l->waiting, e, link);
	e->waits = false;
}

static void begin_next(struct errand_threads *l)
{
	int64_t now = clock_now_ns();
	struct errand *e;

	while ((e = errand_pick(l, now))) {
		errand_unwait(l, e);
		e->begun_ns = now;
		l->n_running++;
		e->i->errands.n_running[e->kind]++;
		e->i->errands.host->n_errands[e->kind]++;
		/* Its queue has no bound, and is empty: a thread is free. */
		(void)!pool_submit(l->pool, &e->work);
	}
}

static void errand_run(struct work *w)
{
	struct errand *e = container_of(w, struct errand, work);

	e->run(e);
}

/* Did the host answer? */
static void note_end(const struct errand *e, int64_t now)
{
	if (atomic_load(&e->i->moved_ns) >= e->begun_ns)
		e->i->errands.host->hangs_until = 0;
	else if (e->kind != ERRAND_PERMIT && now - e->begun_ns >= HANG_NS)
		e->i->errands.host->hangs_until = now + HANGS_FOR_NS;
}

static void errand_done(struct work *w)
{
	struct errand *e = container_of(w, struct errand, work);
	struct errand_threads *l = &e->i->p->errands[e->kind];

	l->n_running--;
	e->i->errands.n_running[e->kind]--;
	e->i->errands.host->n_errands[e->kind]--;
	note_end(e, clock_now_ns());
	e->done(e, true);
	begin_next(l);
}

void errand_submit(struct p2p_image *i, enum errand_kind kind, struct errand *e)
{
	struct errand_threads *l = &i->p->errands[kind];

	e->i = i;
	e->kind = kind;
	e->work.run = errand_run;
	e->work.done = errand_done;
	e->waits = true;
	TAILQ_INSERT_TAIL(&l->waiting, e, link);
	begin_next(l);
}

void errand_take_back(struct errand *e)
{
	if (!e->waits)
		return;
	errand_unwait(&e->i->p->errands[e->kind], e);
	e->done(e, false);
}
