// SPDX-License-Identifier: Apache-2.0
/*
 * A mount holds a shared lock on each cache file that it has open. When the budget is used up,
 * files without a lock are removed, the least recently used first; if all are in use, nothing more
 * is stored. Mounts learn of each other's bytes by scanning the folder, each after writing a part
 * of the budget.
 */
#include "ckpt-fuse/disk_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/digest.h"

/* Without room, the folder is scanned at most once in this time. */
#define LOOK_EVERY_NS NS_PER_S
/* A mount scans again after it wrote this part (1/256) of the budget. Each of sixteen mounts may
 * have written as much since, so a sixteenth of the budget is kept free. */
#define LOOK_SHARE 256
/* A write that takes this long shows that the disk is slower than the source of the bytes. Then no
 * writes are made for ten times as long, so that readers lose at most a tenth of their time. */
#define SLOW_NS (100 * NS_PER_MS)
#define SLOW_RESTS 10
#define FAILED_REST_NS (60 * NS_PER_S)
/* 1/20 of the disk is left free, because a node with a full disk cannot work. */
#define FREE_SHARE 20

struct disk_cache {
	int dir_fd;
	uint64_t most;
	struct digest store;
	pthread_mutex_t lock; /* protects the members below */
	/* free budget at the last scan, less the bytes written since */
	uint64_t left;
	/* bytes for which room was taken since the last scan */
	uint64_t since_look;
	uint64_t writing; /* part of these that a scan may not see yet */
	bool is_looking;
	int64_t look_ns; /* earliest time of the next scan */
	int64_t rests_until_ns;
	struct disk_cache_stats stats;
};

struct disk_cache_file {
	struct disk_cache *cache;
	const struct ckpt_file *file;
	char name[DIGEST_STR_MAX];
	pthread_mutex_t lock; /* protects the members below */
	int fd;               /* -1: not opened, or the file does not exist */
	bool was_looked_for;
};

/* A file in the cache folder. */
struct kept_entry {
	char name[DIGEST_STR_MAX];
	int64_t used_s; /* since 1970 */
	uint64_t bytes;
};

/* -------------------------------------------------------------------- the folder --- */

static int check_owner(int fd, const char *dir, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "'%s'", dir);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, EPERM,
				 "'%s' is not this user's alone: give it to "
				 "him, with mode 0700",
				 dir);
	return 0;
}

int disk_cache_open(const char *dir, uint64_t most, const char *store_url,
		    struct disk_cache **ret, struct error *err)
{
	AUTO_FREE struct disk_cache *c = calloc(1, sizeof(*c));
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!c)
		return error_nomem(err);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "mkdir '%s'", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", dir);
	rc = check_owner(fd, dir, err);
	if (rc < 0)
		return rc;
	if (digest_of(store_url, strlen(store_url), &c->store) < 0)
		return error_nomem(err);
	c->dir_fd = steal_fd(&fd);
	c->most = most;
	(void)pthread_mutex_init(&c->lock, NULL);
	*ret = steal_ptr(&c);
	return 0;
}

void disk_cache_free(struct disk_cache *c)
{
	if (!c)
		return;
	(void)close(c->dir_fd);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

static int compare_entries_by_use(const void *x, const void *y)
{
	const struct kept_entry *a = x, *b = y;

	return (a->used_s > b->used_s) - (a->used_s < b->used_s);
}

/* List the cache's files, recognised by their names; other files are ignored. */
static int list_entries(const struct disk_cache *c, struct kept_entry **ret,
			size_t *ret_n)
{
	int fd = openat(c->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct kept_entry *all = NULL;
	size_t n = 0, cap = 0;
	const struct dirent *e;
	struct digest id;
	struct stat st;
	int rc = d ? 0 : -errno;

	if (!d && fd >= 0)
		(void)close(fd);
	while (rc == 0 && (e = readdir(d))) {
		if (digest_parse(e->d_name, &id, NULL) < 0 ||
		    fstatat(c->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		rc = array_grow(&all, n, &cap, 16);
		if (rc < 0)
			break;
		digest_format(&id, all[n].name);
		all[n].used_s = st.st_mtim.tv_sec;
		all[n++].bytes = (uint64_t)st.st_blocks * 512;
	}
	if (d)
		(void)closedir(d);
	if (rc == 0 && n)
		qsort(all, n, sizeof(*all), compare_entries_by_use);
	*ret = all;
	*ret_n = n;
	return rc;
}

/* Remove a file. False: a mount has it open, or another mount removed it already (then the name may
 * be a new file's). */
static bool remove_entry(const struct disk_cache *c, const char *name)
{
	AUTO_CLOSE int fd =
		openat(c->dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	       fstat(fd, &st) == 0 && st.st_nlink &&
	       unlinkat(c->dir_fd, name, 0) == 0;
}

static uint64_t disk_room(const struct disk_cache *c)
{
	struct statvfs fs;
	uint64_t free_bytes, others;

	if (fstatvfs(c->dir_fd, &fs) < 0)
		return 0;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	others = (uint64_t)fs.f_blocks * fs.f_frsize / FREE_SHARE;
	return free_bytes > others ? free_bytes - others : 0;
}

/* Scan the folder, which has other mounts' bytes too, and remove files to make room. */
static int make_room(const struct disk_cache *c, uint64_t bytes,
		     uint64_t *ret_left)
{
	AUTO_FREE struct kept_entry *all = NULL;
	const uint64_t most = c->most - c->most / 16;
	uint64_t used = 0, room = disk_room(c);
	size_t n;
	int rc = list_entries(c, &all, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		used += all[i].bytes;
	/* Count removed bytes ourselves: the file system may show the free space later. */
	for (size_t i = 0;
	     rc == 0 && i < n && (used + bytes > most || room < bytes); i++) {
		if (!remove_entry(c, all[i].name))
			continue;
		used -= all[i].bytes;
		room += all[i].bytes;
	}
	*ret_left = used < c->most ? c->most - used : 0;
	return rc;
}

/* Is there room? The free space of the disk is read each time, since others write to it too. Called
 * with the lock held. */
static bool has_room(const struct disk_cache *c, uint64_t bytes)
{
	return bytes <= c->left && bytes + c->writing <= disk_room(c);
}

/* Scan the folder. Called with the lock held, and releases it meanwhile. */
static void scan_cache_folder(struct disk_cache *c, uint64_t bytes)
{
	uint64_t unseen = c->writing, left;
	int rc;

	c->is_looking = true;
	c->since_look = 0;
	(void)pthread_mutex_unlock(&c->lock);
	rc = make_room(c, bytes, &left);
	(void)pthread_mutex_lock(&c->lock);
	c->is_looking = false;
	unseen += c->since_look;
	if (rc == 0)
		c->left = left > unseen ? left - unseen : 0;
	if (!has_room(c, bytes))
		c->look_ns = clock_now_ns() + LOOK_EVERY_NS;
}

/* Take room for the bytes, and count them; false: no room. */
static bool take_room(struct disk_cache *c, size_t bytes)
{
	const int64_t now_ns = clock_now_ns();
	bool ok;

	(void)pthread_mutex_lock(&c->lock);
	ok = now_ns >= c->rests_until_ns;
	if (ok && !c->is_looking && now_ns >= c->look_ns &&
	    (!has_room(c, bytes) || c->since_look >= c->most / LOOK_SHARE))
		scan_cache_folder(c, bytes);
	ok = ok && has_room(c, bytes);
	c->left -= ok ? bytes : 0;
	c->since_look += ok ? bytes : 0;
	c->writing += ok ? bytes : 0;
	(void)pthread_mutex_unlock(&c->lock);
	return ok;
}

/* --------------------------------------------------------------------- its files --- */

/* Name the cache file; the store is part of the name, because files of two stores may have equal
 * checksums and different bytes. */
static int make_entry_name(const struct disk_cache *c,
			   const struct ckpt_file *f, char ret[DIGEST_STR_MAX])
{
	struct digest id;
	int rc = ckpt_file_identity(f, &id, NULL);

	if (rc == 0)
		rc = digest_hmac(c->store.b, sizeof(c->store.b), id.b,
				 sizeof(id.b), &id);
	if (rc == 0)
		digest_format(&id, ret);
	return rc;
}

struct disk_cache_file *disk_cache_attach(struct disk_cache *c,
					  const struct ckpt_file *f)
{
	struct disk_cache_file *x;

	if (ckpt_file_chunk(f) < 2 || !ckpt_file_can_check(f))
		return NULL;
	x = calloc(1, sizeof(*x));
	if (!x || make_entry_name(c, f, x->name) < 0) {
		free(x);
		return NULL;
	}
	x->cache = c;
	x->file = f;
	x->fd = -1;
	(void)pthread_mutex_init(&x->lock, NULL);
	return x;
}

void disk_cache_detach(struct disk_cache_file *x)
{
	if (!x)
		return;
	fd_close(x->fd);
	(void)pthread_mutex_destroy(&x->lock);
	free(x);
}

/* Open the cache file; -1: it does not exist or is being removed. */
static int open_entry(const struct disk_cache_file *x, bool is_new)
{
	AUTO_CLOSE int fd =
		openat(x->cache->dir_fd, x->name,
		       O_RDWR | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT : 0),
		       0600);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
	    !st.st_nlink)
		return -1;
	(void)futimens(fd, NULL);
	return steal_fd(&fd);
}

static int get_entry_fd(struct disk_cache_file *x, bool is_new)
{
	int fd;

	(void)pthread_mutex_lock(&x->lock);
	if (x->fd < 0 && (is_new || !x->was_looked_for))
		x->fd = open_entry(x, is_new);
	x->was_looked_for = true;
	fd = x->fd;
	(void)pthread_mutex_unlock(&x->lock);
	return fd;
}

/* Is the range made of whole chunks? Only these can be checked. */
static bool is_chunk_range(const struct disk_cache_file *x, uint64_t off,
			   size_t len)
{
	const uint32_t chunk = ckpt_file_chunk(x->file);

	return len && off % chunk == 0 &&
	       ((off + len) % chunk == 0 ||
		off + len == ckpt_file_stat(x->file)->size);
}

static bool read_entry(int fd, uint64_t off, char *buf, size_t len)
{
	/* Do not read a hole: it has no cached bytes. */
	if (lseek(fd, (off_t)off, SEEK_DATA) != (off_t)off)
		return false;
	while (len) {
		const ssize_t n = pread(fd, buf, len, (off_t)off);

		if (n <= 0)
			return false;
		off += (uint64_t)n;
		buf += n;
		len -= (size_t)n;
	}
	return true;
}

bool disk_cache_read(struct disk_cache_file *x, uint64_t off, void *buf,
		     size_t len)
{
	const int fd =
		is_chunk_range(x, off, len) ? get_entry_fd(x, false) : -1;

	if (fd < 0 || !read_entry(fd, off, buf, len) ||
	    ckpt_check_bytes(x->file, off, buf, len, NULL) < 0)
		return false;
	(void)pthread_mutex_lock(&x->cache->lock);
	x->cache->stats.read_bytes += len;
	(void)pthread_mutex_unlock(&x->cache->lock);
	return true;
}

static int write_entry(struct disk_cache_file *x, uint64_t off, const char *buf,
		       size_t len)
{
	const int fd = get_entry_fd(x, true);

	if (fd < 0)
		return -EAGAIN;
	while (len) {
		const ssize_t n = pwrite(fd, buf, len, (off_t)off);

		if (n < 0)
			return -errno;
		off += (uint64_t)n;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

int disk_cache_keep(struct disk_cache_file *x, uint64_t off, const void *buf,
		    size_t len, struct error *err)
{
	struct disk_cache *c = x->cache;
	const int64_t begun_ns = clock_now_ns();
	int64_t took_ns;
	int rc;

	if (!is_chunk_range(x, off, len) || !take_room(c, len))
		return 0;
	rc = write_entry(x, off, buf, len);
	took_ns = clock_now_ns() - begun_ns;
	(void)pthread_mutex_lock(&c->lock);
	c->writing -= len;
	if (rc < 0 && rc != -EAGAIN)
		c->rests_until_ns = begun_ns + FAILED_REST_NS;
	else if (took_ns > SLOW_NS)
		c->rests_until_ns = begun_ns + SLOW_RESTS * took_ns;
	c->stats.kept_bytes += rc == 0 ? len : 0;
	(void)pthread_mutex_unlock(&c->lock);
	return rc < 0 && rc != -EAGAIN
		       ? error_set(err, -rc, "%s", strerror(-rc))
		       : 0;
}

void disk_cache_stats(struct disk_cache *c, struct disk_cache_stats *ret)
{
	(void)pthread_mutex_lock(&c->lock);
	*ret = c->stats;
	(void)pthread_mutex_unlock(&c->lock);
}
