// SPDX-License-Identifier: Apache-2.0
/*
 * ROOT/cache/mounts/ID.erofs is the image's metadata laid out anew: its chunks point into the
 * cache's segment files, which are its extra devices.  ID.json beside it says which layout it
 * is, so that it is not made again for the next mount while the blocks have not moved.
 */
#include "snapshotter/node/images/complete.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "blockstore/cache_mount.h"
#include "common/clock.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "net/control.h"
#include "snapshotter/node/images/keyed_lock.h"

#define LAYOUT_VERSION "complete-1"
#define KEY_FILE_MAX (1u << 20)
/* Blocks hashed between two checks of the deadline: a block takes a few milliseconds at most. */
#define BLOCKS_PER_LOOK 8
/*
 * Many chunks of an image's metadata may point to the same blocks, so the size of the new
 * layout is not bounded by the sizes of metadata and device.  An image above these limits stays
 * lazy.  40 GB in files of 30 KB need 1.5 million pieces.
 */
#define PIECES_MAX (UINT32_C(1) << 22)
#define PIECES_PER_LOOK 4096
#define LAYOUT_BYTES_MAX (UINT64_C(256) << 20)

/* Position of a block in the cache's files. */
struct block_place {
	uint64_t off;
	uint32_t device; /* index into complete.files */
};

struct complete_layout {
	const struct complete_job *job;
	struct block_place *places;          /* one for each block of the map */
	uint32_t numbers[EROFS_DEVICES_MAX]; /* the cache's file numbers */
	uint64_t sizes[EROFS_DEVICES_MAX];
	size_t n_files;
	uint32_t n_pieces; /* of all files so far */
	struct digest key;
};

void complete_fini(struct complete *c)
{
	size_t i;

	for (i = 0; i < c->n_files; i++)
		free(c->files[i]);
	free(c->files);
	free(c->meta_path);
	*c = (struct complete){ .files = NULL };
}

static bool is_late(int64_t deadline_ns)
{
	return clock_now_ns() > deadline_ns;
}

/* Are all blocks in the cache?  This check is cheap, so an incomplete image costs next to
 * nothing. */
static int check_blocks_are_cached(const struct complete_job *job,
				   struct error *err)
{
	struct block b;
	size_t i;

	for (i = 0; i < job->map->n_blocks; i++) {
		blockmap_block(job->map, i, &b);
		if (!cache_has(job->cache, &b.digest))
			return error_set(err, ENOENT,
					 "block %zu of %zu is not on the node",
					 i, job->map->n_blocks);
	}
	return 0;
}

/* -------------------------------------------------- --- places of blocks --- */

static int number_file_device(struct complete_layout *l, uint32_t number,
			      uint32_t *ret, struct error *err)
{
	uint32_t i;

	for (i = 0; i < l->n_files && l->numbers[i] != number; i++)
		;
	if (i == EROFS_DEVICES_MAX)
		return error_set(err, E2BIG,
				 "it lies in more than %d files of the cache",
				 EROFS_DEVICES_MAX);
	if (i == l->n_files) {
		l->numbers[i] = number;
		l->n_files++;
	}
	*ret = i;
	return 0;
}

static uint64_t padded_size(const struct block *b)
{
	return ((uint64_t)b->usize + BLOCK_ALIGN - 1) / BLOCK_ALIGN *
	       BLOCK_ALIGN;
}

static int locate_all_blocks(struct complete_layout *l, struct error *err)
{
	const struct complete_job *job = l->job;
	struct block_place *p;
	struct block b;
	uint32_t number;
	size_t i;
	int rc;

	for (i = 0; i < job->map->n_blocks; i++) {
		if (i % BLOCKS_PER_LOOK == 0 && is_late(job->deadline_ns))
			return error_set(err, ETIMEDOUT,
					 "checked %zu of %zu blocks in the "
					 "time it has",
					 i, job->map->n_blocks);
		p = &l->places[i];
		blockmap_block(job->map, i, &b);
		rc = cache_locate(job->cache, &b, &number, &p->off, err);
		if (rc == 0)
			rc = number_file_device(l, number, &p->device, err);
		if (rc < 0)
			return rc;
		if (p->off + padded_size(&b) > l->sizes[p->device])
			l->sizes[p->device] = p->off + padded_size(&b);
	}
	return 0;
}

/* Hash everything that the layout depends on. */
static int layout_key(struct complete_layout *l, struct error *err)
{
	AUTO(hasher) h = hasher_new();
	size_t i;
	int rc;

	if (!h)
		return error_nomem(err);
	rc = hasher_update(h, LAYOUT_VERSION, sizeof(LAYOUT_VERSION));
	if (rc == 0)
		rc = hasher_update(h, &l->job->meta_digest, DIGEST_SIZE);
	if (rc == 0)
		rc = hasher_update(h, l->numbers,
				   l->n_files * sizeof(*l->numbers));
	for (i = 0; rc == 0 && i < l->job->map->n_blocks; i++) {
		rc = hasher_update(h, &l->places[i].off, sizeof(uint64_t));
		if (rc == 0)
			rc = hasher_update(h, &l->places[i].device,
					   sizeof(uint32_t));
	}
	if (rc == 0)
		rc = hasher_final(h, &l->key);
	return rc < 0 ? error_nomem(err) : 0;
}

/* -------------------------------------------------- --- the metadata tree --- */

/* Append an extent, joined to the last one if both are adjacent in file and device. */
static void add_extent(struct extent *v, uint32_t *n, uint64_t off,
		       uint64_t len, uint64_t voff)
{
	struct extent *last = *n ? &v[*n - 1] : NULL;

	if (last && last->off + last->len == off &&
	    last->voff + last->len == voff) {
		last->len += len;
		return;
	}
	v[(*n)++] = (struct extent){ .off = off, .len = len, .voff = voff };
}

/* Count one more piece; fails if the image has too many. */
static int count_piece(struct complete_layout *l, struct error *err)
{
	if (l->n_pieces == PIECES_MAX)
		return error_set(err, E2BIG,
				 "its files lie in more than %" PRIu32
				 " pieces of blocks",
				 PIECES_MAX);
	if (++l->n_pieces % PIECES_PER_LOOK == 0 &&
	    is_late(l->job->deadline_ns))
		return error_set(err, ETIMEDOUT,
				 "laid out %" PRIu32
				 " pieces in the time it has",
				 l->n_pieces);
	return 0;
}

/* Cut one extent of the virtual device at the borders of blocks.  `v` NULL: only count. */
static int map_extent(struct complete_layout *l, const struct extent *e,
		      struct extent *v, uint32_t *n, struct error *err)
{
	const struct blockmap *map = l->job->map;
	uint64_t pos, delta, len;
	const struct block_place *p;
	struct block b;
	size_t i;
	int rc;

	for (pos = 0; pos < e->len; pos += len) {
		i = blockmap_find(map, e->voff + pos);
		if (i == map->n_blocks)
			return error_set(err, EINVAL,
					 "no block has byte %llu of the device",
					 (unsigned long long)(e->voff + pos));
		blockmap_block(map, i, &b);
		delta = e->voff + pos - b.voff;
		len = padded_size(&b) - delta;
		if (len > e->len - pos)
			len = e->len - pos;
		p = &l->places[i];
		if (v)
			add_extent(v, n, e->off + pos, len,
				   EROFS_VOFF(p->device, p->off + delta));
		else
			(*n)++;
		rc = v ? 0 : count_piece(l, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int map_file_extents(struct complete_layout *l, struct tree *t,
			    struct inode *i, struct error *err)
{
	struct extent *v;
	uint32_t n = 0, max = 0, k;
	int rc = 0;

	for (k = 0; rc == 0 && k < i->n_extents; k++)
		rc = map_extent(l, &i->extents[k], NULL, &max, err);
	if (rc < 0)
		return rc;
	v = tree_alloc(t, max * sizeof(*v));
	if (!v)
		return error_nomem(err);
	for (k = 0; rc == 0 && k < i->n_extents; k++)
		rc = map_extent(l, &i->extents[k], v, &n, err);
	i->extents = v;
	i->n_extents = n;
	return rc;
}

/* Map each inode once: folders wait in a list linked by user_ptr; in visited files user_ptr is
 * `mark`. */
static int map_tree(struct complete_layout *l, struct tree *t,
		    struct error *err)
{
	struct inode *todo = tree_root(t), *dir, *i;
	void *mark = t;
	struct dentry *d;
	int rc = 0;

	todo->user_ptr = NULL;
	while (rc == 0 && todo) {
		dir = todo;
		todo = dir->user_ptr;
		for (d = dir->children; rc == 0 && d; d = d->next) {
			i = d->inode;
			if (S_ISDIR(i->mode)) {
				i->user_ptr = todo;
				todo = i;
			} else if (i->data == INODE_DATA_EXTENTS &&
				   i->user_ptr != mark) {
				i->user_ptr = mark;
				rc = map_file_extents(l, t, i, err);
			}
		}
	}
	return rc;
}

static int build_layout_metadata(struct complete_layout *l, void **ret,
				 size_t *ret_len, struct error *err)
{
	struct erofs_device devices[EROFS_DEVICES_MAX] = { { .size = 0 } };
	struct erofs_params params = {
		.devices = devices,
		.n_devices = l->n_files,
		.size_max = LAYOUT_BYTES_MAX,
	};
	AUTO(tree) t = NULL;
	struct erofs_image img;
	size_t i;
	int rc = erofs_open(l->job->meta->data, l->job->meta->len, &img, err);

	if (rc == 0)
		rc = erofs_read_tree(&img, &t, err);
	if (rc == 0)
		rc = map_tree(l, t, err);
	if (rc < 0)
		return rc;
	memcpy(params.uuid, l->key.b, sizeof(params.uuid));
	for (i = 0; i < l->n_files; i++) {
		devices[i].size = l->sizes[i];
		snprintf(devices[i].tag, sizeof(devices[i].tag), "segment %u",
			 l->numbers[i]);
	}
	rc = erofs_write(t, &params, ret, ret_len, err);
	/* Check the result: the kernel gets no image that was not checked, not even our own. */
	return rc < 0 ? rc : erofs_check(*ret, *ret_len, &img, err);
}

/* Build the layout. Only one build runs at a time, since the tree of a large image takes a GiB
 * of memory. */
static int build_layout(struct complete_layout *l, void **ret, size_t *ret_len,
			struct error *err)
{
	/* zeros, which is no image's ID, name the gate of layouts */
	static const struct digest layouts;
	struct keyed_lock *gate = l->job->gate;
	int rc = 0;

	if (gate)
		rc = keyed_lock_enter(gate, &layouts,
				      l->job->deadline_ns - clock_now_ns(),
				      err);
	if (rc < 0)
		return error_wrap(err, rc, "layouts of others");
	rc = build_layout_metadata(l, ret, ret_len, err);
	if (gate)
		keyed_lock_leave(gate, &layouts);
	return rc;
}

/* ------------------------------------------------- --- the layout on disk --- */

/* Is the file on disk this layout, and undamaged? */
static bool is_current(const struct complete_layout *l, const char *key_path,
		       const char *meta_path)
{
	struct map_file f = MAP_FILE_INIT;
	char key[DIGEST_STR_MAX];
	const char *has_key, *has_digest;
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *root = NULL;
	struct digest d;
	bool same;

	if (fs_read_file(key_path, KEY_FILE_MAX, &text, NULL) < 0)
		return false;
	root = json_loadb(text.data, text.len, 0, NULL);
	digest_format(&l->key, key);
	if (json_unpack(root, "{s:s, s:s}", "layout", &has_key, "digest",
			&has_digest) < 0 ||
	    strcmp(has_key, key) != 0 ||
	    digest_parse(has_digest, &d, NULL) < 0 ||
	    map_file_open(meta_path, &f, NULL) < 0)
		return false;
	same = map_file_check(&f, &d, meta_path, NULL) == 0;
	map_file_close(&f);
	return same;
}

static int write_key(const struct complete_layout *l,
		     const struct digest *content, const struct complete *c,
		     const char *path, struct error *err)
{
	char key[DIGEST_STR_MAX], digest[DIGEST_STR_MAX];
	AUTO_JSON *files = json_array();
	AUTO_JSON *root = NULL;
	AUTO_FREE char *text = NULL;
	size_t i;

	digest_format(&l->key, key);
	digest_format(content, digest);
	for (i = 0; i < c->n_files; i++)
		if (json_array_append_new(files, json_string(c->files[i])) < 0)
			return error_nomem(err);
	root = json_pack("{s:s, s:s, s:O}", "layout", key, "digest", digest,
			 "files", files);
	text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
	if (!text)
		return error_nomem(err);
	return fs_replace_file(path, text, strlen(text), 0600, err);
}

static int write_layout(struct complete_layout *l, const struct complete *c,
			struct error *err)
{
	AUTO_FREE char *key_path = NULL;
	AUTO_FREE void *data = NULL;
	struct digest content;
	size_t len;
	int rc = cache_mount_path(l->job->cache, l->job->name, "json",
				  &key_path, err);

	if (rc < 0)
		return rc;
	if (is_current(l, key_path, c->meta_path))
		return 0;
	/* An earlier mount of this file must not be in use: the kernel still reads it. */
	if (cache_mount_is_live(l->job->cache, l->job->name))
		return error_set(err, EBUSY,
				 "an earlier mount of it is still in use");
	rc = build_layout(l, &data, &len, err);
	if (rc < 0)
		return rc;
	if (digest_of(data, len, &content) < 0)
		return error_nomem(err);
	rc = cache_mount_room(l->job->cache, len, err);
	if (rc < 0)
		return rc;
	rc = fs_replace_file(c->meta_path, data, len, 0600, err);
	if (rc == 0)
		rc = write_key(l, &content, c, key_path, err);
	cache_mount_laid(l->job->cache, len);
	return rc;
}

static int name_files(const struct complete_layout *l, struct complete *c,
		      struct error *err)
{
	int rc = cache_mount_path(l->job->cache, l->job->name, "erofs",
				  &c->meta_path, err);

	if (rc < 0)
		return rc;
	c->files = calloc(l->n_files + 1, sizeof(char *));
	if (!c->files)
		return error_nomem(err);
	while (rc == 0 && c->n_files < l->n_files) {
		rc = cache_file_path(l->job->cache, l->numbers[c->n_files],
				     &c->files[c->n_files], err);
		if (rc == 0)
			c->n_files++;
	}
	return rc;
}

int complete_prepare(const struct complete_job *job, struct complete *ret,
		     struct error *err)
{
	struct complete_layout l = { .job = job };
	struct complete c = { .files = NULL };
	int rc;

	/* The new layout has at least the size of the metadata, so refuse too large metadata at
	 * once. */
	if (job->meta->len > LAYOUT_BYTES_MAX)
		return error_set(err, EFBIG,
				 "its metadata has %zu bytes; %" PRIu64
				 " are the most",
				 (size_t)job->meta->len, LAYOUT_BYTES_MAX);
	rc = check_blocks_are_cached(job, err);
	if (rc == 0)
		rc = cache_pin(job->cache, job->map, err);
	if (rc < 0)
		return rc;
	l.places = calloc(job->map->n_blocks + 1, sizeof(*l.places));
	rc = l.places ? locate_all_blocks(&l, err) : error_nomem(err);
	if (rc == 0)
		rc = layout_key(&l, err);
	if (rc == 0 && l.n_files == 0)
		rc = error_set(err, ENOENT, "the image has no blocks");
	if (rc == 0)
		rc = name_files(&l, &c, err);
	if (rc == 0)
		rc = write_layout(&l, &c, err);
	if (rc == 0)
		rc = cache_mount_keep(job->cache, job->name, job->map, err);
	free(l.places);
	cache_unpin(job->cache, job->map);
	if (rc < 0) {
		complete_fini(&c);
		return rc;
	}
	*ret = c;
	return 0;
}
