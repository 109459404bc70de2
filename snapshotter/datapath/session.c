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
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/datapath/mounts.h"

/* Protocol 7.40, newer than the header of the systems we build on. */
#define INIT_FLAGS2_HAS_RESEND (1u << (39 - 32))
#define NOTIFY_RESEND 7

/* libfuse takes the largest request it must hold from this, and so the kernel
 * the largest it may send; the page is for the headers of a request. */
#define REQUEST_MAX (READ_MAX + 4096u)
#define INIT_TIMEOUT_MS 5000
/* Reads that nobody waits for yet (readahead): as many as the pool holds. */
#define BACKGROUND_MAX 256u
/* Requests that may wait for their image; each is under 1 KiB. */
#define PARKED_MAX 65536u

struct parked {
	struct parked *next;
	size_t len;
	char data[];
};

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

	atomic_bool parking;
	pthread_mutex_t lock; /* parked requests */
	struct parked *first, **last;
	unsigned int n_parked;
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
	while (s->first) {
		struct parked *p = s->first;

		s->first = p->next;
		free(p);
	}
	read_pool_free(s->pool);
	image_table_free(s->images);
	buf_fini(&s->init_request);
	buf_fini(&s->init_reply);
	free(s->name);
	free(s->init_name);
	free(s->run_dir);
	free(s->path);
	pthread_mutex_destroy(&s->lock);
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

static void process(struct session *s, void *data, size_t len)
{
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

static int check_init(struct session *s, struct error *err)
{
	struct fuse_in_header in;
	struct fuse_init_in init = { .major = 0 };
	size_t len = s->init_request.len;

	if (len < sizeof(in))
		return error_set(err, EPROTO, "%zu bytes as first request",
				 len);
	memcpy(&in, s->init_request.data, sizeof(in));
	if (in.opcode != FUSE_INIT)
		return error_set(err, EPROTO, "first request is %u, not INIT",
				 in.opcode);
	len -= sizeof(in);
	memcpy(&init, s->init_request.data + sizeof(in),
	       len < sizeof(init) ? len : sizeof(init));
	s->resend = (init.flags & FUSE_INIT_EXT) &&
		    (init.flags2 & INIT_FLAGS2_HAS_RESEND);
	return 0;
}

/* ------------------------------------------------- requests that must wait --- */

/* Does the request wait until its image was adopted? */
static bool is_early(struct session *s, const struct fuse_in_header *in,
		     const char *payload)
{
	struct image_entry *e;
	uint64_t index;

	switch (in->opcode) {
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
	case FUSE_DESTROY:
		return false;
	default:
		break;
	}
	if (node_is_image(in->nodeid))
		index = node_index(in->nodeid);
	else if (in->opcode != FUSE_LOOKUP ||
		 image_index_parse(payload, &index) < 0)
		return false;
	e = image_get(s->images, index);
	if (!e)
		return true;
	image_put(s->images, e);
	return false;
}

/* 0: it waits.  Otherwise it must be processed now. */
static int park(struct session *s, const char *data, size_t len)
{
	struct parked *p;
	int rc = -EALREADY;

	pthread_mutex_lock(&s->lock);
	if (atomic_load(&s->parking) && s->n_parked < PARKED_MAX &&
	    is_early(s, (const void *)data,
		     data + sizeof(struct fuse_in_header))) {
		p = malloc(sizeof(*p) + len + 1);
		if (p) {
			p->next = NULL;
			p->len = len;
			memcpy(p->data, data, len + 1);
			*s->last = p;
			s->last = &p->next;
			s->n_parked++;
			rc = 0;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* The parked requests that may go on now, taken off the list. */
static struct parked *unpark(struct session *s, bool all)
{
	struct parked *go = NULL, **go_last = &go, **pp = &s->first;

	pthread_mutex_lock(&s->lock);
	if (all)
		atomic_store(&s->parking, false);
	while (*pp) {
		struct parked *p = *pp;
		const char *payload = p->data + sizeof(struct fuse_in_header);

		if (!all && is_early(s, (const void *)p->data, payload)) {
			pp = &p->next;
			continue;
		}
		*pp = p->next;
		p->next = NULL;
		*go_last = p;
		go_last = &p->next;
		s->n_parked--;
	}
	s->last = pp;
	pthread_mutex_unlock(&s->lock);
	return go;
}

void session_admit(struct session *s, bool all)
{
	struct parked *p = unpark(s, all);

	while (p) {
		struct parked *next = p->next;

		process(s, p->data, p->len);
		free(p);
		p = next;
	}
}

/* --------------------------------------------------------------- threads --- */

/* The predecessor died between keeping its descriptors and answering INIT, so
 * the kernel sent it again; libfuse has answered it to nobody already. */
static void answer_init_again(struct session *s, const char *data)
{
	const struct fuse_in_header *in = (const void *)data;
	struct fuse_out_header out;
	struct iovec iov[2];
	ssize_t n;

	memcpy(&out, s->init_reply.data, sizeof(out));
	out.unique = in->unique;
	iov[0] = (struct iovec){ &out, sizeof(out) };
	iov[1] = (struct iovec){ s->init_reply.data + sizeof(out),
				 s->init_reply.len - sizeof(out) };
	n = writev(s->fd, iov, 2);
	if (n < 0)
		log_warning("datapath", "cannot answer INIT: %s",
			    strerror(errno));
}

static void dispatch(struct session *s, char *data, size_t len)
{
	const struct fuse_in_header *in = (const void *)data;

	if (len < sizeof(*in))
		return;
	data[len] = '\0'; /* names end here whatever the kernel sent */
	if (in->opcode == FUSE_INIT) {
		answer_init_again(s, data);
		return;
	}
	if (atomic_load_explicit(&s->parking, memory_order_relaxed) &&
	    park(s, data, len) == 0)
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

static int read_init(struct session *s, struct error *err)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	AUTO_FREE char *data = malloc(REQUEST_MAX);
	ssize_t n;

	if (!data)
		return error_nomem(err);
	if (poll(&p, 1, INIT_TIMEOUT_MS) <= 0)
		return error_set(err, ETIMEDOUT, "the kernel sends no INIT");
	n = read(s->fd, data, REQUEST_MAX);
	if (n < 0)
		return error_set(err, errno, "read /dev/fuse: %s",
				 strerror(errno));
	if (buf_append(&s->init_request, data, (size_t)n) < 0)
		return error_nomem(err);
	return check_init(s, err);
}

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

static int mount_fuse(struct session *s, struct error *err)
{
	AUTO_BUF data = BUF_INIT;

	s->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (s->fd < 0)
		return error_set(err, errno,
				 "open /dev/fuse: %s (modprobe fuse, or a"
				 " kernel with CONFIG_FUSE_FS)",
				 strerror(errno));
	if (buf_printf(&data, "fd=%d,rootmode=40000,user_id=0,group_id=0,%s",
		       s->fd, s->cfg.mount_data) < 0)
		return error_nomem(err);
	/* Sends no request that we would wait for: INIT is answered later. */
	if (mount(s->name, s->path, SESSION_FSTYPE,
		  MS_RDONLY | MS_NODEV | MS_NOATIME | s->cfg.mount_flags,
		  data.data) < 0)
		return error_set(err, errno, "mount FUSE on '%s': %s", s->path,
				 strerror(errno));
	return 0;
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
		rc = mount_fuse(s, err);
	if (rc < 0)
		return rc;
	rc = read_init(s, err);
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
	struct fuse_out_header resend = { .len = sizeof(resend),
					  .error = NOTIFY_RESEND };
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
	rc = check_init(s, err);
	if (rc == 0)
		rc = make_libfuse(s, err);
	if (rc == 0)
		rc = feed_init(s, true, err);
	if (rc < 0)
		return rc;
	atomic_store(&s->parking, true);
	if (write(s->fd, &resend, sizeof(resend)) < 0)
		return error_set(err, errno, "ask the kernel to send again: %s",
				 strerror(errno));
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

static struct session *session_new(const struct session_config *cfg)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->cfg = *cfg;
	s->cfg.datapath = NULL;
	s->keeper = cfg->datapath->keeper;
	s->fd = -1;
	s->last = &s->first;
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	s->images = image_table_new();
	s->name = strdup(cfg->name);
	s->run_dir = strdup(cfg->datapath->run_dir);
	s->path = path_join(cfg->datapath->run_dir, cfg->name);
	if (asprintf(&s->init_name, "%s-init", cfg->name) < 0)
		s->init_name = NULL;
	if (!s->images || !s->name || !s->run_dir || !s->path ||
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
