// SPDX-License-Identifier: Apache-2.0
/* Threads for calls that may hang, and the order in which images get them. */
#include "p2p/engine/engine_host_job.h"

#include <string.h>

#include "common/clock.h"
#include "common/registry_host.h"
#include "p2p/engine/engine.h"

/* A host whose read ended after this long without a byte counts as hanging for HANGS_FOR_NS. */
#define HANG_NS (3 * NS_PER_S)
#define HANGS_FOR_NS (30 * NS_PER_S)

/* Threads of each kind, and how many of them one image has at most. */
static const struct {
	unsigned int threads, most;
} sizes[HOST_JOBS] = {
	[HOST_JOB_URGENT] = { 12, 4 },
	/* A registry of object storage has a rate for each connection: a node that is alone
	 * needs many of them. */
	[HOST_JOB_BULK] = { 24, 12 },
	[HOST_JOB_PERMIT] = { 4, 1 },
};

int host_jobs_start(struct p2p *p, struct error *err)
{
	int rc = 0;

	LIST_INIT(&p->hosts);
	for (unsigned int k = 0; k < HOST_JOBS; k++)
		TAILQ_INIT(&p->jobs[k].waiting);
	for (unsigned int k = 0; k < HOST_JOBS && rc == 0; k++)
		rc = pool_new(p->loop, sizes[k].threads, 0, &p->jobs[k].pool,
			      err);
	return rc;
}

void host_jobs_free(struct p2p *p)
{
	for (unsigned int k = 0; k < HOST_JOBS; k++)
		pool_free(p->jobs[k].pool);
}

int host_jobs_join(struct p2p_image *i, struct error *err)
{
	char name[REGISTRY_HOST_MAX];
	struct job_host *h;

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
	i->jobs.host = h;
	return 0;
}

void host_jobs_leave(struct p2p_image *i)
{
	if (!i->jobs.host || --i->jobs.host->n_images)
		return;
	LIST_REMOVE(i->jobs.host, link);
	free(i->jobs.host);
}

static bool has_one_host(const struct p2p *p)
{
	return !LIST_NEXT(LIST_FIRST(&p->hosts), link);
}

/* Number of threads that a host may have: half of those that other hosts leave; all, if there
 * is no other host. One thread is kept for a host that has none. */
static unsigned int count_free_threads(const struct p2p_image *i,
				       enum host_job_kind kind, int64_t now)
{
	const struct job_host *h = i->jobs.host;
	unsigned int left = sizes[kind].threads -
			    (i->p->jobs[kind].n_running - h->n_jobs[kind]);
	unsigned int room = has_one_host(i->p) ? left : (left + 1) / 2;

	if (h->hangs_until > now)
		return left > 1 ? 1 : 0;
	if (left > 1 && room == left)
		room--;
	return room;
}

/* May the image start a job? If its host is the only one, the image may have half of the
 * threads that other images leave; if the host has only half of the threads, three quarters. */
static bool image_may_begin_job(const struct p2p_image *i,
				enum host_job_kind kind, int64_t now)
{
	unsigned int room = count_free_threads(i, kind, now), left;
	unsigned int n = i->jobs.n_running[kind];

	if (n >= sizes[kind].most || i->jobs.host->n_jobs[kind] >= room)
		return false;
	left = room - (i->jobs.host->n_jobs[kind] - n);
	return n < (has_one_host(i->p) ? (left + 1) / 2 : left - left / 4);
}

/* Sort key of a waiting job; the smallest is first. */
static uint64_t rank_of_host_job(const struct host_job *e, int64_t now)
{
	return (uint64_t)(e->i->jobs.host->hangs_until > now) << 63 |
	       (uint64_t)e->i->jobs.host->n_jobs[e->kind] << 32 |
	       e->i->jobs.n_running[e->kind];
}

/* Pick the first job of the host, then of the image, with the fewest threads; jobs of hanging
 * hosts come last. NULL: no job may run. */
static struct host_job *host_job_pick(const struct host_job_threads *l,
				      int64_t now)
{
	struct host_job *e, *best = NULL;

	TAILQ_FOREACH(e, &l->waiting, link)
	{
		if (best &&
		    (best->i == e->i ||
		     rank_of_host_job(best, now) <= rank_of_host_job(e, now)))
			continue;
		if (image_may_begin_job(e->i, e->kind, now))
			best = e;
	}
	return best;
}

static void host_job_unwait(struct host_job_threads *l, struct host_job *e)
{
	TAILQ_REMOVE(&l->waiting, e, link);
	e->waits = false;
}

static void begin_waiting_jobs(struct host_job_threads *l)
{
	int64_t now = clock_now_ns();
	struct host_job *e;

	while ((e = host_job_pick(l, now))) {
		host_job_unwait(l, e);
		e->begun_ns = now;
		l->n_running++;
		e->i->jobs.n_running[e->kind]++;
		e->i->jobs.host->n_jobs[e->kind]++;
		/* Cannot fail: the pool's queue has no limit, and a thread is free. */
		(void)!pool_submit(l->pool, &e->work);
	}
}

static void host_job_run(struct work *w)
{
	struct host_job *e = container_of(w, struct host_job, work);

	e->run(e);
}

/* Note whether the host answered or hangs. */
static void note_whether_host_hangs(const struct host_job *e, int64_t now)
{
	if (atomic_load(&e->i->moved_ns) >= e->begun_ns)
		e->i->jobs.host->hangs_until = 0;
	else if (e->kind != HOST_JOB_PERMIT && now - e->begun_ns >= HANG_NS)
		e->i->jobs.host->hangs_until = now + HANGS_FOR_NS;
}

static void host_job_done(struct work *w)
{
	struct host_job *e = container_of(w, struct host_job, work);
	struct host_job_threads *l = &e->i->p->jobs[e->kind];

	l->n_running--;
	e->i->jobs.n_running[e->kind]--;
	e->i->jobs.host->n_jobs[e->kind]--;
	note_whether_host_hangs(e, clock_now_ns());
	e->done(e, true);
	begin_waiting_jobs(l);
}

void host_job_submit(struct p2p_image *i, enum host_job_kind kind,
		     struct host_job *e)
{
	struct host_job_threads *l = &i->p->jobs[kind];

	e->i = i;
	e->kind = kind;
	e->work.run = host_job_run;
	e->work.done = host_job_done;
	e->waits = true;
	TAILQ_INSERT_TAIL(&l->waiting, e, link);
	begin_waiting_jobs(l);
}

void host_job_take_back(struct host_job *e)
{
	if (!e->waits)
		return;
	host_job_unwait(&e->i->p->jobs[e->kind], e);
	e->done(e, false);
}
