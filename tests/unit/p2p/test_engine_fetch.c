// SPDX-License-Identifier: Apache-2.0
/* Lists: cancelled, paused, told of what came by another way; no room for them. */
#include <criterion/criterion.h>
#include <errno.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_fetch, .timeout = 120);

/* One node that waits for its origin. */
static void begin_held(struct crowd *c)
{
	struct fault_plan plan = { .held = true, .heeds_pace = true };
	struct crowd_config cfg = crowd_two;

	cfg.nodes = 1;
	cfg.per_pack = CROWD_TWO_BLOCKS;
	crowd_make(c, &cfg);
	for (size_t k = 0; k < c->img.n_packs; k++)
		fault_set(c->node[0].origin[k], &plan);
	crowd_fetch(&c->node[0]);
	fault_wait_held(c->node[0].origin[0], 1);
}

Test(engine_fetch, a_list_is_cancelled_while_it_reads)
{
	struct crowd c;

	begin_held(&c);
	__atomic_store_n(&c.node[0].cancel, true, __ATOMIC_RELAXED);
	/* What it reads is held, for ever if it waited for that. */
	cr_expect_eq(crowd_join(&c.node[0]), -ECANCELED);
	cr_expect_eq(atomic_load(&c.node[0].n_have), 0);
	crowd_remove(&c);
}

static void look_at_all(void *arg)
{
	struct p2p_image *i = arg;

	for (uint32_t k = 0; k < CROWD_TWO_BLOCKS; k++)
		(void)image_look(i, k, clock_now_ns());
}

Test(engine_fetch, a_list_hears_of_what_another_image_brought)
{
	struct crowd c;

	begin_held(&c);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	engine_run(c.node[0].p2p, look_at_all, c.node[0].image);
	cr_expect_eq(crowd_join(&c.node[0]), 0);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
}

static int64_t pause_for_ever(void *arg, uint64_t next_bytes)
{
	struct crowd_node *n = arg;

	atomic_fetch_add(&n->n_pauses, 1);
	return 10000000;
}

static int64_t pause_at_times(void *arg, uint64_t next_bytes)
{
	struct crowd_node *n = arg;

	return atomic_fetch_add(&n->n_pauses, 1) % 4 ? 10000000 : 0;
}

Test(engine_fetch, a_list_waits_while_it_is_paused)
{
	struct crowd_config cfg = crowd_two;
	struct p2p_stats s;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	c.node[0].pause = pause_for_ever;
	crowd_fetch(&c.node[0]);
	wait_for((p2p_get_stats(c.node[0].p2p, &s),
		  atomic_load(&c.node[0].n_pauses) >= 10));
	__atomic_store_n(&c.node[0].cancel, true, __ATOMIC_RELAXED);
	cr_expect_eq(crowd_join(&c.node[0]), -ECANCELED);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	c.node[0].cancel = false;
	c.node[0].pause = pause_at_times;
	crowd_fetch(&c.node[0]);
	cr_expect_eq(crowd_join(&c.node[0]), 0);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
}

Test(engine_fetch, a_cache_without_room_ends_a_list)
{
	struct crowd_config cfg = crowd_two;
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	cfg.nodes = 1;
	cfg.quota = MIB;
	crowd_make(&c, &cfg);
	cr_assert_eq(cache_pin(c.node[0].cache, &c.img.map, &err), 0);
	crowd_fetch(&c.node[0]);
	cr_expect_eq(crowd_join(&c.node[0]), -ENOSPC, "%s", c.node[0].err.msg);
	/* Readers get what cannot be kept. */
	dev = crowd_device(&c.node[0], &fetcher);
	for (size_t k = 0; k < CROWD_TWO_BLOCKS; k++)
		cr_assert_eq(crowd_read_block(&c.node[0], dev, k, &err), 0,
			     "%s", err.msg);
	device_free(dev);
	fetcher_free(fetcher);
	cache_unpin(c.node[0].cache, &c.img.map);
	crowd_remove(&c);
}
