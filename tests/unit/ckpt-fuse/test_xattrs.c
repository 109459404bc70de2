// SPDX-License-Identifier: Apache-2.0
/* Tests lists of extended attributes, and manifests with them. */
#include "ckpt-fuse/xattrs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "ckpt-fuse/manifest.h"

TestSuite(xattrs, .timeout = 120);

/* Made by hand from docs/formats/checkpoint.md. */
static const uint8_t golden[] = { 6,   0,   1,   0,   0,   0,   'u', 's', 'e',
				  'r', '.', 'a', '1', 7,   0,   0,   0,   0,
				  0,   'u', 's', 'e', 'r', '.', 'b', 'b' };

static int change(struct buf *l, const char *name, const char *value)
{
	struct xattr_change c = { .name = name,
				  .value = value,
				  .len = value ? strlen(value) : 0 };

	return xattrs_change(l, &c, NULL);
}

static void expect(const struct buf *l, const char *name, const char *want)
{
	const void *value;
	size_t len;
	int rc = xattrs_get(l->data, l->len, name, &value, &len);

	if (!want) {
		cr_expect_eq(rc, -ENODATA, "%s", name);
		return;
	}
	cr_assert_eq(rc, 0, "%s", name);
	cr_expect_eq(len, strlen(want));
	cr_expect_eq(memcmp(value, want, len), 0, "%s", name);
}

Test(xattrs, are_the_golden_bytes_in_whatever_order_they_are_set)
{
	AUTO_BUF l = BUF_INIT;

	cr_assert_eq(change(&l, "user.bb", ""), 0);
	cr_assert_eq(change(&l, "user.c", "gone"), 0);
	cr_assert_eq(change(&l, "user.a", "old value"), 0);
	cr_assert_eq(change(&l, "user.a", "1"), 0);
	cr_assert_eq(change(&l, "user.c", NULL), 0);
	cr_assert_eq(l.len, sizeof(golden));
	cr_expect_arr_eq(l.data, golden, sizeof(golden));
	cr_expect(xattrs_are_valid(l.data, l.len));
	expect(&l, "user.a", "1");
	expect(&l, "user.bb", "");
	expect(&l, "user.b", NULL);
	expect(&l, "user.c", NULL);
}

Test(xattrs, are_listed_by_name)
{
	AUTO_BUF names = BUF_INIT;

	cr_assert_eq(xattrs_names(golden, sizeof(golden), &names), 0);
	cr_assert_eq(names.len, 15);
	cr_expect_arr_eq(names.data, "user.a\0user.bb", 15);
}

Test(xattrs, are_refused_when_they_are_too_many_or_of_other_names)
{
	static char big[XATTRS_MAX + 1];
	AUTO_BUF l = BUF_INIT;
	struct xattr_change c = { .name = "user.big", .value = big };

	c.len = XATTRS_MAX - 6 - 8;
	cr_expect_eq(xattrs_change(&l, &c, NULL), 0);
	cr_expect_eq(l.len, XATTRS_MAX);
	cr_expect_eq(change(&l, "user.a", ""), -ENOSPC);
	/* Replace an existing value. */
	cr_expect_eq(xattrs_change(&l, &c, NULL), 0);
	c.len++;
	cr_expect_eq(xattrs_change(&l, &c, NULL), -ENOSPC);
	cr_expect_eq(change(&l, "user.big", NULL), 0);
	cr_expect_eq(l.len, 0);
	cr_expect_eq(change(&l, "user.big", NULL), -ENODATA);
	cr_expect_eq(change(&l, "user.", "1"), -EOPNOTSUPP);
	cr_expect_eq(change(&l, "trusted.a", "1"), -EOPNOTSUPP);
}

Test(xattrs, that_nothing_here_wrote_are_not_valid)
{
	uint8_t p[sizeof(golden)];
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = { { 0, 7 },  { 0, 0 },    { 2, 200 }, { 6, 'U' },
		      { 11, 0 }, { 11, 'c' }, { 13, 8 },  { 15, 1 } };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		memcpy(p, golden, sizeof(p));
		p[wrong[i].at] = wrong[i].value;
		cr_expect(!xattrs_are_valid(p, sizeof(p)), "%zu", i);
	}
	for (size_t len = 1; len < sizeof(golden); len++)
		cr_expect_eq(xattrs_are_valid(golden, len), len == 13, "%zu",
			     len);
}

Test(xattrs, lie_in_a_manifest_of_version_2)
{
	struct manifest *m, *back;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(manifest_new(0, 0, &m, NULL), 0);
	m->chunk_size = 4096;
	m->unit_chunks = 1;
	cr_assert_eq(buf_append(&m->xattrs, golden, sizeof(golden)), 0);
	cr_assert_eq(manifest_encode(m, &out, NULL), 0);
	cr_assert_eq(out.len, MANIFEST_HEADER + sizeof(golden) + 16);
	cr_expect_eq(out.data[8], 2);
	cr_expect_eq(out.data[72], sizeof(golden));
	cr_assert_eq(manifest_decode(out.data, out.len, &back, NULL), 0);
	cr_assert_eq(back->xattrs.len, sizeof(golden));
	cr_expect_arr_eq(back->xattrs.data, golden, sizeof(golden));
	manifest_free(back);
	manifest_free(m);
}
