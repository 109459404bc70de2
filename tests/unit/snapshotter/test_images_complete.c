// SPDX-License-Identifier: Apache-2.0
/* Metadata images that point into the cache's files, for complete mounts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockstore/cache_mount.h"
#include "common/clock.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "snapshotter/node/images/complete.h"
#include "snapshotter/node/images/keyed_lock.h"

#define N_BLOCKS 5
#define USIZE(i) ((i) == N_BLOCKS - 1 ? 5000u : 8192u)
#define DEVICE_SIZE (N_BLOCKS * 8192u)
#define NEVER INT64_MAX
#define REPEATED 32768u /* bytes: four blocks of the device */

static char dir[40];
static struct keyed_lock *gate; /* serialises builds; or NULL */
static struct cache *cache;
static struct map_file meta;
static struct digest meta_digest;
static void *map_data;
static struct blockmap map;
static uint8_t content[DEVICE_SIZE]; /* of the virtual data device */

static struct block block_at(unsigned int i)
{
	struct block b = {
		.voff = i * 8192u,
		.poff = i * 8192u,
		.usize = USIZE(i),
		.csize = USIZE(i),
		.codec = BLOCK_CODEC_RAW,
	};

	cr_assert_eq(digest_of(content + b.voff, b.usize, &b.digest), 0);
	return b;
}

static void put_block(unsigned int i)
{
	struct block b = block_at(i);

	cr_assert_eq(cache_put(cache, &b, content + b.voff, SOURCE_DEMAND,
			       NULL),
		     0);
}

static void make_map(void)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .size = DEVICE_SIZE };
	uint32_t pack;
	size_t len;

	cr_assert_eq(blockmap_writer_pack(w, &p, &pack, NULL), 0);
	for (unsigned int i = 0; i < N_BLOCKS; i++) {
		struct block b = block_at(i);

		cr_assert_eq(blockmap_writer_block(w, &b, NULL), 0);
	}
	cr_assert_eq(blockmap_writer_finish(w, DEVICE_SIZE, &map_data, &len,
					    NULL),
		     0);
	cr_assert_eq(blockmap_open(map_data, len, &map, NULL), 0);
}

static void save_meta(struct tree *t)
{
	struct erofs_device device = { .size = DEVICE_SIZE };
	struct erofs_params params = { .devices = &device, .n_devices = 1 };
	void *data;
	size_t len;
	char path[80];

	cr_assert_eq(erofs_write(t, &params, &data, &len, NULL), 0);
	cr_assert_eq(digest_of(data, len, &meta_digest), 0);
	snprintf(path, sizeof(path), "%s/meta.erofs", dir);
	cr_assert_eq(fs_replace_file(path, data, len, 0600, NULL), 0);
	free(data);
	map_file_close(&meta);
	cr_assert_eq(map_file_open(path, &meta, NULL), 0);
}

/* Two files that cover all blocks, with a border inside a block, and a second name of one file. */
static void make_meta(void)
{
	AUTO(tree) t = tree_new();
	uint64_t cut = 3 * 4096;
	struct inode *sub, *a, *b;

	sub = tree_inode_new(t, S_IFDIR | 0755);
	a = tree_inode_new(t, S_IFREG | 0644);
	b = tree_inode_new(t, S_IFREG | 0644);
	cr_assert_eq(tree_link(t, tree_root(t), "sub", 3, sub), 0);
	cr_assert_eq(tree_link(t, tree_root(t), "a", 1, a), 0);
	cr_assert_eq(tree_link(t, sub, "b", 1, b), 0);
	cr_assert_eq(tree_link(t, sub, "again", 5, a), 0);
	a->data = b->data = INODE_DATA_EXTENTS;
	a->n_extents = b->n_extents = 1;
	a->extents = tree_alloc(t, sizeof(struct extent));
	b->extents = tree_alloc(t, sizeof(struct extent));
	a->size = cut;
	*a->extents = (struct extent){ .len = cut };
	b->size = DEVICE_SIZE - 8192 + 5000 - cut;
	*b->extents = (struct extent){ .len = b->size, .voff = cut };
	save_meta(t);
}

/* A file that consists of the first 32 KiB of the device `n` times. */
static void make_repeated_meta(unsigned int n)
{
	AUTO(tree) t = tree_new();
	struct inode *i = tree_inode_new(t, S_IFREG | 0644);

	cr_assert_eq(tree_link(t, tree_root(t), "a", 1, i), 0);
	i->data = INODE_DATA_EXTENTS;
	i->n_extents = n;
	i->size = (uint64_t)n * REPEATED;
	i->extents = tree_alloc(t, n * sizeof(struct extent));
	for (unsigned int k = 0; k < n; k++)
		i->extents[k] = (struct extent){ .off = (uint64_t)k * REPEATED,
						 .len = REPEATED };
	save_meta(t);
}

static void setup(void)
{
	struct cache_config cfg = { .quota = 64 << 20 };
	char path[80];

	strcpy(dir, "/tmp/complete.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/cache", dir);
	cfg.dir = path;
	cr_assert_eq(cache_open(&cfg, &cache, NULL), 0);
	for (size_t i = 0; i < DEVICE_SIZE - 8192 + 5000; i++)
		content[i] = (uint8_t)(i * 7 + i / 4096);
	make_map();
	make_meta();
}

static void teardown(void)
{
	map_file_close(&meta);
	free(map_data);
	cache_close(cache);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(images_complete, .timeout = 120, .init = setup, .fini = teardown);

static int prepare(int64_t deadline, struct complete *c, struct error *err)
{
	const struct complete_job job = {
		.cache = cache,
		.map = &map,
		.meta = &meta,
		.meta_digest = meta_digest,
		.name = "00ff",
		.gate = gate,
		.deadline_ns = deadline,
	};

	return complete_prepare(&job, c, err);
}

/* Read a file by the new layout from the cache's files, and compare it. */
static void check_file(const struct complete *c, const char *where,
		       const char *name, uint64_t voff)
{
	struct map_file f = MAP_FILE_INIT;
	struct erofs_inode i;
	struct erofs_image img;
	struct erofs_map m;
	uint64_t nid, off;
	uint8_t *buf;
	int fd;

	cr_assert_eq(map_file_open(c->meta_path, &f, NULL), 0);
	cr_assert_eq(erofs_open(f.data, f.len, &img, NULL), 0);
	cr_assert_eq(img.n_devices, c->n_files);
	cr_assert_eq(erofs_inode(&img, img.root_nid, &i, NULL), 0);
	if (where) {
		cr_assert_eq(erofs_lookup(&img, &i, where, strlen(where), &nid,
					  NULL),
			     0);
		cr_assert_eq(erofs_inode(&img, nid, &i, NULL), 0);
	}
	cr_assert_eq(erofs_lookup(&img, &i, name, strlen(name), &nid, NULL), 0);
	cr_assert_eq(erofs_inode(&img, nid, &i, NULL), 0);
	for (off = 0; off < i.size; off += m.len) {
		cr_assert_eq(erofs_map(&img, &i, off, &m, NULL), 0);
		if (m.kind == EROFS_MAP_INLINE) {
			cr_expect_eq(memcmp(m.data, content + voff + off,
					    m.len),
				     0);
			continue;
		}
		cr_assert_eq(m.kind, EROFS_MAP_DEVICE);
		if (m.len > i.size - off)
			m.len = i.size - off;
		buf = malloc(m.len);
		fd = open(c->files[m.device - 1], O_RDONLY | O_CLOEXEC);
		cr_assert_eq(fs_pread_full(fd, buf, m.len, m.voff), 0);
		cr_expect_eq(memcmp(buf, content + voff + off, m.len), 0,
			     "%s at %lu", name, (unsigned long)off);
		close(fd);
		free(buf);
	}
	map_file_close(&f);
}

Test(images_complete, lays_a_whole_image_out_over_the_caches_files)
{
	struct complete c = { .files = NULL };
	struct error err = ERROR_INIT;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block((i * 3) % N_BLOCKS); /* not in the map's order */
	cr_assert_eq(prepare(NEVER, &c, &err), 0, "%s", err.msg);
	check_file(&c, NULL, "a", 0);
	check_file(&c, "sub", "again", 0);
	check_file(&c, "sub", "b", 3 * 4096);
	cache_mount_drop(cache, "00ff");
	complete_fini(&c);
}

Test(images_complete, needs_every_block)
{
	struct complete c = { .files = NULL };
	struct cache_stats s;

	for (unsigned int i = 0; i < N_BLOCKS - 1; i++)
		put_block(i);
	cr_expect_eq(prepare(NEVER, &c, NULL), -ENOENT);
	cache_get_stats(cache, &s);
	cr_expect_eq(s.pinned_bytes, 0);
}

Test(images_complete, gives_up_at_its_deadline_without_a_pin_left)
{
	struct complete c = { .files = NULL };
	struct cache_stats s;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block(i);
	cr_expect_eq(prepare(0, &c, NULL), -ETIMEDOUT);
	cache_get_stats(cache, &s);
	cr_expect_eq(s.pinned_bytes, 0);
}

Test(images_complete, makes_a_layout_once_and_anew_when_it_is_damaged)
{
	struct complete c = { .files = NULL };
	struct stat first, again;
	char path[80];

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block(i);
	snprintf(path, sizeof(path), "%s/cache/mounts/00ff.erofs", dir);
	cr_assert_eq(prepare(NEVER, &c, NULL), 0);
	complete_fini(&c);
	cr_assert_eq(stat(path, &first), 0);
	cr_assert_eq(prepare(NEVER, &c, NULL), 0);
	complete_fini(&c);
	cr_assert_eq(stat(path, &again), 0);
	cr_expect_eq(first.st_ino, again.st_ino, "it was not written again");

	cr_assert_eq(truncate(path, 4096), 0);
	cr_assert_eq(prepare(NEVER, &c, NULL), 0);
	check_file(&c, "sub", "b", 3 * 4096);
	complete_fini(&c);
}

Test(images_complete, few_blocks_in_many_places_stay_lazy)
{
	struct complete c = { .files = NULL };
	struct error err = ERROR_INIT;
	struct erofs_image img;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block(i);
	/* Four million pieces are allowed, not four more. */
	make_repeated_meta((1u << 20) + 1);
	cr_assert_eq(erofs_check(meta.data, meta.len, &img, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(prepare(NEVER, &c, &err), -E2BIG);
	cr_expect(strstr(err.msg, "pieces"), "%s", err.msg);
	make_repeated_meta(1000);
	cr_expect_eq(prepare(NEVER, &c, &err), 0, "%s", err.msg);
	complete_fini(&c);
}

/* Layouts of some MiB for blocks of 40 KiB: they count, since they stay as long as their images. */
Test(images_complete, layouts_are_part_of_the_quota)
{
	struct complete c = { .files = NULL };
	struct error err = ERROR_INIT;
	struct cache_stats s;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block((i * 3) % N_BLOCKS);
	make_repeated_meta(100000);
	cache_set_others(cache, (63 << 20));
	cr_expect_eq(prepare(NEVER, &c, &err), -ENOSPC);
	cache_get_stats(cache, &s);
	cr_expect_eq(s.others, 63 << 20, "nothing was left behind");
	cr_expect_eq(s.pinned_bytes, 0);

	cache_set_others(cache, 0);
	cr_assert_eq(prepare(NEVER, &c, &err), 0, "%s", err.msg);
	cache_get_stats(cache, &s);
	cr_expect_geq(s.others, 2 << 20);
	complete_fini(&c);
	cache_mount_drop(cache, "00ff");
	cr_assert_eq(cache_mount_forget(cache, "00ff", &err), 0, "%s", err.msg);
	cache_get_stats(cache, &s);
	cr_expect_eq(s.others, 0);
}

/* Zeros make the metadata large; they are not parsed. */
Test(images_complete, metadata_that_is_much_in_memory_stays_lazy)
{
	struct complete c = { .files = NULL };
	struct error err = ERROR_INIT;
	char path[80];

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block(i);
	snprintf(path, sizeof(path), "%s/meta.erofs", dir);
	map_file_close(&meta);
	cr_assert_eq(truncate(path, (256 << 20) + 4096), 0);
	cr_assert_eq(map_file_open(path, &meta, NULL), 0);
	cr_expect_eq(prepare(NEVER, &c, &err), -EFBIG, "%s", err.msg);
}

Test(images_complete, layouts_are_made_one_at_a_time)
{
	static const struct digest layouts;
	struct complete c = { .files = NULL };
	struct error err = ERROR_INIT;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		put_block(i);
	gate = keyed_lock_new();
	cr_assert_eq(keyed_lock_enter(gate, &layouts, 0, &err), 0);
	cr_expect_eq(prepare(clock_now_ns() + NS_PER_S, &c, &err), -ETIMEDOUT);
	keyed_lock_leave(gate, &layouts);
	cr_expect_eq(prepare(clock_now_ns() + 60 * NS_PER_S, &c, &err), 0, "%s",
		     err.msg);
	cr_expect_not(keyed_lock_is_taken(gate, &layouts));
	complete_fini(&c);
	keyed_lock_free(gate);
}
