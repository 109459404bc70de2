// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/tar_sparse.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"

TestSuite(tar_head, .timeout = 120);

#define BLOCK TAR_BLOCK

static void sum(uint8_t *h)
{
	unsigned int n = 0;

	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		n += h[i];
	(void)snprintf((char *)h + 148, 8, "%06o", n);
}

/* Append a header with a name and a size, and otherwise zeros. */
static uint8_t *add(struct buf *b, const char *name, char type, size_t size)
{
	uint8_t h[BLOCK] = { 0 };

	memcpy(h, name, strlen(name));
	(void)snprintf((char *)h + 124, 12, "%011o", (unsigned int)size);
	h[156] = (uint8_t)type;
	memcpy(h + 257, "ustar\00000", 8);
	sum(h);
	cr_assert_eq(buf_append(b, h, sizeof(h)), 0);
	return (uint8_t *)b->data + b->len - BLOCK;
}

/* Append a header in which one field has other bytes. */
static void add_field(struct buf *b, size_t at, const char *text, size_t len)
{
	uint8_t *h = add(b, "name", '0', 0);

	memcpy(h + at, text, len);
	sum(h);
}

/* Append an extended header, which precedes the entry's own. */
static void extend(struct buf *b, char type, const char *body)
{
	static const uint8_t zeros[BLOCK];
	size_t len = strlen(body);

	(void)add(b, "extended", type, len);
	cr_assert_eq(buf_append(b, body, len), 0);
	cr_assert_eq(buf_append(b, zeros, round_up(len, BLOCK) - len), 0);
}

static int parse(const struct buf *b, struct tar_head *h)
{
	struct error err = ERROR_INIT;
	uint64_t need = 0;
	int rc = tar_head_len((const uint8_t *)b->data, b->len, &need, &err);

	if (rc == 0 && need > b->len)
		return -EBADMSG;
	return rc == 0 ? tar_head_parse((const uint8_t *)b->data, need, h, &err)
		       : rc;
}

static bool is_text(const struct pax_text *t, const char *s)
{
	return t->len == strlen(s) && memcmp(t->data, s, t->len) == 0;
}

Test(tar_head, says_what_an_entry_is)
{
	AUTO_BUF b = BUF_INIT;
	struct tar_head h;

	extend(&b, 'x', "12 size=513\n14 mtime=-0.5\n11 uid=123\n");
	(void)add(&b, "file", '0', 3);
	cr_assert_eq(parse(&b, &h), 0);
	cr_expect_eq(h.size, 513, "the record is what counts");
	cr_expect_eq(h.stored, 513);
	cr_expect_eq(h.uid, 123);
	cr_expect(is_text(&h.name, "file"));
	cr_expect_eq(h.mtime, -1);
	cr_expect_eq(h.mtime_nsec, 500000000);
}

Test(tar_head, gives_content_to_files_only)
{
	static const char types[] = "123456";

	for (size_t i = 0; i < strlen(types); i++) {
		AUTO_BUF b = BUF_INIT;
		struct tar_head h;

		extend(&b, 'x', "12 size=512\n");
		(void)add(&b, "thing", types[i], 1024);
		cr_assert_eq(parse(&b, &h), 0);
		cr_expect_eq(h.stored, 0, "%c", types[i]);
	}
}

Test(tar_head, heeds_no_size_but_the_one_in_the_archive)
{
	static const char *const records[] = {
		"27 GNU.sparse.realsize=512\n",
		"23 GNU.sparse.size=512\n",
		"23 SCHILY.realsize=512\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		AUTO_BUF b = BUF_INIT;
		struct tar_head h;

		extend(&b, 'x', records[i]);
		(void)add(&b, "notes/", '0', 1536);
		cr_assert_eq(parse(&b, &h), 0, "%s", records[i]);
		cr_expect_eq(h.size, 1536);
		cr_expect_eq(h.type, '0');
		cr_expect_eq(h.sparse, TAR_DENSE);
	}
}

Test(tar_head, knows_sparse_files_of_gnu)
{
	AUTO_BUF b = BUF_INIT;
	struct tar_head h;

	extend(&b, 'x',
	       "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
	       "21 GNU.sparse.name=n\n28 GNU.sparse.realsize=9999\n");
	(void)add(&b, "GNUSparseFile.0/n", '0', 1024);
	cr_assert_eq(parse(&b, &h), 0);
	cr_expect_eq(h.sparse, TAR_SPARSE_CONTENT);
	cr_expect_eq(h.size, 9999);
	cr_expect_eq(h.stored, 1024);
	cr_expect(is_text(&h.name, "n"));
}

Test(tar_head, knows_an_old_sparse_file_and_the_blocks_of_its_map)
{
	struct tar_parts parts = { .v = NULL };
	struct error err = ERROR_INIT;
	AUTO_BUF b = BUF_INIT;
	uint8_t block[BLOCK] = "00000002000", *h = add(&b, "old", 'S', 512);
	struct tar_head head;

	memcpy(h + 257, "ustar  ", 8);
	h[482] = 1; /* one block of the map follows, and no other */
	memcpy(h + 483, "00000007777", 12);
	sum(h);
	memcpy(block + 12, "00000001000", 12);
	cr_expect_eq(parse(&b, &head), -EBADMSG, "that block is not there");
	cr_assert_eq(buf_append(&b, block, sizeof(block)), 0);
	cr_assert_eq(parse(&b, &head), 0);
	cr_expect_eq(head.size, 07777);
	cr_assert_eq(tar_parts_of_head(&parts, &head, &err), 0);
	cr_assert_eq(parts.n, 1);
	cr_expect_eq(parts.v[0].off, 02000);
	cr_expect_eq(parts.v[0].len, 512);
	tar_parts_fini(&parts);
}

Test(tar_head, makes_a_folder_of_a_slash_without_a_flag)
{
	struct tar_head h;
	AUTO_BUF b = BUF_INIT;

	(void)add(&b, "d/", '\0', 512);
	cr_assert_eq(parse(&b, &h), 0);
	cr_expect_eq(h.type, '5');
	cr_expect_eq(h.stored, 0);
}

Test(tar_head, joins_a_prefix_and_a_name)
{
	AUTO_BUF b = BUF_INIT;
	struct tar_head h;

	add_field(&b, 345, "bin", 3);
	cr_assert_eq(parse(&b, &h), 0);
	cr_expect(is_text(&h.prefix, "bin"));
	cr_expect(is_text(&h.name, "name"));
}

/* Attributes that libarchive reads as 0, or not at all. */
Test(tar_head, reads_attributes_as_go_does)
{
	static const struct {
		const char *records;
		size_t at;
		const char *field;
		size_t len;
		uint32_t uid, mode;
	} cases[] = {
		{ "7 uid=\n", 108, "0001750", 8, 1000, 0 },
		{ NULL, 108, "\0001750 ", 6, 1000, 0 },
		{ NULL, 108, "\x80\0\0\0\0\0\x03\xe8", 8, 1000, 0 },
		{ NULL, 100, "\0004755\0", 6, 0, 04755 },
		{ NULL, 100, "0104755", 8, 0, 04755 },
		{ "11 uid=123\n", 108, "0001750", 8, 123, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF b = BUF_INIT;
		struct tar_head h;

		if (cases[i].records)
			extend(&b, 'x', cases[i].records);
		add_field(&b, cases[i].at, cases[i].field, cases[i].len);
		cr_assert_eq(parse(&b, &h), 0, "%zu", i);
		cr_expect_eq(h.uid, cases[i].uid, "%zu", i);
		cr_expect_eq(h.mode, cases[i].mode, "%zu", i);
	}
}

Test(tar_head, refuses_what_readers_take_in_different_ways)
{
	static const struct {
		char types[3];
		const char *bodies[2];
		char type;
		int rc;
	} bad[] = {
		{ "xx", { "11 size=51\n", "11 size=52\n" }, '0', -EINVAL },
		{ "LL", { "a", "b" }, '0', -EINVAL },
		{ "L", { "" }, '5', -EINVAL },
		{ "K", { "" }, '2', -EINVAL },
		{ "x", { "12 size=512\n" }, 'g', -EINVAL },
		{ "xL", { "10 path=a\n", "b" }, '0', -EINVAL },
		{ "xK", { "14 linkpath=a\n", "b" }, '2', -EINVAL },
		{ "x",
		  { "22 GNU.sparse.major=2\n22 GNU.sparse.minor=0\n" },
		  '0',
		  -EINVAL },
		{ "x",
		  { "20 GNU.sparse.map=0\n20 GNU.sparse.map=1\n" },
		  '0',
		  -EINVAL },
		{ "x",
		  { "20 GNU.sparse.map=0\n23 GNU.sparse.offset=0\n" },
		  '0',
		  -EINVAL },
		{ "x", { "19 SUN.holesdata=1\n" }, '0', -EINVAL },
		{ "x", { "11 size=-1\n" }, '0', -EBADMSG },
		{ "x", { "10 uid=+5\n" }, '0', -EBADMSG },
		{ "x", { "12 size=512\nx" }, '0', -EBADMSG },
		{ "", { NULL }, 'g', -EINVAL },
		{ "", { NULL }, '7', -ENOTSUP },
		{ "", { NULL }, 'V', -ENOTSUP },
		{ "", { NULL }, 'X', -ENOTSUP },
		{ "", { NULL }, 'S', -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_BUF b = BUF_INIT;
		struct tar_head h;

		for (size_t k = 0; bad[i].types[k]; k++)
			extend(&b, bad[i].types[k], bad[i].bodies[k]);
		(void)add(&b, "usr/bin/.wh.tool", bad[i].type, 0);
		cr_expect_eq(parse(&b, &h), bad[i].rc, "%zu", i);
	}
}

Test(tar_head, takes_a_header_for_the_whole_archive_by_its_usual_name)
{
	static const struct {
		const char *name;
		int rc;
	} names[] = { { "pax_global_header", 0 },
		      { "/tmp/GlobalHead.12.1", -EINVAL },
		      { "usr/bin/pax_global_header", -EINVAL },
		      { "pax_global_header-su", -EINVAL } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_BUF b = BUF_INIT;
		struct tar_head h;

		(void)add(&b, names[i].name, 'g', 0);
		cr_expect_eq(parse(&b, &h), names[i].rc, "%s", names[i].name);
	}
}

Test(tar_head, takes_headers_that_are_cut_off)
{
	AUTO_BUF b = BUF_INIT;
	struct tar_head h;
	size_t whole;

	extend(&b, 'x', "12 size=512\n");
	(void)add(&b, "name", '0', 0);
	whole = b.len;
	for (b.len = 0; b.len < whole; b.len++)
		cr_expect_eq(parse(&b, &h), -EBADMSG, "%zu", b.len);
}

Test(tar_head, refuses_a_sum_that_is_not_the_headers)
{
	AUTO_BUF b = BUF_INIT;
	struct tar_head h;

	*add(&b, "name", '0', 0) = 'N';
	cr_expect_eq(parse(&b, &h), -EBADMSG);
}

Test(tar_head, reads_maps_before_the_content)
{
	static const char map[] = "2\n0\n512\n4096\n512\n";
	struct tar_parts p = { .v = NULL };
	struct error err = ERROR_INIT;
	uint8_t block[BLOCK] = { 0 };
	uint64_t used = 0;

	memcpy(block, map, strlen(map));
	for (size_t n = 0; n < strlen(map); n++)
		cr_expect_eq(tar_parts_of_content(&p, 8192, block, n, &used,
						  &err),
			     0, "%zu", n);
	cr_expect_eq(tar_parts_of_content(&p, 8192, block, BLOCK, &used, &err),
		     1);
	cr_expect_eq(used, BLOCK);
	cr_expect_eq(tar_parts_sum(&p), 1024);
	/* Parts that end after the file's end, or that are out of order. */
	cr_expect_eq(tar_parts_of_content(&p, 4096, block, BLOCK, &used, &err),
		     -EBADMSG);
	memcpy(block, "2\n4096\n512\n0\n512\n", strlen(map));
	cr_expect_eq(tar_parts_of_content(&p, 8192, block, BLOCK, &used, &err),
		     -EBADMSG);
	tar_parts_fini(&p);
}
