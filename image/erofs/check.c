// SPDX-License-Identifier: Apache-2.0
/*
 * Checks that an image is one that our writer could have written. The kernel trusts much of what
 * it mounts, so only such images are mounted (docs/formats/erofs.md, "Checking").
 *
 * Each byte belongs to one object at most, and bytes that belong to none are zero. That finds
 * overlaps, bounds the time by the image's length, and leaves no second tree hidden behind the
 * one that the names show. Folders wait in a list, so a deep tree needs no deep recursion.
 */
#include "image/erofs/erofs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/cleanup.h"
#include "image/erofs/format.h"
#include "image/erofs/read.h"

#define UNIT 4u /* bytes that a bit of `used` stands for */
/* bytes that a 64-bit word of `used` stands for */
#define WORD_BYTES (UNIT * 64)
#define DIRENT_RESERVED 11 /* of a dirent: a zero */
#define INO_RESERVED 6     /* of an inode: two zeros */
#define INO_RESERVED2 48   /* of an extended inode: zeros to its end */
#define DEVT_RESERVED 72   /* of a device slot: zeros to its end */
#define COMPAT_KNOWN (EROFS_COMPAT_SB_CHKSUM | EROFS_COMPAT_MTIME)

/* A folder that was found, whose entries are still to be checked. */
struct check_dir {
	uint64_t nid, parent;
	unsigned int depth; /* number of folders above it */
};

struct checker {
	const struct erofs_image *img;
	struct error *err;
	/* one bit for 4 bytes: set when an object owns them */
	uint64_t *used;
	uint64_t *shared; /* one bit for 4 bytes of the shared xattrs: an entry
	                   * begins here */
	/* by nid: 0 not found yet, else 1 + the names still to be found, by its link count */
	uint32_t *links;
	uint64_t n_nids;
	uint64_t n_inodes; /* inodes found so far */
	struct check_dir *dirs;
	size_t n_dirs, cap_dirs;
	unsigned int depth; /* of the folders that are found now */
};

/* Fail with -EINVAL and "EROFS inode NID: WHAT". */
static int fail_inode(struct checker *c, uint64_t nid, const char *what)
{
	return error_set(c->err, EINVAL, "EROFS inode %llu: %s",
			 (unsigned long long)nid, what);
}

static int fail_superblock(struct checker *c, const char *what)
{
	return error_set(c->err, EINVAL, "EROFS superblock: %s", what);
}

/* ------------------------------------------------------------ whose bytes --- */

/* A mask of the bits [from, to) of one word. */
static uint64_t mask_of(uint64_t from, uint64_t to)
{
	uint64_t below = to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;

	return below & ~((UINT64_C(1) << from) - 1);
}

/* Give bytes [pos, pos + len) of the image, `pos` a multiple of four, to inode `nid` (0: to
 * the image) as their only owner; padding up to the next multiple of four must be 0. -EINVAL. */
static int claim_zero_padded_range(struct checker *c, uint64_t nid,
				   uint64_t pos, uint64_t len)
{
	uint64_t first = pos / UNIT, end, mask;

	if (len > c->img->len || pos > c->img->len - len)
		return fail_inode(c, nid, "content leaves the image");
	end = round_up(pos + len, UNIT) / UNIT;
	if (!bytes_are_zero(c->img->data + pos + len, end * UNIT - pos - len))
		return fail_inode(c, nid, "bytes behind its content");
	while (first < end) {
		uint64_t word = first / 64;
		uint64_t to = end - word * 64 < 64 ? end - word * 64 : 64;

		mask = mask_of(first % 64, to);
		if (c->used[word] & mask)
			return fail_inode(c, nid, "shares bytes with another");
		c->used[word] |= mask;
		first = word * 64 + to;
	}
	return 0;
}

/* Bytes that nothing has claimed must be zero. */
static int check_unclaimed_is_zero(struct checker *c)
{
	for (uint64_t w = 0; w < c->img->len / WORD_BYTES; w++) {
		const uint8_t *p = c->img->data + w * WORD_BYTES;
		bool good = c->used[w] == UINT64_MAX;

		if (c->used[w] == 0)
			good = bytes_are_zero(p, WORD_BYTES);
		else if (!good) {
			unsigned int k = 0;

			while (k < 64 && (c->used[w] >> k & 1 ||
					  get_le32(p + (size_t)k * UNIT) == 0))
				k++;
			good = k == 64;
		}
		if (!good)
			return error_set(c->err, EINVAL,
					 "EROFS: bytes near %llu that belong "
					 "to nothing",
					 (unsigned long long)(w * WORD_BYTES));
	}
	return 0;
}

/* -------------------------------------------------------------- superblock --- */

static int check_slots(struct checker *c)
{
	for (uint16_t k = 0; k < c->img->n_devices; k++) {
		const uint8_t *p = c->img->data + c->img->devt_off +
				   (uint64_t)k * EROFS_DEVT_SIZE;

		if (!bytes_are_zero(p + DEVT_RESERVED,
				    EROFS_DEVT_SIZE - DEVT_RESERVED))
			return error_set(c->err, EINVAL,
					 "EROFS device %u: unknown fields", k);
	}
	return 0;
}

/* Check the superblock's fields that erofs_open() ignores because other writers may use
 * them. */
static int check_super(struct checker *c, size_t len)
{
	const struct erofs_image *img = c->img;
	const uint8_t *sb = img->data + EROFS_SB_POS;
	uint32_t unknown = get_le32(sb + SB_FEATURE_COMPAT) & ~COMPAT_KNOWN;
	uint64_t end = EROFS_SB_POS + EROFS_SB_SIZE;
	int rc;

	if (unknown)
		return error_set(c->err, ENOTSUP,
				 "EROFS superblock: unknown features 0x%x",
				 unknown);
	if (img->len != len)
		return fail_superblock(
			c, "the image does not end with its blocks");
	if (img->meta_off != 0)
		return fail_superblock(c,
				       "inodes that do not count from byte 0");
	if (img->build_time_nsec != 0 ||
	    !bytes_are_zero(sb + SB_VOLUME_NAME,
			    SB_FEATURE_INCOMPAT - SB_VOLUME_NAME) ||
	    !bytes_are_zero(sb + SB_FEATURE_INCOMPAT + 4, 2) ||
	    !bytes_are_zero(sb + SB_DIRBLKBITS, EROFS_SB_SIZE - SB_DIRBLKBITS))
		return fail_superblock(c, "unknown fields");
	if (img->n_devices == 0 || img->devt_off != end)
		return fail_superblock(c, "no device table behind it");
	rc = check_slots(c);
	if (rc < 0)
		return rc;
	end += (uint64_t)img->n_devices * EROFS_DEVT_SIZE;
	return claim_zero_padded_range(c, 0, EROFS_SB_POS, end - EROFS_SB_POS);
}

/* ---------------------------------------------------------------------------- xattrs --- */

/*
 * Checks the xattrs of a whole image. The shared ones are walked once, and an inode may only
 * refer to the beginning of one: otherwise a few bytes of references could make the check read
 * the whole area again for each inode.
 */

/* listxattr(2) returns this many bytes at most. */
#define NAMES_MAX 65536u
#define OVERLAY "overlay." /* rest of the name, in namespace trusted. */

static const uint8_t *name_of(const uint8_t *entry)
{
	return entry + EROFS_XATTR_ENTRY;
}

static uint64_t size_of(const uint8_t *entry)
{
	return EROFS_XATTR_ENTRY + (uint64_t)entry[XE_NAME_LEN] +
	       get_le16(entry + XE_SIZE);
}

/* Check one entry, of which `room` bytes are there. Returns NULL, or a text that names the
 * fault. */
static const char *find_fault(const uint8_t *p, uint64_t room)
{
	const char *prefix;
	size_t len;

	if (room < EROFS_XATTR_ENTRY || size_of(p) > room)
		return "an xattr leaves its area";
	prefix = erofs_xattr_prefix(p[XE_INDEX]);
	if (!prefix)
		return "an xattr of an unknown namespace";
	len = strlen(prefix);
	if ((prefix[len - 1] == '.') == (p[XE_NAME_LEN] == 0) ||
	    memchr(name_of(p), '\0', p[XE_NAME_LEN]))
		return "an xattr with an impossible name";
	/* overlayfs in a container trusts such xattrs of a lower layer, so an image may not
	 * contain them. */
	if (strcmp(prefix, "trusted.") == 0 &&
	    p[XE_NAME_LEN] >= strlen(OVERLAY) &&
	    memcmp(name_of(p), OVERLAY, strlen(OVERLAY)) == 0)
		return "an xattr that only overlayfs may set";
	if (!bytes_are_zero(p + size_of(p),
			    round_up(size_of(p), 4) - size_of(p)))
		return "bytes behind an xattr";
	return NULL;
}

/* Order of xattrs: by namespace, then by name. */
static int compare_xattr_entries(const uint8_t *a, const uint8_t *b)
{
	size_t a_len = a[XE_NAME_LEN], b_len = b[XE_NAME_LEN];
	int c = a[XE_INDEX] - b[XE_INDEX];

	if (c == 0)
		c = memcmp(name_of(a), name_of(b),
			   a_len < b_len ? a_len : b_len);
	return c ? c : (int)a_len - (int)b_len;
}

/* The area of the shared xattrs, before any inode. */
static int check_shared_xattrs(struct checker *c)
{
	const struct erofs_image *img = c->img;
	uint64_t pos = img->xattr_off, at;
	const char *fault;
	int rc;

	/* Bytes behind the last xattr are zero, and no entry begins with zero. */
	while (pos < img->len && get_le32(img->data + pos) != 0) {
		fault = find_fault(img->data + pos, img->len - pos);
		if (fault)
			return error_set(c->err, EINVAL,
					 "EROFS shared xattrs: %s", fault);
		rc = claim_zero_padded_range(c, 0, pos,
					     size_of(img->data + pos));
		if (rc < 0)
			return rc;
		at = (pos - img->xattr_off) / 4;
		c->shared[at / 64] |= UINT64_C(1) << at % 64;
		pos += round_up(size_of(img->data + pos), 4);
	}
	return 0;
}

/* Xattrs of an inode: references to shared ones first, then entries of its
 * own. */
struct area {
	const uint8_t *ids;
	/* references, and how many of them is_shared_too() has passed */
	unsigned int n_ids, next;
	const uint8_t *at; /* of the next own entry */
	uint64_t left;
	uint64_t names; /* bytes that listing them all takes */
};

static void count_name(struct area *a, const uint8_t *entry)
{
	a->names += strlen(erofs_xattr_prefix(entry[XE_INDEX])) +
		    entry[XE_NAME_LEN] + 1;
}

/* The k-th shared xattr of the inode; NULL: its reference is wrong. */
static const uint8_t *shared_at(const struct checker *c, const struct area *a,
				unsigned int k)
{
	uint64_t id = get_le32(a->ids + (size_t)4 * k);

	if (id >= (c->img->len - c->img->xattr_off) / 4 ||
	    !(c->shared[id / 64] & UINT64_C(1) << id % 64))
		return NULL;
	return c->img->data + c->img->xattr_off + 4 * id;
}

static int check_shared_xattr_ids(struct checker *c, uint64_t nid,
				  struct area *a)
{
	const uint8_t *before = NULL, *p;

	for (unsigned int k = 0; k < a->n_ids; k++, before = p) {
		p = shared_at(c, a, k);
		if (!p)
			return fail_inode(c, nid, "refers to no shared xattr");
		if (before && compare_xattr_entries(before, p) >= 0)
			return fail_inode(c, nid, "xattrs out of order");
		count_name(a, p);
	}
	return 0;
}

/* Does a shared xattr have the same name as this own entry? Then the kernel would show
 * another value than our reader. Both lists are sorted, so one pass over them finds it. */
static bool is_shared_too(const struct checker *c, struct area *a,
			  const uint8_t *entry)
{
	int order = -1;

	while (a->next < a->n_ids) {
		order = compare_xattr_entries(shared_at(c, a, a->next), entry);
		if (order >= 0)
			break;
		a->next++;
	}
	return a->next < a->n_ids && order == 0;
}

static int check_inline_xattrs(struct checker *c, uint64_t nid, struct area *a)
{
	const uint8_t *before = NULL;

	while (a->left) {
		const uint8_t *p = a->at;
		const char *fault = find_fault(p, a->left);

		if (fault)
			return fail_inode(c, nid, fault);
		if (before && compare_xattr_entries(before, p) >= 0)
			return fail_inode(c, nid, "xattrs out of order");
		if (is_shared_too(c, a, p))
			return fail_inode(c, nid, "an xattr that it has twice");
		count_name(a, p);
		before = p;
		a->at += round_up(size_of(p), 4);
		a->left -= round_up(size_of(p), 4);
	}
	return 0;
}

/* Check the xattrs of one inode, whose bytes were claimed before. */
static int check_xattrs(struct checker *c, const struct erofs_inode *i)
{
	const uint8_t *p = c->img->data + i->pos + i->head;
	struct area a = { .ids = p + EROFS_XATTR_HEADER };
	int rc;

	if (i->xattr_len == 0)
		return 0;
	a.n_ids = p[XH_SHARED_COUNT];
	if (EROFS_XATTR_HEADER + 4 * a.n_ids > i->xattr_len)
		return fail_inode(c, i->nid, "more shared xattrs than room");
	if (!bytes_are_zero(p, XH_SHARED_COUNT) ||
	    !bytes_are_zero(p + XH_SHARED_COUNT + 1,
			    EROFS_XATTR_HEADER - XH_SHARED_COUNT - 1))
		return fail_inode(c, i->nid,
				  "unknown fields before its xattrs");
	a.at = a.ids + (size_t)4 * a.n_ids;
	a.left = i->xattr_len - EROFS_XATTR_HEADER - 4 * a.n_ids;
	rc = check_shared_xattr_ids(c, i->nid, &a);
	if (rc == 0)
		rc = check_inline_xattrs(c, i->nid, &a);
	if (rc == 0 && a.names > NAMES_MAX)
		return fail_inode(c, i->nid, "more names of xattrs than fit");
	return rc;
}

/* A block belongs to one file alone, to the block's end: a process that maps the file sees
 * all of the last block, whatever the file's size. */
static int claim_blocks(struct checker *c, const struct erofs_inode *i,
			uint64_t len)
{
	uint64_t pos = i->u * (uint64_t)EROFS_BLOCK;
	uint64_t whole = round_up(len, EROFS_BLOCK);
	int rc = claim_zero_padded_range(c, i->nid, pos, whole);

	if (rc == 0 && !bytes_are_zero(c->img->data + pos + len, whole - len))
		rc = fail_inode(c, i->nid, "bytes behind its content");
	return rc;
}

/* Claim the content of folders, symlinks, and files whose bytes are in the image. */
static int claim_content(struct checker *c, const struct erofs_inode *i)
{
	uint64_t pos = i->pos + i->head + i->xattr_len, end;
	uint64_t tail = 0;
	int rc = 0;

	if (i->layout == EROFS_LAYOUT_FLAT_INLINE) {
		tail = i->size % EROFS_BLOCK;
		end = pos + tail;
		if (tail == 0 ||
		    i->pos / EROFS_BLOCK != (end - 1) / EROFS_BLOCK)
			return fail_inode(c, i->nid,
					  "its tail crosses a block");
		rc = claim_zero_padded_range(c, i->nid, pos, tail);
	}
	if (rc < 0)
		return rc;
	if (i->size == tail)
		return i->u ? fail_inode(c, i->nid, "a block, but no content")
			    : 0;
	return claim_blocks(c, i, i->size - tail);
}

static int check_chunks(struct checker *c, const struct erofs_inode *i)
{
	struct erofs_map m;
	const uint8_t *index;
	unsigned int bits;
	uint64_t n, off;
	int rc = erofs_chunks(c->img, i, &index, &n, &bits, c->err);

	if (rc == 0)
		rc = claim_zero_padded_range(c, i->nid,
					     (uint64_t)(index - c->img->data),
					     n * EROFS_CHUNK_INDEX_SIZE);
	for (uint64_t k = 0; rc == 0 && k < n; k++) {
		const uint8_t *p = index + k * EROFS_CHUNK_INDEX_SIZE;
		bool is_hole = get_le32(p + CHUNK_BLKADDR) == EROFS_NULL_ADDR;

		if (is_hole != (get_le16(p + CHUNK_DEVICE) == 0))
			rc = fail_inode(c, i->nid,
					is_hole ? "a hole of a device"
						: "a chunk of no device");
	}
	for (off = 0; rc == 0 && off < i->size; off += m.len)
		rc = erofs_map(c->img, i, off, &m, c->err);
	return rc;
}

static int check_file(struct checker *c, const struct erofs_inode *i)
{
	struct erofs_map m;
	int rc;

	if (i->size == 0)
		return i->layout == EROFS_LAYOUT_FLAT_PLAIN && i->u == 0
			       ? 0
			       : fail_inode(c, i->nid,
					    "an empty file with content");
	if (i->layout == EROFS_LAYOUT_CHUNK_BASED)
		return check_chunks(c, i);
	if (i->layout == EROFS_LAYOUT_FLAT_INLINE)
		return claim_content(c, i);
	rc = erofs_map(c->img, i, 0, &m, c->err);
	return rc == 0 && m.kind == EROFS_MAP_INLINE ? claim_content(c, i) : rc;
}

static int check_symlink(struct checker *c, const struct erofs_inode *i)
{
	const char *target;
	size_t len;
	int rc = claim_content(c, i);

	return rc < 0 ? rc : erofs_readlink(c->img, i, &target, &len, c->err);
}

static int check_special(struct checker *c, const struct erofs_inode *i)
{
	bool is_device = S_ISCHR(i->mode) || S_ISBLK(i->mode);

	if (i->layout != EROFS_LAYOUT_FLAT_PLAIN || i->size != 0 ||
	    (!is_device && i->u != 0))
		return fail_inode(c, i->nid, "a special file with content");
	return 0;
}

/* ------------------------------------------------------------------ inodes --- */

static int push_dir(struct checker *c, uint64_t nid, uint64_t parent)
{
	if (c->depth > TREE_DEPTH_MAX)
		return error_set(c->err, EINVAL,
				 "more than %u folders in each other",
				 TREE_DEPTH_MAX);
	if (array_grow(&c->dirs, c->n_dirs, &c->cap_dirs, 256) < 0)
		return error_nomem(c->err);
	c->dirs[c->n_dirs++] = (struct check_dir){ nid, parent, c->depth };
	return 0;
}

static int check_head(struct checker *c, const struct erofs_inode *i)
{
	const uint8_t *p = c->img->data + i->pos;

	if (i->head != EROFS_EXTENDED_SIZE)
		return fail_inode(c, i->nid, "a compact inode");
	if (!bytes_are_zero(p + INO_RESERVED, 2) ||
	    !bytes_are_zero(p + INO_RESERVED2,
			    EROFS_EXTENDED_SIZE - INO_RESERVED2))
		return fail_inode(c, i->nid, "unknown fields");
	if (i->nlink == 0)
		return fail_inode(c, i->nid, "wrong number of links");
	return claim_zero_padded_range(c, i->nid, i->pos,
				       i->head + (uint64_t)i->xattr_len);
}

/* Check an inode that was found for the first time, as an entry of folder `parent`. */
static int check_inode(struct checker *c, uint64_t nid, uint64_t parent,
		       struct erofs_inode *ret)
{
	int rc = erofs_inode(c->img, nid, ret, c->err);

	if (rc == 0)
		rc = check_head(c, ret);
	if (rc == 0)
		rc = check_xattrs(c, ret);
	if (rc < 0)
		return rc;
	c->n_inodes++;
	c->links[nid] = S_ISDIR(ret->mode) ? 1 : ret->nlink;
	switch (ret->mode & S_IFMT) {
	case S_IFREG:
		return check_file(c, ret);
	case S_IFLNK:
		return check_symlink(c, ret);
	case S_IFDIR:
		rc = claim_content(c, ret);
		return rc < 0 ? rc : push_dir(c, nid, parent);
	default:
		return check_special(c, ret);
	}
}

/* ----------------------------------------------------------------- folders --- */

/* State of the check of one folder's entries. */
struct folder_check {
	struct checker *c;
	const struct check_dir *dir;
	const char *prev; /* name of the entry before, in the image */
	size_t prev_len;
	unsigned int n_dots;
	uint64_t n_folders;
};

static bool is_name_behind_previous(const struct folder_check *s,
				    const char *name, size_t len)
{
	size_t n = len < s->prev_len ? len : s->prev_len;
	int order = n ? memcmp(s->prev, name, n) : 0;

	return order < 0 || (order == 0 && s->prev_len < len);
}

static int check_entry(struct folder_check *s, uint64_t nid, uint8_t type)
{
	struct checker *c = s->c;
	struct erofs_inode i;
	int rc;

	if (nid < c->n_nids && c->links[nid]) {
		rc = erofs_inode(c->img, nid, &i, c->err);
		if (rc < 0)
			return rc;
		if (S_ISDIR(i.mode))
			return fail_inode(c, nid, "a folder with two names");
		if (c->links[nid] == 1)
			return fail_inode(c, nid, "wrong number of links");
		c->links[nid]--;
	} else {
		rc = check_inode(c, nid, s->dir->nid, &i);
		if (rc < 0)
			return rc;
	}
	s->n_folders += S_ISDIR(i.mode);
	return erofs_file_type(i.mode) == type
		       ? 0
		       : fail_inode(c, nid, "an entry of another type");
}

static int take_entry(void *arg, const char *name, size_t len, uint64_t nid,
		      uint8_t type, uint64_t cookie)
{
	struct folder_check *s = arg;
	uint64_t want;

	(void)cookie;
	if (!is_name_behind_previous(s, name, len))
		return fail_inode(s->c, s->dir->nid, "entries out of order");
	s->prev = name;
	s->prev_len = len;
	if (name[0] != '.' || len > 2 || (len == 2 && name[1] != '.'))
		return check_entry(s, nid, type);
	want = len == 1 ? s->dir->nid : s->dir->parent;
	s->n_dots++;
	return nid == want && type == EROFS_FT_DIR
		       ? 0
		       : fail_inode(s->c, s->dir->nid, "wrong '.' or '..'");
}

/* Check what erofs_readdir() ignores: fields that must be zero, and the unused bytes behind
 * the last name. */
static int check_dir_block(struct checker *c, const struct erofs_inode *dir,
			   const uint8_t *p, size_t len)
{
	size_t n = get_le16(p + DIRENT_NAMEOFF) / EROFS_DIRENT_SIZE;
	size_t last =
		get_le16(p + (n - 1) * EROFS_DIRENT_SIZE + DIRENT_NAMEOFF);

	for (size_t k = 0; k < n; k++)
		if (p[k * EROFS_DIRENT_SIZE + DIRENT_RESERVED] != 0)
			return fail_inode(c, dir->nid,
					  "unknown fields of an entry");
	last += strnlen((const char *)p + last, len - last);
	if (!bytes_are_zero(p + last, len - last))
		return fail_inode(c, dir->nid, "bytes behind its last name");
	return 0;
}

static int check_dir_blocks(struct checker *c, const struct erofs_inode *dir)
{
	const uint8_t *p;
	uint64_t len;
	int rc = 0;

	for (uint64_t off = 0; rc == 0 && off < dir->size; off += EROFS_BLOCK) {
		rc = erofs_content(c->img, dir, off, &p, &len, c->err);
		if (rc == 0)
			rc = check_dir_block(c, dir, p,
					     len < EROFS_BLOCK ? (size_t)len
							       : EROFS_BLOCK);
	}
	return rc;
}

static int check_folder(struct checker *c, const struct check_dir *dir)
{
	struct folder_check s = { .c = c, .dir = dir };
	struct erofs_inode i;
	int rc = erofs_inode(c->img, dir->nid, &i, c->err);

	if (rc == 0)
		rc = erofs_readdir(c->img, &i, 0, take_entry, &s, c->err);
	if (rc == 0 && s.n_dots != 2)
		return fail_inode(c, dir->nid, "no '.' or '..'");
	if (rc == 0)
		rc = check_dir_blocks(c, &i);
	if (rc == 0 && i.nlink != 2 + s.n_folders)
		return fail_inode(c, dir->nid, "wrong number of links");
	return rc;
}

/* --------------------------------------------------------------- together --- */

static int check_counts(struct checker *c)
{
	for (uint64_t nid = 0; nid < c->n_nids; nid++)
		if (c->links[nid] > 1)
			return fail_inode(c, nid, "wrong number of links");
	if (c->n_inodes != c->img->n_inodes)
		return error_set(c->err, EINVAL,
				 "EROFS superblock: %llu inodes, found %llu",
				 (unsigned long long)c->img->n_inodes,
				 (unsigned long long)c->n_inodes);
	return 0;
}

static int check_all(struct checker *c, size_t len)
{
	struct erofs_inode root;
	struct check_dir dir;
	int rc = check_super(c, len);

	if (rc == 0)
		rc = check_shared_xattrs(c);
	if (rc == 0)
		rc = check_inode(c, c->img->root_nid, c->img->root_nid, &root);
	while (rc == 0 && c->n_dirs) {
		dir = c->dirs[--c->n_dirs];
		c->depth = dir.depth + 1;
		rc = check_folder(c, &dir);
	}
	if (rc == 0)
		rc = check_counts(c);
	return rc < 0 ? rc : check_unclaimed_is_zero(c);
}

int erofs_check(const void *data, size_t len, struct erofs_image *ret,
		struct error *err)
{
	AUTO_FREE uint64_t *used = NULL, *shared = NULL;
	AUTO_FREE uint32_t *links = NULL;
	struct erofs_image img;
	struct checker c = { .img = &img, .err = err };
	int rc = erofs_open(data, len, &img, err);

	if (rc < 0)
		return rc;
	c.n_nids = img.len / EROFS_SLOT;
	c.used = used = calloc(img.len / WORD_BYTES, sizeof(*used));
	c.links = links = calloc(c.n_nids, sizeof(*links));
	c.shared = shared = calloc((img.len - img.xattr_off) / WORD_BYTES + 1,
				   sizeof(*shared));
	rc = used && links && shared ? check_all(&c, len) : error_nomem(err);
	free(c.dirs);
	if (rc == 0)
		*ret = img;
	return rc;
}
