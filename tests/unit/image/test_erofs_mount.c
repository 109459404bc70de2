// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel makes of the images.  Needs root and a kernel that mounts
 * EROFS from files (6.12); every test has its own mount namespace, so nothing
 * stays mounted whatever happens.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "image/erofs/format.h"
#include "random_tree.h"
#include "scan.h"
#include "tree_diff.h"

TestSuite(erofs_mount, .timeout = 120);

#define INLINE_ALL (UINT64_C(1) << 40)

static const struct erofs_device devices[RANDOM_DEVICES] = {
	{ .size = RANDOM_DEVICE_SIZE, .tag = "one" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "two" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "three" },
};

static const struct erofs_params params = {
	.devices = devices,
	.n_devices = RANDOM_DEVICES,
};

static void path_in(const char *dir, const char *name, struct buf *ret)
{
	buf_reset(ret);
	cr_assert_eq(buf_printf(ret, "%s/%s", dir, name), 0);
}

static void write_devices(const char *dir)
{
	AUTO_FREE uint8_t *p = malloc(RANDOM_DEVICE_SIZE);

	cr_assert_not_null(p);
	for (unsigned int k = 0; k < RANDOM_DEVICES; k++) {
		AUTO_BUF path = BUF_INIT;
		struct error err = ERROR_INIT;

		random_device_read(k, 0, p, RANDOM_DEVICE_SIZE);
		path_in(dir, devices[k].tag, &path);
		cr_assert_eq(fs_replace_file(path.data, p, RANDOM_DEVICE_SIZE,
					     0600, &err),
			     0, "%s", err.msg);
	}
}

/* A folder with the devices in it, and a mount namespace of its own. */
static void prepare(char *dir)
{
	AUTO_BUF mnt = BUF_INIT;

	cr_assert_eq(unshare(CLONE_NEWNS), 0, "%s", strerror(errno));
	cr_assert_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	cr_assert_not_null(mkdtemp(dir));
	path_in(dir, "mnt", &mnt);
	cr_assert_eq(mkdir(mnt.data, 0700), 0);
	write_devices(dir);
}

static void mount_bytes(const void *image, size_t len, const char *dir)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF mnt = BUF_INIT;
	AUTO_BUF options = BUF_INIT;
	struct error err = ERROR_INIT;

	path_in(dir, "image", &path);
	path_in(dir, "mnt", &mnt);
	cr_assert_eq(fs_replace_file(path.data, image, len, 0600, &err), 0);
	for (unsigned int k = 0; k < RANDOM_DEVICES; k++)
		cr_assert_eq(buf_printf(&options, "%sdevice=%s/%s",
					k ? "," : "", dir, devices[k].tag),
			     0);
	cr_assert_eq(mount(path.data, mnt.data, "erofs", MS_RDONLY,
			   options.data),
		     0, "%s", strerror(errno));
}

static void mount_tree(struct tree *t, const char *dir)
{
	AUTO_FREE void *image = NULL;
	struct error err = ERROR_INIT;
	struct erofs_image img;
	size_t len;

	cr_assert_eq(erofs_write(t, &params, &image, &len, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(erofs_check(image, len, &img, &err), 0, "%s", err.msg);
	mount_bytes(image, len, dir);
}

static void finish(const char *dir)
{
	AUTO_BUF mnt = BUF_INIT;
	struct error err = ERROR_INIT;

	path_in(dir, "mnt", &mnt);
	cr_assert_eq(umount(mnt.data), 0);
	cr_assert_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

/* Replace extents by the bytes that the devices hold there. */
static void resolve(struct tree *t, struct inode *i)
{
	const struct extent *e = i->extents;
	uint32_t n = i->n_extents;
	uint8_t *p;

	if (i->data != INODE_DATA_EXTENTS)
		return;
	p = tree_alloc(t, i->size);
	memset(p, 0, i->size);
	for (uint32_t k = 0; k < n; k++)
		random_device_read(EROFS_VOFF_DEVICE(e[k].voff),
				   EROFS_VOFF_BYTE(e[k].voff), p + e[k].off,
				   e[k].len);
	i->data = INODE_DATA_INLINE;
	i->bytes = p;
}

static void resolve_all(struct tree *t, struct inode *dir)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		if (S_ISDIR(d->inode->mode))
			resolve_all(t, d->inode);
		else if (S_ISREG(d->inode->mode))
			resolve(t, d->inode);
	}
}

static void expect_links(struct inode *dir)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		cr_expect_eq(d->inode->user, d->inode->nlink, "%s", d->name);
		if (S_ISDIR(d->inode->mode))
			expect_links(d->inode);
	}
}

static void expect_mounted(struct tree *t, const char *dir)
{
	struct scan s = { .data_fd = -1, .inline_max = INLINE_ALL };
	AUTO_BUF mnt = BUF_INIT;
	char *diff;
	int rc;

	path_in(dir, "mnt", &mnt);
	rc = scan_tree(&s, mnt.data);
	cr_assert_eq(rc, 0, "%s", strerror(-rc));
	expect_links(tree_root(s.tree));
	resolve_all(t, tree_root(t));
	diff = tree_diff(t, s.tree, false);
	cr_expect_null(diff, "%s", diff);
	free(diff);
	scan_fini(&s);
}

Test(erofs_mount, shows_every_attribute_and_byte_of_any_tree)
{
	char dir[] = "/var/tmp/bootseer-erofs.XXXXXX";

	prepare(dir);
	for (uint64_t seed = 1; seed <= 8; seed++) {
		AUTO(tree) t = random_tree(seed, 100 * (unsigned int)seed);
		AUTO_BUF mnt = BUF_INIT;

		mount_tree(t, dir);
		expect_mounted(t, dir);
		path_in(dir, "mnt", &mnt);
		if (seed < 8)
			cr_assert_eq(umount(mnt.data), 0);
	}
	finish(dir);
}

static void relayout_all(struct rnd *r, struct tree *t, struct inode *dir)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		if (S_ISDIR(d->inode->mode))
			relayout_all(r, t, d->inode);
		else if (d->inode->data == INODE_DATA_EXTENTS)
			random_relayout(r, t, d->inode);
	}
}

Test(erofs_mount, shows_the_same_tree_after_it_was_laid_out_anew)
{
	char dir[] = "/var/tmp/bootseer-erofs.XXXXXX";
	AUTO(tree) t = random_tree(77, 500);
	AUTO(tree) back = NULL;
	AUTO_FREE void *image = NULL;
	struct error err = ERROR_INIT;
	struct rnd r = { 5 };
	struct erofs_image img;
	size_t len;

	prepare(dir);
	cr_assert_eq(erofs_write(t, &params, &image, &len, &err), 0);
	cr_assert_eq(erofs_open(image, len, &img, &err), 0);
	cr_assert_eq(erofs_read_tree(&img, &back, &err), 0, "%s", err.msg);
	relayout_all(&r, back, tree_root(back));
	mount_tree(back, dir);
	expect_mounted(back, dir);
	finish(dir);
}

Test(erofs_mount, finds_every_name_of_a_huge_folder)
{
	enum { N = 100000 };
	char dir[] = "/var/tmp/bootseer-erofs.XXXXXX";
	AUTO(tree) t = tree_new();
	char name[32];

	prepare(dir);
	for (unsigned int i = 0; i < N; i++) {
		struct inode *f = tree_inode_new(t, S_IFREG | 0644);
		int n = snprintf(name, sizeof(name), "%u.file", i * 7919u);

		f->uid = i;
		cr_assert_eq(tree_link(t, tree_root(t), name, (size_t)n, f), 0);
	}
	mount_tree(t, dir);
	expect_mounted(t, dir);
	finish(dir);
}

/* ------------------------------------------------------------ changed images --- */

/* Complaints of the kernel since the descriptor was opened at its log's end. */
static unsigned int complaints(int kmsg)
{
	static const char *const words[] = { "BUG:", "WARNING:", "Oops",
					     "KASAN", "UBSAN" };
	unsigned int found = 0;
	char line[8192];
	ssize_t n;

	while (kmsg >= 0 && (n = read(kmsg, line, sizeof(line) - 1)) > 0) {
		line[n] = '\0';
		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			found += strstr(line, words[k]) != NULL;
	}
	return found;
}

static void put_sum(uint8_t *image)
{
	uint8_t *sb = image + EROFS_SB_POS;

	put_le32(sb + SB_CHECKSUM, 0);
	put_le32(sb + SB_CHECKSUM,
		 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
}

/* The kernel reads the values of ACLs, too, and has a word for wrong ones. */
static void drop_acls(struct inode *i)
{
	struct xattr **x = &i->xattrs;

	while (*x) {
		if (strncmp((*x)->name, "system.", 7) == 0)
			*x = (*x)->next;
		else
			x = &(*x)->next;
	}
	if (S_ISDIR(i->mode))
		for (struct dentry *d = i->children; d; d = d->next)
			drop_acls(d->inode);
}

/* One to three changed bytes, most of them by a little. */
static void change(struct rnd *r, uint8_t *image, size_t len)
{
	for (uint32_t n = 1 + rnd_below(r, 3); n; n--) {
		uint32_t at = rnd_below(r, (uint32_t)len);

		if (rnd_below(r, 3) == 0)
			image[at] = (uint8_t)rnd_below(r, 256);
		else
			image[at] ^= (uint8_t)(1u << rnd_below(r, 8));
	}
	put_sum(image);
}

/* What the checker lets through is walked and read by the kernel, whole, and is
 * what our reader says it is. */
Test(erofs_mount, shows_what_passed_the_check_as_the_reader_does)
{
	enum { N_CHANGES = 300, N_MOUNTED = 100 };
	char dir[] = "/var/tmp/bootseer-erofs.XXXXXX";
	AUTO_CLOSE int kmsg =
		open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	AUTO(tree) t = random_tree(11, 30);
	AUTO_FREE void *good = NULL;
	AUTO_FREE uint8_t *bad = NULL;
	struct rnd r = { 4242 };
	unsigned int n = 0;
	AUTO_BUF mnt = BUF_INIT;
	size_t len;

	prepare(dir);
	path_in(dir, "mnt", &mnt);
	if (kmsg >= 0)
		(void)lseek(kmsg, 0, SEEK_END);
	drop_acls(tree_root(t));
	cr_assert_eq(erofs_write(t, &params, &good, &len, NULL), 0);
	bad = malloc(len);
	cr_assert_not_null(bad);
	for (int k = 0; k < N_CHANGES; k++) {
		AUTO(tree) read = NULL;
		struct error err = ERROR_INIT;
		struct erofs_image img;

		memcpy(bad, good, len);
		change(&r, bad, len);
		if (erofs_check(bad, len, &img, &err) < 0)
			continue;
		cr_assert_eq(erofs_read_tree(&img, &read, &err), 0, "%s",
			     err.msg);
		n++;
		mount_bytes(bad, len, dir);
		expect_mounted(read, dir);
		cr_assert_eq(umount(mnt.data), 0, "%s", strerror(errno));
	}
	cr_expect_gt(n, N_MOUNTED, "%u images of %d passed", n, N_CHANGES);
	cr_expect_eq(complaints(kmsg), 0);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
