// SPDX-License-Identifier: Apache-2.0
/* Nodes that meet by a tracker, while it is there. */
#include <criterion/criterion.h>

#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"

TestSuite(engine_tracker, .timeout = 120);

static const struct crowd_config tracked = {
	.nodes = 8,
	.blocks = 160,
	.per_pack = 60,
	.usize = 64 << 10,
	.relay = 64 << 20,
	.alone = true, /* but for the tracker */
};

static struct fake_tracker *crowd_with_tracker(struct crowd *c,
					       struct crowd_config *cfg)
{
	struct fake_tracker *tracker;
	struct digest image;

	cr_assert_eq(digest_of("crowd", 5, &image), 0);
	tracker = fake_tracker_start(&image);
	cfg->tracker = fake_tracker_url(tracker);
	crowd_make(c, cfg);
	return tracker;
}

Test(engine_tracker, with_a_tracker_a_crowd_reads_one_copy)
{
	struct crowd_config cfg = tracked;
	struct fake_tracker *tracker;
	struct p2p_stats s;
	struct crowd c;

	tracker = crowd_with_tracker(&c, &cfg);
	crowd_fetch_all(&c);
	p2p_get_stats(c.node[3].p2p, &s);
	cr_expect_eq(s.trackers_good, 1);
	cr_expect_gt(s.tracker_calls_total, 0);
	cr_expect_gt(s.leases_total, 0);
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

	tracker = crowd_with_tracker(&c, &cfg);
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
