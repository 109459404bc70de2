// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out what the directory's file system can do, by trying: its name and version tell little
 * about mounts, containers and servers. The test file has no name.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "common/clock.h"
#include "objects/file/file_path.h"

#define TRY_BYTES (32 * MIB)
#define TRY_PIECE (1 * MIB)
#define TRY_PIECES (TRY_BYTES / TRY_PIECE)
#define TRY_NS \
	(100 * 1000000LL) /* time for each depth; a slow disk needs few
	                   * transfers */
#define LOCK_NAME "probe"
#define GAIN_PERCENT 5 /* a doubled depth must be this much faster */

struct file_trial;

struct file_trial_piece {
	struct file_op op;
	struct iovec iov;
	struct file_trial *trial;
};

struct file_trial {
	struct file_store *f;
	int fd;
	char *memory;
	struct file_trial_piece pieces[TRY_PIECES];
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t ended;
	unsigned int n_open;
	int rc;
};

static void trial_done(struct file_op *op)
{
	struct file_trial *t =
		container_of(op, struct file_trial_piece, op)->trial;

	(void)pthread_mutex_lock(&t->lock);
	if (op->rc < 0)
		t->rc = op->rc;
	if (--t->n_open == 0)
		(void)pthread_cond_signal(&t->ended);
	(void)pthread_mutex_unlock(&t->lock);
}

/* Transfer the whole file once. */
static int transfer_file(struct file_trial *t, bool is_write)
{
	t->n_open = TRY_PIECES;
	t->rc = 0;
	for (unsigned int i = 0; i < TRY_PIECES; i++) {
		struct file_trial_piece *p = &t->pieces[i];

		p->trial = t;
		p->iov = (struct iovec){ .iov_base = t->memory + i * TRY_PIECE,
					 .iov_len = TRY_PIECE };
		p->op = (struct file_op){ .fd = t->fd,
					  .is_write = is_write,
					  .off = i * TRY_PIECE,
					  .iov = &p->iov,
					  .n_iov = 1,
					  .done = trial_done };
		file_engine_submit(t->f->engine, &p->op);
	}
	(void)pthread_mutex_lock(&t->lock);
	while (t->n_open)
		(void)pthread_cond_wait(&t->ended, &t->lock);
	(void)pthread_mutex_unlock(&t->lock);
	return t->rc;
}

/* Measure the read rate at the present depth, in bytes a second. */
static uint64_t measure_rate(struct file_trial *t)
{
	int64_t begun = clock_now_ns(), ns;
	uint64_t bytes = 0;

	do {
		if (transfer_file(t, false) < 0)
			return 0;
		bytes += TRY_BYTES;
		ns = clock_now_ns() - begun;
	} while (ns < TRY_NS);
	return bytes * 1000 / (uint64_t)(ns / 1000000 + 1);
}

/* Find the smallest depth beyond which reads get no faster. */
static unsigned int measure_depth(struct file_trial *t)
{
	unsigned int best = 1;
	uint64_t best_rate = 0;

	for (unsigned int depth = 1; depth <= FILE_DEPTH_MAX; depth *= 2) {
		uint64_t now;

		file_engine_set_depth(t->f->engine, depth);
		now = measure_rate(t);
		if (now * 100 > best_rate * (100 + GAIN_PERCENT)) {
			best = depth;
			best_rate = now;
		} else if (depth >= 4 * best) {
			break;
		}
	}
	/* At least two, so that one read runs while another is evaluated. */
	return best > 2 ? best : 2;
}

static int open_nameless(struct file_store *f, struct error *err)
{
	int fd = openat(f->root, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	AUTO_FREE char *name = NULL;
	int rc;

	if (fd >= 0)
		return fd;
	/* For file systems without nameless files, such as NFS. */
	name = store_temporary();
	if (!name)
		return error_nomem(err);
	rc = file_make_parents(f, name, err);
	if (rc < 0)
		return rc;
	fd = file_path_open(f, name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return file_error(f, errno, "write into", "", err);
	(void)file_path_unlink(f, name, 0);
	return fd;
}

/* Does the file system really support O_DIRECT? */
static void try_direct(struct file_store *f, struct file_trial *t)
{
	int flags = fcntl(t->fd, F_GETFL);

	f->base.caps.is_direct = f->may_direct &&
				 fcntl(t->fd, F_SETFL, flags | O_DIRECT) == 0 &&
				 transfer_file(t, true) == 0;
	if (!f->base.caps.is_direct)
		(void)fcntl(t->fd, F_SETFL, flags);
	f->may_direct = f->base.caps.is_direct;
}

static int try_transfers(struct file_store *f, struct file_trial *t,
			 struct error *err)
{
	int rc;

	try_direct(f, t);
	if (!f->base.caps.is_direct) {
		rc = transfer_file(t, true);
		if (rc < 0)
			return file_error(f, -rc, "write into", "", err);
	}
	if (!f->base.cfg.parallel && f->base.caps.is_uring &&
	    f->base.caps.is_direct)
		file_engine_set_depth(f->engine, measure_depth(t));
	f->base.caps.parallel = file_engine_depth(f->engine);
	return 0;
}

/* Can conditional puts work here: by locks, or by a rename that does not replace? */
int file_store_probe_conditions(struct object_store *s, struct error *err)
{
	struct file_store *f = file_store_of(s);
	AUTO_CLOSE int fd = -1;
	int rc = file_lock(f, LOCK_NAME, &fd, err);

	f->base.caps.has_match = rc == 0;
	f->base.caps.has_match_delete = rc == 0;
	return rc == -ENOTSUP || rc == -EBUSY ? 0 : rc;
}

int file_store_probe(struct object_store *s, struct error *err)
{
	struct file_store *f = file_store_of(s);
	AUTO_CLOSE int fd = open_nameless(f, err);
	struct file_trial *t;
	int rc;

	if (fd < 0)
		return fd;
	t = calloc(1, sizeof(*t));
	if (!t)
		return error_nomem(err);
	t->f = f;
	t->fd = fd;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->ended, NULL);
	t->memory = store_memory_take(s->memory, TRY_BYTES, store_deadline(s));
	rc = t->memory ? try_transfers(f, t, err)
		       : error_set(err, EBUSY,
				   "the probe needs %zu MiB of the store's "
				   "memory",
				   (size_t)(TRY_BYTES / MIB));
	store_memory_give(s->memory, t->memory, TRY_BYTES);
	(void)pthread_cond_destroy(&t->ended);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
	return rc < 0 ? rc : file_store_probe_conditions(s, err);
}
