// SPDX-License-Identifier: Apache-2.0
/* Copies whole files, with a thread for each column. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt-fuse/writer.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "common/side_by_side.h"

#define ALIGNMENT 4096u
#define HUGE_PAGE ((size_t)2 << 20)
#define TRIES 4u /* attempts, if others remove the version to be replaced */
#define THREADS_MIN 4u
#define THREADS_MAX 32u
/* units read at a time from a column: one is checked while the next is transferred */
#define UNITS_A_COLUMN 4u

struct file_transfer {
	int fd; /* -1: no local file */
	uint64_t size, unit;
	struct ckpt_writer *writer;
	struct ckpt_file *file;
	const struct ckpt_progress *progress;
	/* protects `done`, `next` and calls of `progress` */
	pthread_mutex_t lock;
	uint64_t done;
	/* next byte of a download to be taken; protected by the lock */
	uint64_t next;
	atomic_bool stop; /* a thread failed */
};

static void report_transferred_bytes(struct file_transfer *t, uint64_t len)
{
	(void)pthread_mutex_lock(&t->lock);
	t->done += len;
	if (t->progress && t->progress->fn)
		t->progress->fn(t->progress->arg, t->done, t->size);
	(void)pthread_mutex_unlock(&t->lock);
}

static uint64_t unit_bytes(const struct file_transfer *t, uint64_t u)
{
	uint64_t left = t->size - u * t->unit;

	return left < t->unit ? left : t->unit;
}

static void *buffer_new(const struct file_transfer *t, struct error *err)
{
	const size_t size = round_up(t->unit, ALIGNMENT);
	void *data = NULL;

	if (posix_memalign(&data, size < HUGE_PAGE ? ALIGNMENT : HUGE_PAGE,
			   size)) {
		(void)error_nomem(err);
		return NULL;
	}
	/* Avoids a page fault for every 4 KiB: each buffer is used only once or twice. */
	(void)madvise(data, size, MADV_HUGEPAGE);
	return data;
}

/* --------------------------------------------------------------------- upload --- */

static int read_local(const struct file_transfer *t, uint64_t off, char *data,
		      uint64_t len, struct error *err)
{
	int rc = fs_pread_full(t->fd, data, len, off);

	return rc < 0 ? error_errno(err, -rc,
				    "read %" PRIu64 " bytes at %" PRIu64, len,
				    off)
		      : 0;
}

static int upload_column(void *arg, unsigned int c, struct error *err)
{
	struct file_transfer *t = arg;
	uint64_t u = 0, n = (t->size + t->unit - 1) / t->unit;
	AUTO_FREE char *own = NULL;
	int rc = 0;

	while (u < n && ckpt_writer_column(t->writer, u) != c)
		u++;
	for (; rc == 0 && u < n && !atomic_load(&t->stop);
	     u += ckpt_writer_columns(t->writer)) {
		uint64_t len = unit_bytes(t, u);
		char *data = writer_unit_room(t->writer, u, len);

		if (!data && !own)
			own = buffer_new(t, err);
		data = data ? data : own;
		rc = data ? read_local(t, u * t->unit, data, len, err)
			  : -ENOMEM;
		if (rc == 0)
			rc = ckpt_write_unit(t->writer, u, data, err);
		if (rc == 0)
			report_transferred_bytes(t, len);
	}
	if (rc == 0 && !atomic_load(&t->stop))
		rc = writer_end_column(t->writer, c, err);
	if (rc < 0)
		atomic_store(&t->stop, true);
	return rc;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int look_at_file(int fd, struct stat *ret, struct error *err)
{
	if (fstat(fd, ret) < 0)
		return error_errno(err, errno, "stat");
	return 0;
}

/* Check that the file was not changed during the read, which would give a mixture of two
 * versions. */
static int check_same(const struct file_transfer *t, const struct stat *before,
		      int rc, struct error *err)
{
	struct stat now;

	if (fstat(t->fd, &now) < 0 || !is_same(before, &now))
		return error_set(err, EBUSY,
				 "it was changed while it was read");
	return rc;
}

static int upload_once(struct object_store *s, int fd, const char *path,
		       const struct ckpt_write_options *opts,
		       const struct ckpt_progress *progress,
		       struct ckpt_stat *ret, struct error *err)
{
	struct file_transfer t = { .fd = fd,
				   .size = opts->size,
				   .progress = progress };
	AUTO(ckpt_writer) w = NULL;
	struct stat before;
	int rc = look_at_file(fd, &before, err);

	if (rc == 0 && (uint64_t)before.st_size != opts->size)
		rc = error_set(err, EBUSY,
			       "its length changed before it was read");
	if (rc == 0)
		rc = ckpt_write_open(s, path, opts, &w, err);
	if (rc < 0)
		return rc;
	t.writer = w;
	t.unit = ckpt_writer_unit(w);
	(void)pthread_mutex_init(&t.lock, NULL);
	rc = writer_open_puts(w, err);
	if (rc == 0)
		rc = side_by_side(ckpt_writer_columns(w), upload_column, &t,
				  err);
	(void)pthread_mutex_destroy(&t.lock);
	if (rc == 0 || rc == -EIO)
		rc = check_same(&t, &before, rc, err);
	return rc == 0 ? ckpt_commit(w, ret, err) : rc;
}

int ckpt_upload(struct object_store *s, int fd, const char *path,
		const struct ckpt_write_options *opts,
		const struct ckpt_progress *progress, struct ckpt_stat *ret,
		struct error *err)
{
	int rc = -EAGAIN;

	for (unsigned int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = upload_once(s, fd, path, opts, progress, ret, err);
	return rc;
}

/* ------------------------------------------------------------------- download --- */

static int write_local(const struct file_transfer *t, uint64_t off,
		       const char *data, uint64_t len, struct error *err)
{
	int rc = t->fd < 0 ? 0 : fs_pwrite_full(t->fd, data, len, off);

	return rc < 0 ? error_errno(err, -rc,
				    "write %" PRIu64 " bytes at %" PRIu64, len,
				    off)
		      : 0;
}

/* Take the next unit with stored bytes; holes stay holes in the local file. */
static bool next_unit(struct file_transfer *t, uint64_t *ret)
{
	uint64_t at;
	bool is_any;

	(void)pthread_mutex_lock(&t->lock);
	at = ckpt_file_next_stored(t->file, t->next);
	is_any = at < t->size;
	at = is_any ? at - at % t->unit : t->size;
	t->done += at - t->next;
	t->next = is_any && t->size - at > t->unit ? at + t->unit : t->size;
	*ret = at / t->unit;
	(void)pthread_mutex_unlock(&t->lock);
	return is_any;
}

static int download_units(void *arg, unsigned int index, struct error *err)
{
	struct file_transfer *t = arg;
	AUTO_FREE char *data = buffer_new(t, err);
	int rc = data ? 0 : -ENOMEM;
	uint64_t u;

	while (rc == 0 && !atomic_load(&t->stop) && next_unit(t, &u)) {
		uint64_t len = unit_bytes(t, u);

		rc = ckpt_read(t->file, u * t->unit, data, len, 0, err);
		if (rc == 0)
			rc = write_local(t, u * t->unit, data, len, err);
		if (rc == 0)
			report_transferred_bytes(t, len);
	}
	if (rc < 0)
		atomic_store(&t->stop, true);
	return rc;
}

static unsigned int count_download_threads(const struct ckpt_file *f)
{
	const uint64_t unit = ckpt_file_unit(f);
	const uint64_t units = (ckpt_file_stored(f) + unit - 1) / unit;
	unsigned int n = ckpt_file_stat(f)->columns * UNITS_A_COLUMN;

	if (n < THREADS_MIN)
		n = THREADS_MIN;
	if (n > THREADS_MAX)
		n = THREADS_MAX;
	return units < n ? (unsigned int)units : n;
}

/* Check for free space before the first byte, because a full disk harms others. */
static int check_room(const struct file_transfer *t, struct error *err)
{
	const uint64_t need = ckpt_file_stored(t->file);
	struct statvfs fs;
	uint64_t room;

	if (fstatvfs(t->fd, &fs) < 0 || !fs.f_blocks)
		return 0;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	return need > room ? error_set(err, ENOSPC,
				       "it has %" PRIu64 " bytes, and %" PRIu64
				       " are free there",
				       need, room)
			   : 0;
}

int ckpt_download(struct ckpt_file *f, int fd, unsigned int threads,
		  const struct ckpt_progress *progress, struct error *err)
{
	struct file_transfer t = { .fd = fd,
				   .size = ckpt_file_stat(f)->size,
				   .unit = ckpt_file_unit(f),
				   .file = f,
				   .progress = progress };
	int rc = fd >= 0 ? check_room(&t, err) : 0;

	if (rc < 0)
		return rc;
	if (fd >= 0 && ftruncate(fd, (off_t)t.size) < 0)
		return error_errno(err, errno, "set its length");
	(void)pthread_mutex_init(&t.lock, NULL);
	rc = side_by_side(threads ? threads : count_download_threads(f),
			  download_units, &t, err);
	(void)pthread_mutex_destroy(&t.lock);
	return rc;
}
