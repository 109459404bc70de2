// SPDX-License-Identifier: Apache-2.0
/* Readers, whose blocks come from peers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/engine/engine.h"
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
	struct block_sink sink;
	struct crowd_node *node;
	unsigned int n;
};

static int take_and_empty(struct block_sink *sink, size_t index,
			  const void *data, struct error *err)
{
	struct emptying *e = container_of(sink, struct emptying, sink);
	const struct image *img = &e->node->crowd->img;
	uint64_t freed;
	struct block b;

	blockmap_block(&img->map, index, &b);
	cr_expect_arr_eq(data, image_plain(img, index), b.usize);
	return e->n++ ? 0 : cache_gc(e->node->cache, 0, &freed, err);
}

Test(engine_source, what_the_cache_loses_under_a_reader_is_brought_again)
{
	struct block blocks[8];
	struct block_req req = { .blocks = blocks,
				 .n_blocks = ARRAY_SIZE(blocks),
				 .priority = SOURCE_DEMAND };
	struct crowd_config cfg = crowd_two;
	struct emptying e = { .sink.put = take_and_empty };
	struct error err = ERROR_INIT;
	struct block_source *pack;
	uint64_t others = 0;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	e.node = &c.node[0];
	crowd_put(e.node, 0, CROWD_TWO_BLOCKS);
	crowd_reopen(e.node);
	for (size_t k = 0; k < ARRAY_SIZE(blocks); k++) {
		blockmap_block(&c.img.map, k, &blocks[k]);
		others += k ? blocks[k].csize : 0;
	}
	cr_assert_eq(p2p_image_source(e.node->image, 0, &pack, &err), 0);
	/* All are answered from the cache, and all but one are gone then. */
	cr_expect_eq(block_source_read(pack, &req, &e.sink, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(e.n, ARRAY_SIZE(blocks));
	cr_expect_eq(crowd_origin_bytes(&c), others);
	block_source_free(pack);
	crowd_remove(&c);
}

/* Takes blocks as fast as they are looked at, and looks what the node holds. */
struct counting {
	struct block_sink sink;
	struct crowd_node *node;
	uint64_t ahead; /* wanted and not taken, and what came of it */
};

static void count_waiters(void *arg)
{
	struct counting *n = arg;
	const struct p2p_image *i = n->node->image;
	const struct waiter *w;

	n->ahead = atomic_load(&i->p->memory);
	for (size_t k = 0; k < WAITER_BUCKETS; k++)
		LIST_FOREACH(w, &i->wants.waiters[k], link)
	n->ahead += i->unpacked[w->piece];
}

static int take_and_count(struct block_sink *sink, size_t index,
			  const void *data, struct error *err)
{
	struct counting *n = container_of(sink, struct counting, sink);
	const struct image *img = &n->node->crowd->img;
	struct block b;

	blockmap_block(&img->map, index, &b);
	cr_expect_eq(memcmp(data, image_plain(img, index), b.usize), 0);
	engine_run(n->node->p2p, count_waiters, n);
	/* What is being unpacked counts twice. */
	cr_expect_leq(n->ahead,
		      n->node->p2p->cfg.memory / 4 + 8 * BLOCK_USIZE_MAX, "%zu",
		      index);
	return 0;
}

/* 147 bytes each, and 4 MiB when they are here. */
Test(engine_source, what_packs_to_nothing_is_not_unpacked_far_ahead)
{
	static struct block blocks[40];
	struct block_req req = { .blocks = blocks,
				 .n_blocks = ARRAY_SIZE(blocks),
				 .priority = SOURCE_DEMAND };
	struct crowd_config cfg = crowd_two;
	struct counting n = { .sink.put = take_and_count };
	struct error err = ERROR_INIT;
	struct block_source *pack;
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	cfg.hollow = true;
	cfg.blocks = cfg.per_pack = ARRAY_SIZE(blocks);
	cfg.usize = BLOCK_USIZE_MAX;
	crowd_make(&c, &cfg);
	n.node = &c.node[0];
	for (size_t k = 0; k < ARRAY_SIZE(blocks); k++)
		blockmap_block(&c.img.map, k, &blocks[k]);
	cr_assert_eq(p2p_image_source(n.node->image, 0, &pack, &err), 0);
	cr_expect_eq(block_source_read(pack, &req, &n.sink, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n.node->p2p->ahead, 0);
	block_source_free(pack);
	crowd_remove(&c);
}

/* Of blocks of 16 bytes. */
static void make_map(size_t n, struct blockmap *ret, void **ret_data)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .size = n * 16 };
	struct error err = ERROR_INIT;
	uint32_t index;
	size_t len;

	cr_assert_eq(blockmap_writer_pack(w, &p, &index, &err), 0);
	for (size_t k = 0; k < n; k++) {
		struct block b = { .usize = 16,
				   .csize = 16,
				   .codec = BLOCK_CODEC_RAW,
				   .poff = k * 16,
				   .voff = k * BLOCK_ALIGN };

		memcpy(b.digest.b, &k, sizeof(k));
		cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	}
	cr_assert_eq(blockmap_writer_finish(w, n * BLOCK_ALIGN, ret_data, &len,
					    &err),
		     0, "%s", err.msg);
	cr_assert_eq(blockmap_open(*ret_data, len, ret, &err), 0, "%s",
		     err.msg);
}

Test(engine_source, an_image_of_too_many_blocks_has_no_peers)
{
	struct crowd_config cfg = crowd_two;
	struct p2p_image *image = NULL;
	struct error err = ERROR_INIT;
	AUTO_FREE void *data = NULL;
	struct source *packs[1];
	struct blockmap map;
	struct p2p_image_config many = {
		.map = &map, .label = "many", .repo = CROWD_REPO, .packs = packs
	};
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	make_map(P2P_BLOCKS_MAX + 1, &map, &data);
	packs[0] = memory_source_new("", 0, 1);
	cr_expect_eq(p2p_image_open(c.node[0].p2p, &many, &image, &err),
		     -E2BIG);
	cr_expect(strstr(err.msg, "1048576"), "%s", err.msg);
	p2p_image_close(image);
	crowd_remove(&c);
}

Test(engine_source, an_origin_that_refuses_for_a_while_is_waited_for)
{
	static const int passing[] = { -EIO, -ECONNREFUSED, -ECANCELED,
				       -ENOMEM };

	for (size_t k = 0; k < ARRAY_SIZE(passing); k++) {
		/* More than the core tries by itself. */
		struct fault_plan plan = { .n_fail = 4, .fail_rc = passing[k] };
		struct error err = ERROR_INIT;
		struct crowd_config cfg = crowd_two;
		struct fetcher *fetcher;
		struct device *dev;
		struct crowd c;

		cfg.nodes = 1;
		cfg.alone = true;
		crowd_make(&c, &cfg);
		fault_set(c.node[0].origin[0], &plan);
		dev = crowd_device(&c.node[0], &fetcher);
		cr_expect_eq(crowd_read_block(&c.node[0], dev, 0, &err), 0,
			     "%d: %s", passing[k], err.msg);
		device_free(dev);
		fetcher_free(fetcher);
		crowd_remove(&c);
	}
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
	crowd_origin_refuses(&c.node[0], -EACCES);
	crowd_origin_refuses(&c.node[1], -EACCES);
	crowd_wait_peers(&c.node[1], 1);
	dev = crowd_device(&c.node[1], &fetcher);
	cr_expect_eq(crowd_read_block(&c.node[1], dev, 0, &err), -EACCES);
	cr_expect(strstr(err.msg, "fault on purpose"), "%s", err.msg);
	cr_expect_eq(crowd_read_block(&c.node[1], dev, 1, &err), 0, "%s",
		     err.msg);
	device_free(dev);
	fetcher_free(fetcher);
	crowd_remove(&c);
}

/* Ask for a block that lies where `k` of the map does, and takes `b` instead. */
static int read_as(struct crowd_node *n, const struct block *b,
		   struct block_sink *sink, struct error *err)
{
	struct block_req req = { .blocks = b,
				 .n_blocks = 1,
				 .priority = SOURCE_DEMAND };
	struct block_source *pack;
	int rc;

	cr_assert_eq(p2p_image_source(n->image, b->pack, &pack, err), 0);
	rc = block_source_read(pack, &req, sink, err);
	block_source_free(pack);
	return rc;
}

static int take_nothing(struct block_sink *sink, size_t index, const void *data,
			struct error *err)
{
	cr_expect(false, "a block came that is not there");
	return 0;
}

Test(engine_source, no_block_is_answered_by_another_at_its_place)
{
	struct block_sink sink = { .put = take_nothing };
	struct crowd_config cfg = crowd_two;
	struct block b, lies[4];
	struct crowd c;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, 1); /* nor from the cache */
	crowd_reopen(&c.node[0]);
	blockmap_block(&c.img.map, 0, &b);
	for (size_t k = 0; k < ARRAY_SIZE(lies); k++)
		lies[k] = b;
	lies[0].digest.b[0] ^= 1;
	lies[1].usize = BLOCK_USIZE_MAX;
	lies[2].csize--;
	lies[3].codec ^= 1;
	for (size_t k = 0; k < ARRAY_SIZE(lies); k++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(read_as(&c.node[0], &lies[k], &sink, &err),
			     -EBADMSG, "lie %zu", k);
		cr_expect_not_null(strstr(err.msg, "convert the image again"),
				   "%s", err.msg);
		cr_expect_not(k == 0 &&
			      cache_has(c.node[0].cache, &lies[k].digest));
	}
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	crowd_remove(&c);
}

/* A block's map that says of a place first what lies there, and then something else.
 * Returns what it is made in. */
static void *lie(struct crowd *c, struct blockmap *ret)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct error err = ERROR_INIT;
	struct block b;
	struct pack p;
	uint32_t at;
	size_t len;
	void *data;

	blockmap_pack(&c->img.map, 0, &p);
	cr_assert_eq(blockmap_writer_pack(w, &p, &at, &err), 0);
	blockmap_block(&c->img.map, 0, &b);
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	b.voff = round_up(b.usize, BLOCK_ALIGN);
	b.digest.b[0] ^= 1;
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	cr_assert_eq(blockmap_writer_finish(w, 8 * MIB, &data, &len, &err), 0);
	cr_assert_eq(blockmap_open(data, len, ret, &err), 0, "%s", err.msg);
	return data;
}

Test(engine_source, a_map_with_two_blocks_at_one_place_is_opened_to_nobody)
{
	struct crowd_config cfg = crowd_two;
	struct error err = ERROR_INIT;
	struct source *packs[CROWD_PACKS_MAX] = { NULL };
	struct p2p_image_config image = { .packs = packs,
					  .label = "lie",
					  .repo = CROWD_REPO };
	struct p2p_image *i = NULL;
	struct blockmap map;
	struct crowd c;
	void *data;

	cfg.nodes = 1;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	data = lie(&c, &map);
	image.map = &map;
	cr_expect_eq(p2p_image_open(c.node[0].p2p, &image, &i, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "convert the image again"), "%s",
			   err.msg);
	free(data);
	crowd_remove(&c);
}
