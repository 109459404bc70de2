// SPDX-License-Identifier: Apache-2.0
/* image_check(): every pack is read once, in order, and every block of it that
 * the map names is unpacked. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "snapshotter/artifact.h"
#include "snapshotter/convert.h"
#include "snapshotter/erofs/erofs.h"

/* A file mapped for reading. */
struct mapped {
	void *data;
	size_t len;
};

struct check {
	const struct check_options *opt;
	struct oci_store *store;
	struct artifact artifact;
	struct mapped meta, map_file;
	struct blockmap map;
	uint32_t *order;             /* blocks by place: pack, offset, voff */
	int data_fd;                 /* or -1 */
	bool wrote_meta, wrote_data; /* what the options name */
	uint64_t done, total;        /* stored bytes */
};

static void unmap(struct mapped *m)
{
	if (m->data)
		(void)munmap(m->data, m->len);
	m->data = NULL;
}

static int map_file(const char *path, struct mapped *ret, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	if (st.st_size == 0)
		return error_set(err, EBADMSG, "'%s' is empty", path);
	ret->data =
		mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (ret->data == MAP_FAILED) {
		ret->data = NULL;
		return error_set(err, errno, "map '%s': %s", path,
				 strerror(errno));
	}
	ret->len = (size_t)st.st_size;
	return 0;
}

/* ------------------------------------------------------------------ blocks --- */

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct check *c = arg;
	struct block x, y;

	blockmap_block(&c->map, *(const uint32_t *)a, &x);
	blockmap_block(&c->map, *(const uint32_t *)b, &y);
	if (x.pack != y.pack)
		return x.pack < y.pack ? -1 : 1;
	if (x.poff != y.poff)
		return x.poff < y.poff ? -1 : 1;
	return x.voff < y.voff ? -1 : x.voff > y.voff;
}

/* Reads one pack; blocks [at, end) of `order` lie in it. */
struct pack_reader {
	struct source_sink sink;
	struct check *check;
	size_t at, end;
	struct hasher *hash;
	struct buf stored; /* of the block at `at`, so far */
	uint8_t *plain;
};

static int check_block(struct pack_reader *r, const struct block *b,
		       struct error *err)
{
	struct check *c = r->check;
	int rc = block_unpack(b, r->stored.data, r->plain, err);

	if (rc == 0 && c->data_fd >= 0) {
		rc = fs_pwrite_full(c->data_fd, r->plain, b->usize, b->voff);
		if (rc < 0)
			return error_set(err, -rc, "write '%s': %s",
					 c->opt->data_to, strerror(-rc));
	}
	return rc < 0 ? error_wrap(err, rc, "block at %" PRIu64, b->voff) : 0;
}

/* All entries of the map with the place that was just read. */
static int check_blocks(struct pack_reader *r, struct error *err)
{
	const struct check *c = r->check;
	struct block b, next;
	int rc = 0;

	blockmap_block(&c->map, c->order[r->at], &b);
	next = b;
	while (rc == 0 && r->at < r->end && next.poff == b.poff) {
		if (next.csize != b.csize)
			return error_set(err, EBADMSG,
					 "blocks overlap in a pack");
		rc = check_block(r, &next, err);
		if (++r->at < r->end)
			blockmap_block(&c->map, c->order[r->at], &next);
	}
	buf_reset(&r->stored);
	return rc;
}

static int take_stored(struct source_sink *s, uint64_t pos, const void *data,
		       size_t len, struct error *err)
{
	struct pack_reader *r = container_of(s, struct pack_reader, sink);
	struct check *c = r->check;
	const uint8_t *p = data;
	int rc = hasher_update(r->hash, data, len);

	if (rc < 0)
		return error_set(err, -rc, "hash: %s", strerror(-rc));
	c->done += len;
	if (c->opt->progress)
		c->opt->progress->step(c->opt->progress, "checking blocks",
				       c->done, c->total);
	while (rc == 0 && r->at < r->end) {
		uint64_t want, have;
		struct block b;

		blockmap_block(&c->map, c->order[r->at], &b);
		want = b.poff + r->stored.len; /* next byte of the block */
		have = pos + (size_t)(p - (const uint8_t *)data);
		if (want < have)
			return error_set(err, EBADMSG,
					 "blocks overlap in a pack");
		if (want >= pos + len)
			break;
		p += want - have;
		have = pos + len - want;
		if (have > b.csize - r->stored.len)
			have = b.csize - r->stored.len;
		if (buf_append(&r->stored, p, (size_t)have) < 0)
			return error_nomem(err);
		p += have;
		if (r->stored.len == b.csize)
			rc = check_blocks(r, err);
	}
	return rc;
}

static int read_pack(struct pack_reader *r, const struct oci_descriptor *pack,
		     struct error *err)
{
	struct source_req req = { .len = pack->size, .priority = SOURCE_COLD };
	AUTO(source) s = NULL;
	struct digest d;
	int rc;

	rc = oci_open_blob(r->check->store, &pack->digest, pack->size, &s, err);
	if (rc == 0 && pack->size)
		rc = source_read(s, &req, &r->sink, err);
	if (rc == 0 && hasher_final(r->hash, &d) < 0)
		rc = error_nomem(err);
	if (rc == 0 && !digest_equal(&d, &pack->digest))
		rc = error_set(err, EBADMSG, "its content has another digest");
	if (rc == 0 && r->at != r->end)
		rc = error_set(err, EBADMSG, "a block lies behind its end");
	return rc;
}

static int check_pack(struct check *c, size_t pack, size_t *at,
		      struct error *err)
{
	struct pack_reader r = {
		.sink.put = take_stored, .check = c, .at = *at, .end = *at
	};
	char text[DIGEST_STR_MAX];
	int rc;

	while (r.end < c->map.n_blocks) {
		struct block b;

		blockmap_block(&c->map, c->order[r.end], &b);
		if (b.pack != pack)
			break;
		r.end++;
	}
	*at = r.end;
	r.hash = hasher_new();
	r.plain = malloc(BLOCK_USIZE_MAX);
	rc = r.hash && r.plain ? read_pack(&r, &c->artifact.packs[pack], err)
			       : error_nomem(err);
	hasher_free(r.hash);
	free(r.plain);
	buf_fini(&r.stored);
	digest_format(&c->artifact.packs[pack].digest, text);
	return rc < 0 ? error_wrap(err, rc, "pack %s", text) : 0;
}

static int check_packs(struct check *c, struct error *err)
{
	size_t at = 0;
	int rc = 0;

	c->order = calloc(c->map.n_blocks + 1, sizeof(*c->order));
	if (!c->order)
		return error_nomem(err);
	for (size_t i = 0; i < c->map.n_blocks; i++)
		c->order[i] = (uint32_t)i;
	qsort_r(c->order, c->map.n_blocks, sizeof(*c->order), compare_places,
		c);
	for (size_t i = 0; i < c->map.n_packs; i++)
		c->total += c->artifact.packs[i].size;
	for (size_t i = 0; rc == 0 && i < c->map.n_packs; i++)
		rc = check_pack(c, i, &at, err);
	return rc;
}

/* ---------------------------------------------------------------- metadata --- */

/* Are all bytes of the extent in some block? */
static bool is_covered(const struct blockmap *m, const struct extent *x)
{
	uint64_t pos = x->voff, end = x->voff + x->len;

	while (pos < end) {
		size_t i = blockmap_find(m, pos);
		struct block b;

		if (i == m->n_blocks)
			return false;
		blockmap_block(m, i, &b);
		pos = b.voff + round_up(b.usize, BLOCK_ALIGN);
	}
	return true;
}

static int check_folder(struct check *c, struct inode *dir, struct error *err)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		const struct inode *i = d->inode;
		int rc = 0;

		if (S_ISDIR(i->mode))
			rc = check_folder(c, d->inode, err);
		for (uint32_t k = 0;
		     rc == 0 && S_ISREG(i->mode) &&
		     i->data == INODE_DATA_EXTENTS && k < i->n_extents;
		     k++) {
			AUTO_FREE char *path = NULL;

			if (is_covered(&c->map, &i->extents[k]))
				continue;
			path = tree_path(d);
			rc = error_set(err, EBADMSG,
				       "file '%s' has bytes that no block "
				       "holds",
				       path ? path : "?");
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int check_metadata(struct check *c, struct error *err)
{
	struct erofs_image image;
	AUTO(tree) tree = NULL;
	int rc = erofs_open(c->meta.data, c->meta.len, &image, err);

	if (rc == 0)
		rc = erofs_read_tree(&image, &tree, err);
	if (rc == 0)
		rc = check_folder(c, tree_root(tree), err);
	return rc < 0 ? error_wrap(err, rc, "metadata image") : 0;
}

/* Do block map and artifact tell the same? */
static int check_map(struct check *c, struct error *err)
{
	const struct artifact *a = &c->artifact;
	int rc = blockmap_open(c->map_file.data, c->map_file.len, &c->map, err);

	if (rc < 0)
		return error_wrap(err, rc, "block map");
	if (c->map.n_packs != a->n_packs ||
	    c->map.device_size != a->device_size)
		return error_set(err, EBADMSG,
				 "block map: it is not of this artifact");
	for (size_t i = 0; i < a->n_packs; i++) {
		struct pack p;

		blockmap_pack(&c->map, i, &p);
		if (!digest_equal(&p.digest, &a->packs[i].digest) ||
		    p.size != a->packs[i].size)
			return error_set(err, EBADMSG,
					 "block map: pack %zu "
					 "is not the artifact's",
					 i);
	}
	return 0;
}

/* ------------------------------------------------------------------- parts --- */

static int drop(struct source_sink *sink, uint64_t pos, const void *data,
		size_t len, struct error *err)
{
	return 0;
}

/* Are the blob's parts what the manifest says? */
static int check_parts(const struct check *c, const struct oci_descriptor *blob,
		       const struct parts *parts, struct error *err)
{
	const struct parts_blob one = { .blob = blob, .parts = parts };
	struct source_sink sink = { .put = drop };
	struct source_req req = { .len = blob->size, .n_blocks = parts->n };
	AUTO_FREE struct block *blocks = NULL;
	AUTO_FREE void *bytes = NULL;
	AUTO(source) checked = NULL;
	struct source *stored;
	struct blockmap map;
	size_t len = 0;
	int rc;

	if (!parts->n)
		return 0;
	rc = parts_map(&one, 1, &bytes, &len, err);
	if (rc == 0)
		rc = blockmap_open(bytes, len, &map, err);
	if (rc == 0)
		rc = oci_open_blob(c->store, &blob->digest, blob->size, &stored,
				   err);
	if (rc == 0)
		rc = verify_source_new(stored, &checked, err);
	if (rc < 0)
		return rc;
	req.blocks = blocks = calloc(parts->n, sizeof(*blocks));
	if (!blocks)
		return error_nomem(err);
	for (size_t k = 0; k < parts->n; k++)
		blockmap_block(&map, k, &blocks[k]);
	return source_read(checked, &req, &sink, err);
}

static int check_all_parts(const struct check *c, struct error *err)
{
	const struct artifact *a = &c->artifact;
	int rc = check_parts(c, &a->meta, &a->meta_parts, err);

	if (rc < 0)
		return error_wrap(err, rc, "metadata image: its parts");
	rc = check_parts(c, &a->map, &a->map_parts, err);
	return rc < 0 ? error_wrap(err, rc, "block map: its parts") : 0;
}

/* --------------------------------------------------------------- interface --- */

static int check_files(struct check *c, const char *meta_path,
		       const char *map_path, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = artifact_fetch(c->store, &c->artifact, NULL, meta_path,
				map_path, err);

	c->wrote_meta = rc == 0 && c->opt->metadata_to;
	if (rc == 0)
		rc = check_all_parts(c, err);
	if (rc == 0)
		rc = map_file(meta_path, &c->meta, err);
	if (rc == 0)
		rc = map_file(map_path, &c->map_file, err);
	if (rc == 0)
		rc = check_map(c, err);
	if (rc == 0)
		rc = check_metadata(c, err);
	if (rc < 0)
		return rc;
	if (c->opt->data_to) {
		fd = open(c->opt->data_to,
			  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)c->map.device_size) < 0)
			return error_set(err, errno, "create '%s': %s",
					 c->opt->data_to, strerror(errno));
		c->wrote_data = true;
	}
	c->data_fd = fd;
	return check_packs(c, err);
}

static int check_artifact(struct check *c, struct error *err)
{
	const char *dir = c->opt->temp_dir;
	AUTO_BUF folder = BUF_INIT;
	AUTO_BUF meta = BUF_INIT;
	AUTO_BUF map = BUF_INIT;
	int rc;

	if (!dir)
		dir = secure_getenv("TMPDIR");
	if (!dir || !*dir)
		dir = "/var/tmp";
	if (buf_printf(&folder, "%s/bootseer-check.XXXXXX", dir) < 0)
		return error_nomem(err);
	if (!mkdtemp(folder.data))
		return error_set(err, errno, "make a folder in '%s': %s", dir,
				 strerror(errno));
	rc = buf_printf(&map, "%s/map", folder.data);
	if (rc == 0 && c->opt->metadata_to)
		rc = buf_puts(&meta, c->opt->metadata_to);
	else if (rc == 0)
		rc = buf_printf(&meta, "%s/meta", folder.data);
	rc = rc < 0 ? error_nomem(err)
		    : check_files(c, meta.data, map.data, err);
	unmap(&c->meta);
	unmap(&c->map_file);
	free(c->order);
	/* Nothing that failed the check is left to be used. */
	if (rc < 0 && c->wrote_meta)
		(void)unlink(c->opt->metadata_to);
	if (rc < 0 && c->wrote_data)
		(void)unlink(c->opt->data_to);
	/* What went wrong first is what matters. */
	if (fs_remove_tree(folder.data, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = -EIO;
	return rc;
}

int image_check(const struct oci_ref *ref, const struct check_options *opt,
		struct error *err)
{
	AUTO(oci_store) store = NULL;
	struct check c = { .opt = opt, .data_fd = -1 };
	AUTO_FREE char *name = oci_ref_format(ref);
	struct digest image;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = oci_store_open(ref, &opt->config, false, &store, err);
	c.store = store;
	if (rc == 0)
		rc = oci_resolve(store, ref, opt->platform, &image, err);
	if (rc == 0)
		rc = artifact_find(store, &image, &c.artifact, err);
	if (rc == 0) {
		rc = check_artifact(&c, err);
		artifact_fini(&c.artifact);
	}
	return rc < 0 ? error_wrap(err, rc, "check %s", name) : 0;
}
