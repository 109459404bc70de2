// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "prefetcher/order.h"

TestSuite(order, .timeout = 120);

/* A map of 4 blocks in 2 packs: entries 0 and 3 share a place, and the packs lie
 * the other way round. */
static void make_map(struct blockmap *ret, void **ret_data)
{
	static const struct {
		uint32_t pack;
		uint64_t poff;
	} places[] = { { 1, 0 }, { 1, 4096 }, { 0, 0 }, { 1, 0 } };
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .size = 8192 };
	size_t len;
	uint32_t index;

	cr_assert(w);
	for (uint8_t i = 0; i < 2; i++) {
		p.digest.b[0] = i;
		cr_assert_eq(blockmap_writer_pack(w, &p, &index, NULL), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct block b = { .voff = i * 4096,
				   .poff = places[i].poff,
				   .pack = places[i].pack,
				   .usize = 4096,
				   .csize = 4096 };

		b.digest.b[0] =
			(uint8_t)(places[i].pack * 16 + places[i].poff / 4096);
		cr_assert_eq(blockmap_writer_block(w, &b, NULL), 0);
	}
	cr_assert_eq(blockmap_writer_finish(w, 4 * 4096, ret_data, &len, NULL),
		     0);
	cr_assert_eq(blockmap_open(*ret_data, len, ret, NULL), 0);
}

Test(order, by_pack_has_each_stored_place_once_as_it_lies)
{
	struct blockmap map;
	struct order *o;
	void *data;

	make_map(&map, &data);
	cr_assert_eq(order_by_pack(&map, &o, NULL), 0);
	cr_assert_eq(o->n, 3);
	cr_expect_eq(o->blocks[0], 2);
	cr_expect_eq(o->blocks[1], 0);
	cr_expect_eq(o->blocks[2], 1);
	cr_expect_eq(o->bytes, 3 * 4096);
	order_unref(o);
	free(data);
}

/* A lying map: both claim what is stored there, and one is checked. */
Test(order, refuses_a_map_with_two_blocks_at_one_place)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct block b = { .usize = 4096, .csize = 4096 };
	struct pack p = { .size = 8192 };
	struct error err = ERROR_INIT;
	struct blockmap map;
	struct order *o;
	uint32_t index;
	size_t len;
	void *data;

	cr_assert_eq(blockmap_writer_pack(w, &p, &index, NULL), 0);
	cr_assert_eq(blockmap_writer_block(w, &b, NULL), 0);
	b.voff = 4096;
	b.digest.b[0] = 1;
	cr_assert_eq(blockmap_writer_block(w, &b, NULL), 0);
	cr_assert_eq(blockmap_writer_finish(w, 8192, &data, &len, NULL), 0);
	cr_assert_eq(blockmap_open(data, len, &map, NULL), 0);
	cr_expect_eq(order_by_pack(&map, &o, &err), -EINVAL);
	cr_expect_str_eq(err.msg,
			 "block map: blocks 0 and 1 lie at one place of pack 0 "
			 "and differ: convert the image again");
	free(data);
}

Test(order, of_a_hot_list_keeps_its_order_and_drops_repeats)
{
	struct hot_block blocks[] = {
		{ .index = 2 }, { .index = 0 }, { .index = 2 }, { .index = 1 }
	};
	struct hot_list hot = { .blocks = blocks, .n = 4 };
	struct order *o, *same;
	struct blockmap map;
	void *data;

	make_map(&map, &data);
	cr_assert_eq(order_of_hot(&map, &hot, &o, NULL), 0);
	cr_assert_eq(o->n, 3);
	cr_expect_eq(o->blocks[0], 2);
	cr_expect_eq(o->blocks[1], 0);
	cr_expect_eq(o->blocks[2], 1);
	cr_assert_eq(order_by_pack(&map, &same, NULL), 0);
	cr_expect(order_equal(o, same));
	hot.n = 3;
	order_unref(same);
	cr_assert_eq(order_of_hot(&map, &hot, &same, NULL), 0);
	cr_expect(!order_equal(o, same));
	order_unref(same);
	order_unref(o);
	free(data);
}

Test(order, refuses_a_hot_list_of_another_map)
{
	struct hot_block block = { .index = 4 };
	struct hot_list hot = { .blocks = &block, .n = 1 };
	struct error err = ERROR_INIT;
	struct blockmap map;
	struct order *o;
	void *data;

	make_map(&map, &data);
	cr_expect_eq(order_of_hot(&map, &hot, &o, &err), -EINVAL);
	cr_expect_str_eq(err.msg, "hot list: block 4 of 4");
	free(data);
}
