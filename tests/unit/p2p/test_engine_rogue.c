// SPDX-License-Identifier: Apache-2.0
/* Peers that do no good, or that go away. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/bytes.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/rogue.h"

TestSuite(engine_rogue, .timeout = 120);

/* Three nodes, of which the first has half, and one that does no good; his links
 * that they ended. */
static unsigned int fetch_beside(enum rogue_kind kind, struct p2p_stats *ret)
{
	unsigned int ended;
	struct crowd_config cfg = crowd_two;
	struct digest name;
	struct rogue *rogue;
	struct crowd c;

	cfg.nodes = 0;
	crowd_make(&c, &cfg);
	crowd_swarm(&name);
	rogue = rogue_start(kind, &c.img, &name);
	cfg.address = rogue_address(rogue);
	for (int k = 0; k < 3; k++)
		(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[1], 2);
	crowd_wait_peers(&c.node[2], 2);
	crowd_fetch_all(&c);
	cr_expect_gt(rogue_asked(rogue), 0);
	memset(ret, 0, sizeof(*ret));
	for (unsigned int k = 0; k < c.n; k++) {
		struct p2p_stats s;

		p2p_get_stats(c.node[k].p2p, &s);
		ret->wrong_total += s.wrong_total;
		ret->strikes_total += s.strikes_total;
		ret->stalls_total += s.stalls_total;
	}
	ended = rogue_ended(rogue);
	rogue_stop(rogue); /* it looks into the crowd's image */
	crowd_remove(&c);
	return ended;
}

Test(engine_rogue, a_peer_that_lies_is_found_and_left)
{
	struct p2p_stats s;
	unsigned int ended;

	ended = fetch_beside(ROGUE_LIES, &s);
	cr_expect_gt(ended, 0);
	cr_expect_gt(s.wrong_total, 0);
	cr_expect_geq(s.strikes_total, 3);
	/* Then it is left: it cannot go on. */
	cr_expect_lt(s.wrong_total, 3 * CROWD_TWO_BLOCKS / 2);
}

Test(engine_rogue, a_peer_that_stalls_is_found_and_left)
{
	struct p2p_stats s;

	(void)fetch_beside(ROGUE_STALLS, &s);
	cr_expect_eq(s.wrong_total, 0);
	cr_expect_gt(s.stalls_total, 0);
}

Test(engine_rogue, a_peer_that_has_nothing_after_all_is_passed_over)
{
	struct p2p_stats s;

	(void)fetch_beside(ROGUE_GONE, &s);
	cr_expect_eq(s.strikes_total, 0);
}

Test(engine_rogue, a_peer_that_is_always_busy_is_passed_over)
{
	struct p2p_stats s;

	(void)fetch_beside(ROGUE_BUSY, &s);
	cr_expect_eq(s.strikes_total, 0);
}

/* The only one who has it goes away in the middle. */
static void fetch_from_who_leaves(enum source_priority priority)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.upload_rate = MIB;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	c.node[1].priority = priority;
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	crowd_kill(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	crowd_remove(&c);
}

Test(engine_rogue, who_loses_his_only_peer_goes_on)
{
	fetch_from_who_leaves(SOURCE_HOT);
	fetch_from_who_leaves(SOURCE_COLD);
}
