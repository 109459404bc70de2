// SPDX-License-Identifier: Apache-2.0
/*
 * A ring of slots.  A thread takes the next file and reads it into a slot, which is reused after
 * the consumer has moved on to the next file.  So the ring bounds memory and open files.
 */
#include "envcache/read_ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "common/fs.h"
#include "common/side_by_side.h"
#include "common/thread.h"

#define SLOTS 64u
#define STAT_BLOCK 512u /* unit of st_blocks */

struct ahead_slot {
	bool is_ready;
	int rc;
	struct error err;
	struct file_ahead file;
	char *room; /* READ_AHEAD_WHOLE bytes */
};

struct read_ahead {
	const struct changed_file *files;
	size_t n;
	struct thread threads[SIDES_MAX];
	unsigned int n_threads;
	pthread_mutex_t lock; /* protects the members below, except `file` and
	                       * `room` of slots */
	pthread_cond_t freed, ready;
	size_t n_begun, n_taken;
	bool is_ending;
	struct ahead_slot slots[SLOTS];
};

/* Has the file no holes, judged by its number of blocks?  Then a small file is read as a whole. */
static bool is_dense(const struct stat *st)
{
	return (uint64_t)st->st_blocks * STAT_BLOCK >= (uint64_t)st->st_size;
}

static int open_and_read_file(const struct env_entry *e, struct ahead_slot *s,
			      struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc = env_entry_open(e, &fd, err);

	if (rc < 0)
		return rc;
	/* If the query fails, assume attributes: reading them later reports the error. */
	s->file.has_xattrs = flistxattr(fd, NULL, 0) != 0;
	if (e->size && e->size <= READ_AHEAD_WHOLE && fstat(fd, &st) == 0 &&
	    is_dense(&st)) {
		rc = fs_pread_full(fd, s->room, (size_t)e->size, 0);
		if (rc < 0)
			return error_set(err, rc == -EIO ? ESTALE : -rc,
					 "read '%.160s': %s", e->path,
					 strerror(-rc));
		if (!env_entry_is_still(e, fd))
			return error_set(err, ESTALE, "'%.160s' changes",
					 e->path);
		s->file.data = s->room;
	}
	if (s->file.has_xattrs || (e->size && !s->file.data))
		s->file.fd = steal_fd(&fd);
	return 0;
}

static void *read_ahead_main(void *arg)
{
	struct read_ahead *r = arg;

	(void)pthread_mutex_lock(&r->lock);
	for (;;) {
		struct ahead_slot *s;
		size_t i;

		/* The slot of the file that was taken last is still in use. */
		while (!r->is_ending && r->n_begun < r->n &&
		       r->n_begun + 1 >= r->n_taken + SLOTS)
			(void)pthread_cond_wait(&r->freed, &r->lock);
		if (r->is_ending || r->n_begun == r->n)
			break;
		i = r->n_begun++;
		s = &r->slots[i % SLOTS];
		(void)pthread_mutex_unlock(&r->lock);
		s->err = (struct error)ERROR_INIT;
		s->file = (struct file_ahead){ .fd = -1 };
		s->rc = open_and_read_file(r->files[i].entry, s, &s->err);
		(void)pthread_mutex_lock(&r->lock);
		s->is_ready = true;
		(void)pthread_cond_signal(&r->ready);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Free the slot of the file that was taken last. */
static void free_last_slot(struct read_ahead *r)
{
	struct ahead_slot *s;

	if (!r->n_taken)
		return;
	s = &r->slots[(r->n_taken - 1) % SLOTS];
	if (s->is_ready && s->file.fd >= 0)
		(void)close(s->file.fd);
	s->file.fd = -1;
	s->is_ready = false;
}

int read_ahead_next(struct read_ahead *r, struct file_ahead *ret,
		    struct error *err)
{
	struct ahead_slot *s;

	(void)pthread_mutex_lock(&r->lock);
	free_last_slot(r);
	s = &r->slots[r->n_taken % SLOTS];
	while (!s->is_ready)
		(void)pthread_cond_wait(&r->ready, &r->lock);
	r->n_taken++;
	(void)pthread_cond_signal(&r->freed);
	(void)pthread_mutex_unlock(&r->lock);
	if (s->rc < 0) {
		if (err)
			*err = s->err;
		return s->rc;
	}
	*ret = s->file;
	return 0;
}

int read_ahead_new(const struct changed_file *files, size_t n,
		   unsigned int threads, struct read_ahead **ret,
		   struct error *err)
{
	struct read_ahead *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (!r)
		return error_nomem(err);
	r->files = files;
	r->n = n;
	(void)pthread_mutex_init(&r->lock, NULL);
	(void)pthread_cond_init(&r->freed, NULL);
	(void)pthread_cond_init(&r->ready, NULL);
	for (size_t i = 0; i < SLOTS; i++)
		r->slots[i].file.fd = -1;
	for (size_t i = 0; rc == 0 && i < SLOTS; i++) {
		r->slots[i].room = malloc(READ_AHEAD_WHOLE);
		rc = r->slots[i].room ? 0 : error_nomem(err);
	}
	while (rc == 0 && r->n_threads < threads &&
	       thread_start(&r->threads[r->n_threads], read_ahead_main, r,
			    NULL) == 0)
		r->n_threads++;
	if (rc == 0 && r->n_threads == 0)
		rc = error_errno(err, EAGAIN, "start a thread");
	if (rc < 0)
		read_ahead_free(r);
	else
		*ret = r;
	return rc;
}

void read_ahead_free(struct read_ahead *r)
{
	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->is_ending = true;
	(void)pthread_cond_broadcast(&r->freed);
	(void)pthread_mutex_unlock(&r->lock);
	while (r->n_threads)
		thread_join(&r->threads[--r->n_threads]);
	for (size_t i = 0; i < SLOTS; i++) {
		fd_close(r->slots[i].file.fd);
		free(r->slots[i].room);
	}
	(void)pthread_cond_destroy(&r->freed);
	(void)pthread_cond_destroy(&r->ready);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}
