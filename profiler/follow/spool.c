// SPDX-License-Identifier: Apache-2.0
#include "profiler/follow/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/mutex.h"

/* hex digits, so that names sort in the order of creation */
#define NAME_LEN 16

struct event_spool {
	int dir_fd;
	uint64_t max;
	pthread_mutex_t lock; /* protects the members below */
	uint64_t bytes;
	/* Numbers of the batches on disk: [first, next), some already sent. The open batch, if any,
	 * is next - 1. */
	uint64_t first, next;
	int open_fd; /* -1: none */
	uint64_t open_bytes;
};

static void batch_name(uint64_t batch, char ret[NAME_LEN + 1])
{
	(void)snprintf(ret, NAME_LEN + 1, "%016" PRIx64, batch);
}

static bool parse_name(const char *name, uint64_t *ret)
{
	if (strlen(name) != NAME_LEN ||
	    strspn(name, "0123456789abcdef") != NAME_LEN)
		return false;
	*ret = strtoull(name, NULL, 16);
	return true;
}

/* Count the existing batches. None is reopened, because the last may end within a line. */
static int count_old_batches(struct event_spool *s, struct error *err)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return error_errno(err, errno, "spool");
	s->first = UINT64_MAX;
	while ((e = readdir(d))) {
		struct stat st;
		uint64_t n;

		if (!parse_name(e->d_name, &n) ||
		    fstatat(s->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		s->bytes += (uint64_t)st.st_size;
		if (n < s->first)
			s->first = n;
		if (n >= s->next)
			s->next = n + 1;
	}
	(void)closedir(d);
	if (s->first > s->next)
		s->first = s->next;
	return 0;
}

int event_spool_open(const char *dir, uint64_t max, struct event_spool **ret,
		     struct error *err)
{
	struct event_spool *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->max = max;
	s->open_fd = -1;
	(void)pthread_mutex_init(&s->lock, NULL);
	s->dir_fd = -1;
	rc = fs_mkdir_p(dir, 0700, err);
	if (rc == 0) {
		s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = s->dir_fd < 0 ? error_errno(err, errno, "'%s'", dir)
				   : count_old_batches(s, err);
	}
	if (rc < 0) {
		event_spool_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void event_spool_close(struct event_spool *s)
{
	if (!s)
		return;
	if (s->open_fd >= 0)
		close(s->open_fd);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Lock held. */
static void seal_open(struct event_spool *s)
{
	if (s->open_fd >= 0)
		close(s->open_fd);
	s->open_fd = -1;
	s->open_bytes = 0;
}

/* Lock held. */
static int open_batch(struct event_spool *s, struct error *err)
{
	char name[NAME_LEN + 1];

	batch_name(s->next, name);
	s->open_fd = openat(s->dir_fd, name,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (s->open_fd < 0)
		return error_errno(err, errno, "spool");
	s->next++;
	/* Sync the folder: after a crash the file must exist, not only its data. */
	if (fsync(s->dir_fd) < 0)
		return error_errno(err, errno, "spool");
	return 0;
}

/* Append lines to the open batch; after a failure the batch is as before. Lock held. */
static int put_lines(struct event_spool *s, const char *data, size_t len,
		     struct error *err)
{
	int rc;

	if (s->open_fd >= 0 && s->open_bytes + len > SPOOL_BATCH_MAX)
		seal_open(s);
	rc = s->open_fd < 0 ? open_batch(s, err) : 0;
	if (rc < 0)
		return rc;
	rc = fs_pwrite_full(s->open_fd, data, len, s->open_bytes);
	if (rc == 0 && fdatasync(s->open_fd) < 0)
		rc = -errno;
	if (rc < 0) {
		(void)!ftruncate(s->open_fd, (off_t)s->open_bytes);
		return error_errno(err, -rc, "spool");
	}
	s->open_bytes += len;
	s->bytes += len;
	return 0;
}

/* Bytes of the whole lines that fit into one batch. */
static size_t cut_batch(const struct buf *lines, size_t at)
{
	size_t n = lines->len - at;
	const char *nl;

	if (n <= SPOOL_BATCH_MAX)
		return n;
	nl = memrchr(lines->data + at, '\n', SPOOL_BATCH_MAX);
	return nl ? (size_t)(nl - (lines->data + at)) + 1 : n;
}

int event_spool_put(struct event_spool *s, const struct buf *lines,
		    struct error *err)
{
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	if (s->bytes + lines->len > s->max)
		rc = error_set(err, ENOSPC,
			       "the spool has %" PRIu64 " bytes, its bound",
			       s->bytes);
	for (size_t at = 0, n; rc == 0 && at < lines->len; at += n) {
		n = cut_batch(lines, at);
		rc = put_lines(s, lines->data + at, n, err);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

void event_spool_seal(struct event_spool *s)
{
	(void)pthread_mutex_lock(&s->lock);
	seal_open(s);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Find the first batch that is not open any more; false: none. Lock held. */
static bool next_sealed(struct event_spool *s)
{
	struct stat st;
	char name[NAME_LEN + 1];

	for (; s->first < s->next; s->first++) {
		if (s->open_fd >= 0 && s->first == s->next - 1)
			return false;
		batch_name(s->first, name);
		if (fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

int event_spool_first(struct event_spool *s, uint64_t *ret_batch,
		      struct buf *ret, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	char name[NAME_LEN + 1];
	struct stat st = { .st_size = 0 };
	bool has;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	has = next_sealed(s);
	*ret_batch = s->first;
	(void)pthread_mutex_unlock(&s->lock);
	if (!has)
		return 0;
	batch_name(*ret_batch, name);
	fd = openat(s->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "spool");
	buf_reset(ret);
	if (st.st_size > (off_t)(2 * SPOOL_BATCH_MAX))
		return error_set(err, EFBIG, "spool: %s is not ours", name);
	rc = buf_reserve(ret, (size_t)st.st_size);
	if (rc == 0 && st.st_size)
		rc = fs_pread_full(fd, ret->data, (size_t)st.st_size, 0);
	if (rc < 0)
		return error_errno(err, -rc, "spool");
	ret->len = (size_t)st.st_size;
	return 1;
}

void event_spool_drop(struct event_spool *s, uint64_t batch)
{
	char name[NAME_LEN + 1];
	struct stat st;

	batch_name(batch, name);
	(void)pthread_mutex_lock(&s->lock);
	if (fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    unlinkat(s->dir_fd, name, 0) == 0)
		s->bytes -= (uint64_t)st.st_size < s->bytes
				    ? (uint64_t)st.st_size
				    : s->bytes;
	(void)pthread_mutex_unlock(&s->lock);
}

uint64_t event_spool_bytes(struct event_spool *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	return s->bytes;
}
