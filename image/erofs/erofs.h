// SPDX-License-Identifier: Apache-2.0
/*
 * Writer and reader of the metadata images (EROFS on-disk format, Linux
 * Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h).  What subset
 * is written is described in docs/formats/erofs.md.  No I/O in here.
 */
#ifndef BOOTSEER_IMAGE_EROFS_EROFS_H
#define BOOTSEER_IMAGE_EROFS_EROFS_H

#include "image/tree.h"

#define EROFS_BLOCK 4096u
#define EROFS_DEVICES_MAX 64

/* An extra device, in which the files' chunks lie. */
struct erofs_device {
	uint64_t size; /* bytes, multiple of EROFS_BLOCK */
	char tag[64];  /* shown by tools; not NUL-terminated when full */
};

struct erofs_params {
	uint8_t uuid[16];
	int64_t build_time; /* seconds; part of the image, so never "now" */
	const struct erofs_device *devices; /* at least one */
	size_t n_devices;
	uint64_t
		/* largest allowed image in bytes, else -EFBIG; 0: EROFS's own limit */
		size_max;
};

/* extent.voff of a tree for several devices: index in params.devices << 48 |
 * byte.  With one device it is the byte. */
#define EROFS_VOFF(dev, off) ((uint64_t)(dev) << 48 | (uint64_t)(off))
#define EROFS_VOFF_DEVICE(voff) ((unsigned int)((voff) >> 48))
#define EROFS_VOFF_BYTE(voff) ((voff) & ((UINT64_C(1) << 48) - 1))

/*
 * Lay out `t` as an EROFS image.  The same tree gives the same bytes.  Sorts
 * the children of folders, uses inode.user (the nid, afterwards) and
 * .user_ptr.  The image, owned by the caller, is a multiple of EROFS_BLOCK long.
 *   -EFBIG (a size; holes that need more than 32 MiB of index), -E2BIG (xattrs),
 *   -ENOTSUP (an xattr namespace EROFS has not), -EINVAL (extents, targets):
 *   the message names the path.
 */
int erofs_write(struct tree *t, const struct erofs_params *params, void **ret,
		size_t *ret_len, struct error *err) MUST_CHECK;

/*
 * As erofs_write(), but pass the bytes to `sink` from first to last in pieces, so that the image
 * need not be in memory. A result of `sink` other than 0 ends the writing and is returned.
 * `*ret_len` is the image's length, set before the first piece.
 */
typedef int erofs_sink_fn(void *arg, const void *data, size_t len,
			  struct error *err);
int erofs_write_to(struct tree *t, const struct erofs_params *params,
		   erofs_sink_fn *sink, void *arg, uint64_t *ret_len,
		   struct error *err) MUST_CHECK;

/* An opened image: a view of `data`, which the caller owns and has often mmapped. */
struct erofs_image {
	const uint8_t *data;
	size_t len;
	uint64_t root_nid;
	uint64_t n_inodes;
	uint64_t meta_off;  /* byte of nid 0 */
	uint64_t xattr_off; /* byte of the shared xattrs */
	uint64_t devt_off;  /* byte of the device table */
	uint16_t n_devices;
	uint64_t device_size; /* bytes of device 1; 0 without devices */
	int64_t build_time;   /* seconds; also the mtime of compact inodes */
	uint32_t build_time_nsec;
	uint8_t uuid[16];
};

/* Check the superblock (magic, checksum, features, bounds).  -EINVAL,
 * -ENOTSUP name the field. */
int erofs_open(const void *data, size_t len, struct erofs_image *ret,
	       struct error *err) MUST_CHECK;

/* Get size in bytes and tag (64 bytes) of a device, 1 to n_devices; `ret_tag` may be NULL.
 * -EINVAL. */
int erofs_device(const struct erofs_image *img, uint16_t device,
		 uint64_t *ret_size, char *ret_tag,
		 struct error *err) MUST_CHECK;

/* An inode, found by nid, decoded and bounds-checked. */
struct erofs_inode {
	uint64_t nid;
	uint32_t mode, uid, gid, nlink;
	uint32_t major, minor;
	int64_t mtime;
	uint32_t mtime_nsec;
	uint64_t size;
	uint32_t xattr_len; /* bytes of the inode's own xattr area */
	uint8_t head;       /* bytes of the inode itself */
	uint8_t layout;
	uint64_t pos; /* byte of the inode in the image */
	uint32_t u;   /* the field i_u as stored */
};
int erofs_inode(const struct erofs_image *img, uint64_t nid,
		struct erofs_inode *ret, struct error *err) MUST_CHECK;

/* Where bytes [off, ...) of a regular file lie; `off` is less than its size. Bytes in the
 * image itself are INLINE, also when they are whole blocks. */
enum erofs_map_kind { EROFS_MAP_INLINE, EROFS_MAP_DEVICE, EROFS_MAP_HOLE };
struct erofs_map {
	enum erofs_map_kind kind;
	/* bytes from `off` on that this describes, not 0 */
	uint64_t len;
	const uint8_t *data; /* of INLINE: the bytes at `off` */
	uint16_t device;     /* of DEVICE: 1 to n_devices */
	/* of DEVICE: byte in that device at which `off` lies */
	uint64_t voff;
};
int erofs_map(const struct erofs_image *img, const struct erofs_inode *i,
	      uint64_t off, struct erofs_map *ret,
	      struct error *err) MUST_CHECK;

/* Find a child by name; -ENOENT when there is no such child. */
int erofs_lookup(const struct erofs_image *img, const struct erofs_inode *dir,
		 const char *name, size_t len, uint64_t *ret_nid,
		 struct error *err) MUST_CHECK;

/* Call `each` for entries from cookie `pos` (0 first) until it returns
 * non-zero, which is passed on; `cookie` of an entry resumes behind it.  "."
 * and ".." are among them; names are not NUL-terminated. */
typedef int erofs_dirent_fn(void *arg, const char *name, size_t len,
			    uint64_t nid, uint8_t type, uint64_t cookie);
int erofs_readdir(const struct erofs_image *img, const struct erofs_inode *dir,
		  uint64_t pos, erofs_dirent_fn *each, void *arg,
		  struct error *err) MUST_CHECK;

/* Get the target of a symlink: bytes in the image, without NUL. */
int erofs_readlink(const struct erofs_image *img, const struct erofs_inode *i,
		   const char **ret, size_t *ret_len,
		   struct error *err) MUST_CHECK;

typedef int erofs_xattr_fn(void *arg, const char *name, const void *value,
			   size_t size);
int erofs_xattrs(const struct erofs_image *img, const struct erofs_inode *i,
		 erofs_xattr_fn *each, void *arg, struct error *err) MUST_CHECK;

/*
 * Does any inode of the tree have xattrs? Reads all folders and inodes until it finds one. The
 * steps are bounded by the image's size: a damaged image fails with -EINVAL. -ENOMEM.
 */
int erofs_has_xattrs(const struct erofs_image *img, bool *ret,
		     struct error *err) MUST_CHECK;

/* Read the whole image as a tree, for `image check` and to lay a complete image out anew.
 * Checks everything: order and kinds of entries, link counts, overlaps, a depth of no more than
 * TREE_DEPTH_MAX folders. Extents have voff as EROFS_VOFF(), and inode.user is the nid. Time
 * and memory are bounded by the image's size. */
int erofs_read_tree(const struct erofs_image *img, struct tree **ret,
		    struct error *err) MUST_CHECK;

/*
 * Open an image that is to be mounted, and check the whole of it: is it what
 * erofs_write() could have written?  Superblock and device table have known
 * fields only; inodes are extended, with known fields only; each is reached from
 * the root, folders by one name, others by as many as they count; entries are
 * strictly in order, of possible names, and of the inodes' types; "." and ".."
 * are right; content, chunks and xattrs lie where they may; no two things share
 * bytes, and bytes of nothing are zero; no more than TREE_DEPTH_MAX folders
 * are in each other; the number of inodes is as stated; the image is `len` bytes
 * long.  An image that passes is read by all the functions
 * above without an error.
 *
 * Takes time in proportion to `len` and memory of less than half of it; no depth
 * of the tree is a depth of calls.  Reads every page of `data`.
 *
 *   -EINVAL (with the rule, and the inode that breaks it), -ENOTSUP (features),
 *   -ENOMEM
 */
int erofs_check(const void *data, size_t len, struct erofs_image *ret,
		struct error *err) MUST_CHECK;

#endif
