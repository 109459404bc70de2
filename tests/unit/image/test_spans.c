// SPDX-License-Identifier: Apache-2.0
/* Layers of all kinds, entered at their spans: what is read is what was packed. */
#include "image/spans/spans.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <zlib.h>

#include "blockstore/blockmap_format.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "image/spans/span_cache.h"
#include "image/tree.h"
#include "tests/fakes/fault_source.h"

TestSuite(spans, .timeout = 300);

static struct error err;

/* --------------------------------------------------------------- layers --- */

/* Text that refers to what is up to 32 KiB before it, of a seed. */
static void make_plain(struct buf *to, size_t len, uint32_t seed)
{
	static const char *const words[] = { "import ", "self.",  "return ",
					     "def ",    "class ", "None, " };

	while (to->len < len) {
		seed = seed * 1664525 + 1013904223;
		if (to->len > 40000 && seed >> 28 == 0) {
			char copy[300];

			memcpy(copy, to->data + to->len - 1 - seed % 32768,
			       sizeof(copy));
			cr_assert_eq(buf_append(to, copy, 20 + seed % 280), 0);
		} else if (seed >> 28 < 8) {
			cr_assert_eq(buf_puts(to, words[seed >> 16 & 3]), 0);
		} else {
			cr_assert_eq(buf_append(to, &seed, 3), 0);
		}
	}
	to->len = len;
}

/* Append a member with these settings, flushed each `every` bytes (0: never). */
static void add_member(struct buf *to, const void *plain, size_t len, int level,
		       int strategy, size_t every, gz_header *header)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)plain };
	size_t room = len + len / 8 + 4096;
	int rc;

	cr_assert_eq(deflateInit2(&z, level, Z_DEFLATED, 31, 8, strategy),
		     Z_OK);
	if (header)
		cr_assert_eq(deflateSetHeader(&z, header), Z_OK);
	cr_assert_eq(buf_reserve(to, room), 0);
	z.next_out = (Bytef *)to->data + to->len;
	z.avail_out = (uInt)room;
	do {
		size_t n = every && every < len ? every : len;

		z.avail_in = (uInt)n;
		len -= n;
		rc = deflate(&z, len ? Z_FULL_FLUSH : Z_FINISH);
	} while (len);
	cr_assert_eq(rc, Z_STREAM_END);
	to->len += room - z.avail_out;
	(void)deflateEnd(&z);
}

struct layer_case {
	struct buf plain, stored;
	struct span_set *set;
	struct inode file;
	struct extent extent;
	void *bytes; /* of the map */
	struct blockmap map;
	struct buf windows;
};

/* Unpack and find spans, `piece` bytes of input at a time. */
static int find_spans(struct layer_case *c, size_t piece)
{
	const struct digest none = { .b = { 1 } };
	AUTO_FREE uint8_t *out = malloc(65536);
	struct span_gzip *g;
	uint64_t at = 0;
	bool inside = false;
	int rc;

	cr_assert_eq(span_set_new(NULL, &c->set, &err), 0, "%s", err.msg);
	cr_assert_eq(span_set_begin_layer(c->set, &none, c->stored.len, &err),
		     0);
	g = span_gzip_new(c->set);
	cr_assert_not_null(g);
	rc = 0;
	for (size_t off = 0; rc == 0 && off < c->stored.len; off += piece) {
		const uint8_t *in = (uint8_t *)c->stored.data + off;
		size_t len = c->stored.len - off, n = 1;

		len = len < piece ? len : piece;
		while (rc == 0 && (len || (n && inside))) {
			rc = span_gzip_run(g, &in, &len, out, 65536, &n,
					   &inside, &err);
			if (rc < 0)
				break;
			cr_assert_leq(at + n, c->plain.len);
			cr_assert_arr_eq(out, c->plain.data + at, n);
			at += n;
		}
	}
	span_gzip_free(g);
	if (rc == 0 && (inside || at != c->plain.len))
		rc = -ENODATA;
	return rc < 0 ? rc : span_set_end_layer(c->set, at, &err);
}

/* The map of one file that is the whole layer, in blocks of a mebibyte. */
static void make_map(struct layer_case *c)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	size_t n = (c->plain.len + MIB - 1) / MIB, len;
	AUTO_FREE struct block *blocks = calloc(n, sizeof(*blocks));
	struct pack windows;
	int fd;

	c->extent = (struct extent){ .len = c->plain.len };
	c->file = (struct inode){ .data = INODE_DATA_EXTENTS,
				  .size = c->plain.len,
				  .extents = &c->extent,
				  .n_extents = 1 };
	cr_assert_eq(span_set_add_file(c->set, &c->file, 0, c->plain.len, 0, 0,
				       &err),
		     0);
	cr_assert_eq(span_set_windows(c->set, &windows, &fd, &err), 0);
	cr_assert_eq(buf_reserve(&c->windows, windows.size + 1), 0);
	cr_assert_eq(fs_pread_full(fd, c->windows.data, windows.size, 0), 0);
	c->windows.len = windows.size;
	for (size_t i = 0; i < n; i++) {
		uint64_t left = c->plain.len - i * MIB;

		blocks[i].voff = blocks[i].poff = i * MIB;
		blocks[i].usize = (uint32_t)(left < MIB ? left : MIB);
		blocks[i].csize = blocks[i].usize;
		cr_assert_eq(blockmap_writer_block(w, &blocks[i], &err), 0);
	}
	cr_assert_eq(span_set_finish(c->set, w, blocks, n, &err), 0);
	cr_assert_eq(blockmap_writer_finish(w, n * MIB, &c->bytes, &len, &err),
		     0, "%s", err.msg);
	cr_assert_eq(blockmap_open(c->bytes, len, &c->map, &err), 0);
}

static struct source *open_content(struct layer_case *c,
				   struct span_cache *cache,
				   struct source *stored)
{
	struct source *packs[2] = { stored, NULL }, *content;

	if (c->map.n_packs == 2)
		packs[1] = memory_source_new(c->windows.data, c->windows.len,
					     1000);
	cr_assert_eq(span_source_new(&c->map, packs, cache, &content, &err), 0);
	return content;
}

/* All of it at once, then from places that lie on no boundary. */
static void check_content(struct layer_case *c)
{
	AUTO(span_cache) cache = span_cache_new(3 * MIB);
	AUTO_FREE uint8_t *got = malloc(c->plain.len + 1);
	struct source *s = open_content(c, cache,
					memory_source_new(c->stored.data,
							  c->stored.len, 7777));

	cr_assert_eq(source_read_buf(s, 0, got, c->plain.len, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(memcmp(got, c->plain.data, c->plain.len), 0);
	for (size_t k = 1; k < 40; k++) {
		size_t off = k * 2654435761u % c->plain.len;
		size_t len = c->plain.len - off;

		len = len < 150000 ? len : 150000;
		cr_assert_eq(source_read_buf(s, off, got, len, &err), 0, "%s",
			     err.msg);
		cr_assert_eq(memcmp(got, c->plain.data + off, len), 0);
	}
	source_free(s);
}

static void end_case(struct layer_case *c)
{
	span_set_free(c->set);
	free(c->bytes);
	buf_fini(&c->plain);
	buf_fini(&c->stored);
	buf_fini(&c->windows);
}

/* The same layer in pieces of another size has the same spans. */
static void check_layer(struct layer_case *c, size_t n_spans)
{
	struct layer_case again = { .plain = c->plain, .stored = c->stored };
	uint64_t sent;

	cr_assert_eq(find_spans(c, 100003), 0, "%s", err.msg);
	make_map(c);
	cr_expect_geq(c->map.n_spans, n_spans + 1);
	check_content(c);
	/* The bytes that an origin is believed to send are about those that it sends. */
	sent = blockmap_sent(&c->map, c->plain.len);
	cr_expect_leq(sent, c->stored.len + c->plain.len / 16);
	cr_expect_geq(sent + c->plain.len / 16, c->stored.len);
	cr_assert_eq(find_spans(&again, 4099), 0, "%s", err.msg);
	make_map(&again);
	cr_assert_eq(again.map.len, c->map.len);
	cr_expect_eq(memcmp(again.map.data, c->map.data, c->map.len), 0);
	cr_expect_eq(again.windows.len, c->windows.len);
	cr_expect_eq(memcmp(again.windows.data, c->windows.data,
			    c->windows.len),
		     0);
	again.plain = again.stored = (struct buf)BUF_INIT;
	end_case(&again);
	end_case(c);
}

Test(spans, of_a_gzip_layer_are_entered_by_small_windows)
{
	struct layer_case c = { .map = { .n_packs = 0 } };

	make_plain(&c.plain, 6 * MIB + 12345, 1);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	check_layer(&c, 10);
}

Test(spans, of_stored_blocks_need_no_window)
{
	struct layer_case c = { .map = { .n_packs = 0 } };

	make_plain(&c.plain, 3 * MIB, 2);
	add_member(&c.stored, c.plain.data, c.plain.len, 0, 0, 0, NULL);
	check_layer(&c, 5);
}

Test(spans, of_fixed_codes_and_of_flushed_streams_are_right)
{
	struct layer_case c = { .map = { .n_packs = 0 } };

	make_plain(&c.plain, 3 * MIB, 3);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, Z_FIXED, 131072,
		   NULL);
	check_layer(&c, 5);
}

Test(spans, of_zeros_are_right)
{
	struct layer_case c = { .map = { .n_packs = 0 } };

	cr_assert_eq(buf_reserve(&c.plain, 40 * MIB), 0);
	memset(c.plain.data, 0, 40 * MIB);
	c.plain.len = 40 * MIB;
	add_member(&c.stored, c.plain.data, c.plain.len, 9, 0, 0, NULL);
	check_layer(&c, 2);
}

Test(spans, of_many_members_with_all_header_fields_are_right)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	char extra[] = "extra", name[] = "name", comment[] = "comment";
	gz_header h = { .text = 1,
			.extra = (Bytef *)extra,
			.extra_len = 5,
			.name = (Bytef *)name,
			.comment = (Bytef *)comment,
			.hcrc = 1 };
	size_t at = 0;

	make_plain(&c.plain, 3 * MIB, 4);
	for (size_t k = 0; at < c.plain.len; k++) {
		size_t n = k % 5 ? k * 811 % 9000 : 0;

		n = n < c.plain.len - at ? n : c.plain.len - at;
		n = k % 50 == 7 && c.plain.len - at > 900000 ? 700000 : n;
		add_member(&c.stored, c.plain.data + at, n, 6, 0, 0,
			   k % 2 ? &h : NULL);
		at += n;
	}
	check_layer(&c, 5);
}

/* ---------------------------------------------------------------- hostile --- */

/* Bits into a buffer, as deflate has them. */
struct bits {
	struct buf to;
	uint32_t have, n;
};

static void put_bits(struct bits *b, uint32_t value, unsigned int n)
{
	b->have |= value << b->n;
	for (b->n += n; b->n >= 8; b->n -= 8, b->have >>= 8) {
		uint8_t byte = (uint8_t)b->have;

		cr_assert_eq(buf_append(&b->to, &byte, 1), 0);
	}
}

/* Append a block of fixed codes that unpacks to 258 * n + 1 zeros. */
static void add_bomb(struct buf *to, size_t n)
{
	static const uint8_t head[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
	struct bits b = { .n = 0 };

	cr_assert_eq(buf_append(&b.to, head, sizeof(head)), 0);
	put_bits(&b, 3, 3); /* the last, fixed codes */
	put_bits(&b, 0x0c, 8);
	for (size_t k = 0; k < n; k++) {
		put_bits(&b, 0xa3, 8); /* 258 bytes */
		put_bits(&b, 0, 5);    /* one byte back */
	}
	put_bits(&b, 0, 7);
	put_bits(&b, 0, 7);
	cr_assert_eq(buf_append(to, b.to.data, b.to.len), 0);
	buf_fini(&b.to);
}

Test(spans, a_block_that_is_too_large_to_be_entered_is_refused)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	size_t n = SPAN_PLAIN_MAX / 258 + 1;

	cr_assert_eq(buf_reserve(&c.plain, 258 * n + 1), 0);
	memset(c.plain.data, 0, 258 * n + 1);
	c.plain.len = 258 * n + 1;
	add_bomb(&c.stored, n);
	for (uint32_t k = 0; k < 2; k++) {
		uint8_t le[4];

		put_le32(le, k ? (uint32_t)c.plain.len
			       : (uint32_t)crc32(0, (Bytef *)c.plain.data,
						 (uInt)c.plain.len));
		cr_assert_eq(buf_append(&c.stored, le, 4), 0);
	}
	cr_expect_eq(find_spans(&c, 5000), -ENOTSUP);
	cr_expect(strstr(err.msg, "cannot be indexed"), "%s", err.msg);
	end_case(&c);
}

Test(spans, streams_that_are_cut_or_damaged_are_refused)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	size_t whole;

	make_plain(&c.plain, 2 * MIB, 5);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	whole = c.stored.len;
	c.stored.len = whole - 3;
	cr_expect_eq(find_spans(&c, 5000), -ENODATA);
	span_set_free(steal_ptr(&c.set));
	c.stored.len = whole;
	c.stored.data[whole - 7] ^= 1; /* the checksum */
	cr_expect_eq(find_spans(&c, 5000), -EBADMSG);
	span_set_free(steal_ptr(&c.set));
	c.stored.data[whole - 7] ^= 1;
	cr_assert_eq(buf_puts(&c.stored, "garbage behind it"), 0);
	cr_expect_eq(find_spans(&c, 5000), -EBADMSG);
	end_case(&c);
}

/* Every record of the map in turn says something else. */
Test(spans, a_map_that_lies_is_refused_or_gives_other_bytes_and_harms_nothing)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	AUTO(span_cache) cache = span_cache_new(3 * MIB);
	AUTO_FREE uint8_t *got = NULL;
	uint8_t *bytes;
	size_t tail;

	make_plain(&c.plain, 2 * MIB, 6);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	cr_assert_eq(find_spans(&c, 5000), 0);
	make_map(&c);
	got = malloc(c.plain.len);
	bytes = c.bytes;
	tail = c.map.len - 40 * c.map.n_spans - 24 * c.map.n_places;
	for (size_t at = 0; at < c.map.len; at += at < tail ? 31 : 1) {
		static const uint8_t flips[] = { 1, 0x80, 0xff };

		for (size_t k = 0; k < sizeof(flips); k++) {
			struct layer_case lie = c;

			bytes[at] ^= flips[k];
			if (blockmap_open(bytes, c.map.len, &lie.map, &err) ==
				    0 &&
			    lie.map.n_packs == c.map.n_packs &&
			    lie.map.content_size <= c.plain.len) {
				struct source *s = open_content(
					&lie, cache,
					memory_source_new(c.stored.data,
							  c.stored.len, 65536));

				(void)!source_read_buf(s, 0, got,
						       lie.map.content_size,
						       &err);
				source_free(s);
			}
			bytes[at] ^= flips[k];
		}
	}
	end_case(&c);
}

Test(spans, content_longer_than_all_blocks_is_refused)
{
	struct layer_case c = { .map = { .n_packs = 0 } };

	make_plain(&c.plain, MIB + 5000, 9);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	cr_assert_eq(find_spans(&c, 50000), 0);
	make_map(&c);
	put_le64((uint8_t *)c.bytes + HEADER_CONTENT, c.plain.len + 1);
	cr_expect_eq(blockmap_open(c.bytes, c.map.len, &c.map, &err), -EINVAL);
	cr_expect(strstr(err.msg, "more than all blocks"), "%s", err.msg);
	end_case(&c);
}

/* A window is claimed twice, and the first of these expels what it brought. */
Test(spans, that_are_expelled_while_they_are_loaded_leave_no_memory)
{
	AUTO(span_cache) cache = span_cache_new(MIB);
	uint64_t owner = span_cache_owner(cache);
	struct span_room *room = NULL, *other = NULL;

	cr_assert_eq(span_cache_claim(cache, owner, 1, SOURCE_COLD, &room),
		     SPAN_CLAIMED);
	cr_assert_eq(span_cache_claim(cache, owner, 1, SOURCE_DEMAND, &other),
		     SPAN_CLAIMED);
	room = span_cache_put(cache, owner, 1, SOURCE_COLD, malloc(1000), 1000);
	cr_assert_not_null(room);
	span_cache_expel(cache, owner, 1);
	/* A reader that holds the room keeps its bytes. */
	memset(room->data, 0, room->len);
	span_cache_give(cache, room);
	other = span_cache_put(cache, owner, 1, SOURCE_DEMAND, malloc(1000),
			       1000);
	cr_assert_not_null(other);
	span_cache_give(cache, other);
	cr_expect_eq(span_cache_bytes(cache), 1000);
	span_cache_expel(cache, owner, 1);
	cr_expect_eq(span_cache_bytes(cache), 0);
	span_cache_forget(cache, owner);
	cr_expect_eq(span_cache_bytes(cache), 0);
}

Test(spans, are_not_awaited_from_whoever_is_less_urgent)
{
	AUTO(span_cache) cache = span_cache_new(MIB);
	uint64_t owner = span_cache_owner(cache);
	struct span_room *room;

	cr_expect_eq(span_cache_claim(cache, owner, 1, SOURCE_COLD, &room),
		     SPAN_CLAIMED);
	cr_expect_eq(span_cache_claim(cache, owner, 1, SOURCE_DEMAND, &room),
		     SPAN_CLAIMED);
	cr_expect_eq(span_cache_claim(cache, owner, 1, SOURCE_HOT, &room),
		     SPAN_AWAITED);
	/* The urgent one has failed. */
	span_cache_drop(cache, owner, 1, SOURCE_DEMAND);
	cr_expect_eq(span_cache_claim(cache, owner, 1, SOURCE_COLD, &room),
		     SPAN_AWAITED);
	cr_expect_eq(span_cache_claim(cache, owner, 1, SOURCE_HOT, &room),
		     SPAN_CLAIMED);
}

/* ----------------------------------------------------------------- reading --- */

struct reader {
	const struct layer_case *c;
	struct source *s;
	size_t first;
	int rc;
};

/* Pieces of 64 KiB, in an order of its own. */
static void *read_all(void *arg)
{
	struct reader *r = arg;
	size_t n = r->c->plain.len / 65536;
	AUTO_FREE uint8_t *got = malloc(65536);

	for (size_t k = 0; r->rc == 0 && k < n; k++) {
		size_t off = (r->first + k * 5) % n * 65536;

		r->rc = source_read_buf(r->s, off, got, 65536, NULL);
		if (r->rc == 0 &&
		    memcmp(got, r->c->plain.data + off, 65536) != 0)
			r->rc = -EBADMSG;
	}
	return NULL;
}

Test(spans, are_fetched_once_however_many_read_them)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	AUTO(span_cache) cache = span_cache_new(64 * MIB);
	struct fault_source *stored;
	struct reader readers[4];
	pthread_t threads[4];
	struct source *s;

	make_plain(&c.plain, 6 * MIB, 7);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	cr_assert_eq(find_spans(&c, 50000), 0);
	make_map(&c);
	stored = fault_source_new(
		memory_source_new(c.stored.data, c.stored.len, 10000));
	s = open_content(&c, cache, &stored->base);
	for (size_t k = 0; k < 4; k++) {
		readers[k] = (struct reader){ .c = &c, .s = s, .first = k * 7 };
		cr_assert_eq(pthread_create(&threads[k], NULL, read_all,
					    &readers[k]),
			     0);
	}
	for (size_t k = 0; k < 4; k++) {
		cr_assert_eq(pthread_join(threads[k], NULL), 0);
		cr_expect_eq(readers[k].rc, 0);
	}
	/* A byte that two spans begin and end in is fetched for both. */
	cr_expect_leq(stored->n_bytes, c.stored.len + c.map.n_spans);
	source_free(s);
	end_case(&c);
}

Test(spans, that_could_not_be_fetched_are_asked_for_again)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	AUTO(span_cache) cache = span_cache_new(64 * MIB);
	const struct fault_plan plan = { .n_fail = 2,
					 .fail_rc = -EIO,
					 .fail_after = 100 };
	struct fault_source *stored;
	AUTO_FREE uint8_t *got = NULL;
	struct source *s;

	make_plain(&c.plain, 2 * MIB, 8);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	cr_assert_eq(find_spans(&c, 50000), 0);
	make_map(&c);
	got = malloc(c.plain.len);
	stored = fault_source_new(
		memory_source_new(c.stored.data, c.stored.len, 10000));
	fault_set(stored, &plan);
	s = open_content(&c, cache, &stored->base);
	for (int k = 0; k < 2; k++) {
		cr_expect_eq(source_read_buf(s, 0, got, c.plain.len, &err),
			     -EIO);
		cr_expect(strstr(err.msg, "layer sha256:"), "%s", err.msg);
	}
	cr_expect_eq(source_read_buf(s, 0, got, c.plain.len, &err), 0);
	cr_expect_eq(memcmp(got, c.plain.data, c.plain.len), 0);
	source_free(s);
	end_case(&c);
}

static int refuse_bytes(struct source_sink *sink, uint64_t pos,
			const void *data, size_t len, struct error *e)
{
	(void)sink;
	(void)data;
	return pos + len < MIB ? 0 : error_set(e, EBADMSG, "a wrong digest");
}

Test(spans, that_a_reader_refuses_are_fetched_again)
{
	struct layer_case c = { .map = { .n_packs = 0 } };
	AUTO(span_cache) cache = span_cache_new(64 * MIB);
	struct source_sink sink = { .put = refuse_bytes };
	struct source_req req = { .len = 2 * MIB };
	struct fault_source *stored;
	struct source *s;
	uint64_t once;

	make_plain(&c.plain, 2 * MIB, 10);
	add_member(&c.stored, c.plain.data, c.plain.len, 6, 0, 0, NULL);
	cr_assert_eq(find_spans(&c, 50000), 0);
	make_map(&c);
	stored = fault_source_new(
		memory_source_new(c.stored.data, c.stored.len, 10000));
	s = open_content(&c, cache, &stored->base);
	cr_expect_eq(source_read(s, &req, &sink, &err), -EBADMSG);
	cr_expect_eq(span_cache_bytes(cache), 0);
	once = stored->n_bytes;
	cr_expect_eq(source_read(s, &req, &sink, &err), -EBADMSG);
	cr_expect_eq(stored->n_bytes, 2 * once);
	source_free(s);
	end_case(&c);
}
