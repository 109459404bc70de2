// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/fs.h"
#include "tests/fakes/fault_source.h"
#include "tests/unit/blockstore/image.h"

TestSuite(source, .timeout = 120);

/* Collects whole blocks and compares them with the image. */
struct check_sink {
	struct block_sink base;
	const struct image *img;
	const struct block *blocks;
	size_t first, n;
};

static struct block_rooms *lent;

static int check_put(struct block_sink *sink, size_t index, const void *data,
		     struct error *err)
{
	struct check_sink *c = container_of(sink, struct check_sink, base);

	cr_assert_eq(index, c->n);
	cr_assert_arr_eq(data, image_plain(c->img, c->first + index),
			 c->blocks[index].usize);
	c->n++;
	return 0;
}

static int read_blocks(struct block_source *s, const struct image *img,
		       size_t n, size_t *ret_n, struct error *err)
{
	struct block b[16];
	struct check_sink c = { .base.put = check_put,
				.img = img,
				.blocks = b };
	struct block_req req = { .blocks = b, .n_blocks = n, .rooms = lent };
	int rc;

	for (size_t i = 0; i < n; i++)
		blockmap_block(&img->map, i, &b[i]);
	rc = block_source_read(s, &req, &c.base, err);
	*ret_n = c.n;
	return rc;
}

static struct block_source *verified(const struct image *img, size_t piece,
				     struct fault_source **ret_fault)
{
	struct error err = ERROR_INIT;
	struct block_source *s;

	*ret_fault = fault_source_new(
		memory_source_new(img->packs[0], img->pack_size[0], piece));
	cr_assert_eq(verify_source_new(&(*ret_fault)->base, &s, &err), 0);
	return s;
}

Test(source, posix_reads_ranges_and_refuses_what_lies_outside)
{
	char dir[] = "/tmp/bootseer-source.XXXXXX";
	struct error err = ERROR_INIT;
	AUTO(source) s = NULL;
	AUTO_BUF path = BUF_INIT;
	char got[8];

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(buf_printf(&path, "%s/x", dir), 0);
	cr_assert_eq(fs_replace_file(path.data, "0123456789", 10, 0600, &err),
		     0);
	cr_assert_eq(posix_source_new(path.data, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(s->size, 10);
	cr_assert_eq(source_read_buf(s, 4, got, 6, &err), 0, "%s", err.msg);
	cr_expect_arr_eq(got, "456789", 6);
	cr_expect_eq(source_read_buf(s, 4, got, 7, &err), -ERANGE);
	cr_expect_eq(source_read_buf(s, UINT64_MAX, got, 7, &err), -ERANGE);
	cr_expect_eq(source_read_buf(s, 10, got, 0, &err), 0);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(source, a_missing_file_is_named)
{
	struct error err = ERROR_INIT;
	struct source *s;

	cr_expect_eq(posix_source_new("/nonexistent/pack", &s, &err), -ENOENT);
	cr_expect(strstr(err.msg, "/nonexistent/pack"), "%s", err.msg);
}

Test(source, verify_passes_whole_blocks_whatever_the_pieces)
{
	static const size_t pieces[] = { 1, 7, 4096, 8192, 10000, 1 << 20 };
	struct error err = ERROR_INIT;
	struct fault_source *f;
	struct image img;
	size_t n;

	image_make(&img, 1, 10, 8192, 10);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		AUTO(block_source) s = verified(&img, pieces[i], &f);

		cr_assert_eq(read_blocks(s, &img, 10, &n, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(n, 10);
	}
	image_fini(&img);
}

Test(source, memory_of_blocks_is_used_again_the_last_first)
{
	struct block_rooms *rooms = block_rooms_new();
	void *a = block_room_take(rooms), *b = block_room_take(rooms);

	cr_assert(rooms && a && b);
	memset(a, 1, BLOCK_USIZE_MAX);
	memset(b, 2, BLOCK_USIZE_MAX);
	block_room_give(rooms, a);
	block_room_give(rooms, b);
	cr_expect_eq(block_room_take(rooms), b);
	cr_expect_eq(block_room_take(rooms), a);
	block_room_give(rooms, a);
	block_rooms_trim(rooms);
	block_room_give(rooms, b);
	cr_expect_eq(block_room_take(rooms), b);
	block_room_give(rooms, b);
	block_rooms_free(rooms);
	block_room_give(NULL, block_room_take(NULL));
}

Test(source, verify_in_borrowed_memory_passes_the_same_bytes)
{
	struct error err = ERROR_INIT;
	struct fault_source *f;
	struct image img;
	size_t n;

	image_make(&img, 1, 10, 8192, 10);
	lent = block_rooms_new();
	for (size_t piece = 1; piece <= 1000000; piece *= 10) {
		AUTO(block_source) s = verified(&img, piece, &f);

		cr_assert_eq(read_blocks(s, &img, 10, &n, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(n, 10);
	}
	block_rooms_free(lent);
	image_fini(&img);
}

Test(source, verify_stops_at_a_wrong_byte_and_names_the_block)
{
	struct error err = ERROR_INIT;
	char text[DIGEST_STR_MAX];
	struct fault_source *f;
	struct image img;
	struct block b;
	size_t n;

	image_make(&img, 1, 10, 8192, 10);
	blockmap_block(&img.map, 4, &b);
	digest_format(&b.digest, text);
	for (int piece = 100; piece <= 1000000; piece *= 100) {
		AUTO(block_source) s = verified(&img, (size_t)piece, &f);

		fault_set(f, &(struct fault_plan){ .n_wrong = 1,
						   .wrong_at = b.poff + 9 });
		cr_expect_eq(read_blocks(s, &img, 10, &n, &err), -EBADMSG);
		cr_expect_eq(n, 4);
		cr_expect(strstr(err.msg, text), "%s", err.msg);
		cr_expect_eq(fault_reads(f), 1);
	}
	image_fini(&img);
}

Test(source, blocks_that_do_not_follow_each_other_are_refused)
{
	static const struct block first = { .usize = 4, .csize = 4 };
	const struct block wrong[] = {
		{ .poff = 5, .usize = 4, .csize = 4 },
		{ .poff = 4, .usize = 4, .csize = 4, .pack = 1 },
		{ .poff = 4, .usize = 4, .csize = 5 },
		{ .poff = 4, .usize = 0, .csize = 0 },
		{ .poff = 4, .usize = BLOCK_USIZE_MAX + 1, .csize = 4 },
	};
	struct block_sink never = { .put = NULL };
	struct error err = ERROR_INIT;
	AUTO(block_source) s = NULL;

	cr_assert_eq(verify_source_new(memory_source_new("123456789", 9, 4), &s,
				       &err),
		     0);
	for (size_t k = 0; k < ARRAY_SIZE(wrong); k++) {
		const struct block b[] = { first, wrong[k] };
		struct block_req req = { .blocks = b, .n_blocks = 2 };

		cr_expect_eq(block_source_read(s, &req, &never, &err), -EINVAL,
			     "%zu", k);
	}
	cr_expect_eq(block_source_read(s, &(struct block_req){ .n_blocks = 0 },
				       &never, &err),
		     -EINVAL);
}
