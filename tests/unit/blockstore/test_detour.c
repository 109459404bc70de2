// SPDX-License-Identifier: Apache-2.0
/* Images that share blocks, of which one has a map that lies, or a registry that hangs. */
#include <criterion/criterion.h>
#include <string.h>

#include "blockstore/fetcher.h"
#include "tests/unit/blockstore/node.h"

TestSuite(detour, .timeout = 120);

#define SPAN 4096u

static const struct node_config plain = { .n_blocks = 40,
					  .per_pack = 40,
					  .usize = SPAN,
					  .window = SPAN,
					  .window_max = SPAN };

/* The image's first block, and behind it the same digest with another size. */
static void make_lying_map(struct node *n, uint32_t usize, struct blockmap *ret,
			   void **ret_data)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct error err = ERROR_INIT;
	struct pack pack;
	struct block b;
	uint32_t index;
	size_t len;

	blockmap_pack(&n->img.map, 0, &pack);
	cr_assert_eq(blockmap_writer_pack(w, &pack, &index, &err), 0);
	blockmap_block(&n->img.map, 0, &b);
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	b.voff = SPAN;
	b.usize = usize;
	b.codec = BLOCK_CODEC_ZSTD;
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0);
	cr_assert_eq(blockmap_writer_finish(w, SPAN + usize, ret_data, &len,
					    &err),
		     0, "%s", err.msg);
	cr_assert_eq(blockmap_open(*ret_data, len, ret, &err), 0);
}

Test(detour, a_map_that_lies_about_a_size_reads_no_memory)
{
	struct block_source *packs[1];
	struct error err = ERROR_INIT;
	AUTO_FREE void *data = NULL;
	struct device *liar;
	struct blockmap map;
	uint32_t size = 1u << 20;
	AUTO_FREE uint8_t *buf = malloc(size);
	struct node n;

	node_make(&n, &plain);
	make_lying_map(&n, size, &map, &data);
	cr_assert_eq(verify_source_new(memory_source_new(n.img.packs[0],
							 n.img.pack_size[0],
							 5000),
				       &packs[0], &err),
		     0);
	cr_assert_eq(device_new(n.fetcher, &map, "liar", "liar.example", packs,
				&liar, &err),
		     0);
	/* Both entries in one read: the second one must not have the first's. */
	cr_expect_lt(device_read_sync(liar, 0, buf, size, &err), 0);
	/* Nor what is there from the first one. */
	cr_expect_eq(device_read_sync(liar, 0, buf, SPAN, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(memcmp(buf, n.img.device, SPAN), 0);
	cr_expect_lt(device_read_sync(liar, SPAN, buf, size, &err), 0);
	device_free(liar);
	node_remove(&n);
}

Test(detour, a_registry_that_hangs_keeps_no_other_image_waiting)
{
	struct later hangs;
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	later_start(&hangs, &n, 0, 0, SPAN);
	fault_wait_held(n.fault[0][0], 1);
	expect_read(&n, 1, 0, SPAN);
	cr_expect_eq(fault_reads(n.fault[1][0]), 1);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&hangs), 0, "%s", hangs.err.msg);
	later_fini(&hangs, &n);
	node_remove(&n);
}

Test(detour, a_prefetch_leaves_a_registry_that_hangs)
{
	struct error err = ERROR_INIT;
	volatile bool cancel = false;
	struct later hangs;
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	later_start(&hangs, &n, 0, 0, SPAN);
	fault_wait_held(n.fault[0][0], 1);
	cr_expect_eq(fetch_blocks(&n, 1, 0, 1, SOURCE_HOT, &cancel, &err), 0,
		     "%s", err.msg);
	fault_release(n.fault[0][0]);
	cr_expect_eq(later_wait(&hangs), 0, "%s", hangs.err.msg);
	later_fini(&hangs, &n);
	node_remove(&n);
}

Test(detour, a_read_that_has_no_place_yet_is_no_reason_to_wait)
{
	struct later hangs[3];
	struct node n;

	node_make(&n, &plain);
	fault_set(n.fault[0][0], &(struct fault_plan){ .held = true });
	/* Two have the places that one image may have; the third is in the queue. */
	for (size_t i = 0; i < ARRAY_SIZE(hangs); i++) {
		later_start(&hangs[i], &n, 0, 9 * i * SPAN, SPAN);
		fault_wait_held(n.fault[0][0], i < 2 ? (unsigned int)i + 1 : 2);
	}
	expect_read(&n, 1, 18 * SPAN, SPAN);
	cr_expect_eq(later_wait(&hangs[2]), 0, "%s", hangs[2].err.msg);
	cr_expect_eq(fault_reads(n.fault[0][0]), 2);
	fault_release(n.fault[0][0]);
	for (size_t i = 0; i < ARRAY_SIZE(hangs); i++) {
		cr_expect_eq(later_wait(&hangs[i]), 0, "%s", hangs[i].err.msg);
		later_fini(&hangs[i], &n);
	}
	node_remove(&n);
}
