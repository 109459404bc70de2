// SPDX-License-Identifier: Apache-2.0
/* Whole nodes in one process: engine, core, links, cache, origin. */
#include <criterion/criterion.h>

#include "tests/unit/p2p/crowd.h"

TestSuite(engine, .timeout = 120);

Test(engine, a_node_gets_everything_from_another)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	crowd_expect_whole(&c.node[0]);
	cr_expect_eq(c.node[0].n_have, CROWD_TWO_BLOCKS);
	cr_expect_eq(c.node[0].n_bytes, crowd_stored_bytes(&c));
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(c.node[1].n_have, CROWD_TWO_BLOCKS);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, who_gave_how_much_is_told_once)
{
	struct p2p_giver givers[2];
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	cr_expect_eq(p2p_image_take_givers(c.node[0].image, givers, 2), 0);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_assert_eq(p2p_image_take_givers(c.node[1].image, givers, 2), 1);
	cr_expect_eq(givers[0].bytes, crowd_stored_bytes(&c));
	cr_expect_gt(strlen(givers[0].node), 0);
	cr_expect_eq(p2p_image_take_givers(c.node[1].image, givers, 2), 0);
	crowd_remove(&c);
}

Test(engine, a_crowd_reads_the_origin_about_once)
{
	static const struct crowd_config eight = {
		.nodes = 8,
		.blocks = 160,
		.per_pack = 60,
		.usize = 64 << 10,
		.relay = 64 << 20,
	};
	struct p2p_stats s;
	struct crowd c;

	crowd_make(&c, &eight);
	for (unsigned int k = 0; k < c.n; k++)
		crowd_wait_peers(&c.node[k], 7);
	crowd_fetch_all(&c);
	for (unsigned int k = 0; k < c.n; k++) {
		p2p_get_stats(c.node[k].p2p, &s);
		cr_expect_eq(s.wrong_total, 0);
	}
	/* Without a tracker turns are taken by time, and this machine may
	 * be slow. */
	cr_expect_lt(crowd_copies(&c), 6.0, "%.2f", crowd_copies(&c));
	crowd_remove(&c);
}

Test(engine, a_node_alone_reads_the_origin)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	crowd_fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, without_peers_everybody_reads_the_origin)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.nodes = 3;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	crowd_fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 3 * crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, what_the_swarm_holds_needs_no_origin)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	/* Each has a third, and all origins are dead. */
	cfg.nodes = 3;
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < 3; k++) {
		crowd_put(&c.node[k], k * CROWD_TWO_BLOCKS / 3,
			  CROWD_TWO_BLOCKS / 3);
		crowd_reopen(&c.node[k]);
		crowd_origin_dies(&c.node[k]);
	}
	for (unsigned int k = 0; k < 3; k++)
		crowd_wait_peers(&c.node[k], 2);
	crowd_fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

Test(engine, nodes_come_and_go_while_others_fetch)
{
	static const struct crowd_config cfg = {
		.nodes = 6,
		.blocks = 240,
		.per_pack = 80,
		.usize = 64 << 10,
		.relay = 8 << 20,
	};
	struct crowd c;

	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < 6; k++)
		crowd_fetch(&c.node[k]);
	crowd_kill(&c.node[2]);
	crowd_fetch(crowd_add(&c, &cfg));
	crowd_kill(&c.node[4]);
	crowd_fetch(crowd_add(&c, &cfg));
	for (unsigned int k = 0; k < c.n; k++) {
		if (!c.node[k].p2p)
			continue;
		cr_assert_eq(crowd_join(&c.node[k]), 0, "node %u: %s", k,
			     c.node[k].err.msg);
		crowd_expect_whole(&c.node[k]);
	}
	crowd_remove(&c);
}
