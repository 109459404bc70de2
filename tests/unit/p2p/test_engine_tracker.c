// SPDX-License-Identifier: Apache-2.0
/* Nodes that meet by a tracker, while it is there. */
#include <criterion/criterion.h>

#include "common/clock.h"
#include "p2p/engine/engine.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_tracker, .timeout = 120);

static const struct crowd_config tracked = {
	.nodes = 8,
	.blocks = 160,
	.per_pack = 60,
	.usize = 64 << 10,
	.relay = 64 << 20,
	.alone = true, /* but for the tracker */
};

#define FAR_NS INT64_C(3600000000000) /* beyond every wait of a test */

/* Which has each node announce so often; 0: as trackers do. */
static struct fake_tracker *crowd_with_tracker(struct crowd *c,
					       struct crowd_config *cfg,
					       int64_t interval_ns)
{
	struct fake_tracker *tracker;

	tracker = fake_tracker_start();
	fake_tracker_interval(tracker, interval_ns);
	cfg->tracker = fake_tracker_url(tracker);
	crowd_make(c, cfg);
	return tracker;
}

Test(engine_tracker, with_a_tracker_a_crowd_reads_one_copy)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	uint64_t n_leases = 0;
	struct p2p_stats s;
	struct crowd c;

	tracker = crowd_with_tracker(&c, &cfg, 0);
	crowd_fetch_all(&c);
	/* One that comes late reads all of others, with no lease of its own. */
	for (unsigned int k = 0; k < c.n; k++) {
		p2p_get_stats(c.node[k].p2p, &s);
		cr_expect_eq(s.trackers_good, 1);
		cr_expect_gt(s.tracker_calls_total, 0);
		n_leases += s.leases_total;
	}
	cr_expect_gt(n_leases, 0);
	/* A lease that ran out on a busy machine may be given once more. */
	cr_expect_lt(crowd_copies(&c), 1.5, "%.2f", crowd_copies(&c));
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

Test(engine_tracker, a_tracker_that_dies_stops_nobody)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct p2p_stats s;
	struct crowd c;

	tracker = crowd_with_tracker(&c, &cfg, 0);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_wait_peers(&c.node[k], 2);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_fetch(&c.node[k]);
	crowd_wait_have(&c.node[0], 1);
	fake_tracker_kill(tracker);
	for (unsigned int k = 0; k < c.n; k++) {
		cr_assert_eq(crowd_join(&c.node[k]), 0, "node %u: %s", k,
			     c.node[k].err.msg);
		crowd_expect_whole(&c.node[k]);
	}
	/* One who comes now knows nobody, and has the origin. */
	crowd_fetch(crowd_add(&c, &cfg));
	cr_assert_eq(crowd_join(&c.node[8]), 0, "%s", c.node[8].err.msg);
	p2p_get_stats(c.node[8].p2p, &s);
	cr_expect_eq(s.trackers_good, 0);
	cr_expect_eq(s.trackers, 1);
	cr_expect_gt(s.tracker_failures_total, 0);
	/* One who knows somebody needs neither. */
	cfg.alone = false;
	(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[9], 1);
	crowd_origin_dies(&c.node[9]);
	crowd_fetch(&c.node[9]);
	cr_assert_eq(crowd_join(&c.node[9]), 0, "%s", c.node[9].err.msg);
	crowd_expect_whole(&c.node[9]);
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

Test(engine_tracker, without_room_at_the_tracker_a_crowd_has_the_origin)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct tracker_stats heard;
	struct p2p_stats s;
	struct crowd c;

	cfg.nodes = 3;
	tracker = crowd_with_tracker(&c, &cfg, 0);
	fake_tracker_fill(tracker);
	crowd_fetch_all(&c);
	for (unsigned int k = 0; k < c.n; k++) {
		crowd_expect_whole(&c.node[k]);
		p2p_get_stats(c.node[k].p2p, &s);
		cr_expect_eq(s.leases_total, 0);
		/* It is there, for whatever other image. */
		cr_expect_eq(s.trackers_good, 1);
		cr_expect_eq(s.tracker_failures_total, 0);
		cr_expect(c.node[k].p2p->tracker_is_there);
	}
	fake_tracker_stats(tracker, &heard);
	cr_expect_gt(heard.granted_total + heard.refused_total, 0);
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

/* ------------------------------------------------------ what ended is told --- */

/* A node that is reading two pieces from the registry, with leases, and has nothing
 * else to call the tracker for. */
struct rights_reading {
	struct crowd c;
	struct fake_tracker *tracker;
	struct fault_source **origin;
	struct p2p_image *image;
	bool (*is_so)(const struct p2p_image *i);
	bool was_so;
};

static void reading_begin(struct rights_reading *r)
{
	const struct fault_plan held = { .held = true };
	struct crowd_config cfg = { .nodes = 1,
				    .blocks = 2,
				    .per_pack = 1,
				    .usize = 64 << 10,
				    .alone = true };

	r->tracker = crowd_with_tracker(&r->c, &cfg, FAR_NS);
	r->origin = r->c.node[0].origin;
	r->image = r->c.node[0].image;
	for (int k = 0; k < 2; k++)
		fault_set(r->origin[k], &held);
	crowd_fetch(&r->c.node[0]);
	for (int k = 0; k < 2; k++)
		fault_wait_held(r->origin[k], 1);
}

static void reading_end(struct rights_reading *r)
{
	cr_assert_eq(crowd_join(&r->c.node[0]), 0, "%s", r->c.node[0].err.msg);
	crowd_expect_whole(&r->c.node[0]);
	crowd_remove(&r->c);
	fake_tracker_free(r->tracker);
}

static uint64_t n_told(struct rights_reading *r)
{
	struct tracker_stats s;

	fake_tracker_stats(r->tracker, &s);
	return s.done_total;
}

static void on_loop(void *arg)
{
	struct rights_reading *r = arg;

	r->was_so = r->is_so(r->image);
}

static bool image_is(struct rights_reading *r,
		     bool (*is_so)(const struct p2p_image *i))
{
	r->is_so = is_so;
	engine_run(r->c.node[0].p2p, on_loop, r);
	return r->was_so;
}

/* One more ended during the call, and its own time to be told has passed. */
static bool waits_for_call(const struct p2p_image *i)
{
	return i->calls.call && !i->calls.timer_at &&
	       i->calls.leases.n_done == 1;
}

Test(engine_tracker, what_ends_during_a_call_is_told_right_after_it)
{
	struct rights_reading r;

	reading_begin(&r);
	fake_tracker_hold(r.tracker);
	fault_release(r.origin[0]);
	wait_for(fake_tracker_holds(r.tracker));
	fault_release(r.origin[1]);
	/* Unless that took so long that the node has called again. */
	wait_for(image_is(&r, waits_for_call) || n_told(&r) == 2);
	fake_tracker_release(r.tracker);
	wait_for(n_told(&r) == 2);
	reading_end(&r);
}

static uint64_t n_members(struct fake_tracker *t)
{
	struct tracker_stats s;

	fake_tracker_stats(t, &s);
	return s.members;
}

Test(engine_tracker, who_opens_an_image_anew_takes_part_though_it_left_late)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct crowd c;

	cfg.nodes = 1;
	tracker = crowd_with_tracker(&c, &cfg, FAR_NS);
	wait_for(n_members(tracker) == 1);
	fake_tracker_leave_late(tracker);
	crowd_reopen(&c.node[0]);
	wait_for(fake_tracker_n_left(tracker) == 1);
	cr_expect_eq(n_members(tracker), 1);
	crowd_remove(&c);
	fake_tracker_free(tracker);
}

/* More than what ended waits to be told, less than the least pause between calls
 * that have no cause: 3/4 of the longest interval that a node believes, 120 s. */
#define LONG_NS INT64_C(60000000000)

static bool rests(const struct p2p_image *i)
{
	return !i->calls.call && i->calls.leases.n_done == 2 &&
	       i->calls.timer_at > clock_now_ns() + LONG_NS;
}

/* The tracker was heard: from then on calls without a cause are far apart. */
static bool knows_interval(const struct p2p_image *i)
{
	return !i->calls.call && i->calls.interval > LONG_NS;
}

Test(engine_tracker, what_nobody_hears_is_no_reason_to_call_without_end)
{
	struct rights_reading r;

	reading_begin(&r);
	/* On a loaded machine the pieces are read before the tracker answers. */
	wait_for(image_is(&r, knows_interval));
	fake_tracker_kill(r.tracker);
	for (int k = 0; k < 2; k++)
		fault_release(r.origin[k]);
	wait_for(image_is(&r, rests));
	reading_end(&r);
}
