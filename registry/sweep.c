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
/* starts in a row that fail for a cause that may affect every start */
#define ROW_MAX 3

/* Delete starts whose last events are older than the retention time. */
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

/* Count the starts that do not train, for an alert to the operator. */
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

/* State of summing up starts, one after another. */
struct sums {
	struct service *service;
	enum history_sum what;
	/* starts that failed for a cause that may affect every start */
	int64_t row[ROW_MAX + 1];
	int n_row, n_summed;
};

/* Store that summing up a start failed; after HISTORY_TRIES failures it is set aside for a while.
 * -errno: the database cannot be written. */
static int store_failed_sum(const struct sums *r, int64_t id)
{
	struct error err = ERROR_INIT;
	int rc = history_db_failed(r->service->db, r->what, id, time(NULL),
				   &err);

	if (rc > 0) {
		atomic_fetch_add(&r->service->counts.set_aside, 1);
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
	return rc < 0 ? rc : 0;
}

static int store_failed_sums_in_row(struct sums *r)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < r->n_row; i++)
		rc = store_failed_sum(r, r->row[i]);
	r->n_row = 0;
	return rc;
}

/*
 * A start that always fails must not keep others from being summed up, so a failure is stored. But
 * lack of time, memory or a writable database may affect every start: such failures are stored only
 * after another start has succeeded. True: stop, the other starts would fail too.
 */
static bool is_sum_over(struct sums *r, int rc, int64_t id,
			const struct error *err)
{
	if (rc >= 0) {
		r->n_summed++;
		return store_failed_sums_in_row(r) < 0;
	}
	log_warning("service",
		    "summing up %s of a start failed, tried again later "
		    "start=%" PRId64 " reason=\"%s\"",
		    r->what == HISTORY_TIMES ? "times" : "checkpoints", id,
		    err->msg);
	switch (-rc) {
	case ECONNREFUSED:
	case ENOSPC:
		return true;
	case EBUSY:
	case ENOMEM:
	case EROFS:
		r->row[r->n_row++] = id;
		return r->n_row > ROW_MAX;
	default:
		return store_failed_sum(r, id) < 0;
	}
}

static int sum_start(struct service *s, int64_t id, struct error *err)
{
	const struct start_found *f = NULL;
	int rc = start_cache_get(s->start_cache, id, &f, err);

	/* The start was deleted in the meantime: nothing to sum up. */
	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = history_db_add(s->db, f, err);
	if (rc > 0)
		stage_times_add(s->stage_times, &f->report);
	start_cache_put(s->start_cache, f);
	return rc;
}

/* Delete old sums of starts, by their own age and limits, even if other sweeps failed. */
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
	/* The start was deleted in the meantime: nothing to sum up. */
	return rc == -ENOENT ? 0 : rc;
}

static int list_due(struct service *s, enum history_sum what, int64_t now,
		    int64_t *ids, struct error *err)
{
	return what == HISTORY_TIMES
		       ? history_db_due(s->db, now, ids, SUM_MAX, err)
		       : ckpt_db_due(s->db, now, ids, SUM_MAX, err);
}

/*
 * Sum up the times of finished starts, or the loads and saves of starts with new events. True:
 * there may be more. After ROW_MAX failures in a row, only the last start is tried: if it succeeds,
 * the failures were the other starts' own fault, and these are skipped the next time.
 */
static bool sum_up_due_starts(struct sweep *sweep, enum history_sum what)
{
	struct service *s = sweep->service;
	struct sums r = { .service = s, .what = what };
	int64_t now = time(NULL), ids[SUM_MAX];
	struct error err = ERROR_INIT;
	int n = list_due(s, what, now, ids, &err), rc;
	bool is_over = n < 0;

	if (n < 0)
		log_warning("service",
			    "summing up %s of starts failed, tried again later "
			    "reason=\"%s\"",
			    what == HISTORY_TIMES ? "times" : "checkpoints",
			    err.msg);
	for (int i = 0; !is_over && i < n; i++) {
		if (atomic_load(&sweep->stopping))
			return false;
		if (r.n_row == ROW_MAX)
			i = n - 1;
		rc = what == HISTORY_TIMES
			     ? sum_start(s, ids[i], &err)
			     : sum_checkpoint(s, now, ids[i], &err);
		is_over = is_sum_over(&r, rc, ids[i], &err);
	}
	/* Fewer failures than ROW_MAX in a row do not mean that all starts fail: store them. */
	if (!is_over && r.n_row < ROW_MAX)
		is_over = store_failed_sums_in_row(&r) < 0;
	if (what == HISTORY_TIMES && r.n_summed > 0)
		log_info("service", "summed up starts of jobs=%d", r.n_summed);
	return !is_over && n == SUM_MAX && r.n_summed > 0;
}

/* Delete environments that were not used within the retention time of traces. */
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

/* Delete reports of nodes that no longer report, so that nodes which are gone are not counted for
 * ever. */
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

static void sweep_traces(struct service *s)
{
	struct error err = ERROR_INIT;
	struct trace_totals t;
	unsigned int evicted = 0;

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

static void run_sweep(struct work *w)
{
	static void (*const steps[])(struct service * s) = {
		sweep_starts, count_open_starts, sweep_environments,
		sweep_images, sweep_indexes,     sweep_conversions,
		sweep_doctor, sweep_traces,
	};
	struct sweep *sweep = container_of(w, struct sweep, work);
	struct service *s = sweep->service;

	sweep->has_more = sum_up_due_starts(sweep, HISTORY_TIMES);
	/* Enforce the limits before more sums are added. */
	sweep->has_more = sweep_sums(s) && sweep->has_more;
	sweep->has_more =
		sum_up_due_starts(sweep, HISTORY_CKPT) || sweep->has_more;
	for (size_t i = 0;
	     i < ARRAY_SIZE(steps) && !atomic_load(&sweep->stopping); i++)
		steps[i](s);
}

static void start_sweep_timer(struct sweep *sweep, int64_t ns)
{
	if (!atomic_load(&sweep->stopping) &&
	    loop_timer_start(sweep->service->loop, &sweep->timer, ns, NULL) < 0)
		log_warning("service", "no sweep reason=\"out of memory\"");
}

static void on_sweep_done(struct work *w)
{
	struct sweep *sweep = container_of(w, struct sweep, work);

	sweep->running = false;
	start_sweep_timer(sweep, sweep->has_more ? SWEEP_AGAIN_NS : SWEEP_NS);
}

static void on_sweep(struct loop_timer *t)
{
	struct sweep *sweep = container_of(t, struct sweep, timer);
	struct service *s = sweep->service;

	if (sweep->running || atomic_load(&sweep->stopping))
		return;
	atomic_store(&s->counts.new_bytes, 0);
	sweep->running = pool_submit(sweep->pool, &sweep->work) == 0;
	if (!sweep->running)
		start_sweep_timer(sweep, SWEEP_NS);
}

int sweep_start(struct sweep *sweep, struct service *s, struct error *err)
{
	int rc = pool_new(s->loop, 1, 0, &sweep->pool, err);

	if (rc < 0)
		return rc;
	sweep->service = s;
	sweep->timer.fn = on_sweep;
	sweep->work.run = run_sweep;
	sweep->work.done = on_sweep_done;
	return loop_timer_start(s->loop, &sweep->timer, 0, err);
}

void sweep_soon(struct sweep *sweep)
{
	start_sweep_timer(sweep, 0);
}

void sweep_stop(struct sweep *sweep)
{
	atomic_store(&sweep->stopping, true);
	loop_timer_stop(&sweep->timer);
}

void sweep_join(struct sweep *sweep)
{
	pool_free(sweep->pool);
}
