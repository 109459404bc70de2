// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/plain.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "snapshotter/datapath/serve.h"

/* Cache timeout in seconds: an image never changes, so the kernel may cache everything. */
#define FOR_EVER 1e9

/* The inode that a request is about, with its image. */
struct plain_node {
	struct image_session *s;
	struct image_entry *e;
	const struct plain_image *pi;
	struct erofs_inode inode;
};

static void node_put(struct plain_node *n)
{
	image_put(n->s->images, n->e);
}

/* Get the inode of a request: 0, or -errno with nothing held. */
static int node_get(fuse_req_t req, fuse_ino_t ino, struct plain_node *ret)
{
	int rc;

	ret->s = image_session_of(req);
	if (!node_is_image(ino))
		return -ENOENT;
	ret->e = image_get(ret->s->images, node_index(ino));
	if (!ret->e)
		return -ENOENT;
	ret->pi = ret->e->priv;
	rc = erofs_inode(&ret->pi->erofs, ino & NODE_LOCAL_MASK, &ret->inode,
			 NULL);
	if (rc < 0) {
		node_put(ret);
		return -EIO;
	}
	return 0;
}

/* The inode number shown to programs: never 0, which readdir(3) takes for a removed entry. */
static ino_t ino_of(uint64_t nid)
{
	return nid + 1;
}

static void fill_attr(const struct erofs_inode *i, struct stat *st)
{
	*st = (struct stat){
		.st_ino = ino_of(i->nid),
		.st_mode = i->mode,
		.st_nlink = i->nlink,
		.st_uid = i->uid,
		.st_gid = i->gid,
		.st_rdev = makedev(i->major, i->minor),
		.st_size = (off_t)i->size,
		.st_blksize = EROFS_BLOCK,
		.st_blocks = (blkcnt_t)((i->size + EROFS_BLOCK - 1) /
					EROFS_BLOCK * (EROFS_BLOCK / 512)),
		.st_mtim = { .tv_sec = i->mtime, .tv_nsec = i->mtime_nsec },
	};
	st->st_atim = st->st_ctim = st->st_mtim;
}

static int fill_entry(const struct image_entry *e, uint64_t nid,
		      struct fuse_entry_param *ret)
{
	const struct plain_image *pi = e->priv;
	struct erofs_inode i;

	if (nid > NODE_LOCAL_MASK || erofs_inode(&pi->erofs, nid, &i, NULL) < 0)
		return -EIO;
	*ret = (struct fuse_entry_param){ .ino = node_id(e->index, nid),
					  .generation = pi->generation,
					  .attr_timeout = FOR_EVER,
					  .entry_timeout = FOR_EVER };
	fill_attr(&i, &ret->attr);
	return 0;
}

/* ------------------------------------------------------------- the session --- */

static void plain_init(struct fuse_conn_info *conn)
{
	const unsigned int wanted = FUSE_CAP_CACHE_SYMLINKS |
				    FUSE_CAP_POSIX_ACL | FUSE_CAP_READDIRPLUS |
				    FUSE_CAP_PARALLEL_DIROPS;

	conn->want |= conn->capable & wanted;
	/* Always use READDIRPLUS: a program that lists a folder of a rootfs reads its files
	 * next. */
	conn->want &= ~(unsigned int)FUSE_CAP_READDIRPLUS_AUTO;
}

/* Look up a name in the root, the folder that holds the images' folders. */
static void root_lookup(fuse_req_t req, const char *name)
{
	struct image_session *s = image_session_of(req);
	struct fuse_entry_param out;
	struct image_entry *e = NULL;
	uint64_t index;
	int rc = -ENOENT;

	if (image_index_parse(name, &index) == 0)
		e = image_get(s->images, index);
	if (e) {
		const struct plain_image *pi = e->priv;

		rc = fill_entry(e, pi->erofs.root_nid, &out);
		/* Do not cache: the index may return with another image. */
		out.entry_timeout = 0;
		image_put(s->images, e);
	}
	if (rc < 0)
		(void)fuse_reply_err(req, -rc);
	else
		(void)fuse_reply_entry(req, &out);
}

static void plain_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param out = { .entry_timeout = FOR_EVER };
	struct plain_node n;
	uint64_t nid;
	int rc;

	if (parent == NODE_ROOT) {
		root_lookup(req, name);
		return;
	}
	rc = node_get(req, parent, &n);
	if (rc == 0) {
		rc = -ENOTDIR;
		if (S_ISDIR(n.inode.mode))
			rc = erofs_lookup(&n.pi->erofs, &n.inode, name,
					  strlen(name), &nid, NULL);
		if (rc == 0)
			rc = fill_entry(n.e, nid, &out);
		else if (rc == -ENOENT)
			rc = 0; /* inode 0: the kernel caches that it is missing */
		node_put(&n);
	}
	if (rc < 0)
		(void)fuse_reply_err(req, -rc);
	else
		(void)fuse_reply_entry(req, &out);
}

static void plain_getattr(fuse_req_t req, fuse_ino_t ino,
			  struct fuse_file_info *fi)
{
	struct stat st = { .st_ino = NODE_ROOT,
			   .st_mode = S_IFDIR | 0500,
			   .st_nlink = 2 };
	struct plain_node n;
	int rc = 0;

	if (ino != NODE_ROOT) {
		rc = node_get(req, ino, &n);
		if (rc == 0) {
			fill_attr(&n.inode, &st);
			node_put(&n);
		}
	}
	if (rc < 0)
		(void)fuse_reply_err(req, -rc);
	else
		(void)fuse_reply_attr(req, &st,
				      ino == NODE_ROOT ? 0 : FOR_EVER);
}

static void plain_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[TREE_SYMLINK_MAX + 1];
	const char *p;
	struct plain_node n;
	size_t len;
	int rc = node_get(req, ino, &n);

	if (rc == 0) {
		rc = -EINVAL;
		if (S_ISLNK(n.inode.mode))
			rc = erofs_readlink(&n.pi->erofs, &n.inode, &p, &len,
					    NULL);
		if (rc == 0 && len > TREE_SYMLINK_MAX)
			rc = -EIO;
		if (rc == 0) {
			memcpy(target, p, len);
			target[len] = '\0';
		}
		node_put(&n);
	}
	if (rc < 0)
		(void)fuse_reply_err(req, -rc);
	else
		(void)fuse_reply_readlink(req, target);
}

/* ENOSYS makes the kernel open files without asking again, and keep its page cache. */
static void plain_open(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	(void)fuse_reply_err(req, ENOSYS);
}

/* ------------------------------------------------------------------ bytes --- */

static int plain_next_piece(const struct image_entry *image, uint64_t local,
			    uint64_t off, size_t len, struct read_piece *ret,
			    struct error *err)
{
	const struct plain_image *pi = image->priv;
	struct erofs_inode i;
	struct erofs_map map;
	int rc = erofs_inode(&pi->erofs, local, &i, err);

	if (rc == 0)
		rc = erofs_map(&pi->erofs, &i, off, &map, err);
	if (rc < 0)
		return rc;
	ret->len = map.len < len ? (size_t)map.len : len;
	switch (map.kind) {
	case EROFS_MAP_INLINE:
		ret->data = map.data;
		return 0;
	case EROFS_MAP_HOLE:
		ret->zero = true;
		return 0;
	case EROFS_MAP_DEVICE:
		break;
	}
	if (map.device != 1)
		return error_set(err, EIO, "data in device %u", map.device);
	ret->voff = map.voff;
	return 0;
}

static void plain_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off,
		       struct fuse_file_info *fi)
{
	struct plain_node n;
	int rc = node_get(req, ino, &n);

	if (rc == 0 && !S_ISREG(n.inode.mode)) {
		node_put(&n);
		rc = -EISDIR;
	}
	if (rc < 0) {
		(void)fuse_reply_err(req, rc == -EISDIR ? EISDIR : EIO);
		return;
	}
	if ((uint64_t)off >= n.inode.size)
		len = 0;
	else if (len > n.inode.size - (uint64_t)off)
		len = n.inode.size - (uint64_t)off;
	serve_read(req, n.e, n.inode.nid, (uint64_t)off, len, plain_next_piece);
}

/* ---------------------------------------------------------------- folders --- */

struct plain_listing {
	fuse_req_t req;
	const struct plain_node *n;
	char *buf;
	size_t size, used;
	bool plus;
};

/* File types in EROFS's directory entries. */
static const mode_t modes[] = { 0,       S_IFREG, S_IFDIR,  S_IFCHR,
				S_IFBLK, S_IFIFO, S_IFSOCK, S_IFLNK };

/* Add an entry to the reply; 1 when the buffer is full. */
static int plain_add_entry(void *arg, const char *name, size_t len,
			   uint64_t nid, uint8_t type, uint64_t cookie)
{
	struct plain_listing *l = arg;
	struct fuse_entry_param e = { .attr.st_ino = ino_of(nid),
				      .attr.st_mode = type < ARRAY_SIZE(modes)
							      ? modes[type]
							      : 0 };
	bool dots = len <= 2 && memcmp(name, "..", len) == 0;
	char copy[TREE_NAME_MAX + 1];
	size_t left = l->size - l->used, need;

	if (len > TREE_NAME_MAX)
		return -EIO;
	memcpy(copy, name, len);
	copy[len] = '\0';
	/* "." and ".." are not looked up by the kernel, so they get no node id. */
	if (l->plus && !dots && fill_entry(l->n->e, nid, &e) < 0)
		return -EIO;
	need = l->plus ? fuse_add_direntry_plus(l->req, l->buf + l->used, left,
						copy, &e, (off_t)cookie)
		       : fuse_add_direntry(l->req, l->buf + l->used, left, copy,
					   &e.attr, (off_t)cookie);
	if (need > left)
		return 1;
	l->used += need;
	return 0;
}

static void list_folder(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			bool plus)
{
	AUTO_FREE char *buf = NULL;
	struct plain_listing l = { .req = req, .size = size, .plus = plus };
	struct plain_node n;
	int rc;

	if (ino == NODE_ROOT || size > SESSION_DATA_MAX) {
		(void)fuse_reply_err(req, EACCES);
		return;
	}
	rc = node_get(req, ino, &n);
	if (rc == 0) {
		l.n = &n;
		l.buf = buf = malloc(size);
		rc = !buf ? -ENOMEM : S_ISDIR(n.inode.mode) ? 0 : -ENOTDIR;
		if (rc == 0)
			rc = erofs_readdir(&n.pi->erofs, &n.inode,
					   (uint64_t)off, plain_add_entry, &l,
					   NULL);
		node_put(&n);
	}
	/* Reply with the entries that are in the buffer; the next call returns the error. */
	if (rc < 0 && l.used == 0)
		(void)fuse_reply_err(req, -rc);
	else
		(void)fuse_reply_buf(req, buf, l.used);
}

static void plain_readdir(fuse_req_t req, fuse_ino_t ino, size_t size,
			  off_t off, struct fuse_file_info *fi)
{
	list_folder(req, ino, size, off, false);
}

static void plain_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
			      off_t off, struct fuse_file_info *fi)
{
	list_folder(req, ino, size, off, true);
}

/* ------------------------------------------------------------- attributes --- */

struct xattr_search {
	const char *name; /* NULL: list the names */
	char *buf;
	size_t size, len; /* room, and bytes needed */
	bool found;
};

static int plain_each_xattr(void *arg, const char *name, const void *value,
			    size_t size)
{
	struct xattr_search *x = arg;

	if (x->name && strcmp(name, x->name) != 0)
		return 0;
	if (!x->name) {
		value = name;
		size = strlen(name) + 1;
	}
	x->found = true;
	if (x->len + size <= x->size)
		memcpy(x->buf + x->len, value, size);
	x->len += size;
	return x->name ? 1 : 0;
}

static void count_xattr_request(fuse_req_t req)
{
	struct plain_counts *c = image_session_of(req)->priv;

	atomic_fetch_add_explicit(&c->xattr_requests, 1, memory_order_relaxed);
}

static void search_folder(fuse_req_t req, fuse_ino_t ino, const char *name,
			  size_t size)
{
	AUTO_FREE char *buf = malloc(size ? size : 1);
	struct xattr_search x = { .name = name, .buf = buf, .size = size };
	struct plain_node n;
	int rc = buf ? node_get(req, ino, &n) : -ENOMEM;

	count_xattr_request(req);
	if (rc == 0) {
		if (n.inode.xattr_len)
			rc = erofs_xattrs(&n.pi->erofs, &n.inode,
					  plain_each_xattr, &x, NULL);
		node_put(&n);
	}
	if (rc >= 0 && name && !x.found)
		rc = -ENODATA;
	if (rc >= 0 && size && x.len > size)
		rc = -ERANGE;
	if (rc < 0)
		(void)fuse_reply_err(req, -rc);
	else if (size == 0)
		(void)fuse_reply_xattr(req, x.len);
	else
		(void)fuse_reply_buf(req, buf, x.len);
}

static void plain_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			   size_t size)
{
	search_folder(req, ino, name, size);
}

static void plain_getxattr_none(fuse_req_t req, fuse_ino_t ino,
				const char *name, size_t size)
{
	count_xattr_request(req);
	(void)fuse_reply_err(req, ENOSYS);
}

static void plain_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	search_folder(req, ino, NULL, size);
}

static void plain_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st = { .f_bsize = EROFS_BLOCK,
			      .f_frsize = EROFS_BLOCK,
			      .f_namemax = TREE_NAME_MAX };
	struct plain_node n;

	if (node_get(req, ino, &n) == 0) {
		st.f_blocks = (n.pi->len + n.e->img->device_size) / EROFS_BLOCK;
		st.f_files = n.pi->erofs.n_inodes;
		node_put(&n);
	}
	(void)fuse_reply_statfs(req, &st);
}

/* All operations except getxattr. */
#define PLAIN_OPS \
	.lookup = plain_lookup, .getattr = plain_getattr, \
	.readlink = plain_readlink, .open = plain_open, .opendir = plain_open, \
	.read = plain_read, .readdir = plain_readdir, \
	.readdirplus = plain_readdirplus, .listxattr = plain_listxattr, \
	.statfs = plain_statfs
#define PLAIN_HANDLER \
	.init = plain_init, .is_early = image_session_is_early, \
	.free = image_session_free, .request_max = SESSION_REQUEST_NAMES

static const struct fuse_lowlevel_ops plain_ops = {
	PLAIN_OPS,
	.getxattr = plain_getxattr,
};

static const struct fuse_lowlevel_ops plain_no_xattr_ops = {
	PLAIN_OPS,
	.getxattr = plain_getxattr_none,
};

const struct session_handler plain_handler = {
	PLAIN_HANDLER,
	.ops = &plain_ops,
};

const struct session_handler plain_no_xattr_handler = {
	PLAIN_HANDLER,
	.ops = &plain_no_xattr_ops,
};
