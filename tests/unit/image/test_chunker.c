// SPDX-License-Identifier: Apache-2.0
#include "image/writer/chunker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/digest.h"

TestSuite(chunker, .timeout = 120);

#define DEVICE_MAX (64u << 20)

/* A device in memory, and where it was cut. */
struct device {
	struct chunk_sink sink;
	uint8_t *bytes;
	uint64_t end;
	size_t n;
	struct digest digests[4096];
};

static int put(struct chunk_sink *s, uint64_t voff, uint8_t **buf, uint32_t len,
	       struct error *err)
{
	struct device *d = container_of(s, struct device, sink);
	const struct chunk_params *p = &chunk_params;

	cr_assert_eq(voff % 4096, 0);
	cr_assert_eq(voff, d->end, "blocks follow each other");
	cr_assert(len > 0 && len <= chunk_buffer_size(p));
	memcpy(d->bytes + voff, *buf, len);
	cr_assert_eq(digest_of(*buf, len, &d->digests[d->n++]), 0);
	d->end = round_up(voff + len, 4096);
	/* The buffer may be exchanged. */
	free(*buf);
	*buf = malloc(chunk_buffer_size(p));
	return 0;
}

static struct tree *tree;
static struct chunker *chunker;
static struct device dev;
static struct error err;

static void setup(void)
{
	tree = tree_new();
	dev = (struct device){ .sink.put = put };
	dev.bytes = calloc(1, DEVICE_MAX);
	cr_assert(tree && dev.bytes);
	cr_assert_eq(chunker_new(&chunk_params, tree, NULL, &dev.sink, &chunker,
				 &err),
		     0);
}

static void teardown(void)
{
	chunker_free(chunker);
	tree_free(tree);
	free(dev.bytes);
}

static void restart(void)
{
	chunker_free(chunker);
	cr_assert_eq(chunker_new(&chunk_params, tree, NULL, &dev.sink, &chunker,
				 &err),
		     0);
	dev.n = 0;
	dev.end = 0;
}

static uint8_t *noise(size_t len, uint64_t seed)
{
	uint8_t *p = malloc(len + 8);

	for (size_t i = 0; i < len; i += 8) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695;
		put_le64(p + i, seed ^ seed >> 29);
	}
	return p;
}

static struct inode *feed(const uint8_t *data, size_t len, size_t step)
{
	struct inode *i = tree_inode_new(tree, S_IFREG | 0644);

	i->size = len;
	cr_assert_eq(chunker_begin(chunker, i, &err), 0);
	for (size_t at = 0; at < len; at += step)
		cr_assert_eq(chunker_data(chunker, at, data + at,
					  len - at < step ? len - at : step,
					  &err),
			     0);
	cr_assert_eq(chunker_end(chunker, &err), 0);
	return i;
}

static void finish(void)
{
	uint64_t size;

	cr_assert_eq(chunker_finish(chunker, &size, &err), 0);
	cr_assert_eq(size, dev.end);
}

/* Does the device hold the file? */
static void expect_content(const struct inode *i, const uint8_t *want)
{
	uint8_t *got = calloc(1, i->size + 1);

	cr_assert_eq(i->data, INODE_DATA_EXTENTS);
	for (uint32_t k = 0; k < i->n_extents; k++)
		memcpy(got + i->extents[k].off, dev.bytes + i->extents[k].voff,
		       i->extents[k].len);
	cr_expect_eq(memcmp(got, want, i->size), 0);
	free(got);
}

Test(chunker, keeps_every_byte_whatever_the_steps, .init = setup,
     .fini = teardown)
{
	static const size_t sizes[] = { 1025,   4096,    65536,   65537,
					131072, 3000001, 1114112, 1114113 };
	uint8_t *data = noise(3000001, 1);
	struct inode *i[ARRAY_SIZE(sizes)];

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
		i[k] = feed(data + k, sizes[k], 1000 * k + 7);
	finish();
	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
		expect_content(i[k], data + k);
	free(data);
}

Test(chunker, keeps_tiny_files_out_of_the_device, .init = setup,
     .fini = teardown)
{
	uint8_t *data = noise(512, 2);
	struct inode *tiny = feed(data, 512, 512);
	struct inode *empty = feed(data, 0, 1);

	finish();
	cr_expect_eq(dev.n, 0);
	cr_expect_eq(tiny->data, INODE_DATA_INLINE);
	cr_expect_eq(memcmp(tiny->bytes, data, 512), 0);
	cr_expect_eq(empty->data, INODE_DATA_NONE);
	free(data);
}

Test(chunker, cuts_do_not_depend_on_what_comes_before, .init = setup,
     .fini = teardown)
{
	static struct digest before[4096];
	uint8_t *data = noise(8u << 20, 3);
	size_t n, shared = 0;

	(void)feed(data, 8u << 20, 65536);
	finish();
	n = dev.n;
	memcpy(before, dev.digests, sizeof(before));
	restart();
	/* Three pages more at the start. */
	memmove(data + 3 * 4096, data, (8u << 20) - 3 * 4096);
	(void)feed(data, 8u << 20, 65536);
	finish();
	for (size_t i = 0; i < dev.n; i++)
		for (size_t k = 0; k < n; k++)
			shared += digest_equal(&dev.digests[i], &before[k]);
	cr_expect_geq(shared, n - 4, "%zu of %zu", shared, n);
	free(data);
}

Test(chunker, a_changed_small_file_changes_its_group_only, .init = setup,
     .fini = teardown)
{
	static struct digest before[4096];
	uint8_t *data = noise(4u << 20, 4);
	size_t n, shared = 0;

	for (size_t i = 0; i < 800; i++)
		(void)feed(data + 5000 * i, 5000, 5000);
	finish();
	n = dev.n;
	memcpy(before, dev.digests, sizeof(before));
	restart();
	data[5000 * 400]++;
	for (size_t i = 0; i < 800; i++)
		(void)feed(data + 5000 * i, 5000, 5000);
	finish();
	for (size_t i = 0; i < dev.n; i++)
		for (size_t k = 0; k < n; k++)
			shared += digest_equal(&dev.digests[i], &before[k]);
	cr_expect_gt(n, 20);
	cr_expect_geq(shared, n - 3, "%zu of %zu", shared, n);
	free(data);
}

Test(chunker, stores_equal_small_files_once, .init = setup, .fini = teardown)
{
	uint8_t *data = noise(20000, 5);
	struct inode *a = feed(data, 20000, 20000);
	struct inode *b = feed(data, 20000, 100);

	finish();
	cr_expect_eq(dev.end, 20480);
	expect_content(a, data);
	expect_content(b, data);
	free(data);
}

Test(chunker, holes_stay_holes, .init = setup, .fini = teardown)
{
	uint8_t *data = noise(10000, 6), *want = calloc(1, 10u << 20);
	struct inode *i = tree_inode_new(tree, S_IFREG | 0644);

	i->size = 10u << 20;
	memcpy(want + 5000, data, 10000);
	memcpy(want + (1u << 20), data, 10000);
	memcpy(want + (10u << 20) - 10000, data, 10000);
	cr_assert_eq(chunker_begin(chunker, i, &err), 0);
	cr_assert_eq(chunker_data(chunker, 5000, data, 10000, &err), 0);
	cr_assert_eq(chunker_data(chunker, 1u << 20, data, 10000, &err), 0);
	cr_assert_eq(chunker_data(chunker, (10u << 20) - 10000, data, 10000,
				  &err),
		     0);
	cr_assert_eq(chunker_end(chunker, &err), 0);
	finish();
	cr_expect_eq(i->n_extents, 3);
	cr_expect_eq(dev.end, 3 * 12288);
	for (uint32_t k = 0; k < i->n_extents; k++) {
		bool last = i->extents[k].off + i->extents[k].len == i->size;

		cr_expect_eq(i->extents[k].off % 4096, 0);
		cr_expect(last || i->extents[k].len % 4096 == 0);
	}
	expect_content(i, want);
	free(want);
	free(data);
}

Test(chunker, a_file_may_be_one_hole, .init = setup, .fini = teardown)
{
	struct inode *i = tree_inode_new(tree, S_IFREG | 0644);

	i->size = UINT64_C(1) << 40;
	cr_assert_eq(chunker_begin(chunker, i, &err), 0);
	cr_assert_eq(chunker_end(chunker, &err), 0);
	finish();
	cr_expect_eq(i->data, INODE_DATA_EXTENTS);
	cr_expect_eq(i->n_extents, 0);
	cr_expect_eq(dev.end, 0);
}

/* Feed 10000 bytes at each offset, of a file of 100 GiB. */
static struct inode *feed_huge(const uint8_t *data, const uint64_t *offsets,
			       size_t n)
{
	struct inode *i = tree_inode_new(tree, S_IFREG | 0644);

	i->size = UINT64_C(100) << 30;
	cr_assert_eq(chunker_begin(chunker, i, &err), 0);
	for (size_t k = 0; k < n; k++)
		cr_assert_eq(chunker_data(chunker, offsets[k], data, 10000,
					  &err),
			     0);
	cr_assert_eq(chunker_end(chunker, &err), 0);
	return i;
}

Test(chunker, holes_of_a_large_file_are_whole_grains, .init = setup,
     .fini = teardown)
{
	const uint64_t end = UINT64_C(100) << 30, grain = 524288;
	const uint64_t offsets[] = { 4096 + 5, (UINT64_C(1) << 33) + 12293,
				     (UINT64_C(3) << 34) + grain - 5000,
				     (UINT64_C(3) << 34) + 2 * grain + 4096,
				     end - 10000 };
	uint8_t *data = noise(10000, 6);
	struct inode *i = feed_huge(data, offsets, ARRAY_SIZE(offsets));
	size_t found = 0;

	finish();
	cr_assert_eq(i->n_extents, 4, "the third is two grains and their next");
	for (uint32_t k = 0; k < i->n_extents; k++) {
		const struct extent *e = &i->extents[k];
		bool last = e->off + e->len == end;

		cr_expect_eq(e->off % grain, 0);
		cr_expect(last || e->len % grain == 0);
		for (size_t n = 0; n < ARRAY_SIZE(offsets); n++) {
			if (offsets[n] < e->off ||
			    offsets[n] >= e->off + e->len)
				continue;
			found++;
			cr_expect_eq(memcmp(dev.bytes + e->voff +
						    (offsets[n] - e->off),
					    data, 10000),
				     0);
		}
	}
	cr_expect_eq(found, ARRAY_SIZE(offsets));
	free(data);
}

Test(chunker, refuses_bytes_that_do_not_fit, .init = setup, .fini = teardown)
{
	struct inode *i = tree_inode_new(tree, S_IFREG | 0644);
	uint8_t *data = noise(200000, 7);

	i->size = 100000;
	cr_assert_eq(chunker_begin(chunker, i, &err), 0);
	cr_expect_eq(chunker_data(chunker, 0, data, 100001, &err), -EINVAL);
	cr_expect_eq(chunker_data(chunker, 99999, data, 2, &err), -EINVAL);
	cr_assert_eq(chunker_data(chunker, 8192, data, 4096, &err), 0);
	cr_expect_eq(chunker_data(chunker, 4096, data, 1, &err), -EINVAL);
	free(data);
}

Test(chunker, cuts_as_it_did_when_the_set_was_named, .init = setup,
     .fini = teardown)
{
	uint8_t *data = noise(5u << 20, 8);
	struct hasher *h = hasher_new();
	char text[DIGEST_STR_MAX];
	struct digest all;

	for (size_t i = 0; i < 50; i++)
		(void)feed(data + 9000 * i, 2000 + 300 * i, 4096);
	(void)feed(data, 5u << 20, 65536);
	finish();
	for (size_t i = 0; i < dev.n; i++)
		cr_assert_eq(hasher_update(h, &dev.digests[i],
					   sizeof(struct digest)),
			     0);
	cr_assert_eq(hasher_final(h, &all), 0);
	hasher_free(h);
	digest_format(&all, text);
	cr_expect_str_eq(
		text,
		"sha256:e5063b7d6454dbb113505769b52edf6e6e12ddeb3c06341c64733d62767d217f",
		"a released set must not change: name a new one");
	free(data);
}
