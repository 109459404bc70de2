// SPDX-License-Identifier: Apache-2.0
/*
 * The result of a walk over the targets (scan_walk.c).  Changes are detected by stat(2): every
 * change of a file sets its ctime, which no program can set back.  Only a file changed just before
 * the walk might be changed again within the same clock tick; such files are hashed.
 */
#include "envcache/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

/* Allows for differing clocks of file servers, and file systems with a resolution of 2 s. */
#define RECENT_NS (3 * NS_PER_S)
#define HASH_PIECE (256u << 10)

int env_path_compare(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a;
	const unsigned char *y = (const unsigned char *)b;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	if (*x == *y)
		return 0;
	/* Order: end of path, slash, all other bytes. */
	if (!*x || !*y)
		return *x ? 1 : -1;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return *x < *y ? -1 : 1;
}

/* A time in nanoseconds; times out of range become the smallest or largest value. */
static int64_t statx_ns(const struct statx_timestamp *t)
{
	return clock_scale(t->tv_sec, NS_PER_S, t->tv_nsec);
}

int env_entry_look(int dir, const char *name, struct env_entry *ret,
		   bool *ret_is_mount)
{
	struct statx x;

	if (statx(dir, name,
		  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
		  STATX_BASIC_STATS, &x) < 0)
		return -errno;
	ret->mode = x.stx_mode;
	ret->uid = x.stx_uid;
	ret->gid = x.stx_gid;
	ret->nlink = x.stx_nlink;
	ret->size = S_ISDIR(x.stx_mode) ? 0 : x.stx_size;
	/* An overlay's folder can get a new inode number when the kernel forgets it, if the layers
	 * are on several file systems; the times show changes as well. */
	ret->ino = S_ISDIR(x.stx_mode) ? 0 : x.stx_ino;
	ret->dev = makedev(x.stx_dev_major, x.stx_dev_minor);
	ret->rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor);
	ret->mtime_ns = statx_ns(&x.stx_mtime);
	ret->ctime_ns = statx_ns(&x.stx_ctime);
	*ret_is_mount = x.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return 0;
}

int env_scan_is_full(struct error *err)
{
	return error_set(err, E2BIG, "the targets hold more than %u names",
			 ENV_ENTRIES_MAX);
}

bool env_scan_is_covered(const struct env_scan *s, const char *path)
{
	for (size_t i = 0; i < s->n_mounts; i++)
		if (text_path_holds(s->mounts[i], path))
			return true;
	return false;
}

/* ------------------------------------------------------------------- entries --- */

bool env_entry_is_same(const struct env_entry *a, const struct env_entry *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->nlink == b->nlink && a->size == b->size && a->ino == b->ino &&
	       a->dev == b->dev && a->rdev == b->rdev &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

bool env_entry_is_still(const struct env_entry *e, int fd)
{
	struct env_entry now = { .path = NULL };
	bool is_mount;

	return env_entry_look(fd, "", &now, &is_mount) == 0 &&
	       env_entry_is_same(e, &now);
}

int env_open_long(int root, const char *path, uint64_t flags, uint64_t resolve)
{
	AUTO_FREE char *step = NULL;
	AUTO_CLOSE int at = -1;

	while (strlen(path) >= PATH_MAX) {
		const char *end = path + PATH_MAX - 1;
		int fd;

		while (*end != '/')
			end--;
		free(step);
		step = strndup(path, (size_t)(end - path));
		fd = step ? fs_openat2(at < 0 ? root : at, step,
				       O_PATH | O_DIRECTORY, resolve)
			  : -1;
		if (fd < 0)
			return -1;
		fd_close(at);
		at = fd;
		path = end + 1;
	}
	return fs_openat2(at < 0 ? root : at, path, flags, resolve);
}

int env_entry_open(const struct env_entry *e, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd =
		env_open_long(AT_FDCWD, e->path,
			      S_ISREG(e->mode) ? O_RDONLY | O_NONBLOCK
					       : O_PATH | O_NOFOLLOW,
			      RESOLVE_NO_SYMLINKS);

	if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
		return error_set(err, ESTALE, "'%.160s' changes", e->path);
	if (fd < 0)
		return error_errno(err, errno, "open '%.160s'", e->path);
	if (!env_entry_is_still(e, fd))
		return error_set(err, ESTALE, "'%.160s' changes", e->path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int hash_fd(int fd, struct digest *ret)
{
	AUTO(hasher) h = hasher_new();
	int rc = h ? hasher_update_file(h, fd, HASH_PIECE, 0) : -ENOMEM;

	return rc < 0 ? rc : hasher_final(h, ret);
}

int env_entry_hash(const struct env_entry *e, struct digest *ret,
		   struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = env_entry_open(e, &fd, err);

	if (rc < 0)
		return rc;
	rc = hash_fd(fd, ret);
	return rc < 0 ? error_errno(err, -rc, "read '%.160s'", e->path) : 0;
}

int env_scan_hash_recent(struct env_scan *s, struct error *err)
{
	const int64_t now = clock_wall_ns();
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		struct env_entry *e = &s->entries[i];

		if (!S_ISREG(e->mode) || e->ctime_ns < now - RECENT_NS)
			continue;
		rc = env_entry_hash(e, &e->content, err);
		e->has_content = rc == 0;
	}
	return rc;
}

/* A line has eight numbers of at most 22 digits. */
#define LINE_NUMBERS_MAX 192

static char *put_number(char *at, uint64_t v, unsigned int base, char behind)
{
	char digits[24], *d = digits + sizeof(digits);

	do
		*--d = (char)('0' + v % base);
	while ((v /= base));
	memcpy(at, d, (size_t)(digits + sizeof(digits) - d));
	at += digits + sizeof(digits) - d;
	*at++ = behind;
	return at;
}

/* Format a line by hand: printf() took a third of the time of a scan of 200,000 names. */
static int put_line(const struct env_entry *e, struct buf *b)
{
	size_t path_len = strlen(e->path);
	size_t link_len = e->link ? strlen(e->link) : 0;
	/* The time of a folder only says when it was made on this node. */
	int64_t time = S_ISREG(e->mode) ? e->mtime_ns : 0;
	char *p;
	int rc = buf_reserve(b, LINE_NUMBERS_MAX + path_len + link_len);

	if (rc < 0)
		return rc;
	p = put_number(b->data, e->mode, 8, ' ');
	p = put_number(p, e->uid, 10, ' ');
	p = put_number(p, e->gid, 10, ' ');
	p = put_number(p, e->size, 10, ' ');
	p = put_number(p, e->rdev, 10, ' ');
	if (time < 0)
		*p++ = '-';
	p = put_number(p, time < 0 ? -(uint64_t)time : (uint64_t)time, 10, ' ');
	p = put_number(p, path_len, 10, ' ');
	p = put_number(p, link_len, 10, '\n');
	memcpy(p, e->path, path_len);
	if (link_len)
		memcpy(p + path_len, e->link, link_len);
	b->len = (size_t)(p - b->data) + path_len + link_len;
	return 0;
}

bool env_scan_is_empty_target(const struct env_scan *s,
			      const struct env_targets *t, size_t entry)
{
	const struct env_entry *e = &s->entries[entry];
	bool is_target = false;

	if (!S_ISDIR(e->mode) ||
	    (entry + 1 < s->n && text_path_holds(e->path, e[1].path)))
		return false;
	for (size_t i = 0; i < t->n && !is_target; i++)
		is_target = strcmp(t->paths[i], e->path) == 0;
	return is_target;
}

int env_scan_digest(const struct env_scan *s, const struct env_targets *t,
		    struct digest *ret, struct error *err)
{
	AUTO(hasher) h = hasher_new();
	AUTO_BUF line = BUF_INIT;
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		const struct env_entry *e = &s->entries[i];

		/* Container runtimes that mount drivers rewrite this file at each start. */
		if (strcmp(e->path, "/etc/ld.so.cache") == 0 ||
		    env_scan_is_empty_target(s, t, i))
			continue;
		buf_reset(&line);
		rc = put_line(e, &line);
		if (rc == 0)
			rc = hasher_update(h, line.data, line.len);
	}
	if (rc == 0)
		rc = hasher_final(h, ret);
	return rc < 0 ? error_nomem(err) : 0;
}

bool env_scan_is_same(const struct env_scan *a, const struct env_scan *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->entries[i].path, b->entries[i].path) != 0 ||
		    !env_entry_is_same(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}
