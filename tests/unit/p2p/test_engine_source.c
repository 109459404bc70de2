// SPDX-License-Identifier: Apache-2.0
/* Readers, whose blocks come from peers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "tests/unit/p2p/crowd.h"

TestSuite(engine_source, .timeout = 120);

Test(engine_source, readers_get_blocks_from_peers)
{
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	dev = crowd_device(&c.node[1], &fetcher);
	for (size_t k = CROWD_TWO_BLOCKS; k-- > 0;)
		cr_assert_eq(crowd_read_block(&c.node[1], dev, k, &err), 0,
			     "%s", err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

Test(engine_source, a_reader_does_not_wait_behind_bulk)
{
	struct crowd_config cfg = crowd_two;
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	cfg.upload_rate = MIB; /* of some three that are wanted */
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c.node[0]);
	crowd_wait_peers(&c.node[1], 1);
	crowd_origin_dies(&c.node[1]);
	dev = crowd_device(&c.node[1], &fetcher);
	crowd_fetch(&c.node[1]);
	crowd_wait_have(&c.node[1], 1);
	for (size_t k = CROWD_TWO_BLOCKS - 3; k < CROWD_TWO_BLOCKS; k++)
		cr_assert_eq(crowd_read_block(&c.node[1], dev, k, &err), 0,
			     "%s", err.msg);
	cr_expect_lt(atomic_load(&c.node[1].n_have), CROWD_TWO_BLOCKS * 3 / 4);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	crowd_expect_whole(&c.node[1]);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

/* Takes blocks, and empties the cache when it has the first one. */
struct emptying {
	struct source_sink sink;
	struct crowd_node *node;
	unsigned int n;
};

static int take_and_empty(struct source_sink *sink, uint64_t pos,
			  const void *data, size_t len, struct error *err)
{
	struct emptying *e = container_of(sink, struct emptying, sink);
	uint64_t freed;

	cr_expect_eq(memcmp(data, image_plain(&e->node->crowd->img, pos), len),
		     0);
	return e->n++ ? 0 : cache_gc(e->node->cache, 0, &freed, err);
}

Test(engine_source, what_the_cache_loses_under_a_reader_is_brought_again)
{
	struct block blocks[8];
	struct source_req req = { .blocks = blocks,
				  .n_blocks = ARRAY_SIZE(blocks),
				  .priority = SOURCE_DEMAND };
	struct crowd_config cfg = crowd_two;
	struct emptying e = { .sink.put = take_and_empty };
	struct error err = ERROR_INIT;
	struct source *pack;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	e.node = &c.node[0];
	crowd_put(e.node, 0, CROWD_TWO_BLOCKS);
	crowd_reopen(e.node);
	for (size_t k = 0; k < ARRAY_SIZE(blocks); k++) {
		blockmap_block(&c.img.map, k, &blocks[k]);
		req.len += blocks[k].csize;
	}
	req.off = blocks[0].poff;
	cr_assert_eq(p2p_image_source(e.node->image, 0, &pack, &err), 0);
	/* All are answered from the cache, and all but one are gone then. */
	cr_expect_eq(source_read(pack, &req, &e.sink, &err), 0, "%s", err.msg);
	cr_expect_eq(e.n, ARRAY_SIZE(blocks));
	cr_expect_eq(crowd_origin_bytes(&c), req.len - blocks[0].csize);
	source_free(pack);
	crowd_remove(&c);
}

Test(engine_source, what_nobody_has_fails_and_says_why)
{
	struct error err = ERROR_INIT;
	struct fetcher *fetcher;
	struct device *dev;
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_put(&c.node[0], 1, CROWD_TWO_BLOCKS - 1);
	crowd_reopen(&c.node[0]);
	crowd_origin_dies(&c.node[0]);
	crowd_origin_dies(&c.node[1]);
	crowd_wait_peers(&c.node[1], 1);
	dev = crowd_device(&c.node[1], &fetcher);
	cr_expect_eq(crowd_read_block(&c.node[1], dev, 0, &err), -EIO);
	cr_expect(strstr(err.msg, "fault on purpose"), "%s", err.msg);
	cr_expect_eq(crowd_read_block(&c.node[1], dev, 1, &err), 0, "%s",
		     err.msg);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}
