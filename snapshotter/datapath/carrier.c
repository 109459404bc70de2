// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "snapshotter/datapath/mounts.h"

static struct session *session_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* Timeouts are 0: an index may come back with a device of another size, and
 * these are a handful of requests for each mount. */
static void fill_root(struct stat *st)
{
	*st = (struct stat){ .st_ino = NODE_ROOT,
			     .st_mode = S_IFDIR | 0500,
			     .st_nlink = 2 };
}

static void fill_file(const struct image_entry *e, struct stat *st)
{
	*st = (struct stat){ .st_ino = node_id(e->index, 0),
			     .st_mode = S_IFREG | 0400,
			     .st_nlink = 1,
			     .st_size = (off_t)e->img->device_size,
			     .st_blksize = 4096,
			     .st_blocks =
				     (blkcnt_t)(e->img->device_size / 512) };
}

static struct image_entry *entry_of(struct session *s, fuse_ino_t ino)
{
	return node_is_image(ino)
		       ? image_get(session_images(s), node_index(ino))
		       : NULL;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct session *s = session_of(req);
	struct fuse_entry_param out = { .generation = 1 };
	struct image_entry *e = NULL;
	uint64_t index;

	if (parent == NODE_ROOT && image_index_parse(name, &index) == 0)
		e = image_get(session_images(s), index);
	if (!e) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	fill_file(e, &out.attr);
	out.ino = out.attr.st_ino;
	image_put(session_images(s), e);
	(void)fuse_reply_entry(req, &out);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct session *s = session_of(req);
	struct image_entry *e;
	struct stat st;

	if (ino == NODE_ROOT) {
		fill_root(&st);
		(void)fuse_reply_attr(req, &st, 0);
		return;
	}
	e = entry_of(s, ino);
	if (!e) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	fill_file(e, &st);
	image_put(session_images(s), e);
	(void)fuse_reply_attr(req, &st, 0);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct session *s = session_of(req);
	struct image_entry *e = entry_of(s, ino);

	if (!e) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	image_put(session_images(s), e);
	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		(void)fuse_reply_err(req, EACCES);
		return;
	}
	/* EROFS caches what it reads; a second copy here would be waste, and
	 * its readahead would be cut to this mount's. */
	fi->direct_io = 1;
	fi->noflush = 1;
	(void)fuse_reply_open(req, fi);
}

static void op_release(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	(void)fuse_reply_err(req, 0);
}

static int next_piece(struct read_slot *slot, uint64_t off, size_t len,
		      struct read_piece *ret, struct error *err)
{
	ret->voff = off;
	ret->len = len;
	return 0;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off,
		    struct fuse_file_info *fi)
{
	struct session *s = session_of(req);
	struct image_entry *e = entry_of(s, ino);
	uint64_t size;

	if (!e) {
		/* Unmounted, but still open somewhere. */
		(void)fuse_reply_err(req, EIO);
		return;
	}
	size = e->img->device_size;
	if ((uint64_t)off >= size)
		len = 0;
	else if (len > size - (uint64_t)off)
		len = size - (uint64_t)off;
	session_hold(s);
	serve_read(session_pool(s), req, e, 0, (uint64_t)off, len, next_piece);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st = { .f_bsize = 4096,
			      .f_frsize = 4096,
			      .f_namemax = 255 };

	(void)fuse_reply_statfs(req, &st);
}

static const struct fuse_lowlevel_ops ops = {
	.init = session_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.open = op_open,
	.read = op_read,
	.release = op_release,
	.statfs = op_statfs,
};

int carrier_start(const struct datapath_config *cfg, const char *name,
		  struct session **ret, struct error *err)
{
	const struct session_config sc = {
		.name = name,
		/* Root alone opens files here; whoever reads the image does
		 * so through EROFS. */
		.mount_data = "default_permissions,allow_other",
		.mount_flags = MS_NOSUID | MS_NOEXEC,
		.datapath = cfg,
		.ops = &ops,
	};

	return session_start(&sc, ret, err);
}

int carrier_add(struct session *s, struct datapath_image *img,
		struct error *err)
{
	int rc;

	if (!img->device || img->device_size % 4096)
		return error_set(err, EINVAL,
				 "image '%s' has no device that can be served",
				 img->name);
	rc = image_table_add(session_images(s), img, NULL, err);
	if (rc == -EALREADY)
		return 1;
	if (rc == 0)
		session_admit(s, false);
	return rc;
}

void carrier_remove(struct session *s, struct datapath_image *img)
{
	(void)image_table_remove(session_images(s), img->index, NULL);
}

char *carrier_path(const struct session *s, const struct datapath_image *img)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "%llu",
		       (unsigned long long)img->index);
	return path_join(session_path(s), name);
}
