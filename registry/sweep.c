// SPDX-License-Identifier: Apache-2.0
#include "registry/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "registry/ckpt_db.h"
#include "registry/doctor.h"
#include "registry/env_db.h"
#include "registry/history_db.h"
#include "registry/image_db.h"
#include "registry/index_db.h"
#include "registry/service.h"
#include "registry/stage_db.h"

#define SWEEP_NS INT64_C(60000000000)
#define SWEEP_AGAIN_NS INT64_C(1000000000)
#define SUM_MAX 1000 /* starts summed up at once */
#define ROW_MAX 3    /* so many in a row that the database was busy for */

/* Starts that were heard of last before the time that traces are kept. */
static void sweep_starts(struct service *s)
{
	struct error err = ERROR_INIT;
	int n = stage_db_sweep(s->db, time(NULL) - s->limits.retention_s, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of starts failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	else if (n > 0)
		log_info("service", "sweep forgot starts of jobs=%d", n);
}

/* Starts that do not train: somebody may have to look at them. */
static void count_open_starts(struct service *s)
{
	struct job_open o = { .now_ns = clock_wall_ns() };
	struct error err = ERROR_INIT;

	if (stage_db_count_open(s->db, &o, &err) < 0) {
		log_warning("service",
			    "starts that do not train are not counted "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	atomic_store(&s->counts.not_training, (uint64_t)o.starts);
	atomic_store(&s->counts.silent, (uint64_t)o.silent);
	atomic_store(&s->counts.silent_s,
		     o.starts ? (uint64_t)(o.silent_ns / NS_PER_S) : 0);
}

/* A start that failed so often is left to later. */
static void note_failed(struct service *s, enum history_sum what, int64_t id)
{
	struct error err = ERROR_INIT;
	int rc = history_db_failed(s->db, what, id, time(NULL), &err);

	if (rc > 0) {
		atomic_fetch_add(&s->counts.set_aside, 1);
		log_warning("service",
			    "a start is set aside for a day, it was tried to "
			    "sum it up %d times start=%" PRId64,
			    HISTORY_TRIES, id);
	} else if (rc < 0) {
		log_warning("service",
			    "a start that failed is not set aside "
			    "start=%" PRId64 " reason=\"%s\"",
			    id, err.msg);
	}
}

/*
 * A start that fails always keeps none of the others from being summed up: it is set aside.
 * So is one that costs more time or memory than there is, but as these may lack for any of
 * them, several in a row end it.  True: the reason is none of the start's own.
 */
static bool is_sum_over(struct service *s, int rc, enum history_sum what,
			int64_t id, int *row, const struct error *err)
{
	bool is_short = rc == -EBUSY || rc == -ENOMEM;

	*row = is_short ? *row + 1 : 0;
	if (rc >= 0)
		return false;
	log_warning("service",
		    "summing up %s of a start failed, tried again later "
		    "start=%" PRId64 " reason=\"%s\"",
		    what == HISTORY_TIMES ? "times" : "checkpoints", id,
		    err->msg);
	if (rc == -ECONNREFUSED || rc == -ENOSPC)
		return true;
	note_failed(s, what, id);
	return *row >= ROW_MAX;
}

static int sum_start(struct service *s, int64_t id, struct error *err)
{
	const struct start_found *f = NULL;
	int rc = start_cache_get(s->start_cache, id, &f, err);

	/* The start may have been forgotten meanwhile. */
	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = history_db_add(s->db, f, err);
	if (rc > 0)
		stage_times_add(s->stage_times, &f->report);
	start_cache_put(s->start_cache, f);
	return rc;
}

/* Starts that are over, into what is kept of them.  True: there may be more. */
static bool sum_starts(struct service *s)
{
	int64_t now = time(NULL), ids[SUM_MAX];
	struct error err = ERROR_INIT;
	int n = history_db_due(s->db, now, ids, SUM_MAX, &err), n_summed = 0;
	bool is_over = n < 0;
	int row = 0;

	if (n < 0)
		log_warning("service",
			    "summing up starts failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	for (int i = 0; !is_over && i < n; i++) {
		int rc = sum_start(s, ids[i], &err);

		is_over = is_sum_over(s, rc, HISTORY_TIMES, ids[i], &row, &err);
		n_summed += rc >= 0;
	}
	if (n_summed > 0)
		log_info("service", "summed up starts of jobs=%d", n_summed);
	return !is_over && n == SUM_MAX && n_summed > 0;
}

/* Sweep the sums of starts, which leave by their own time and bounds, whether or not
 * others could be. */
static bool sweep_sums(struct service *s)
{
	int64_t now = time(NULL);
	struct error err = ERROR_INIT;
	int rc =
		history_db_sweep(s->db, now - s->limits.retention_s, now, &err);

	if (rc < 0)
		log_warning("service",
			    "sweep of what starts were summed up to failed, "
			    "tried again later reason=\"%s\"",
			    err.msg);
	return rc >= 0;
}

static int sum_checkpoint(struct service *s, int64_t now, int64_t id,
			  struct error *err)
{
	const struct ckpt_found *f = NULL;
	int rc = ckpt_cache_sum(s->ckpt_cache, id, &f, err);

	if (rc == 0)
		rc = ckpt_db_put(s->db, now, f, err);
	ckpt_cache_put(s->ckpt_cache, f);
	/* The start may have been forgotten meanwhile. */
	return rc == -ENOENT ? 0 : rc;
}

/* Sum up the loads and saves of starts since they were looked at. True: there may be
 * more. */
static bool sum_checkpoints(struct service *s)
{
	int64_t now = time(NULL), ids[SUM_MAX];
	struct error err = ERROR_INIT;
	int n = ckpt_db_due(s->db, now, ids, SUM_MAX, &err), n_summed = 0;
	bool is_over = n < 0;
	int row = 0;

	if (n < 0)
		log_warning("service",
			    "summing up checkpoints failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	for (int i = 0; !is_over && i < n; i++) {
		int rc = sum_checkpoint(s, now, ids[i], &err);

		is_over = is_sum_over(s, rc, HISTORY_CKPT, ids[i], &row, &err);
		n_summed += rc >= 0;
	}
	return !is_over && n == SUM_MAX && n_summed > 0;
}

/* Environments that nobody used for as long as traces are kept. */
static void sweep_environments(struct service *s)
{
	int64_t now_ms = (int64_t)time(NULL) * 1000;
	struct error err = ERROR_INIT;
	int n = env_db_sweep(s->db, now_ms - s->limits.retention_s * 1000,
			     now_ms, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of environments failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
	else if (n > 0)
		log_info("service", "sweep forgot keys of environments=%d", n);
}

static void sweep_images(struct service *s)
{
	struct error err = ERROR_INIT;
	int n = image_db_sweep(s->db, time(NULL) - s->limits.retention_s, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of images failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
}

static void sweep_indexes(struct service *s)
{
	int64_t now = time(NULL);
	struct error err = ERROR_INIT;
	int n = index_db_sweep(s->db, now - s->limits.retention_s, now, &err);

	if (n < 0)
		log_warning("service",
			    "sweep of indexes failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
}

static void sweep_conversions(struct service *s)
{
	int64_t now = time(NULL);
	struct conversion_counts counts;
	struct error err = ERROR_INIT;
	int rc = conversion_db_sweep(s->db, now - s->limits.retention_s, now,
				     &err);

	if (rc > 0)
		atomic_fetch_add(&s->counts.conversions_failed, (uint64_t)rc);
	if (rc >= 0)
		rc = conversion_db_count(s->db, "", now, &counts, &err);
	if (rc < 0) {
		log_warning("service",
			    "sweep of conversions failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	for (size_t i = 0; i < CONVERSION_STATES; i++)
		atomic_store(&s->counts.converting[i], (uint64_t)counts.n[i]);
	atomic_store(&s->counts.conversion_wait_s,
		     counts.due_since ? (uint64_t)(now - counts.due_since) : 0);
}

/* Nodes that are gone report no more, and are not counted for ever. */
static void sweep_doctor(struct service *s)
{
	struct doctor_counts n;
	struct error err = ERROR_INIT;

	if (doctor_sweep(s->db, time(NULL), &n, &err) < 0) {
		log_warning("service",
			    "nodes that lack something are not counted "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	atomic_store(&s->counts.doctor_nodes, (uint64_t)n.fresh);
	atomic_store(&s->counts.doctor_missing, (uint64_t)n.missing);
	atomic_store(&s->counts.doctor_advised, (uint64_t)n.advice);
}

static void run_sweep(struct work *w)
{
	struct sweep *sweep = container_of(w, struct sweep, work);
	struct service *s = sweep->service;
	struct error err = ERROR_INIT;
	struct trace_totals t;
	unsigned int evicted = 0;

	sweep->has_more = sum_starts(s);
	/* The bounds hold before more is added. */
	sweep->has_more = sweep_sums(s) && sweep->has_more;
	sweep->has_more = sum_checkpoints(s) || sweep->has_more;
	sweep_starts(s);
	count_open_starts(s);
	sweep_environments(s);
	sweep_images(s);
	sweep_indexes(s);
	sweep_conversions(s);
	sweep_doctor(s);
	if (trace_db_sweep(s->db, &s->limits, time(NULL), &t, &evicted, &err) <
	    0) {
		log_warning("service",
			    "sweep failed, tried again later "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	atomic_store(&s->counts.starts, t.starts);
	atomic_store(&s->counts.votes, t.votes);
	atomic_store(&s->counts.bytes, t.bytes);
	atomic_fetch_add(&s->counts.evicted, evicted);
	if (evicted) {
		recent_forget(s->recent, NULL, NULL);
		log_info("service", "sweep forgot starts=%u", evicted);
	}
}

static void sweep_in(struct sweep *sweep, int64_t ns)
{
	if (!sweep->stopping &&
	    loop_timer_start(sweep->service->loop, &sweep->timer, ns, NULL) < 0)
		log_warning("service", "no sweep reason=\"out of memory\"");
}

static void done_sweep(struct work *w)
{
	struct sweep *sweep = container_of(w, struct sweep, work);

	sweep->running = false;
	sweep_in(sweep, sweep->has_more ? SWEEP_AGAIN_NS : SWEEP_NS);
}

static void on_sweep(struct loop_timer *t)
{
	struct sweep *sweep = container_of(t, struct sweep, timer);
	struct service *s = sweep->service;

	if (sweep->running || sweep->stopping)
		return;
	atomic_store(&s->counts.new_bytes, 0);
	sweep->running = pool_submit(s->pool, &sweep->work) == 0;
	if (!sweep->running)
		sweep_in(sweep, SWEEP_NS);
}

int sweep_start(struct sweep *sweep, struct service *s, struct error *err)
{
	sweep->service = s;
	sweep->timer.fn = on_sweep;
	sweep->work.run = run_sweep;
	sweep->work.done = done_sweep;
	return loop_timer_start(s->loop, &sweep->timer, 0, err);
}

void sweep_soon(struct sweep *sweep)
{
	sweep_in(sweep, 0);
}

void sweep_stop(struct sweep *sweep)
{
	sweep->stopping = true;
	loop_timer_stop(&sweep->timer);
}
