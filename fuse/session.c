// SPDX-License-Identifier: Apache-2.0
/*
 * Starts and ends sessions. Requests are handled in requests.c, the start of the kernel's
 * protocol in init.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/mount.h"
#include "fuse/init_priv.h"
#include "fuse/parking_priv.h"
#include "fuse/session_priv.h"

/* Background requests (readahead) of the whole mount: far more than a mount whose registry
 * is down can have waiting. */
#define BACKGROUND_MAX 16384u

struct session *session_of(struct fuse_req *req)
{
	return fuse_req_userdata(req);
}

void *session_owner(struct session *s)
{
	return s->cfg.owner;
}

dev_t session_device(const struct session *s)
{
	return s->dev;
}

const char *session_path(const struct session *s)
{
	return s->path;
}

bool session_is_adopted(const struct session *s)
{
	return s->adopted;
}

static void session_free(struct session *s)
{
	fd_close(s->root_fd);
	(void)pthread_mutex_destroy(&s->mounting);
	(void)pthread_mutex_destroy(&s->serving);
	if (s->se)
		fuse_session_destroy(s->se);
	else if (s->fd >= 0)
		(void)close(s->fd);
	parking_free(s->parking);
	if (s->cfg.handler->free)
		s->cfg.handler->free(s->cfg.owner);
	buf_fini(&s->init_request);
	buf_fini(&s->init_reply);
	free(s->name);
	free(s->init_name);
	free(s->run_dir);
	free(s->path);
	free(s);
}

void session_ref(struct session *s)
{
	atomic_fetch_add(&s->refs, 1);
}

void session_unref(struct session *s)
{
	if (atomic_fetch_sub(&s->refs, 1) == 1)
		session_free(s);
}

/* --------------------------------------------------------------- libfuse --- */

static ssize_t session_writev(int fd, struct iovec *iov, int count,
			      void *userdata)
{
	struct session *s = userdata;
	size_t total = 0;

	/* The first bytes that libfuse writes are the answer to INIT. */
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

/* Never called: the threads of requests.c read requests themselves. */
static ssize_t session_read(int fd, void *buf, size_t len, void *userdata)
{
	return read(fd, buf, len);
}

static const struct fuse_custom_io custom_io = {
	.writev = session_writev,
	.read = session_read,
};

static void session_init(void *userdata, struct fuse_conn_info *conn)
{
	struct session *s = userdata;

	conn->max_background = BACKGROUND_MAX;
	conn->congestion_threshold = BACKGROUND_MAX;
	/* libfuse reserves 256 pages of any size for requests, and the kernel refuses to
	 * write requests into a smaller buffer than max_write needs: with pages larger than 4
	 * KiB no request could be read. */
	conn->max_write = SESSION_DATA_MAX;
	/* Files never change behind the kernel's back. */
	conn->want &= ~(unsigned int)(FUSE_CAP_AUTO_INVAL_DATA |
				      FUSE_CAP_HANDLE_KILLPRIV |
				      FUSE_CAP_ATOMIC_O_TRUNC);
	if (s->cfg.handler->init)
		s->cfg.handler->init(conn);
}

static int make_libfuse(struct session *s, struct error *err)
{
	char *argv[] = { program_invocation_short_name, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int rc;

	s->ops = *s->cfg.handler->ops;
	s->ops.init = session_init;
	s->se = fuse_session_new(&args, &s->ops, sizeof(s->ops), s);
	fuse_opt_free_args(&args);
	if (!s->se)
		return error_set(err, ENOMEM, "libfuse makes no session");
	rc = fuse_session_custom_io(s->se, &custom_io, s->fd);
	if (rc < 0)
		return error_errno(err, -rc, "libfuse takes no descriptor");
	return 0;
}

/* Feed INIT to libfuse; `swallow` drops its answer instead of sending it to the kernel. */
static int feed_init_to_libfuse(struct session *s, bool swallow,
				struct error *err)
{
	struct fuse_out_header out;

	s->swallow = swallow;
	requests_process(s, s->init_request.data, s->init_request.len);
	s->swallow = false;
	if (s->init_reply.len < sizeof(out))
		return error_set(err, EIO, "libfuse did not answer INIT");
	memcpy(&out, s->init_reply.data, sizeof(out));
	if (out.error)
		return error_errno(err, -out.error,
				   "libfuse refuses the kernel's FUSE");
	return 0;
}

void session_ask_again(struct session *s, uint64_t node)
{
	/* A negative offset keeps the cached pages, for whose removal the kernel would wait.
	 * An error for a forgotten node is harmless. */
	(void)fuse_lowlevel_notify_inval_inode(s->se, node, -1, 0);
}

void session_admit(struct session *s, bool all)
{
	parking_release(s->parking, all, requests_process, s);
}

/* ---------------------------------------------------------------- starting --- */

/* Keep the descriptors. INIT is kept first, as a process that finds the /dev/fuse descriptor
 * needs it. Behind it stands the mount's device number, since another file system may be at its
 * path later. */
static int session_keep(struct session *s, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create(s->init_name, MFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "memfd");
	rc = fs_write_full(fd, s->init_request.data, s->init_request.len);
	if (rc == 0)
		rc = fs_write_full(fd, &s->dev, sizeof(s->dev));
	if (rc < 0)
		return error_errno(err, -rc, "memfd");
	rc = fd_keeper_put(s->cfg.keeper, s->init_name, fd, err);
	if (rc == 0)
		rc = fd_keeper_put(s->cfg.keeper, s->name, s->fd, err);
	return rc;
}

static int mount_session(struct session *s, struct error *err)
{
	return init_mount(s->fd, s->cfg.fstype, s->name, s->path,
			  s->cfg.mount_data, s->cfg.mount_flags, err);
}

/* Note the device number of the session's file system; 0: it is not mounted at its path. */
static int find_dev(struct session *s, struct error *err)
{
	struct mount_line line = { .major = 0 };
	int rc = mount_find(s->path, &line, err);

	if (rc <= 0)
		return rc;
	if (strcmp(line.fstype, s->cfg.fstype) == 0)
		s->dev = makedev(line.major, line.minor);
	mount_line_fini(&line);
	return s->dev != 0;
}

/* Is the connection alive? POLLERR: the mount is gone, or was aborted. */
static bool is_connected(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 0;
}

/* A later mount may have the device number of an ended one, so the connection is checked
 * too. */
int session_is_mounted(struct session *s, struct error *err)
{
	AUTO_FINI(mount_line) line = { .major = 0 };
	int rc = is_connected(s->fd) ? mount_find(s->path, &line, err) : 0;

	if (rc <= 0)
		return rc;
	return s->dev == makedev(line.major, line.minor);
}

/* Remove the mount and its kept descriptors. */
static void remove_mount_and_kept(struct session *s)
{
	struct error err = ERROR_INIT;

	if (s->dev && (is_connected(s->fd) || session_is_aborted(s)) &&
	    mount_take_down_dev(s->run_dir, MOUNT_LOCK_SESSION, s->path, s->dev,
				true, &err) < 0)
		log_warning(s->cfg.log, "left mounted: %s", err.msg);
	if (fd_keeper_drop(s->cfg.keeper, s->name, &err) < 0 ||
	    fd_keeper_drop(s->cfg.keeper, s->init_name, &err) < 0)
		log_warning(s->cfg.log, "left kept: %s", err.msg);
}

/* Undo a mount whose device number is not known yet. The descriptor is closed first, so that
 * no request is sent for which the call would wait. */
static void undo_mount(struct session *s)
{
	(void)close(s->fd);
	s->fd = -1;
	if (umount2(s->path, MNT_DETACH) < 0)
		log_warning(s->cfg.log, "left mounted: %s", strerror(errno));
}

/* Mount, and check that the mount is found. A path that ends in a symlink has another name
 * in mountinfo: then the mount is undone. */
static int mount_and_find_device(struct session *s, struct error *err)
{
	int rc = mount_session(s, err);

	if (rc < 0)
		return rc;
	rc = find_dev(s, err);
	if (rc == 1)
		return 0;
	undo_mount(s);
	return rc < 0 ? rc
		      : error_set(err, ENOENT,
				  "'%s' is not where it was mounted: is it a "
				  "symlink?",
				  s->path);
}

static int start_new_mount(struct session *s, struct error *err)
{
	/* A mount left by an earlier process that is not kept is dead: remove it. */
	int rc = mount_take_down(s->run_dir, MOUNT_LOCK_SESSION, s->path, true,
				 err);

	if (rc == 0)
		rc = fs_mkdir_p(s->path, 0700, err);
	if (rc == 0)
		rc = init_open(&s->fd, err);
	if (rc == 0)
		rc = mount_and_find_device(s, err);
	if (rc < 0)
		return rc;
	rc = init_read(s->fd, &s->init_request, &s->resend, err);
	/* Without RESEND, requests of a crashed process would wait for ever: then do not
	 * keep the mount, so that they fail. */
	if (rc == 0 && s->resend)
		rc = session_keep(s, err);
	if (rc == 0)
		rc = make_libfuse(s, err);
	if (rc == 0)
		rc = feed_init_to_libfuse(s, false, err);
	if (rc < 0)
		remove_mount_and_kept(s);
	return rc;
}

bool session_is_gone(const struct fd_keeper *k, const char *name)
{
	int fd = fd_keeper_look(k, name);

	return fd >= 0 && !is_connected(fd);
}

/* Read the text that session_keep() wrote; older versions wrote only INIT. */
static int read_kept(struct session *s, int fd, size_t len, struct error *err)
{
	struct buf *init = &s->init_request;
	struct fuse_in_header in = { .len = 0 };
	int rc;

	if (buf_reserve(init, len) < 0)
		return error_nomem(err);
	rc = fs_pread_full(fd, init->data, len, 0);
	if (rc < 0)
		return error_errno(err, -rc, "kept INIT");
	init->len = len;
	if (len >= sizeof(in))
		memcpy(&in, init->data, sizeof(in));
	if (len != (size_t)in.len + sizeof(s->dev))
		return 0;
	init->len = in.len;
	memcpy(&s->dev, init->data + in.len, sizeof(s->dev));
	return 0;
}

/* Take the mount over. 1: done; 0: there is nothing to take over. */
static int start_adopted(struct session *s, int fd, int init_fd,
			 struct error *err)
{
	struct stat st;
	int rc;

	if (fstat(init_fd, &st) < 0 || st.st_size > (off_t)REQUEST_MAX ||
	    !is_connected(fd))
		return 0;
	rc = read_kept(s, init_fd, (size_t)st.st_size, err);
	if (rc < 0)
		return rc;
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		return error_errno(err, errno, "dup");
	rc = init_check(&s->init_request, &s->resend, err);
	if (rc == 0)
		rc = make_libfuse(s, err);
	if (rc == 0)
		rc = feed_init_to_libfuse(s, true, err);
	if (rc < 0)
		return rc;
	parking_open(s->parking);
	/* Somebody may have unmounted it. */
	if (!s->dev)
		rc = find_dev(s, err);
	if (rc >= 0)
		rc = init_resend(s->fd, err);
	if (rc < 0)
		return rc;
	s->adopted = true;
	return 1;
}

static int adopt_or_start_session(struct session *s, struct error *err)
{
	AUTO_CLOSE int fd = fd_keeper_take(s->cfg.keeper, s->name);
	AUTO_CLOSE int init_fd = fd_keeper_take(s->cfg.keeper, s->init_name);
	int rc = 0;

	if (fd >= 0 && init_fd >= 0)
		rc = start_adopted(s, fd, init_fd, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (fd >= 0)
		(void)!fd_keeper_drop(s->cfg.keeper, s->name, NULL);
	if (init_fd >= 0)
		(void)!fd_keeper_drop(s->cfg.keeper, s->init_name, NULL);
	return start_new_mount(s, err);
}

static struct session *session_new(const struct session_config *cfg)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->cfg = *cfg;
	s->fd = -1;
	s->root_fd = -1;
	(void)pthread_mutex_init(&s->mounting, NULL);
	(void)pthread_mutex_init(&s->serving, NULL);
	atomic_init(&s->refs, 1);
	s->parking = parking_new(cfg->handler->is_early, cfg->owner);
	s->cfg.name = s->name = strdup(cfg->name);
	s->cfg.run_dir = s->run_dir = strdup(cfg->run_dir);
	if (asprintf(&s->init_name, "%s-init", cfg->name) < 0)
		s->init_name = NULL;
	return s;
}

static bool has_all_session_parts(const struct session *s)
{
	return s->parking && s->name && s->run_dir && s->init_name;
}

/* Open the mount's root with O_PATH, which sends no request. */
static void open_mount_root(struct session *s)
{
	if (s->root_fd < 0)
		s->root_fd = open(s->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Mount the session again if it is unmounted. With the lock `mounting`. */
static int mount_if_gone(struct session *s, bool *ret_was_gone,
			 struct error *err)
{
	struct mount_line line = { .major = 0 };
	bool is_ours;
	int rc = mount_find(s->path, &line, err);

	*ret_was_gone = rc == 0;
	if (rc < 0)
		return rc;
	if (rc == 0) {
		/* Given the descriptor of a running session, the kernel mounts that session
		 * again. */
		rc = mount_session(s, err);
		if (rc == 0)
			open_mount_root(s);
		if (rc == 0 && !s->dev)
			rc = find_dev(s, err);
		return error_wrap(err, rc,
				  "it was unmounted, and cannot be mounted "
				  "again; restart %s",
				  program_invocation_short_name);
	}
	is_ours = strcmp(line.fstype, s->cfg.fstype) == 0 &&
		  (!s->dev || s->dev == makedev(line.major, line.minor));
	mount_line_fini(&line);
	if (!is_ours)
		return error_set(
			err, EBUSY,
			"something else is mounted on '%s': unmount it",
			s->path);
	open_mount_root(s);
	return 0;
}

int session_ensure(struct session *s, struct error *err)
{
	bool was_gone = false;
	int rc;

	(void)pthread_mutex_lock(&s->mounting);
	rc = mount_if_gone(s, &was_gone, err);
	(void)pthread_mutex_unlock(&s->mounting);
	return rc < 0 ? error_wrap(err, rc, "FUSE mount '%s'", s->path)
		      : was_gone;
}

static int check_config(const struct session_config *cfg, struct error *err)
{
	const struct session_handler *h = cfg->handler;

	if (cfg->threads < 1 || cfg->threads > SESSION_THREADS_MAX)
		return error_set(err, EINVAL, "%u FUSE threads", cfg->threads);
	/* Requests that must wait are copied, possibly many, so they must be short. */
	if (h->request_max > REQUEST_MAX ||
	    (h->is_early && h->request_max > SESSION_REQUEST_NAMES))
		return error_set(err, EINVAL, "FUSE requests of %zu bytes",
				 h->request_max);
	return 0;
}

/* Resolve symlinks in the path: mountinfo has resolved paths, so with /var/run, for example,
 * the mount would never be found, and be made again and again. */
static int find_mount_path(struct session *s, struct error *err)
{
	int rc = fs_mkdir_p(s->run_dir, 0700, err);

	if (rc == 0)
		rc = mount_canonical(s->cfg.path, &s->path, err);
	s->cfg.path = s->path;
	return rc;
}

int session_start(const struct session_config *cfg, struct session **ret,
		  struct error *err)
{
	struct session *s = session_new(cfg);
	int rc;

	if (!s) {
		if (cfg->handler->free)
			cfg->handler->free(cfg->owner);
		return error_nomem(err);
	}
	rc = has_all_session_parts(s) ? check_config(cfg, err)
				      : error_nomem(err);
	if (rc == 0)
		rc = find_mount_path(s, err);
	if (rc == 0)
		rc = adopt_or_start_session(s, err);
	if (rc == 0) {
		rc = requests_start(s, err);
		/* A new mount is not in use yet, so remove it; one that was taken over is
		 * left for another attempt. */
		if (rc < 0 && !s->adopted)
			remove_mount_and_kept(s);
	}
	if (rc < 0) {
		requests_stop(s);
		session_unref(s);
		return error_wrap(err, rc, "FUSE mount '%s'", cfg->name);
	}
	*ret = s;
	return 0;
}

void session_stop(struct session *s, bool keep)
{
	if (!s)
		return;
	if (!keep)
		remove_mount_and_kept(s);
	requests_stop(s);
	session_unref(s);
}
