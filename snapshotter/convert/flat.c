// SPDX-License-Identifier: Apache-2.0
/*
 * Folders are written first, then files with content in the order of the layers, then files
 * without content, then hard links: an unpack never meets a name before what it needs.  The
 * gzip stream consists of members, so that several threads can compress it, and the result does
 * not depend on their number.
 */
#include "snapshotter/convert/flat.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/fs.h"
#include "common/temp_file.h"
#include "image/writer/ordered_pool.h"
#include "image/writer/upload.h"
#include "snapshotter/convert/flat_image.h"
#include "snapshotter/convert/pax.h"

#define MEMBER (1u << 20) /* uncompressed bytes of a gzip member */
#define MEMBER_CAP (MEMBER + MEMBER / 512 + 1024)
#define GZIP_LEVEL 6
#define GZIP_WINDOW (15 + 16) /* 32 KiB, gzip wrapping */

struct flat {
	struct copy_sink sink;
	struct copy_sink *next;
	struct tree *tree;
	struct upload *upload;
	struct archive *archive;
	struct ordered_pool *pool;
	struct hasher *plain_hash, *stored_hash;
	struct digest diff_id, digest;
	uint64_t size;   /* stored bytes */
	int fd;          /* file of the stored layer */
	uint8_t *member; /* the member that is being filled */
	uint32_t n_member;
	/* failure of the pool, which libarchive cannot return */
	struct error err;
	uint64_t pos; /* bytes of the current file that were written */
	uint64_t file_size;
	bool below_second; /* the header's time is between -1 s and 0 */
};

/* ---------------------------------------------------------------- gzip part --- */

static void *deflate_new(void *arg)
{
	z_stream *z = calloc(1, sizeof(*z));

	if (z && deflateInit2(z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 9,
			      Z_DEFAULT_STRATEGY) != Z_OK) {
		free(z);
		z = NULL;
	}
	return z;
}

static void deflate_free(void *worker)
{
	(void)deflateEnd(worker);
	free(worker);
}

static int deflate_member(void *arg, void *worker, struct ordered_pool_item *i,
			  struct error *err)
{
	z_stream *z = worker;

	z->next_in = i->in;
	z->avail_in = i->in_len;
	z->next_out = i->out;
	z->avail_out = MEMBER_CAP;
	if (deflate(z, Z_FINISH) != Z_STREAM_END || deflateReset(z) != Z_OK)
		return error_set(err, EIO, "gzip: %s", z->msg ? z->msg : "?");
	i->out_len = MEMBER_CAP - z->avail_out;
	return 0;
}

static int write_member(void *arg, struct ordered_pool_item *i,
			struct error *err)
{
	struct flat *f = arg;
	int rc = fs_pwrite_full(f->fd, i->out, i->out_len, f->size);

	if (rc == 0)
		rc = hasher_update(f->stored_hash, i->out, i->out_len);
	if (rc < 0)
		return fs_refuse_write(f->fd, rc, i->out_len, TEMP_CURE, err);
	f->size += i->out_len;
	return 0;
}

static int put_plain(struct flat *f, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t left = len;

	if (hasher_update(f->plain_hash, data, len) < 0)
		return -1;
	while (left) {
		size_t n = MEMBER - f->n_member;

		if (n > left)
			n = left;
		memcpy(f->member + f->n_member, p, n);
		f->n_member += (uint32_t)n;
		p += n;
		left -= n;
		if (f->n_member < MEMBER)
			continue;
		if (ordered_pool_put(f->pool, &f->member, MEMBER, 0, &f->err) <
		    0)
			return -1;
		f->n_member = 0;
	}
	return 0;
}

/* Take the records of a header.  libarchive gives them in one call, since it does not buffer
 * (open_archive()). It cannot write "-0.5", so the entry was given -1.5, which is corrected
 * here. */
static la_ssize_t write_plain(struct archive *a, void *arg, const void *data,
			      size_t len)
{
	struct flat *f = arg;
	const uint8_t *p = data;
	struct pax_text mtime =
		pax_find(data, f->below_second ? len : 0, "mtime");
	size_t at = mtime.len ? (size_t)(mtime.data - p) : 0;

	if (mtime.len > 2 && memcmp(mtime.data, "-1", 2) == 0) {
		f->below_second = false;
		if (put_plain(f, p, at) < 0 || put_plain(f, "-0", 2) < 0 ||
		    put_plain(f, p + at + 2, len - at - 2) < 0)
			return -1;
	} else if (put_plain(f, data, len) < 0) {
		return -1;
	}
	return (la_ssize_t)len;
}

/* ----------------------------------------------------------------- tar part --- */

static int tar_error(struct flat *f, struct error *err)
{
	const char *text = archive_error_string(f->archive);

	if (f->err.code) {
		if (err)
			*err = f->err;
		return -f->err.code;
	}
	return error_set(err, EIO, "write the layer: %s", text ? text : "?");
}

/* The path of one of the inode's names; the tree's arena owns it. */
static int make_inode_path(struct tree *t, const struct dentry *d, char **ret,
			   struct error *err)
{
	size_t len = d->name_len;
	const struct inode *dir = d->parent;
	char *path;

	for (const struct dentry *up = dir->user_ptr; up;
	     up = up->parent->user_ptr)
		len += up->name_len + (size_t)1;
	path = tree_alloc(t, len + 1);
	if (!path)
		return error_nomem(err);
	path[len] = '\0';
	*ret = path;
	for (const struct dentry *at = d; at; at = at->parent->user_ptr) {
		len -= at->name_len;
		memcpy(path + len, at->name, at->name_len);
		if (len)
			path[--len] = '/';
	}
	return 0;
}

static void fill_entry(struct archive_entry *ae, const struct inode *i,
		       const char *path)
{
	archive_entry_set_pathname(ae, path);
	archive_entry_set_mode(ae, i->mode);
	archive_entry_set_uid(ae, i->uid);
	archive_entry_set_gid(ae, i->gid);
	/* libarchive writes -1 s and 0.5 s as "-1.5".  write_plain() makes it -0.5 where that
	 * is meant. */
	if (i->mtime < 0 && i->mtime_nsec)
		archive_entry_set_mtime(ae, i->mtime == -1 ? -1 : i->mtime + 1,
					1000000000 - (long)i->mtime_nsec);
	else
		archive_entry_set_mtime(ae, i->mtime, (long)i->mtime_nsec);
	if (S_ISREG(i->mode))
		archive_entry_set_size(ae, (la_int64_t)i->size);
	if (S_ISLNK(i->mode))
		archive_entry_set_symlink(ae, i->target);
	if (S_ISCHR(i->mode) || S_ISBLK(i->mode)) {
		archive_entry_set_rdevmajor(ae, i->major);
		archive_entry_set_rdevminor(ae, i->minor);
	}
	for (const struct xattr *x = i->xattrs; x; x = x->next)
		archive_entry_xattr_add_entry(ae, x->name, x->value, x->size);
}

static int write_header(struct flat *f, const struct inode *i, const char *path,
			const char *hard, struct error *err)
{
	struct archive_entry *ae = archive_entry_new();
	int rc;

	if (!ae)
		return error_nomem(err);
	fill_entry(ae, i, path);
	if (hard) {
		archive_entry_set_hardlink(ae, hard);
		archive_entry_unset_size(ae);
	}
	f->below_second = i->mtime == -1 && i->mtime_nsec;
	rc = archive_write_header(f->archive, ae);
	if (f->below_second && rc >= ARCHIVE_WARN) {
		error_set(&f->err, EIO, "its time is not in its header");
		rc = ARCHIVE_FATAL;
	}
	archive_entry_free(ae);
	return rc < ARCHIVE_WARN ? tar_error(f, err) : 0;
}

/* Does the second pass give content to the inode? */
static bool has_content(const struct inode *i)
{
	return S_ISREG(i->mode) && i->size;
}

typedef int walk_fn(struct flat *f, struct dentry *d, struct error *err);

/* Call `each` for every name below `dir`: folders before their entries, in byte order. */
static int walk_folder(struct flat *f, struct inode *dir, walk_fn *each,
		       struct error *err)
{
	AUTO_FREE struct dentry **list = NULL;
	size_t n = 0;
	int rc = tree_sorted(dir, &list, &n);

	if (rc < 0)
		return error_nomem(err);
	for (size_t k = 0; rc == 0 && k < n; k++) {
		rc = each(f, list[k], err);
		if (rc == 0 && S_ISDIR(list[k]->inode->mode))
			rc = walk_folder(f, list[k]->inode, each, err);
	}
	return rc;
}

/* Write a folder's header and remember its name; files are written later. */
static int write_folder(struct flat *f, struct dentry *d, struct error *err)
{
	char *path;
	int rc;

	d->inode->user_ptr = NULL;
	if (!S_ISDIR(d->inode->mode)) {
		/* Clear the file's name, which remember_file_name() sets. */
		return 0;
	}
	d->inode->user_ptr = d;
	rc = make_inode_path(f->tree, d, &path, err);
	return rc < 0 ? rc : write_header(f, d->inode, path, NULL, err);
}

/* Remember a file's first name for the time when its content is read. */
static int remember_file_name(struct flat *f, struct dentry *d,
			      struct error *err)
{
	char *path;
	int rc;

	if (!has_content(d->inode) || d->inode->user_ptr)
		return 0;
	rc = make_inode_path(f->tree, d, &path, err);
	if (rc == 0)
		d->inode->user_ptr = path;
	return rc;
}

/* Write an entry without content, or a further name. */
static int write_entry_without_content(struct flat *f, struct dentry *d,
				       struct error *err)
{
	struct inode *i = d->inode;
	char *path;
	int rc;

	if (S_ISDIR(i->mode))
		return 0;
	rc = make_inode_path(f->tree, d, &path, err);
	if (rc < 0)
		return rc;
	if (i->user_ptr && strcmp(i->user_ptr, path) == 0)
		return 0;
	rc = write_header(f, i, path, i->user_ptr, err);
	if (!i->user_ptr)
		i->user_ptr = path;
	return rc;
}

static int write_zeros(struct flat *f, uint64_t n, struct error *err)
{
	static const uint8_t zeros[65536];

	while (n) {
		size_t len = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);

		if (archive_write_data(f->archive, zeros, len) !=
		    (la_ssize_t)len)
			return tar_error(f, err);
		n -= len;
	}
	return 0;
}

static int flat_file_begin(struct copy_sink *s, struct inode *i,
			   struct error *err)
{
	struct flat *f = container_of(s, struct flat, sink);
	int rc = write_header(f, i, i->user_ptr, NULL, err);

	f->pos = 0;
	f->file_size = i->size;
	return rc < 0 ? rc : f->next->begin(f->next, i, err);
}

static int flat_file_data(struct copy_sink *s, uint64_t off, const void *bytes,
			  size_t len, struct error *err)
{
	struct flat *f = container_of(s, struct flat, sink);
	int rc = f->next->data(f->next, off, bytes, len, err);

	/* `next` has checked that these bytes follow the last ones. */
	if (rc == 0)
		rc = write_zeros(f, off - f->pos, err);
	if (rc < 0)
		return rc;
	if (archive_write_data(f->archive, bytes, len) != (la_ssize_t)len)
		return tar_error(f, err);
	f->pos = off + len;
	return 0;
}

static int flat_file_end(struct copy_sink *s, struct error *err)
{
	struct flat *f = container_of(s, struct flat, sink);
	int rc = write_zeros(f, f->file_size - f->pos, err);

	return rc < 0 ? rc : f->next->end(f->next, err);
}

/* --------------------------------------------------------------- interface --- */

static int open_archive(struct flat *f, struct error *err)
{
	f->archive = archive_write_new();
	if (!f->archive)
		return error_nomem(err);
	if (archive_write_set_format_pax(f->archive) < ARCHIVE_WARN ||
	    archive_write_set_options(f->archive, "pax:hdrcharset=BINARY,"
						  "pax:xattrheader=SCHILY") <
		    ARCHIVE_WARN ||
	    archive_write_set_bytes_per_block(f->archive, 0) < ARCHIVE_WARN ||
	    archive_write_open(f->archive, f, NULL, write_plain, NULL) <
		    ARCHIVE_WARN)
		return tar_error(f, err);
	return 0;
}

int flat_new(struct tree *t, unsigned int jobs, const char *temp_dir,
	     struct upload *upload, struct flat **ret, struct error *err)
{
	AUTO(flat) f = calloc(1, sizeof(*f));
	struct ordered_pool_config pool = {
		.jobs = jobs,
		.in_cap = MEMBER,
		.out_cap = MEMBER_CAP,
		.worker_new = deflate_new,
		.worker_free = deflate_free,
		.work = deflate_member,
		.write = write_member,
	};
	int rc;

	if (!f)
		return error_nomem(err);
	f->fd = -1;
	f->tree = t;
	f->upload = upload;
	f->sink = (struct copy_sink){ flat_file_begin, flat_file_data,
				      flat_file_end };
	f->member = malloc(MEMBER);
	f->plain_hash = hasher_new();
	f->stored_hash = hasher_new();
	if (!f->member || !f->plain_hash || !f->stored_hash)
		return error_nomem(err);
	pool.arg = f;
	rc = temp_file(temp_dir, &f->fd, err);
	if (rc == 0)
		rc = ordered_pool_new(&pool, &f->pool, err);
	if (rc == 0)
		rc = open_archive(f, err);
	if (rc == 0)
		rc = write_header(f, tree_root(t), "./", NULL, err);
	tree_root(t)->user_ptr = NULL;
	if (rc == 0)
		rc = walk_folder(f, tree_root(t), write_folder, err);
	if (rc == 0)
		rc = walk_folder(f, tree_root(t), remember_file_name, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&f);
	return 0;
}

void flat_free(struct flat *f)
{
	if (!f)
		return;
	if (f->archive)
		(void)archive_write_fail(f->archive);
	(void)archive_write_free(f->archive);
	ordered_pool_free(f->pool);
	cleanup_close(&f->fd);
	free(f->member);
	hasher_free(f->plain_hash);
	hasher_free(f->stored_hash);
	free(f);
}

struct copy_sink *flat_wrap(struct flat *f, struct copy_sink *next)
{
	f->next = next;
	return &f->sink;
}

int flat_close(struct flat *f, struct error *err)
{
	int rc = walk_folder(f, tree_root(f->tree), write_entry_without_content,
			     err);

	if (rc == 0 && archive_write_close(f->archive) < ARCHIVE_WARN)
		rc = tar_error(f, err);
	if (rc == 0 && f->n_member)
		rc = ordered_pool_put(f->pool, &f->member, f->n_member, 0, err);
	if (rc == 0)
		rc = ordered_pool_finish(f->pool, err);
	if (rc < 0)
		return rc;
	if (hasher_final(f->plain_hash, &f->diff_id) < 0 ||
	    hasher_final(f->stored_hash, &f->digest) < 0)
		return error_nomem(err);
	return upload_put(f->upload, &f->digest, f->size, steal_fd(&f->fd),
			  err);
}

const struct digest *flat_diff_id(const struct flat *f)
{
	return &f->diff_id;
}

int flat_manifest(struct flat *f, struct oci_store *store,
		  const struct buf *config, const struct digest *artifact,
		  struct oci_manifest *ret, struct error *err)
{
	struct flat_image image = {
		.store = store,
		.config = config,
		.artifact = artifact,
		.diff_id = &f->diff_id,
		.layer = &f->digest,
		.layer_size = f->size,
	};

	return flat_image_make(&image, ret, err);
}
