// SPDX-License-Identifier: Apache-2.0
/*
 * The image is not mounted: it is untrusted, and the kernel trusts EROFS images.  A folder is
 * read one entry at a time, so memory is needed only for the folders on the current path, a
 * mark for each folder met, and the names of files with several names.
 */
#include "snapshotter/convert/erofs_layer.h"

#include <errno.h>
#include <search.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "common/temp_file.h"
#include "image/erofs/erofs.h"

/* bytes given to a visitor at once */
#define DATA_PIECE MIB
/* limit of the stored names of files with several names, in bytes */
#define LINK_NAMES_MAX ((size_t)256 * MIB)
#define XATTRS_MAX 4096 /* of one inode, as for a tar */
/* Limit of look-ups of content.  Names may share an inode, so even a small image can need many. */
#define MAPS_MAX (UINT64_C(1) << 27)
/* After this many bytes of a layer the free space of the temporary disk is checked: ROOM_KEPT
 * has to be left free, or a 20th of the disk if that is less. */
#define SPOOL_LOOK (64 * MIB)
#define ROOM_KEPT (4 * GIB)
#define OVERLAY "trusted.overlay."

/* An inode that was met.  If it is met again, it is a hard link, or for a folder an error. */
struct known_inode {
	uint64_t nid;
	char path[]; /* the first name; "" for a folder */
};

/* A folder that is being read. */
struct open_dir {
	struct erofs_inode inode;
	uint64_t cookie; /* position of the current entry */
	size_t path_len; /* bytes of the folder's path with a slash */
	/* The name of the last entry, in the image; NULL: there was none. */
	const char *last;
	size_t last_len;
};

struct entry_xattr {
	struct xattr xattr;
	char name[];
};

struct erofs_walk {
	struct tar_visitor *visitor;
	struct erofs_image img;
	void *known; /* tree (tsearch(3)) of struct known_inode */
	size_t link_names;
	uint64_t
		given; /* bytes of content: files may share blocks, and many be one */
	struct open_dir *dirs;
	size_t n_dirs, cap_dirs;
	/* of the entry; of a whiteout or a link's target */
	struct buf path, other;
	uint64_t nid, cookie; /* of the entry */
	uint32_t mode;        /* of the inode whose xattrs are read */
	struct xattr *xattrs;
	/* tree (tsearch(3)) of struct entry_xattr: those in the list */
	void *xattr_names;
	size_t n_xattrs; /* xattrs read of the current inode */
	uint64_t n_maps; /* look-ups of content, for all files */
	bool is_opaque;
	struct error *err;
};

static int compare_nids(const void *a, const void *b)
{
	const struct known_inode *x = a, *y = b;

	return (x->nid > y->nid) - (x->nid < y->nid);
}

/* Find the inode among those met; NULL: it is new, and remembered now. */
static int remember_inode(struct erofs_walk *w, uint64_t nid, const char *path,
			  const struct known_inode **ret)
{
	size_t len = strlen(path) + 1;
	AUTO_FREE struct known_inode *k = malloc(sizeof(*k) + len);
	struct known_inode **found;

	if (!k)
		return error_nomem(w->err);
	k->nid = nid;
	memcpy(k->path, path, len);
	found = tsearch(k, &w->known, compare_nids);
	if (!found)
		return error_nomem(w->err);
	*ret = *found == k ? NULL : *found;
	if (*ret)
		return 0;
	(void)steal_ptr(&k);
	w->link_names += len - 1;
	return w->link_names > LINK_NAMES_MAX
		       ? error_set(w->err, E2BIG,
				   "names of hard links take more than %zu MiB",
				   LINK_NAMES_MAX / MIB)
		       : 0;
}

/* ------------------------------------------------------------------ xattrs --- */

static int compare_xattrs(const void *a, const void *b)
{
	const struct entry_xattr *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void xattrs_drop(struct erofs_walk *w)
{
	if (w->xattr_names)
		tdestroy(w->xattr_names, free);
	w->xattr_names = NULL;
	w->xattrs = NULL;
	w->n_xattrs = 0;
	w->is_opaque = false;
}

/* Read overlayfs' mark of an opaque folder.  A container's overlay would use the mark in the
 * layer; here all layers are merged into one tree. */
static int read_overlay_mark(struct erofs_walk *w, const char *mark,
			     const char *value, size_t size)
{
	if (strcmp(mark, "opaque") == 0 && size == 1 && *value == 'y') {
		w->is_opaque = true;
		return 0;
	}
	if (strcmp(mark, "origin") == 0 || strcmp(mark, "impure") == 0 ||
	    strcmp(mark, "nlink") == 0 || strcmp(mark, "uuid") == 0)
		return 0;
	return error_set(w->err, ENOTSUP,
			 "it has the mark " OVERLAY
			 "%.32s, which is of a running container's layer",
			 mark);
}

/* Refuse two values of one xattr.  The kernel takes the first of the inode's own area, else the
 * first of the shared area, and no honest writer depends on that. */
static int refuse_double_xattr(struct erofs_walk *w, const char *name)
{
	char text[TAR_NAME_MAX];

	tar_format_name(name, text);
	return error_set(w->err, EINVAL, "it has the xattr '%s' twice", text);
}

static int take_xattr(void *arg, const char *name, const void *value,
		      size_t size)
{
	struct erofs_walk *w = arg;
	size_t len = strlen(name) + 1;
	AUTO_FREE struct entry_xattr *x = NULL;
	struct entry_xattr **found;

	if (w->n_xattrs++ == XATTRS_MAX)
		return error_set(w->err, E2BIG, "more than %d xattrs",
				 XATTRS_MAX);
	if (strncmp(name, OVERLAY, strlen(OVERLAY)) == 0)
		return read_overlay_mark(w, name + strlen(OVERLAY), value,
					 size);
	if (!tar_keeps_xattr(name, w->mode & S_IFMT, false))
		return 0;
	x = malloc(sizeof(*x) + len);
	if (!x)
		return error_nomem(w->err);
	memcpy(x->name, name, len);
	x->xattr = (struct xattr){ .next = w->xattrs,
				   .name = x->name,
				   .value = value,
				   .size = (uint32_t)size };
	found = tsearch(x, &w->xattr_names, compare_xattrs);
	if (!found)
		return error_nomem(w->err);
	if (*found != x)
		return refuse_double_xattr(w, name);
	w->xattrs = &steal_ptr(&x)->xattr;
	return 0;
}

/* ----------------------------------------------------------------- entries --- */

static int read_content(struct erofs_walk *w, const struct erofs_inode *i)
{
	struct tar_visitor *v = w->visitor;
	struct erofs_map m = { .len = 0 };
	int rc = 0;

	for (uint64_t off = 0; rc == 0 && off < i->size; off += m.len) {
		if (w->n_maps++ == MAPS_MAX)
			return error_set(w->err, E2BIG,
					 "files of more than %llu pieces",
					 (unsigned long long)MAPS_MAX);
		rc = erofs_map(&w->img, i, off, &m, w->err);
		if (rc < 0 || m.kind != EROFS_MAP_INLINE)
			continue;
		if (m.len > DATA_PIECE)
			m.len = DATA_PIECE;
		w->given += m.len;
		if (w->given > LAYER_PLAIN_MAX)
			return error_set(w->err, EFBIG,
					 "files of more than %llu GiB",
					 (unsigned long long)(LAYER_PLAIN_MAX /
							      GIB));
		v->plain = (uint64_t)(m.data - w->img.data);
		rc = v->data(v, off, m.data, m.len, w->err);
	}
	return rc == 0 ? v->end(v, w->err) : rc;
}

/* Give the visitor a whiteout or opaque mark, which only says what a lower layer has no more. */
static int emit_whiteout_mark(struct erofs_walk *w, size_t dir_len,
			      const char *prefix, const char *name)
{
	struct layer_entry e = { .mode = S_IFREG };
	bool want;

	buf_reset(&w->other);
	if (buf_append(&w->other, w->path.data, dir_len) < 0 ||
	    buf_printf(&w->other, "%s%s", prefix, name) < 0)
		return error_nomem(w->err);
	e.path = w->other.data;
	return w->visitor->entry(w->visitor, &e, &want, w->err);
}

static int emit_hard_link(struct erofs_walk *w, const struct known_inode *first,
			  const struct erofs_inode *i)
{
	const struct layer_entry e = {
		.path = w->path.data,
		.link = first->path,
		.hard = true,
		.mode = i->mode,
		.uid = i->uid,
		.gid = i->gid,
		.mtime = i->mtime,
		.mtime_nsec = i->mtime_nsec,
		.xattrs = w->xattrs,
	};
	bool want;

	return w->visitor->entry(w->visitor, &e, &want, w->err);
}

static int read_target(struct erofs_walk *w, const struct erofs_inode *i)
{
	const char *target;
	size_t len;
	int rc = erofs_readlink(&w->img, i, &target, &len, w->err);

	buf_reset(&w->other);
	if (rc == 0 && buf_append(&w->other, target, len) < 0)
		return error_nomem(w->err);
	return rc;
}

static int give_inode(struct erofs_walk *w, const struct erofs_inode *i)
{
	struct layer_entry e = {
		.path = w->path.len ? w->path.data : "./",
		.mode = i->mode,
		.uid = i->uid,
		.gid = i->gid,
		.major = i->major,
		.minor = i->minor,
		.mtime = i->mtime,
		.mtime_nsec = i->mtime_nsec,
		.size = S_ISREG(i->mode) ? i->size : 0,
		.xattrs = w->xattrs,
	};
	bool want = false;
	int rc = 0;

	if (S_ISLNK(i->mode)) {
		rc = read_target(w, i);
		e.link = w->other.data;
	}
	if (rc == 0)
		rc = w->visitor->entry(w->visitor, &e, &want, w->err);
	return rc == 0 && want ? read_content(w, i) : rc;
}

static int enter_dir(struct erofs_walk *w, const struct erofs_inode *i)
{
	if (array_grow(&w->dirs, w->n_dirs, &w->cap_dirs, 64) < 0 ||
	    (w->path.len && buf_printf(&w->path, "/") < 0))
		return error_nomem(w->err);
	w->dirs[w->n_dirs++] =
		(struct open_dir){ .inode = *i, .path_len = w->path.len };
	return w->is_opaque
		       ? emit_whiteout_mark(w, w->path.len, WHITEOUT_OPAQUE, "")
		       : 0;
}

/* Give the visitor the inode at w->path; its folder's path has `dir_len` bytes. */
static int walk_inode(struct erofs_walk *w, size_t dir_len)
{
	const struct known_inode *before = NULL;
	const char *name = w->path.data + dir_len;
	struct erofs_inode i;
	int rc = erofs_inode(&w->img, w->nid, &i, w->err);

	if (rc < 0)
		return rc;
	/* Checked for whiteouts too: a whiteout of ".wh..opq" would look like the mark of an
	 * opaque folder. */
	if (strncmp(name, WHITEOUT_PREFIX, strlen(WHITEOUT_PREFIX)) == 0)
		return error_set(w->err, EINVAL,
				 "a name that a tar would have for a whiteout");
	if (S_ISCHR(i.mode) && !i.major && !i.minor)
		return emit_whiteout_mark(w, dir_len, WHITEOUT_PREFIX, name);
	if (S_ISDIR(i.mode) || i.nlink > 1)
		rc = remember_inode(w, w->nid,
				    S_ISDIR(i.mode) ? "" : w->path.data,
				    &before);
	if (rc == 0 && before && S_ISDIR(i.mode))
		return error_set(w->err, EINVAL, "a folder with two names");
	w->mode = i.mode;
	if (rc == 0)
		rc = erofs_xattrs(&w->img, &i, take_xattr, w, w->err);
	if (rc == 0)
		rc = before ? emit_hard_link(w, before, &i) : give_inode(w, &i);
	if (rc == 0 && S_ISDIR(i.mode))
		rc = enter_dir(w, &i);
	xattrs_drop(w);
	return rc;
}

/* ------------------------------------------------------------------- walk --- */

/* Check that names are in order and differ.  The kernel searches a folder by halves, so a
 * container would not find all names that this walk sees. */
static int check_order(struct erofs_walk *w, const char *name, size_t len)
{
	struct open_dir *d = &w->dirs[w->n_dirs - 1];
	size_t least = len < d->last_len ? len : d->last_len;
	int c = d->last ? memcmp(d->last, name, least) : -1;

	if (c > 0 || (c == 0 && d->last_len >= len))
		return error_set(w->err, EINVAL,
				 "names of a folder are not in order");
	d->last = name;
	d->last_len = len;
	return 0;
}

/* Take the next entry except "." and ".."; 1: it is at w->path. */
static int take_entry(void *arg, const char *name, size_t len, uint64_t nid,
		      uint8_t type, uint64_t cookie)
{
	struct erofs_walk *w = arg;

	(void)type;
	w->cookie = cookie;
	if (check_order(w, name, len) < 0)
		return -EINVAL;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return 0;
	w->nid = nid;
	if (w->path.len + len > APPLY_PATH_MAX)
		return error_set(w->err, ENAMETOOLONG,
				 "a path of more than %d bytes",
				 APPLY_PATH_MAX);
	return buf_append(&w->path, name, len) < 0 ? error_nomem(w->err) : 1;
}

static void cut_path(struct erofs_walk *w, size_t len)
{
	w->path.len = len;
	w->path.data[len] = '\0';
}

static int walk_image(struct erofs_walk *w)
{
	char text[TAR_NAME_MAX];
	int rc;

	if (buf_reserve(&w->path, APPLY_PATH_MAX + 1) < 0)
		return error_nomem(w->err);
	cut_path(w, 0);
	w->nid = w->img.root_nid;
	rc = walk_inode(w, 0);
	while (rc == 0 && w->n_dirs) {
		struct open_dir *d = &w->dirs[w->n_dirs - 1];
		size_t dir_len = d->path_len;

		cut_path(w, dir_len);
		w->cookie = d->cookie;
		rc = erofs_readdir(&w->img, &d->inode, d->cookie, take_entry, w,
				   w->err);
		d->cookie = w->cookie;
		if (rc == 0)
			w->n_dirs--;
		else if (rc == 1)
			rc = walk_inode(w, dir_len);
	}
	tar_format_name(w->path.data, text);
	return rc < 0 ? error_wrap(w->err, rc, "entry '%s'", text) : 0;
}

static int walk_bytes(const void *data, size_t len, struct tar_visitor *v,
		      struct error *err)
{
	struct erofs_walk w = { .visitor = v, .err = err };
	int rc = erofs_open(data, len, &w.img, err);

	if (rc == 0 && w.img.n_devices)
		rc = error_set(err, ENOTSUP,
			       "files' content lies in another device");
	if (rc == 0)
		rc = walk_image(&w);
	if (w.known)
		tdestroy(w.known, free);
	xattrs_drop(&w);
	free(w.dirs);
	buf_fini(&w.path);
	buf_fini(&w.other);
	return rc;
}

/* Check the disk's free space: a layer of a few MiB may unpack to a TiB, and other programs
 * need the disk too. */
static int check_room(int fd, struct error *err)
{
	struct statvfs fs;
	uint64_t kept;

	if (fstatvfs(fd, &fs) < 0)
		return 0;
	kept = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	if (kept > ROOM_KEPT)
		kept = ROOM_KEPT;
	return (uint64_t)fs.f_bavail * fs.f_frsize < kept
		       ? fs_refuse_write(fd, -ENOSPC, kept, TEMP_CURE, err)
		       : 0;
}

/* Write the whole layer to a file, up to its end, where its digest is checked. */
static int spool_layer(struct layer *l, struct tar_visitor *v, int fd,
		       uint64_t *ret_len, struct error *err)
{
	uint64_t at = 0, looked = 0;
	const void *data;
	size_t n;
	int rc;

	while ((rc = layer_read(l, &data, &n, err)) == 0 && n) {
		if (at - looked >= SPOOL_LOOK) {
			rc = check_room(fd, err);
			if (rc < 0)
				return rc;
			looked = at;
		}
		rc = fs_pwrite_full(fd, data, n, at);
		if (rc < 0)
			return fs_refuse_write(fd, rc, n, TEMP_CURE, err);
		at += n;
		if (v->came)
			v->came(v);
	}
	*ret_len = at;
	return rc;
}

int erofs_walk(struct layer *l, const char *temp_dir, struct tar_visitor *v,
	       struct error *err)
{
	AUTO_CLOSE int fd = -1;
	uint64_t len = 0;
	void *data;
	int rc = temp_file(temp_dir, &fd, err);

	if (rc == 0)
		rc = spool_layer(l, v, fd, &len, err);
	if (rc < 0)
		return rc;
	if (len == 0)
		return error_set(err, EINVAL, "not an EROFS image");
	data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_errno(err, errno, "map a temporary file");
	rc = walk_bytes(data, len, v, err);
	(void)munmap(data, len);
	return rc;
}
