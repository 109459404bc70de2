// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "snapshotter/datapath/serve.h"

/* No caching of attributes (timeouts are 0): an index may return with a device of another size,
 * and each mount makes only a few requests. */
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

static struct image_entry *entry_of(struct image_session *s, fuse_ino_t ino)
{
	return node_is_image(ino) ? image_get(s->images, node_index(ino))
				  : NULL;
}

static void carrier_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct image_session *s = image_session_of(req);
	struct fuse_entry_param out = { .generation = 1 };
	struct image_entry *e = NULL;
	uint64_t index;

	if (parent == NODE_ROOT && image_index_parse(name, &index) == 0)
		e = image_get(s->images, index);
	if (!e) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	fill_file(e, &out.attr);
	out.ino = out.attr.st_ino;
	image_put(s->images, e);
	(void)fuse_reply_entry(req, &out);
}

static void carrier_getattr(fuse_req_t req, fuse_ino_t ino,
			    struct fuse_file_info *fi)
{
	struct image_session *s = image_session_of(req);
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
	image_put(s->images, e);
	(void)fuse_reply_attr(req, &st, 0);
}

static void carrier_open(fuse_req_t req, fuse_ino_t ino,
			 struct fuse_file_info *fi)
{
	struct image_session *s = image_session_of(req);
	struct image_entry *e = entry_of(s, ino);

	if (!e) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	image_put(s->images, e);
	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		(void)fuse_reply_err(req, EACCES);
		return;
	}
	/* EROFS caches what it reads, so caching here too would be waste, and would limit its
	 * readahead to this mount's. */
	fi->direct_io = 1;
	fi->noflush = 1;
	(void)fuse_reply_open(req, fi);
}

static void carrier_release(fuse_req_t req, fuse_ino_t ino,
			    struct fuse_file_info *fi)
{
	(void)fuse_reply_err(req, 0);
}

static int carrier_next_piece(const struct image_entry *image, uint64_t local,
			      uint64_t off, size_t len, struct read_piece *ret,
			      struct error *err)
{
	ret->voff = off;
	ret->len = len;
	return 0;
}

static void carrier_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off,
			 struct fuse_file_info *fi)
{
	struct image_session *s = image_session_of(req);
	struct image_entry *e = entry_of(s, ino);
	uint64_t size;

	if (!e) {
		/* The image was unmounted, but its file is still open. */
		(void)fuse_reply_err(req, EIO);
		return;
	}
	size = e->img->device_size;
	if ((uint64_t)off >= size)
		len = 0;
	else if (len > size - (uint64_t)off)
		len = size - (uint64_t)off;
	serve_read(req, e, 0, (uint64_t)off, len, carrier_next_piece);
}

static void carrier_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st = { .f_bsize = 4096,
			      .f_frsize = 4096,
			      .f_namemax = 255 };

	(void)fuse_reply_statfs(req, &st);
}

static const struct fuse_lowlevel_ops carrier_ops = {
	.lookup = carrier_lookup,
	.getattr = carrier_getattr,
	.open = carrier_open,
	.read = carrier_read,
	.release = carrier_release,
	.statfs = carrier_statfs,
};

static const struct session_handler carrier_handler = {
	.ops = &carrier_ops,
	.is_early = image_session_is_early,
	.free = image_session_free,
	.request_max = SESSION_REQUEST_NAMES,
};

int carrier_start(const struct datapath_config *cfg, const char *name,
		  struct image_session **ret, struct error *err)
{
	const struct image_session_config sc = {
		.name = name,
		.fstype = IMAGE_SESSION_FSTYPE,
		/* Only root opens files here; readers of the image use EROFS. */
		.mount_flags = MS_NOEXEC,
		.datapath = cfg,
		.handler = &carrier_handler,
	};

	return image_session_start(&sc, ret, err);
}

int carrier_add(struct image_session *s, struct datapath_image *img,
		struct error *err)
{
	int rc;

	if (!img->device || img->device_size % 4096)
		return error_set(err, EINVAL,
				 "image '%s' has no device that can be served",
				 img->name);
	rc = image_table_add(s->images, img, NULL, err);
	if (rc == -EALREADY)
		return 1;
	if (rc == 0)
		session_admit(s->session, false);
	return rc;
}

void carrier_remove(struct image_session *s, struct datapath_image *img)
{
	(void)image_table_remove(s->images, img->index, NULL);
}

char *carrier_path(const struct image_session *s,
		   const struct datapath_image *img)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "%llu",
		       (unsigned long long)img->index);
	return fs_join(session_path(s->session), name);
}
