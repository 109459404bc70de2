// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the superblock and inodes, and maps files. Every number in an image is untrusted: each
 * is compared with the image's length before use, in a form that cannot overflow.
 */
#include "image/erofs/read.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/format.h"

/* Most chunks that one erofs_map() merges. */
#define MERGE_MAX 64

/* Are [pos, pos + len) bytes of the image? */
static bool is_inside(const struct erofs_image *img, uint64_t pos, uint64_t len)
{
	return len <= img->len && pos <= img->len - len;
}

static uint64_t n_blocks(uint64_t size)
{
	return size / EROFS_BLOCK + (size % EROFS_BLOCK != 0);
}

static int check_checksum(const uint8_t *data, struct error *err)
{
	const uint8_t *sb = data + EROFS_SB_POS;
	uint8_t copy[EROFS_BLOCK - EROFS_SB_POS];

	memcpy(copy, sb, sizeof(copy));
	put_le32(copy + SB_CHECKSUM, 0);
	if (!(get_le32(sb + SB_FEATURE_COMPAT) & EROFS_COMPAT_SB_CHKSUM) ||
	    erofs_crc32c(copy, sizeof(copy)) != get_le32(sb + SB_CHECKSUM))
		return error_set(err, EINVAL,
				 "EROFS superblock: wrong checksum");
	return 0;
}

static int check_features(const uint8_t *sb, struct error *err)
{
	uint32_t unknown =
		get_le32(sb + SB_FEATURE_INCOMPAT) &
		~(EROFS_INCOMPAT_CHUNKED_FILE | EROFS_INCOMPAT_DEVICE_TABLE);

	if (unknown)
		return error_set(err, ENOTSUP,
				 "EROFS superblock: unknown features 0x%x",
				 unknown);
	if (sb[SB_BLKSZBITS] != EROFS_BLKSZBITS || sb[SB_DIRBLKBITS] != 0)
		return error_set(err, ENOTSUP,
				 "EROFS superblock: blocks of 2^%u bytes",
				 sb[SB_BLKSZBITS]);
	if (sb[SB_EXTSLOTS] != 0 || sb[SB_XATTR_PREFIX_COUNT] != 0 ||
	    get_le64(sb + SB_PACKED_NID) != 0)
		return error_set(err, ENOTSUP,
				 "EROFS superblock: unknown extensions");
	return 0;
}

/* Check the devices' ranges in the common address space: behind the image, in order, without
 * overlaps. */
static int check_devices(struct erofs_image *img, uint64_t blocks,
			 struct error *err)
{
	uint64_t end = blocks;

	if (img->n_devices > EROFS_DEVICES_MAX ||
	    !is_inside(img, img->devt_off,
		       (uint64_t)img->n_devices * EROFS_DEVT_SIZE))
		return error_set(err, EINVAL,
				 "EROFS superblock: %u devices at %llu",
				 img->n_devices,
				 (unsigned long long)img->devt_off);
	for (uint16_t k = 0; k < img->n_devices; k++) {
		const uint8_t *p = img->data + img->devt_off +
				   (uint64_t)k * EROFS_DEVT_SIZE;
		uint64_t mapped = get_le32(p + DEVT_MAPPED_BLKADDR);

		if (mapped && mapped < end)
			return error_set(err, EINVAL,
					 "EROFS device %u: mapped at %llu", k,
					 (unsigned long long)mapped);
		if (mapped)
			end = mapped + get_le32(p + DEVT_BLOCKS);
	}
	return 0;
}

int erofs_open(const void *data, size_t len, struct erofs_image *ret,
	       struct error *err)
{
	const uint8_t *sb = (const uint8_t *)data + EROFS_SB_POS;
	struct erofs_image img = { .data = data };
	struct erofs_inode root;
	uint64_t blocks;
	int rc;

	if (len < EROFS_BLOCK || get_le32(sb + SB_MAGIC) != EROFS_MAGIC)
		return error_set(err, EINVAL, "not an EROFS image");
	rc = check_features(sb, err);
	if (rc == 0)
		rc = check_checksum(data, err);
	if (rc < 0)
		return rc;
	blocks = get_le32(sb + SB_BLOCKS);
	if (blocks == 0 || blocks > len / EROFS_BLOCK)
		return error_set(err, EINVAL,
				 "EROFS superblock: %llu blocks in %zu bytes",
				 (unsigned long long)blocks, len);
	img.len = (size_t)(blocks * EROFS_BLOCK);
	img.root_nid = get_le16(sb + SB_ROOT_NID);
	img.n_inodes = get_le64(sb + SB_INOS);
	img.meta_off = get_le32(sb + SB_META_BLKADDR) * (uint64_t)EROFS_BLOCK;
	img.xattr_off = get_le32(sb + SB_XATTR_BLKADDR) * (uint64_t)EROFS_BLOCK;
	img.n_devices = get_le16(sb + SB_EXTRA_DEVICES);
	img.devt_off =
		get_le16(sb + SB_DEVT_SLOTOFF) * (uint64_t)EROFS_DEVT_SIZE;
	img.build_time = (int64_t)get_le64(sb + SB_BUILD_TIME);
	img.build_time_nsec = get_le32(sb + SB_BUILD_TIME_NSEC);
	memcpy(img.uuid, sb + SB_UUID, sizeof(img.uuid));
	if (!is_inside(&img, img.meta_off, 0) ||
	    !is_inside(&img, img.xattr_off, 0))
		return error_set(err, EINVAL,
				 "EROFS superblock: areas leave the image");
	rc = check_devices(&img, blocks, err);
	if (rc == 0 && img.n_devices)
		rc = erofs_device(&img, 1, &img.device_size, NULL, err);
	if (rc == 0)
		rc = erofs_inode(&img, img.root_nid, &root, err);
	if (rc < 0)
		return rc;
	if (!S_ISDIR(root.mode))
		return error_set(err, EINVAL, "EROFS root is no folder");
	*ret = img;
	return 0;
}

int erofs_device(const struct erofs_image *img, uint16_t device,
		 uint64_t *ret_size, char *ret_tag, struct error *err)
{
	const uint8_t *p;

	if (device == 0 || device > img->n_devices)
		return error_set(err, EINVAL, "EROFS device %u of %u", device,
				 img->n_devices);
	p = img->data + img->devt_off + (device - 1u) * EROFS_DEVT_SIZE;
	*ret_size = get_le32(p + DEVT_BLOCKS) * (uint64_t)EROFS_BLOCK;
	if (ret_tag)
		memcpy(ret_tag, p + DEVT_TAG, 64);
	return 0;
}

static int bad_inode(struct error *err, uint64_t nid, const char *what)
{
	return error_set(err, EINVAL, "EROFS inode %llu: %s",
			 (unsigned long long)nid, what);
}

static void decode_compact(const struct erofs_image *img, const uint8_t *p,
			   struct erofs_inode *i)
{
	i->head = EROFS_COMPACT_SIZE;
	i->nlink = get_le16(p + INO_C_NLINK);
	i->size = get_le32(p + INO_C_SIZE);
	i->uid = get_le16(p + INO_C_UID);
	i->gid = get_le16(p + INO_C_GID);
	i->mtime = img->build_time;
	i->mtime_nsec = img->build_time_nsec;
}

static void decode_extended(const uint8_t *p, struct erofs_inode *i)
{
	i->head = EROFS_EXTENDED_SIZE;
	i->nlink = get_le32(p + INO_NLINK);
	i->size = get_le64(p + INO_SIZE);
	i->uid = get_le32(p + INO_UID);
	i->gid = get_le32(p + INO_GID);
	i->mtime = (int64_t)get_le64(p + INO_MTIME);
	i->mtime_nsec = get_le32(p + INO_MTIME_NSEC);
}

int erofs_inode(const struct erofs_image *img, uint64_t nid,
		struct erofs_inode *ret, struct error *err)
{
	struct erofs_inode i = { .nid = nid };
	uint16_t format, icount;
	const uint8_t *p;

	if (nid > (img->len - img->meta_off) / EROFS_SLOT ||
	    !is_inside(img, img->meta_off + nid * EROFS_SLOT,
		       EROFS_COMPACT_SIZE))
		return bad_inode(err, nid, "leaves the image");
	i.pos = img->meta_off + nid * EROFS_SLOT;
	p = img->data + i.pos;
	format = get_le16(p + INO_FORMAT);
	i.layout = (uint8_t)(format >> EROFS_FORMAT_LAYOUT_SHIFT & 7);
	if (format & ~EROFS_FORMAT_ALL ||
	    (i.layout != EROFS_LAYOUT_FLAT_PLAIN &&
	     i.layout != EROFS_LAYOUT_FLAT_INLINE &&
	     i.layout != EROFS_LAYOUT_CHUNK_BASED))
		return bad_inode(err, nid, "unknown format");
	if (!(format & EROFS_FORMAT_EXTENDED))
		decode_compact(img, p, &i);
	else if (is_inside(img, i.pos, EROFS_EXTENDED_SIZE))
		decode_extended(p, &i);
	else
		return bad_inode(err, nid, "leaves the image");
	i.mode = get_le16(p + INO_MODE);
	i.u = get_le32(p + INO_U);
	icount = get_le16(p + INO_XATTR_ICOUNT);
	i.xattr_len = icount ? EROFS_XATTR_HEADER + 4u * (icount - 1u) : 0;
	if (!is_inside(img, i.pos, i.head + (uint64_t)i.xattr_len))
		return bad_inode(err, nid, "xattrs leave the image");
	if (!erofs_file_type(i.mode) || i.size > INT64_MAX ||
	    i.mtime_nsec >= 1000000000)
		return bad_inode(err, nid, "impossible mode, size or time");
	if (i.layout == EROFS_LAYOUT_CHUNK_BASED && !S_ISREG(i.mode))
		return bad_inode(err, nid, "chunks, but no regular file");
	if (S_ISCHR(i.mode) || S_ISBLK(i.mode)) {
		i.major = i.u >> 8 & 0xfff;
		i.minor = (i.u & 0xff) | (i.u >> 12 & 0xfff00);
	}
	*ret = i;
	return 0;
}

int erofs_content(const struct erofs_image *img, const struct erofs_inode *i,
		  uint64_t off, const uint8_t **ret, uint64_t *ret_len,
		  struct error *err)
{
	bool is_inline = i->layout == EROFS_LAYOUT_FLAT_INLINE;
	uint64_t blocks = n_blocks(i->size) - (is_inline ? 1 : 0);
	uint64_t whole = blocks * EROFS_BLOCK;
	uint64_t pos, len;

	if (off < whole) {
		len = (whole < i->size ? whole : i->size) - off;
		pos = i->u * (uint64_t)EROFS_BLOCK + off;
	} else {
		len = i->size - off;
		pos = i->pos + i->head + i->xattr_len;
		if (pos % EROFS_BLOCK + (i->size - whole) > EROFS_BLOCK)
			return bad_inode(err, i->nid, "tail crosses a block");
		pos += off - whole;
	}
	if (!is_inside(img, pos, len))
		return bad_inode(err, i->nid, "content leaves the image");
	*ret = img->data + pos;
	*ret_len = len;
	return 0;
}

/* Find a run of blocks in the common address space of image and devices. */
static int read_resolve(const struct erofs_image *img, uint64_t nid,
			uint64_t block, uint64_t n, struct erofs_map *ret,
			struct error *err)
{
	uint64_t image_blocks = img->len / EROFS_BLOCK;

	if (block < image_blocks && n <= image_blocks - block) {
		ret->kind = EROFS_MAP_INLINE;
		ret->data = img->data + block * EROFS_BLOCK;
		return 0;
	}
	for (uint16_t k = 1; k <= img->n_devices; k++) {
		const uint8_t *p =
			img->data + img->devt_off + (k - 1u) * EROFS_DEVT_SIZE;
		uint64_t mapped = get_le32(p + DEVT_MAPPED_BLKADDR);
		uint64_t size = get_le32(p + DEVT_BLOCKS);

		if (!mapped || block < mapped || block - mapped >= size)
			continue;
		if (n > size - (block - mapped))
			break;
		ret->kind = EROFS_MAP_DEVICE;
		ret->device = k;
		ret->voff = (block - mapped) * EROFS_BLOCK;
		return 0;
	}
	return bad_inode(err, nid, "blocks outside of image and devices");
}

int erofs_chunks(const struct erofs_image *img, const struct erofs_inode *i,
		 const uint8_t **ret, uint64_t *ret_n, unsigned int *ret_bits,
		 struct error *err)
{
	unsigned int bits = EROFS_BLKSZBITS + (i->u & EROFS_CHUNK_BLKBITS);
	uint64_t pos = round_up(i->pos + i->head + i->xattr_len,
				EROFS_CHUNK_INDEX_SIZE);
	uint64_t n = (i->size >> bits) +
		     ((i->size & ((UINT64_C(1) << bits) - 1)) != 0);

	if (i->u & ~EROFS_CHUNK_ALL || !(i->u & EROFS_CHUNK_INDEXES))
		return bad_inode(err, i->nid, "unknown form of chunks");
	if (pos > img->len || n > (img->len - pos) / EROFS_CHUNK_INDEX_SIZE)
		return bad_inode(err, i->nid, "chunk indexes leave the image");
	*ret = img->data + pos;
	*ret_n = n;
	*ret_bits = bits;
	return 0;
}

/* Map a chunk, of which `len` bytes belong to the file. */
static int map_chunk(const struct erofs_image *img, uint64_t nid,
		     const uint8_t *index, uint64_t len, struct erofs_map *ret,
		     struct error *err)
{
	uint16_t device = get_le16(index + CHUNK_DEVICE);
	uint64_t block = get_le32(index + CHUNK_BLKADDR);
	uint64_t size;
	int rc;

	if (get_le16(index) != 0)
		return bad_inode(err, nid, "unknown form of chunk index");
	if (block == EROFS_NULL_ADDR) {
		ret->kind = EROFS_MAP_HOLE;
		return 0;
	}
	if (device == 0)
		return read_resolve(img, nid, block, n_blocks(len), ret, err);
	rc = erofs_device(img, device, &size, NULL, err);
	if (rc < 0)
		return error_wrap(err, rc, "EROFS inode %llu",
				  (unsigned long long)nid);
	if (block * EROFS_BLOCK > size ||
	    n_blocks(len) * EROFS_BLOCK > size - block * EROFS_BLOCK)
		return bad_inode(err, nid, "chunk leaves its device");
	ret->kind = EROFS_MAP_DEVICE;
	ret->device = device;
	ret->voff = block * EROFS_BLOCK;
	return 0;
}

static bool read_continues(const struct erofs_map *a, uint64_t a_len,
			   const struct erofs_map *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case EROFS_MAP_HOLE:
		return true;
	case EROFS_MAP_DEVICE:
		return a->device == b->device && a->voff + a_len == b->voff;
	default:
		return a->data + a_len == b->data;
	}
}

static int map_chunks(const struct erofs_image *img,
		      const struct erofs_inode *i, uint64_t off,
		      struct erofs_map *ret, struct error *err)
{
	struct erofs_map first = { .len = 0 };
	uint64_t n, k, size, skip;
	unsigned int bits;
	const uint8_t *index;
	int rc = erofs_chunks(img, i, &index, &n, &bits, err);

	if (rc < 0)
		return rc;
	size = UINT64_C(1) << bits;
	k = off >> bits;
	skip = off & (size - 1);
	for (uint64_t end = k + MERGE_MAX; k < n && k < end; k++) {
		struct erofs_map m = { .len = 0 };
		uint64_t len = i->size - (k << bits);

		len = len < size ? len : size;
		rc = map_chunk(img, i->nid, index + k * EROFS_CHUNK_INDEX_SIZE,
			       len, &m, err);
		if (rc < 0)
			return rc;
		if (first.len && !read_continues(&first, first.len, &m))
			break;
		if (first.len == 0)
			first = m;
		first.len += len;
	}
	first.len -= skip;
	if (first.kind == EROFS_MAP_DEVICE)
		first.voff += skip;
	else if (first.kind == EROFS_MAP_INLINE)
		first.data += skip;
	*ret = first;
	return 0;
}

int erofs_map(const struct erofs_image *img, const struct erofs_inode *i,
	      uint64_t off, struct erofs_map *ret, struct error *err)
{
	struct erofs_map m = { .kind = EROFS_MAP_INLINE };
	int rc;

	if (!S_ISREG(i->mode) || off >= i->size)
		return bad_inode(err, i->nid, "nothing to map");
	if (i->layout == EROFS_LAYOUT_CHUNK_BASED)
		return map_chunks(img, i, off, ret, err);
	if (i->layout == EROFS_LAYOUT_FLAT_INLINE) {
		rc = erofs_content(img, i, off, &m.data, &m.len, err);
	} else {
		rc = read_resolve(img, i->nid, i->u, n_blocks(i->size), &m,
				  err);
		m.len = i->size - off;
		if (m.kind == EROFS_MAP_DEVICE)
			m.voff += off;
		else if (rc == 0)
			m.data += off;
	}
	if (rc == 0)
		*ret = m;
	return rc;
}
