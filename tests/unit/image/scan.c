// SPDX-License-Identifier: Apache-2.0
#include "scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "common/bytes.h"
#include "common/fs.h"

/* Inodes with several names, by number. */
struct scan_link {
	struct scan_link *next;
	dev_t dev;
	ino_t ino;
	struct inode *inode;
};

static int add_xattrs(struct scan *s, const char *path, struct inode *i)
{
	static __thread char names[65536], value[65536];
	ssize_t len = llistxattr(path, names, sizeof(names));

	if (len < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (char *name = names; name < names + len; name += strlen(name) + 1) {
		ssize_t n = lgetxattr(path, name, value, sizeof(value));
		int rc = n < 0 ? -errno
			       : tree_set_xattr(s->tree, i, name, value,
						(size_t)n);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int add_extent(struct scan *s, struct inode *i, int fd, uint64_t off,
		      uint64_t len)
{
	struct extent *grown =
		tree_alloc(s->tree, (i->n_extents + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	if (i->n_extents)
		memcpy(grown, i->extents, i->n_extents * sizeof(*grown));
	i->extents = grown;
	grown[i->n_extents++] = (struct extent){ off, len, s->data_len };
	for (uint64_t done = 0; s->data_fd >= 0 && done < len;) {
		static __thread char buf[65536];
		size_t n = len - done < sizeof(buf) ? len - done : sizeof(buf);
		int rc = fs_pread_full(fd, buf, n, off + done);

		if (rc == 0)
			rc = fs_pwrite_full(s->data_fd, buf, n,
					    s->data_len + done);
		if (rc < 0)
			return rc;
		done += n;
	}
	s->data_len += round_up(len, 4096);
	return s->data_fd >= 0 && ftruncate(s->data_fd, (off_t)s->data_len) < 0
		       ? -errno
		       : 0;
}

static int add_content(struct scan *s, const char *path, struct inode *i)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t off = 0;

	if (fd < 0)
		return -errno;
	if (i->size == 0)
		return 0;
	if (i->size <= s->inline_max) {
		uint8_t *p = tree_alloc(s->tree, i->size);

		if (!p)
			return -ENOMEM;
		i->data = INODE_DATA_INLINE;
		i->bytes = p;
		return fs_pread_full(fd, p, i->size, 0);
	}
	i->data = INODE_DATA_EXTENTS;
	while (off < i->size) {
		off_t data = lseek(fd, (off_t)off, SEEK_DATA);
		off_t hole;
		int rc;

		if (data < 0 && errno == ENXIO)
			return 0;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		off = round_up((uint64_t)hole, 4096);
		if (off > i->size)
			off = i->size;
		data &= ~(off_t)4095;
		rc = add_extent(s, i, fd, (uint64_t)data, off - (uint64_t)data);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static struct inode *find_link(struct scan *s, const struct stat *st)
{
	for (struct scan_link *l = s->links; l; l = l->next)
		if (l->dev == st->st_dev && l->ino == st->st_ino)
			return l->inode;
	return NULL;
}

static int remember_link(struct scan *s, const struct stat *st, struct inode *i)
{
	struct scan_link *l = malloc(sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = (struct scan_link){ s->links, st->st_dev, st->st_ino, i };
	s->links = l;
	return 0;
}

static void set_attributes(struct inode *i, const struct stat *st)
{
	i->mode = (uint16_t)st->st_mode;
	i->uid = st->st_uid;
	i->gid = st->st_gid;
	i->mtime = st->st_mtim.tv_sec;
	i->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		i->major = major(st->st_rdev);
		i->minor = minor(st->st_rdev);
	}
	i->user = st->st_nlink;
	if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode))
		i->size = (uint64_t)st->st_size;
}

static int fill(struct scan *s, const char *path, const struct stat *st,
		struct inode *i);

static int scan_dir(struct scan *s, const char *path, struct inode *dir)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int rc = d ? 0 : -errno;

	while (rc == 0 && (e = readdir(d))) {
		AUTO_BUF sub = BUF_INIT;
		struct inode *i;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		rc = buf_printf(&sub, "%s/%s", path, e->d_name);
		if (rc == 0 && lstat(sub.data, &st) < 0)
			rc = -errno;
		if (rc < 0)
			break;
		i = find_link(s, &st);
		if (!i) {
			i = tree_inode_new(s->tree, st.st_mode);
			rc = i ? fill(s, sub.data, &st, i) : -ENOMEM;
		}
		if (rc == 0)
			rc = tree_link(s->tree, dir, e->d_name,
				       strlen(e->d_name), i);
	}
	if (d)
		closedir(d);
	return rc;
}

static int fill(struct scan *s, const char *path, const struct stat *st,
		struct inode *i)
{
	int rc = add_xattrs(s, path, i);

	set_attributes(i, st);
	if (rc < 0)
		return rc;
	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
		rc = remember_link(s, st, i);
	if (rc == 0 && S_ISDIR(st->st_mode))
		return scan_dir(s, path, i);
	if (rc == 0 && S_ISREG(st->st_mode))
		return add_content(s, path, i);
	if (rc == 0 && S_ISLNK(st->st_mode)) {
		char *target = tree_alloc(s->tree, i->size + 1);

		if (!target)
			return -ENOMEM;
		if (readlink(path, target, i->size) != (ssize_t)i->size)
			return -EIO;
		target[i->size] = '\0';
		i->target = target;
	}
	return rc;
}

int scan_tree(struct scan *s, const char *path)
{
	struct stat st;

	s->tree = tree_new();
	if (!s->tree)
		return -ENOMEM;
	if (lstat(path, &st) < 0)
		return -errno;
	return fill(s, path, &st, tree_root(s->tree));
}

void scan_fini(struct scan *s)
{
	struct scan_link *l;

	while ((l = s->links)) {
		s->links = l->next;
		free(l);
	}
	tree_free(s->tree);
	s->tree = NULL;
}
