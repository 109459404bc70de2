// SPDX-License-Identifier: Apache-2.0
#include "image/writer/packer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "image/writer/dedup_index.h"
#include "image/writer/upload.h"

TestSuite(packer, .timeout = 120);

static const struct chunk_params params = {
	.name = "test",
	.inline_max = 0,
	.small_max = 4096,
	.group_avg = 8192,
	.group_max = 32768,
	.min = 8192,
	.avg = 16384,
	.max = 65536,
	.level = 3,
	.pack_max = 300000,
};

static struct error err;

/* Keeps what is uploaded. */
struct shelf {
	struct upload_target target;
	struct {
		struct digest digest;
		uint8_t *data;
		uint64_t size;
	} blobs[64];
	size_t n;
	int rc; /* what to fail with */
};

static int shelve(struct upload_target *t, const struct digest *d,
		  uint64_t size, int fd, struct error *e)
{
	struct shelf *s = container_of(t, struct shelf, target);
	struct digest is;

	if (s->rc)
		return error_set(e, -s->rc, "the store broke");
	s->blobs[s->n].data = malloc(size);
	s->blobs[s->n].size = size;
	s->blobs[s->n].digest = *d;
	if (fs_pread_full(fd, s->blobs[s->n].data, size, 0) < 0 ||
	    digest_of(s->blobs[s->n].data, size, &is) < 0 ||
	    !digest_equal(&is, d))
		return error_set(e, EIO, "not what its digest says");
	s->n++;
	return 0;
}

static void shelf_fini(struct shelf *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->blobs[i].data);
}

#define BLOCKS 200

/* Block i: of its own size, half of them compressible, every tenth again. */
static uint32_t fill(uint8_t *buf, size_t i)
{
	size_t id = i % 10 == 9 ? i - 9 : i;
	uint64_t seed = id * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t len = (uint32_t)(4096 * (1 + id % 16));

	for (size_t k = 0; k < len; k += 8) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695;
		put_le64(buf + k,
			 id % 2 ? (seed >> 32) % 7 : seed ^ seed >> 29);
	}
	return len;
}

struct made {
	void *map;
	size_t len;
	struct packer_stats stats;
	uint64_t size;
};

static int make_sized(struct pack_sizes sizes, unsigned int jobs,
		      struct shelf *shelf, struct dedup_index *index,
		      struct made *ret)
{
	struct packer_config cfg = {
		.params = &params, .jobs = jobs, .index = index, .packs = sizes
	};
	uint8_t *buf = malloc(chunk_buffer_size(&params));
	AUTO(upload) upload = NULL;
	AUTO(packer) p = NULL;
	uint64_t voff = 0;
	int rc;

	shelf->target.store = shelve;
	cr_assert_eq(upload_new(&shelf->target, &upload, &err), 0);
	cfg.upload = upload;
	cr_assert_eq(packer_new(&cfg, &p, &err), 0);
	rc = 0;
	for (size_t i = 0; rc == 0 && i < BLOCKS; i++) {
		uint32_t len = fill(buf, i);

		rc = packer_sink(p)->put(packer_sink(p), voff, &buf, len, &err);
		voff += len;
	}
	free(buf);
	if (rc == 0)
		rc = packer_finish(p, voff, &ret->map, &ret->len, &ret->stats,
				   &err);
	if (rc == 0)
		rc = upload_finish(upload, &err);
	ret->size = voff;
	return rc;
}

static int make(unsigned int jobs, struct shelf *shelf,
		struct dedup_index *index, struct made *ret)
{
	return make_sized((struct pack_sizes){ .max = 0 }, jobs, shelf, index,
			  ret);
}

/* Is every byte there that was put? */
static void expect_content(const struct made *m, const struct shelf *shelf)
{
	uint8_t *want = malloc(chunk_buffer_size(&params));
	uint8_t *got = malloc(chunk_buffer_size(&params));
	struct blockmap map;

	cr_assert_eq(blockmap_open(m->map, m->len, &map, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(map.n_blocks, BLOCKS);
	cr_expect_eq(map.device_size, m->size);
	for (size_t i = 0; i < BLOCKS; i++) {
		const uint8_t *pack = NULL;
		struct block b;
		struct pack p;

		blockmap_block(&map, i, &b);
		blockmap_pack(&map, b.pack, &p);
		for (size_t k = 0; k < shelf->n; k++)
			if (digest_equal(&shelf->blobs[k].digest, &p.digest))
				pack = shelf->blobs[k].data;
		cr_assert(pack);
		cr_assert_eq(block_unpack(&b, pack + b.poff, got, &err), 0);
		cr_assert_eq(fill(want, i), b.usize);
		cr_assert_eq(memcmp(want, got, b.usize), 0);
	}
	free(want);
	free(got);
}

Test(packer, keeps_every_block_in_packs_of_bounded_size)
{
	struct shelf shelf = { .n = 0 };
	struct made m = { .map = NULL };

	cr_assert_eq(make(2, &shelf, NULL, &m), 0, "%s", err.msg);
	expect_content(&m, &shelf);
	cr_expect_gt(shelf.n, 3);
	for (size_t i = 0; i < shelf.n; i++)
		cr_expect_lt(shelf.blobs[i].size, params.pack_max + params.max);
	cr_expect_eq(m.stats.blocks, BLOCKS);
	cr_expect_eq(m.stats.new_blocks, BLOCKS - BLOCKS / 10);
	free(m.map);
	shelf_fini(&shelf);
}

Test(packer, has_packs_grow_with_what_is_in_those_before)
{
	const struct pack_sizes sizes = { .first = 30000, .max = 200000 };
	struct shelf shelf = { .n = 0 };
	struct made m = { .map = NULL };
	uint64_t sum = 0, want = 0;

	cr_assert_eq(make_sized(sizes, 2, &shelf, NULL, &m), 0, "%s", err.msg);
	expect_content(&m, &shelf);
	cr_assert_gt(shelf.n, 10);
	for (size_t i = 0; i + 1 < shelf.n; i++) {
		want = sum / 4 > sizes.first ? sum / 4 : sizes.first;
		want = want < sizes.max ? want : sizes.max;
		cr_expect_geq(shelf.blobs[i].size, want, "pack %zu", i);
		cr_expect_lt(shelf.blobs[i].size, want + params.max, "pack %zu",
			     i);
		sum += shelf.blobs[i].size;
	}
	cr_expect_eq(want, sizes.max);
	free(m.map);
	shelf_fini(&shelf);
}

Test(packer, makes_the_same_with_any_number_of_jobs)
{
	struct shelf first = { .n = 0 };
	struct made one = { .map = NULL };

	cr_assert_eq(make(1, &first, NULL, &one), 0);
	for (unsigned int jobs = 2; jobs <= 9; jobs++) {
		struct shelf shelf = { .n = 0 };
		struct made m = { .map = NULL };

		cr_assert_eq(make(jobs, &shelf, NULL, &m), 0);
		cr_assert_eq(m.len, one.len);
		cr_assert_eq(memcmp(m.map, one.map, m.len), 0);
		cr_assert_eq(shelf.n, first.n);
		for (size_t i = 0; i < shelf.n; i++)
			cr_expect(digest_equal(&shelf.blobs[i].digest,
					       &first.blobs[i].digest));
		free(m.map);
		shelf_fini(&shelf);
	}
	free(one.map);
	shelf_fini(&first);
}

/* The blocks of an earlier map. */
struct old {
	struct dedup_index index;
	struct blockmap map;
};

static bool find_old(struct dedup_index *x, const struct digest *d,
		     struct block *ret)
{
	const struct old *o = container_of(x, struct old, index);

	for (size_t i = 0; i < o->map.n_blocks; i += 2) {
		blockmap_block(&o->map, i, ret);
		if (digest_equal(&ret->digest, d))
			return true;
	}
	return false;
}

static void old_pack(struct dedup_index *x, uint32_t pack, struct pack *ret)
{
	blockmap_pack(&container_of(x, struct old, index)->map, pack, ret);
}

Test(packer, stores_only_what_the_index_lacks)
{
	struct shelf shelf = { .n = 0 };
	struct made first = { .map = NULL }, second = { .map = NULL };
	struct old old = { .index = { find_old, old_pack } };

	cr_assert_eq(make(2, &shelf, NULL, &first), 0);
	cr_assert_eq(blockmap_open(first.map, first.len, &old.map, &err), 0);
	cr_assert_eq(make(2, &shelf, &old.index, &second), 0, "%s", err.msg);
	expect_content(&second, &shelf);
	cr_expect_gt(second.stats.new_blocks, 0);
	cr_expect_lt(second.stats.new_blocks, first.stats.new_blocks * 6 / 10);
	cr_expect_gt(second.stats.old_bytes, 0);
	free(first.map);
	free(second.map);
	shelf_fini(&shelf);
}

Test(packer, a_store_that_fails_stops_it)
{
	struct shelf shelf = { .rc = -ENOSPC };
	struct made m = { .map = NULL };

	cr_expect_eq(make(2, &shelf, NULL, &m), -ENOSPC);
	cr_expect_str_eq(err.msg, "the store broke");
	free(m.map);
}
