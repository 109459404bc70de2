// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of metadata images, and the checker.  Inputs get a right checksum
 * first, or nothing would come past it.  What the reader takes whole must be
 * written and read again to the same tree; what the checker takes, the reader
 * must be able to walk, map and read without an error.
 */
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/erofs.h"
#include "image/erofs/file_map.h"
#include "image/erofs/format.h"
#include "tree_diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		__builtin_trap();
}

/* Any answer will do: 0 or an error. */
static void done(int rc)
{
	check(rc <= 0);
}

static int touch_entry(void *arg, const char *name, size_t len, uint64_t nid,
		       uint8_t type, uint64_t cookie)
{
	uint64_t *sum = arg;

	check(len > 0 && len <= TREE_NAME_MAX);
	*sum += (uint8_t)name[len - 1] + nid + type + cookie;
	return 0;
}

static int touch_xattr(void *arg, const char *name, const void *value,
		       size_t size)
{
	uint64_t *sum = arg;

	*sum += strlen(name) + (size ? *(const uint8_t *)value : 0);
	return 0;
}

static void touch_file(const struct erofs_image *img,
		       const struct erofs_inode *i)
{
	struct erofs_map m;
	uint64_t off = 0;

	for (int k = 0; k < 32 && off < i->size; k++) {
		if (erofs_map(img, i, off, &m, NULL) < 0)
			break;
		check(m.len > 0 && m.len <= i->size - off);
		if (m.kind == EROFS_MAP_INLINE)
			check(m.data >= img->data &&
			      m.data + m.len <= img->data + img->len);
		off += m.len;
	}
}

static void touch_inodes(const struct erofs_image *img)
{
	struct erofs_inode i;
	uint64_t sum = 0, nid;
	const char *target;
	size_t len;

	for (uint64_t n = 0; n < img->len / EROFS_SLOT + 2; n++) {
		if (erofs_inode(img, n, &i, NULL) < 0)
			continue;
		done(erofs_xattrs(img, &i, touch_xattr, &sum, NULL));
		if (S_ISREG(i.mode))
			touch_file(img, &i);
		if (S_ISLNK(i.mode) &&
		    erofs_readlink(img, &i, &target, &len, NULL) == 0)
			sum += (uint8_t)target[len - 1];
		if (!S_ISDIR(i.mode))
			continue;
		done(erofs_readdir(img, &i, 0, touch_entry, &sum, NULL));
		done(erofs_lookup(img, &i, "a", 1, &nid, NULL));
		done(erofs_lookup(img, &i, "\xff", 1, &nid, NULL));
	}
}

static void touch_tree(const struct erofs_image *img)
{
	bool has_xattrs;

	done(erofs_has_xattrs(img, &has_xattrs, NULL));
}

static int touch_range(void *arg, const struct file_range *r)
{
	uint64_t *end = arg;

	check(r->len > 0 && r->path[0] == '/');
	check(r->voff < *end && r->len <= *end - r->voff);
	return 0;
}

static void touch_map(const struct erofs_image *img)
{
	uint64_t end = UINT64_MAX;
	struct file_map *m = NULL;

	done(erofs_file_map_new(img, &m, NULL));
	if (m) {
		done(m->ops->at(m, 0, end, touch_range, &end, NULL));
		done(m->ops->of(m, "/a", 0, end, touch_range, &end, NULL));
	}
	erofs_file_map_free(m);
}

static void write_again(const struct erofs_image *img, struct tree *t)
{
	struct erofs_device devices[EROFS_DEVICES_MAX];
	struct erofs_params params = { .devices = devices,
				       .n_devices = img->n_devices };
	AUTO(tree) back = NULL;
	AUTO_FREE void *copy = NULL;
	AUTO_FREE char *diff = NULL;
	struct erofs_image again;
	size_t len;

	for (uint16_t k = 0; k < img->n_devices; k++) {
		check(erofs_device(img, k + 1, &devices[k].size, devices[k].tag,
				   NULL) == 0);
	}
	if (img->n_devices == 0 ||
	    erofs_write(t, &params, &copy, &len, NULL) < 0)
		return;
	check(erofs_check(copy, len, &again, NULL) == 0);
	check(erofs_read_tree(&again, &back, NULL) == 0);
	diff = tree_diff(t, back, true);
	check(!diff);
}

/* ------------------------------------------------------- what was checked --- */

static void read_file(const struct erofs_image *img,
		      const struct erofs_inode *i)
{
	struct erofs_map m;
	uint64_t size;

	for (uint64_t off = 0; off < i->size; off += m.len) {
		check(erofs_map(img, i, off, &m, NULL) == 0);
		check(m.len > 0 && m.len <= i->size - off);
		if (m.kind == EROFS_MAP_INLINE)
			check(m.data >= img->data &&
			      m.data + m.len <= img->data + img->len);
		if (m.kind != EROFS_MAP_DEVICE)
			continue;
		check(erofs_device(img, m.device, &size, NULL, NULL) == 0);
		check(m.voff < size && m.len <= size - m.voff);
	}
}

/* One inode and, for a folder, all of its entries' inodes. */
struct visit {
	const struct erofs_image *img;
	uint64_t sum;
	uint64_t dirs[4096]; /* still to be visited */
	size_t n_dirs;
};

static int visit_entry(void *arg, const char *name, size_t len, uint64_t nid,
		       uint8_t type, uint64_t cookie)
{
	struct visit *v = arg;
	struct erofs_inode i;
	const char *target;
	size_t n;

	(void)type;
	(void)cookie;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return 0;
	check(erofs_inode(v->img, nid, &i, NULL) == 0);
	check(erofs_xattrs(v->img, &i, touch_xattr, &v->sum, NULL) == 0);
	if (S_ISREG(i.mode))
		read_file(v->img, &i);
	if (S_ISLNK(i.mode))
		check(erofs_readlink(v->img, &i, &target, &n, NULL) == 0);
	if (S_ISDIR(i.mode) && v->n_dirs < ARRAY_SIZE(v->dirs))
		v->dirs[v->n_dirs++] = nid;
	return 0;
}

static void visit_all(const struct erofs_image *img)
{
	static struct visit v;
	struct error err = ERROR_INIT;
	struct file_map *m = NULL;
	struct erofs_inode i;
	AUTO(tree) t = NULL;

	v = (struct visit){ .img = img,
			    .dirs = { img->root_nid },
			    .n_dirs = 1 };
	while (v.n_dirs) {
		check(erofs_inode(img, v.dirs[--v.n_dirs], &i, NULL) == 0);
		check(erofs_readdir(img, &i, 0, visit_entry, &v, NULL) == 0);
	}
	/* Many references to a large shared xattr make a tree that is too
	 * large, which the reader bounds by itself. */
	if (erofs_read_tree(img, &t, &err) < 0)
		check(strstr(err.msg, "out of proportion"));
	if (img->n_devices == 1)
		check(erofs_file_map_new(img, &m, NULL) == 0);
	erofs_file_map_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE uint8_t *copy = malloc(size + 1);
	AUTO(tree) t = NULL;
	struct erofs_image img;
	struct error err = ERROR_INIT;

	check(copy != NULL);
	if (size)
		memcpy(copy, data, size);
	if (size >= EROFS_BLOCK) {
		uint8_t *sb = copy + EROFS_SB_POS;

		put_le32(sb + SB_CHECKSUM, 0);
		put_le32(sb + SB_CHECKSUM,
			 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
	}
	if (erofs_open(copy, size, &img, &err) < 0)
		return 0;
	touch_inodes(&img);
	touch_tree(&img);
	touch_map(&img);
	if (erofs_check(copy, size, &img, NULL) == 0)
		visit_all(&img);
	if (erofs_read_tree(&img, &t, &err) == 0)
		write_again(&img, t);
	return 0;
}
