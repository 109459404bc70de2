// SPDX-License-Identifier: Apache-2.0
/* Whole nodes in one process: engine, core, links, cache, origin. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/loop.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/rogue.h"

TestSuite(engine, .timeout = 120);

#define BLOCKS 60
static const struct crowd_config two = {
	.nodes = 2,
	.blocks = BLOCKS,
	.per_pack = 25,
	.usize = 64 << 10,
	.relay = 64 << 20,
};

/* --------------------------------------------------------- one from another --- */

Test(engine, a_node_gets_everything_from_another)
{
	struct crowd c;

	crowd_make(&c, &two);
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	crowd_expect_whole(&c.node[0]);
	cr_expect_eq(c.node[0].n_have, BLOCKS);
	cr_expect_eq(c.node[0].n_bytes, crowd_stored_bytes(&c));
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(c.node[1].n_have, BLOCKS);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* A crowd of `n` that all begin at once. */
static void fetch_all(struct crowd *c)
{
	for (unsigned int k = 0; k < c->n; k++)
		crowd_fetch(&c->node[k]);
	for (unsigned int k = 0; k < c->n; k++)
		cr_assert_eq(crowd_join(&c->node[k]), 0, "node %u: %s", k,
			     c->node[k].err.msg);
	for (unsigned int k = 0; k < c->n; k++)
		crowd_expect_whole(&c->node[k]);
}

static double copies(struct crowd *c)
{
	return (double)crowd_origin_bytes(c) / (double)crowd_stored_bytes(c);
}

static void stats_of(const struct crowd_node *n, struct p2p_stats *ret)
{
	p2p_get_stats(n->p2p, ret);
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
	fetch_all(&c);
	for (unsigned int k = 0; k < c.n; k++) {
		stats_of(&c.node[k], &s);
		cr_expect_eq(s.wrong_total, 0);
	}
	/* Without a tracker turns are taken by time, and this machine may
	 * be slow. */
	cr_expect_lt(copies(&c), 6.0, "%.2f", copies(&c));
	crowd_remove(&c);
}

Test(engine, what_left_the_relay_comes_from_the_cache)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.relay = 0;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, BLOCKS);
	/* What came by another way is told when the image is opened anew. */
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

Test(engine, a_node_alone_reads_the_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
}

Test(engine, without_peers_everybody_reads_the_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	cfg.nodes = 3;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 3 * crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* --------------------------------------------------------------- those who fail --- */

/* Three nodes, of which the first has half, and one that does no good. */
static void fetch_beside(enum rogue_kind kind, struct p2p_stats *ret)
{
	struct crowd_config cfg = two;
	struct rogue *rogue;
	struct crowd c;

	cfg.nodes = 0;
	crowd_make(&c, &cfg);
	rogue = rogue_start(kind, &c.img, &c.digest);
	cfg.address = rogue_address(rogue);
	for (int k = 0; k < 3; k++)
		(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[1], 2);
	crowd_wait_peers(&c.node[2], 2);
	fetch_all(&c);
	cr_expect_gt(rogue_asked(rogue), 0);
	memset(ret, 0, sizeof(*ret));
	for (unsigned int k = 0; k < c.n; k++) {
		struct p2p_stats s;

		stats_of(&c.node[k], &s);
		ret->wrong_total += s.wrong_total;
		ret->strikes_total += s.strikes_total;
		ret->stalls_total += s.stalls_total;
	}
	crowd_remove(&c);
	rogue_stop(rogue);
}

Test(engine, a_peer_that_lies_is_found_and_left)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_LIES, &s);
	cr_expect_gt(s.wrong_total, 0);
	cr_expect_geq(s.strikes_total, 3);
	/* Then it is left: it cannot go on. */
	cr_expect_lt(s.wrong_total, 3 * BLOCKS / 2);
}

Test(engine, a_peer_that_stalls_is_found_and_left)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_STALLS, &s);
	cr_expect_eq(s.wrong_total, 0);
	cr_expect_gt(s.stalls_total, 0);
}

Test(engine, a_peer_that_has_nothing_after_all_is_passed_over)
{
	struct p2p_stats s;

	fetch_beside(ROGUE_GONE, &s);
	cr_expect_eq(s.strikes_total, 0);
}

Test(engine, what_the_swarm_holds_needs_no_origin)
{
	struct crowd_config cfg = two;
	struct crowd c;

	/* Each has a third, and all origins are dead. */
	cfg.nodes = 3;
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < 3; k++) {
		crowd_put(&c.node[k], k * BLOCKS / 3, BLOCKS / 3);
		crowd_reopen(&c.node[k]);
		crowd_origin_dies(&c.node[k]);
	}
	for (unsigned int k = 0; k < 3; k++)
		crowd_wait_peers(&c.node[k], 2);
	fetch_all(&c);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

Test(engine, what_nobody_has_fails_and_says_why)
{
	struct crowd_config cfg = two;
	struct crowd c;

	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 1, BLOCKS - 1);
	crowd_reopen(&c.node[0]);
	crowd_origin_dies(&c.node[0]);
	crowd_origin_dies(&c.node[1]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_fetch(&c.node[1]);
	cr_expect_eq(crowd_join(&c.node[1]), -EIO);
	cr_expect(strstr(c.node[1].err.msg, "fault on purpose"), "%s",
		  c.node[1].err.msg);
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
