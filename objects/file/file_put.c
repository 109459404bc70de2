// SPDX-License-Identifier: Apache-2.0
/* Writes an object: a file is written in aligned pieces, without the page cache if possible,
 * and gets its name when all of it is on the disk. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "objects/file/file_path.h"
#include "objects/store/parts.h"

#define PARALLEL \
	16u /* pieces of one put in flight; other puts need memory too */

struct file_put {
	struct object_put base;
	char *temporary; /* NULL: renamed to its final name, or removed */
	int fd;
	bool is_direct;
};

struct file_piece_write {
	struct file_op op;
	struct iovec iov;
	struct part *part;
};

static struct file_put *file_put_of(struct object_put *p)
{
	return container_of(p, struct file_put, base);
}

static void write_done(struct file_op *op)
{
	struct file_piece_write *w =
		container_of(op, struct file_piece_write, op);
	struct part *part = w->part;
	struct file_put *p = file_put_of(part->put);
	struct file_store *f = file_store_of(p->base.store);
	struct error err = ERROR_INIT;
	int rc = op->rc;

	/* The file system accepted O_DIRECT at open() but not here. */
	if (rc == -EINVAL && p->is_direct &&
	    fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) & ~O_DIRECT) == 0) {
		file_engine_submit(f->engine, op);
		return;
	}
	if (rc < 0)
		rc = file_error(f, -rc, "write", p->temporary, &err);
	free(w);
	put_parts_done(part, rc, &err);
}

static int write_start(struct part *part, struct error *err)
{
	struct file_put *p = file_put_of(part->put);
	struct file_store *f = file_store_of(p->base.store);
	struct file_piece_write *w = calloc(1, sizeof(*w));
	size_t len = part->len;

	if (!w)
		return error_nomem(err);
	/* The last piece may be padded: the commit cuts the file. */
	if (p->is_direct && len % f->align) {
		len += f->align - len % f->align;
		memset((char *)part->data + part->len, 0, len - part->len);
	}
	w->part = part;
	w->iov = (struct iovec){ .iov_base = part->data, .iov_len = len };
	w->op = (struct file_op){
		.fd = p->fd,
		.is_write = true,
		.off = part->off,
		.iov = &w->iov,
		.n_iov = 1,
		.done = write_done,
	};
	atomic_fetch_add(&f->base.count.n_requests, 1);
	file_engine_submit(f->engine, &w->op);
	return 0;
}

static int open_temporary(struct file_store *f, struct file_put *p,
			  struct error *err)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL;
	int rc;

	p->temporary = store_temporary();
	if (!p->temporary)
		return error_nomem(err);
	p->fd = file_path_open(f, p->temporary, flags, 0666);
	if (p->fd < 0 && errno == ENOENT) {
		rc = file_make_parents(f, p->temporary, err);
		if (rc < 0)
			return rc;
		p->fd = file_path_open(f, p->temporary, flags, 0666);
	}
	if (p->fd < 0) {
		rc = file_error(f, errno, "create", p->temporary, err);
		free(steal_ptr(&p->temporary));
		return rc;
	}
	return 0;
}

/* Reserve the space at the start, so that a full disk is noticed early and the file is
 * contiguous. */
static int reserve_space(struct file_store *f, struct file_put *p,
			 struct error *err)
{
	if (p->base.size_hint < FILE_PIECE ||
	    fallocate(p->fd, FALLOC_FL_KEEP_SIZE, 0,
		      (off_t)p->base.size_hint) == 0 ||
	    (errno != ENOSPC && errno != EDQUOT))
		return 0;
	return file_error(f, errno, "reserve room for", p->temporary, err);
}

int file_store_put_open(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err)
{
	const struct put_parts_way way = { .start = write_start,
					   .part_size = FILE_PIECE,
					   .max_parallel = PARALLEL };
	struct file_store *f = file_store_of(s);
	struct file_put *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->fd = -1;
	rc = store_put_init(&p->base, s, name, opts, err);
	if (rc == 0)
		rc = put_parts_new(&p->base, &way, &p->base.parts, err);
	if (rc == 0)
		rc = open_temporary(f, p, err);
	if (rc == 0)
		rc = reserve_space(f, p, err);
	if (rc < 0) {
		file_store_put_free(&p->base);
		return rc;
	}
	*ret = &p->base;
	return 0;
}

/* Switch to O_DIRECT before the first piece; short objects go through the page cache. */
static void go_direct(struct file_put *p)
{
	struct file_store *f = file_store_of(p->base.store);
	int flags = fcntl(p->fd, F_GETFL);

	if (f->may_direct && !p->is_direct && p->base.size == 0)
		p->is_direct = fcntl(p->fd, F_SETFL, flags | O_DIRECT) == 0;
}

int file_store_put_write(struct object_put *base, const void *data, size_t len,
			 struct error *err)
{
	struct file_put *p = file_put_of(base);

	go_direct(p);
	return put_parts_write(base, data, len, err);
}

/* Write the rest, sync, and set a modification time that no other version of the object has:
 * file system clocks are coarse, and inode numbers are reused. */
static int finish_file(struct file_store *f, struct file_put *p,
		       struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	const void *rest;
	size_t len;
	int rc = put_parts_finish(p->base.parts, err);

	if (rc < 0)
		return rc;
	if (put_parts_count(p->base.parts, &rest, &len) == 0 && len) {
		(void)fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) & ~O_DIRECT);
		rc = fs_pwrite_full(p->fd, rest, len, 0);
		if (rc < 0)
			return file_error(f, -rc, "write", p->temporary, err);
	}
	(void)clock_gettime(CLOCK_REALTIME, &times[1]);
	file_share_object(f, p->fd);
	if (ftruncate(p->fd, (off_t)p->base.size) < 0 ||
	    futimens(p->fd, times) < 0 || fsync(p->fd) < 0)
		return file_error(f, errno, "make durable", p->temporary, err);
	return 0;
}

static int publish_file(struct file_store *f, struct file_put *p,
			struct error *err)
{
	AUTO_CLOSE int lock = -1;
	int rc;

	/* Lock even without a condition: otherwise a writer that compares now could replace or
	 * remove this new version as the old one. */
	rc = p->base.condition == OBJECT_MATCH
		     ? file_lock(f, p->base.name, &lock, err)
		     : file_lock_if_any(f, p->base.name, &lock, err);
	if (rc == 0 && p->base.condition == OBJECT_MATCH)
		rc = file_check_tag(f, p->base.name, p->base.tag, err);
	if (rc == 0)
		rc = file_move(f, p->temporary, p->base.name, p->base.condition,
			       err);
	return rc;
}

int file_store_put_commit(struct object_put *base, struct object_stat *ret,
			  struct error *err)
{
	struct file_put *p = file_put_of(base);
	struct file_store *f = file_store_of(base->store);
	struct stat st;
	int rc = finish_file(f, p, err);

	if (rc == 0)
		rc = publish_file(f, p, err);
	if (rc < 0)
		return rc;
	free(steal_ptr(&p->temporary));
	if (fstat(p->fd, &st) < 0)
		return file_error(f, errno, "look at", base->name, err);
	file_stat_fill(&st, ret);
	return file_sync_parent(f, base->name, err);
}

void file_store_put_free(struct object_put *base)
{
	struct file_put *p = file_put_of(base);

	put_parts_free(p->base.parts);
	if (p->temporary)
		(void)file_path_unlink(file_store_of(base->store), p->temporary,
				       0);
	free(p->temporary);
	fd_close(p->fd);
	store_put_fini(base);
	free(p);
}
