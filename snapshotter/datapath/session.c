// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/session.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/datapath/init.h"
#include "snapshotter/datapath/mounts.h"
#include "snapshotter/datapath/parking.h"

/* libfuse takes the largest request it must hold from this, and so the kernel
 * the largest it may send; the page is for the headers of a request. */
#define REQUEST_MAX (READ_MAX + 4096u)
/* Reads that nobody waits for yet (readahead), of all images: far more than one
 * whose registry is down can have under way.  Those without a buffer wait. */
#define BACKGROUND_MAX 16384u
struct session {
	struct fuse_session *se;
	struct session_config cfg;
	struct fd_keeper *keeper;
	struct image_table *images;
	struct read_pool *pool;
	char *name, *init_name, *run_dir, *path;
	int fd; /* of `se` once that has it, which closes it */
	bool adopted, resend;
	bool swallow; /* drop what libfuse answers: INIT fed again */
	struct buf init_request, init_reply;
	pthread_t threads[64];
	unsigned int n_threads;
	atomic_uint refs; /* the owner, threads, and reads under way */

	struct parking *parking;
};

void *session_owner(void *userdata)
{
	return ((struct session *)userdata)->cfg.owner;
}

struct image_table *session_images(struct session *s)
{
	return s->images;
}

struct read_pool *session_pool(struct session *s)
{
	return s->pool;
}

struct fuse_session *session_fuse(struct session *s)
{
	return s->se;
}

const char *session_path(const struct session *s)
{
	return s->path;
}

bool session_is_adopted(const struct session *s)
{
	return s->adopted;
}

bool session_is_durable(const struct session *s)
{
	return s->resend && fd_keeper_is_durable(s->keeper);
}

void session_hold(struct session *s)
{
	atomic_fetch_add(&s->refs, 1);
}

static void session_free(struct session *s)
{
	if (!s)
		return;
	if (s->se)
		fuse_session_destroy(s->se);
	else if (s->fd >= 0)
		(void)close(s->fd);
	parking_free(s->parking);
	read_pool_free(s->pool);
	image_table_free(s->images);
	buf_fini(&s->init_request);
	buf_fini(&s->init_reply);
	free(s->name);
	free(s->init_name);
	free(s->run_dir);
	free(s->path);
	free(s);
}

static void session_unref(void *arg)
{
	struct session *s = arg;

	if (atomic_fetch_sub(&s->refs, 1) == 1)
		session_free(s);
}

/* --------------------------------------------------------------- libfuse --- */

static ssize_t io_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct session *s = userdata;
	size_t total = 0;

	/* The first thing libfuse ever writes is its answer to INIT. */
	if (s->init_reply.len == 0) {
		for (int i = 0; i < count; i++)
			if (buf_append(&s->init_reply, iov[i].iov_base,
				       iov[i].iov_len) < 0) {
				errno = ENOMEM;
				return -1;
			}
	}
	for (int i = 0; i < count; i++)
		total += iov[i].iov_len;
	return s->swallow ? (ssize_t)total : writev(fd, iov, count);
}

/* Never called: the threads below read for themselves. */
static ssize_t io_read(int fd, void *buf, size_t len, void *userdata)
{
	return read(fd, buf, len);
}

static const struct fuse_custom_io custom_io = {
	.writev = io_writev,
	.read = io_read,
};

static int make_libfuse(struct session *s, struct error *err)
{
	char prog[] = "bootseerd";
	char *argv[] = { prog, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int rc;

	s->se = fuse_session_new(&args, s->cfg.ops, sizeof(*s->cfg.ops), s);
	fuse_opt_free_args(&args);
	if (!s->se)
		return error_set(err, ENOMEM, "libfuse makes no session");
	rc = fuse_session_custom_io(s->se, &custom_io, s->fd);
	if (rc < 0)
		return error_set(err, -rc, "libfuse takes no descriptor: %s",
				 strerror(-rc));
	return 0;
}

void session_init(void *userdata, struct fuse_conn_info *conn)
{
	struct session *s = userdata;

	conn->max_background = BACKGROUND_MAX;
	conn->congestion_threshold = BACKGROUND_MAX;
	/* Nothing ever changes behind the kernel's back. */
	conn->want &= ~(unsigned int)(FUSE_CAP_AUTO_INVAL_DATA |
				      FUSE_CAP_HANDLE_KILLPRIV |
				      FUSE_CAP_ATOMIC_O_TRUNC);
	if (s->cfg.init)
		s->cfg.init(conn);
}

static void process(void *arg, void *data, size_t len)
{
	struct session *s = arg;
	struct fuse_buf buf = { .size = len, .mem = data };

	fuse_session_process_buf(s->se, &buf);
}

/* INIT through libfuse.  Its answer goes to the kernel, or nowhere. */
static int feed_init(struct session *s, bool swallow, struct error *err)
{
	struct fuse_out_header out;

	s->swallow = swallow;
	process(s, s->init_request.data, s->init_request.len);
	s->swallow = false;
	if (s->init_reply.len < sizeof(out))
		return error_set(err, EIO, "libfuse did not answer INIT");
	memcpy(&out, s->init_reply.data, sizeof(out));
	if (out.error)
		return error_set(err, -out.error,
				 "libfuse refuses the kernel's FUSE: %s",
				 strerror(-out.error));
	return 0;
}

void session_admit(struct session *s, bool all)
{
	parking_release(s->parking, all, process, s);
}

/* --------------------------------------------------------------- threads --- */

static void dispatch(struct session *s, char *data, size_t len)
{
	const struct fuse_in_header *in = (const void *)data;
	struct error err = ERROR_INIT;

	if (len < sizeof(*in))
		return;
	if (in->opcode == FUSE_INTERRUPT) {
		/* Reads are never given up half way; libfuse would look for
		 * requests that it does not know yet, or no more. */
		(void)!init_refuse(s->fd, in->unique, NULL);
		return;
	}
	data[len] = '\0'; /* names end here whatever the kernel sent */
	if (in->opcode == FUSE_INIT) {
		/* The predecessor died after it kept its descriptors and before
		 * it answered; libfuse has answered already, to nobody. */
		if (init_answer_again(s->fd, in->unique, &s->init_reply, &err) <
		    0)
			log_warning("datapath", "%s", err.msg);
		return;
	}
	if (parking_take(s->parking, data, len))
		return;
	process(s, data, len);
}

/*
 * Threads are stopped by cancellation, which only read() acts on.  A request
 * that is lost in that moment is sent again to our successor; without one the
 * mount is gone.
 */
static ssize_t read_request(struct session *s, char *data)
{
	ssize_t n;
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	n = read(s->fd, data, REQUEST_MAX);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return n;
}

/* Large for libfuse's sake; requests to read fill less than the first page. */
#define TOUCHED 8192u

static char *map_request(void)
{
	char *data = mmap(NULL, REQUEST_MAX + 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED)
		return NULL;
	/*
	 * The kernel fails a request with EIO when it cannot write it here,
	 * and it cannot while it would have to fault a page in for a process
	 * that was just killed.  So the page is there, and is never shared
	 * with a forked child, which would make it read-only.
	 */
	(void)madvise(data, REQUEST_MAX + 4096, MADV_DONTFORK);
	(void)mlock(data, TOUCHED);
	memset(data, 0, TOUCHED);
	return data;
}

static void unmap_request(void *data)
{
	(void)munmap(data, REQUEST_MAX + 4096);
}

static void *serve_thread(void *arg)
{
	struct session *s = arg;
	char *data;
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	data = map_request();
	if (!data)
		return NULL;
	pthread_cleanup_push(unmap_request, data);
	for (;;) {
		ssize_t n = read_request(s, data);

		if (n > 0)
			dispatch(s, data, (size_t)n);
		/* ENOENT: the request was withdrawn while we read it. */
		else if (n == 0 ||
			 (errno != EINTR && errno != EAGAIN && errno != ENOENT))
			break;
	}
	if (errno != ENODEV)
		log_error("datapath", "reading /dev/fuse: %s", strerror(errno));
	pthread_cleanup_pop(1);
	return NULL;
}

static int start_threads(struct session *s, unsigned int n, struct error *err)
{
	for (s->n_threads = 0; s->n_threads < n; s->n_threads++) {
		int rc = pthread_create(&s->threads[s->n_threads], NULL,
					serve_thread, s);

		if (rc)
			return error_set(err, rc, "start a thread: %s",
					 strerror(rc));
	}
	return 0;
}

static void stop_threads(struct session *s)
{
	for (unsigned int i = 0; i < s->n_threads; i++)
		(void)pthread_cancel(s->threads[i]);
	for (unsigned int i = 0; i < s->n_threads; i++)
		(void)pthread_join(s->threads[i], NULL);
	s->n_threads = 0;
}

/* ---------------------------------------------------------------- starting --- */

/* INIT first: whoever finds the descriptor needs it. */
static int keep(struct session *s, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create(s->init_name, MFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return error_set(err, errno, "memfd: %s", strerror(errno));
	rc = fs_write_full(fd, s->init_request.data, s->init_request.len);
	if (rc < 0)
		return error_set(err, -rc, "memfd: %s", strerror(-rc));
	rc = fd_keeper_put(s->keeper, s->init_name, fd, err);
	if (rc == 0)
		rc = fd_keeper_put(s->keeper, s->name, s->fd, err);
	return rc;
}

static int start_fresh(struct session *s, struct error *err)
{
	int rc = fs_mkdir_p(s->run_dir, 0700, err);

	/* One that a predecessor left without anybody to keep it is dead. */
	if (rc == 0)
		rc = umount_image(s->run_dir, LOCK_SESSION, s->path, true, err);
	if (rc == 0)
		rc = fs_mkdir_p(s->path, 0700, err);
	if (rc == 0)
		rc = init_open(&s->fd, err);
	if (rc == 0)
		rc = init_mount(s->fd, s->name, s->path, s->cfg.mount_data,
				s->cfg.mount_flags, err);
	if (rc < 0)
		return rc;
	rc = init_read(s->fd, &s->init_request, &s->resend, err);
	/* Without RESEND the requests of a crash would wait for ever: then it
	 * is better that they fail. */
	if (rc == 0 && s->resend)
		rc = keep(s, err);
	if (rc == 0)
		rc = make_libfuse(s, err);
	if (rc == 0)
		rc = feed_init(s, false, err);
	if (rc < 0) {
		struct error ignored = ERROR_INIT;

		(void)!umount_image(s->run_dir, LOCK_SESSION, s->path, true,
				    &ignored);
		(void)!fd_keeper_drop(s->keeper, s->name, &ignored);
	}
	return rc;
}

/* 1: taken over; 0: there is nothing to take over. */
static int start_adopted(struct session *s, int fd, int init_fd,
			 struct error *err)
{
	struct pollfd p = { .fd = fd };
	struct stat st;
	int rc;

	/* POLLERR: the mount is gone, or was aborted. */
	if (fstat(init_fd, &st) < 0 || st.st_size > (off_t)REQUEST_MAX ||
	    poll(&p, 1, 0) != 0)
		return 0;
	if (buf_reserve(&s->init_request, (size_t)st.st_size) < 0)
		return error_nomem(err);
	rc = fs_pread_full(init_fd, s->init_request.data, (size_t)st.st_size,
			   0);
	if (rc < 0)
		return error_set(err, -rc, "kept INIT: %s", strerror(-rc));
	s->init_request.len = (size_t)st.st_size;
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		return error_set(err, errno, "dup: %s", strerror(errno));
	rc = init_check(&s->init_request, &s->resend, err);
	if (rc == 0)
		rc = make_libfuse(s, err);
	if (rc == 0)
		rc = feed_init(s, true, err);
	if (rc < 0)
		return rc;
	parking_open(s->parking);
	rc = init_resend(s->fd, err);
	if (rc < 0)
		return rc;
	s->adopted = true;
	return 1;
}

static int start_any(struct session *s, struct error *err)
{
	AUTO_CLOSE int fd = fd_keeper_take(s->keeper, s->name);
	AUTO_CLOSE int init_fd = fd_keeper_take(s->keeper, s->init_name);
	int rc = 0;

	if (fd >= 0 && init_fd >= 0)
		rc = start_adopted(s, fd, init_fd, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (fd >= 0)
		(void)!fd_keeper_drop(s->keeper, s->name, NULL);
	if (init_fd >= 0)
		(void)!fd_keeper_drop(s->keeper, s->init_name, NULL);
	return start_fresh(s, err);
}

static void drop_kept(struct session *s, const char *name)
{
	AUTO_CLOSE int fd = fd_keeper_take(s->keeper, name);

	if (fd >= 0)
		(void)!fd_keeper_drop(s->keeper, name, NULL);
}

static void drop_other(struct session *s, const char *name,
		       const char *init_name)
{
	AUTO_FREE char *joined = path_join(s->run_dir, name);
	AUTO_FREE char *path = NULL;
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;

	drop_kept(s, name);
	drop_kept(s, init_name);
	if (!joined || mount_canonical(joined, &path, &err) < 0 ||
	    mount_find(path, &line, &err) <= 0)
		return;
	mount_line_fini(&line);
	log_warning("datapath", "dropped a mount path=\"%s\"", path);
	if (umount_image(s->run_dir, LOCK_SESSION, path, true, &err) < 0)
		log_warning("datapath", "left mounted: %s", err.msg);
}

/*
 * A predecessor that went another way left a session that nobody will serve
 * again.  Its readers would wait for ever; closed, it fails them.
 */
static void drop_others(struct session *s)
{
	static const char *const names[][2] = {
		{ SESSION_CARRIER, SESSION_CARRIER "-init" },
		{ SESSION_CARRIER_LOOP, SESSION_CARRIER_LOOP "-init" },
		{ SESSION_PLAIN, SESSION_PLAIN "-init" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i][0], s->name) != 0)
			drop_other(s, names[i][0], names[i][1]);
}

static struct session *session_new(const struct session_config *cfg)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->cfg = *cfg;
	s->cfg.datapath = NULL;
	s->keeper = cfg->datapath->keeper;
	s->fd = -1;
	atomic_init(&s->refs, 1);
	s->images = image_table_new();
	s->parking = s->images ? parking_new(s->images) : NULL;
	s->name = strdup(cfg->name);
	s->run_dir = strdup(cfg->datapath->run_dir);
	s->path = path_join(cfg->datapath->run_dir, cfg->name);
	if (asprintf(&s->init_name, "%s-init", cfg->name) < 0)
		s->init_name = NULL;
	if (!s->parking || !s->name || !s->run_dir || !s->path ||
	    !s->init_name) {
		session_free(s);
		return NULL;
	}
	s->cfg.name = s->name;
	return s;
}

int session_start(const struct session_config *cfg, struct session **ret,
		  struct error *err)
{
	unsigned int threads = cfg->datapath->threads;
	struct session *s;
	int rc;

	if (threads < 1 || threads > ARRAY_SIZE(s->threads))
		return error_set(err, EINVAL, "%u FUSE threads", threads);
	s = session_new(cfg);
	if (!s)
		return error_nomem(err);
	rc = read_pool_new(s->images, session_unref, s, &s->pool, err);
	if (rc == 0)
		rc = start_any(s, err);
	if (rc == 0)
		drop_others(s);
	if (rc == 0)
		rc = start_threads(s, threads, err);
	if (rc < 0) {
		stop_threads(s);
		session_unref(s);
		return error_wrap(err, rc, "FUSE mount '%s'", cfg->name);
	}
	*ret = s;
	return 0;
}

void session_stop(struct session *s, bool keep)
{
	struct error err = ERROR_INIT;

	if (!s)
		return;
	if (!keep) {
		if (umount_image(s->run_dir, LOCK_SESSION, s->path, true,
				 &err) < 0)
			log_warning("datapath", "left mounted: %s", err.msg);
		if (fd_keeper_drop(s->keeper, s->name, &err) < 0 ||
		    fd_keeper_drop(s->keeper, s->init_name, &err) < 0)
			log_warning("datapath", "left kept: %s", err.msg);
	}
	stop_threads(s);
	session_unref(s);
}
