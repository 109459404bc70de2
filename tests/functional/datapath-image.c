// SPDX-License-Identifier: Apache-2.0
#include "datapath-image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"

#define INLINE_MAX 2048
#define N_LINKED_MAX 1024
#define EXTENTS_MAX 64

struct linked {
	dev_t dev;
	ino_t ino;
	struct inode *inode;
};

struct maker {
	struct tree *t;
	int data_fd;
	uint64_t end; /* of the data so far */
	struct linked linked[N_LINKED_MAX];
	size_t n_linked;
	struct error *err;
};

static int fail(struct maker *m, const char *what, int code)
{
	return error_set(m->err, code, "%s: %s", what, strerror(code));
}

/* O_PATH descriptors have no xattrs but by this name. */
static void proc_path(int fd, char out[64])
{
	(void)snprintf(out, 64, "/proc/self/fd/%d", fd);
}

static int copy_xattrs(struct maker *m, int dir, const char *name,
		       struct inode *i)
{
	char parent[64], path[512], names[4096], value[4096];
	ssize_t n;

	proc_path(dir, parent);
	(void)snprintf(path, sizeof(path), "%s/%s", parent, name);
	n = llistxattr(path, names, sizeof(names));
	for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t size = lgetxattr(path, p, value, sizeof(value));

		if (size < 0)
			return fail(m, p, errno);
		if (tree_set_xattr(m->t, i, p, value, (size_t)size) < 0)
			return fail(m, p, ENOMEM);
	}
	return 0;
}

static int copy_range(struct maker *m, int fd, uint64_t off, uint64_t len)
{
	char buf[65536];

	while (len) {
		size_t n = len < sizeof(buf) ? (size_t)len : sizeof(buf);
		int rc = fs_pread_full(fd, buf, n, off);

		if (rc == 0)
			rc = fs_pwrite_full(m->data_fd, buf, n, m->end);
		if (rc < 0)
			return fail(m, "copy", -rc);
		off += n;
		len -= n;
		m->end += n;
	}
	m->end = round_up(m->end, EROFS_BLOCK);
	return 0;
}

static int copy_extents(struct maker *m, int fd, struct inode *i)
{
	uint64_t off = 0;
	int rc = 0;

	i->data = INODE_DATA_EXTENTS;
	i->extents = tree_alloc(m->t, sizeof(*i->extents) * EXTENTS_MAX);
	if (!i->extents)
		return fail(m, "extents", ENOMEM);
	while (rc == 0 && off < i->size && i->n_extents < EXTENTS_MAX) {
		off_t from = lseek(fd, (off_t)off, SEEK_DATA);
		uint64_t start, end;

		if (from < 0)
			return errno == ENXIO ? 0 : fail(m, "seek", errno);
		end = (uint64_t)lseek(fd, from, SEEK_HOLE);
		start = (uint64_t)from & ~(uint64_t)(EROFS_BLOCK - 1);
		if (end < i->size)
			end = round_up(end, EROFS_BLOCK);
		if (end > i->size)
			end = i->size;
		i->extents[i->n_extents++] = (struct extent){
			.off = start, .len = end - start, .voff = m->end
		};
		rc = copy_range(m, fd, start, end - start);
		off = end;
	}
	return rc;
}

static int copy_file(struct maker *m, int dir, const char *name,
		     struct inode *i, uint64_t size)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes;

	if (fd < 0)
		return fail(m, name, errno);
	i->size = size;
	if (size == 0)
		return 0;
	if (size > INLINE_MAX)
		return copy_extents(m, fd, i);
	bytes = tree_alloc(m->t, (size_t)size);
	if (!bytes || fs_pread_full(fd, bytes, (size_t)size, 0) < 0)
		return fail(m, name, EIO);
	i->data = INODE_DATA_INLINE;
	i->bytes = bytes;
	return 0;
}

static int copy_link(struct maker *m, int dir, const char *name,
		     struct inode *i)
{
	char *target = tree_alloc(m->t, TREE_SYMLINK_MAX + 1);
	ssize_t n =
		target ? readlinkat(dir, name, target, TREE_SYMLINK_MAX) : -1;

	if (n < 0)
		return fail(m, name, errno);
	target[n] = '\0';
	i->target = target;
	i->size = (uint64_t)n;
	return 0;
}

static void copy_stat(struct inode *i, const struct stat *st)
{
	i->uid = st->st_uid;
	i->gid = st->st_gid;
	i->mtime = st->st_mtim.tv_sec;
	i->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		i->major = major(st->st_rdev);
		i->minor = minor(st->st_rdev);
	}
}

static struct inode *find_linked(struct maker *m, const struct stat *st)
{
	for (size_t i = 0; i < m->n_linked; i++)
		if (m->linked[i].dev == st->st_dev &&
		    m->linked[i].ino == st->st_ino)
			return m->linked[i].inode;
	return NULL;
}

static int copy_dir(struct maker *m, int dir, const char *name,
		    struct inode *to);

static int copy_entry(struct maker *m, int dir, const char *name,
		      struct inode *parent)
{
	struct inode *i, *old;
	struct stat st;
	int rc = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(m, name, errno);
	old = S_ISDIR(st.st_mode) ? NULL : find_linked(m, &st);
	i = old ? old : tree_inode_new(m->t, st.st_mode);
	if (!i || tree_link(m->t, parent, name, strlen(name), i) < 0)
		return fail(m, name, ENOMEM);
	if (old)
		return 0;
	copy_stat(i, &st);
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 &&
	    m->n_linked < N_LINKED_MAX)
		m->linked[m->n_linked++] =
			(struct linked){ st.st_dev, st.st_ino, i };
	if (S_ISREG(st.st_mode))
		rc = copy_file(m, dir, name, i, (uint64_t)st.st_size);
	else if (S_ISLNK(st.st_mode))
		rc = copy_link(m, dir, name, i);
	if (rc == 0)
		rc = copy_xattrs(m, dir, name, i);
	if (rc == 0 && S_ISDIR(st.st_mode))
		rc = copy_dir(m, dir, name, i);
	return rc;
}

static int copy_dir(struct maker *m, int dir, const char *name,
		    struct inode *to)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int rc = 0;

	if (!d)
		return fail(m, name, errno);
	while (rc == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = copy_entry(m, dirfd(d), e->d_name, to);
	(void)closedir(d);
	return rc;
}

int datapath_image_make(const char *dir, const char *meta, const char *data,
			struct error *err)
{
	AUTO(tree) t = tree_new();
	AUTO_CLOSE int fd = open(data, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct maker m = { .t = t, .data_fd = fd, .err = err };
	struct erofs_device device = { .tag = "data" };
	const struct erofs_params params = { .uuid = { 1 },
					     .devices = &device,
					     .n_devices = 1 };
	AUTO_FREE void *image = NULL;
	struct stat st;
	size_t len;
	int rc;

	if (!t || fd < 0 || stat(dir, &st) < 0)
		return error_set(err, errno, "'%s' to '%s': %s", dir, data,
				 strerror(errno));
	copy_stat(tree_root(t), &st);
	tree_root(t)->mode = st.st_mode;
	rc = copy_dir(&m, AT_FDCWD, dir, tree_root(t));
	if (rc == 0 && ftruncate(fd, (off_t)m.end) < 0)
		rc = fail(&m, data, errno);
	device.size = m.end;
	if (rc == 0)
		rc = erofs_write(t, &params, &image, &len, err);
	if (rc == 0)
		rc = fs_replace_file(meta, image, len, 0600, err);
	return rc;
}
