// SPDX-License-Identifier: Apache-2.0
/*
 * A file system of one file, "echo", as small as a handler can be: what is written is
 * read again, also from another process.
 *
 *	fuse-echo RUN MOUNTPOINT FOLDER [early]
 *
 * FOLDER/store has the bytes.  While FOLDER/withhold is there, a READ or WRITE gets no
 * answer, but a line "withheld"; FOLDER/die-at-init has the process killed before it
 * answers INIT, and is gone then.  With "early", nothing about the file is answered
 * after a restart before it was admitted; "early" is said of each question.
 *
 * Says "ready PID ADOPTED".  SIGUSR1: look after the mount, say "ensured
 * RESULT".  SIGUSR2: admit all, say "admitted 0".  SIGHUP: leave the mount to a
 * successor, and exit with 7.  SIGTERM: take it down.
 */
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "fuse/fuse.h"

#define ECHO_ROOT 1u
#define ECHO_FILE 2u

struct echo {
	int folder, store;
	struct reply_pool *replies;
	struct reply_share share;
	bool is_early; /* only with "early", until it was admitted */
};

static struct echo *echo_of(fuse_req_t req)
{
	return session_owner(session_of(req));
}

static bool is_flagged(const struct echo *e, const char *name)
{
	return faccessat(e->folder, name, F_OK, 0) == 0;
}

/* Nobody answers the request any more; libfuse's memory of it goes with us. */
static bool is_withheld(const struct echo *e)
{
	if (!is_flagged(e, "withhold"))
		return false;
	(void)dprintf(STDOUT_FILENO, "withheld 0\n");
	return true;
}

static void fill_attr(const struct echo *e, fuse_ino_t ino, struct stat *st)
{
	struct stat store;

	*st = (struct stat){ .st_ino = ino,
			     .st_mode = S_IFDIR | 0700,
			     .st_nlink = 2 };
	if (ino == ECHO_ROOT)
		return;
	st->st_mode = S_IFREG | 0600;
	st->st_nlink = 1;
	if (fstat(e->store, &store) == 0)
		st->st_size = store.st_size;
}

static void echo_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param out = { .ino = ECHO_FILE, .generation = 1 };

	if (parent != ECHO_ROOT || strcmp(name, "echo") != 0) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	fill_attr(echo_of(req), ECHO_FILE, &out.attr);
	(void)fuse_reply_entry(req, &out);
}

static void echo_getattr(fuse_req_t req, fuse_ino_t ino,
			 struct fuse_file_info *fi)
{
	struct stat st;

	fill_attr(echo_of(req), ino, &st);
	(void)fuse_reply_attr(req, &st, 0);
}

static void echo_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	/* Each read(2) and write(2) is a request. */
	fi->direct_io = 1;
	(void)fuse_reply_open(req, fi);
}

static void echo_write(fuse_req_t req, fuse_ino_t ino, const char *buf,
		       size_t size, off_t off, struct fuse_file_info *fi)
{
	struct echo *e = echo_of(req);
	ssize_t n;

	if (is_withheld(e))
		return;
	n = pwrite(e->store, buf, size, off);
	if (n < 0)
		(void)fuse_reply_err(req, errno);
	else
		(void)fuse_reply_write(req, (size_t)n);
}

/* A READ, answered by a thread of its own. */
struct echo_job {
	fuse_req_t req;
	size_t size;
	off_t off;
};

static void answer(struct echo *e, const struct echo_job *j)
{
	struct reply_buffer *b, *next;
	ssize_t n;

	b = reply_pool_take(e->replies, j->size, &e->share, REPLY_AT_ONCE);
	if (!b) {
		(void)fuse_reply_err(j->req, ENOMEM);
		return;
	}
	n = pread(e->store, b->data, j->size, j->off);
	if (n < 0)
		(void)fuse_reply_err(j->req, errno);
	else
		(void)fuse_reply_buf(j->req, b->data, (size_t)n);
	reply_pool_leave(e->replies, &e->share);
	(void)!reply_pool_put(e->replies, b, &next);
}

static void *echo_answer(void *arg)
{
	struct echo_job *j = arg;
	struct session *s = session_of(j->req);

	answer(session_owner(s), j);
	free(j);
	session_unref(s);
	return NULL;
}

static void echo_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		      struct fuse_file_info *fi)
{
	struct echo_job *j;
	pthread_t thread;

	if (is_withheld(echo_of(req)))
		return;
	j = calloc(1, sizeof(*j));
	if (!j)
		abort();
	*j = (struct echo_job){ req, size, off };
	session_ref(session_of(req));
	if (pthread_create(&thread, NULL, echo_answer, j))
		abort();
	(void)pthread_detach(thread);
}

static const struct fuse_lowlevel_ops echo_ops = {
	.lookup = echo_lookup,
	.getattr = echo_getattr,
	.open = echo_open,
	.read = echo_read,
	.write = echo_write,
};

static const char *echo_folder;

static void echo_init(struct fuse_conn_info *conn)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/die-at-init", echo_folder);
	if (unlink(path) == 0)
		(void)raise(SIGKILL);
}

static bool echo_is_early(void *owner, uint64_t node, const char *name)
{
	struct echo *e = owner;

	if (!e->is_early || node != ECHO_FILE)
		return false;
	(void)dprintf(STDOUT_FILENO, "early 0\n");
	return true;
}

static void echo_free(void *owner)
{
	struct echo *e = owner;

	reply_pool_free(e->replies);
	(void)close(e->store);
	(void)close(e->folder);
	free(e);
}

static const struct session_handler echo_handler = {
	.ops = &echo_ops,
	.init = echo_init,
	.free = echo_free,
	.request_max = SESSION_REQUEST_DATA,
};

/* Its WRITEs may be of names' size only, as what waits is copied. */
static const struct session_handler echo_early_handler = {
	.ops = &echo_ops,
	.init = echo_init,
	.is_early = echo_is_early,
	.free = echo_free,
	.request_max = SESSION_REQUEST_NAMES,
};

static struct echo *echo_new(const char *folder, bool is_early,
			     struct error *err)
{
	struct echo *e = calloc(1, sizeof(*e));

	if (!e || reply_pool_new(&e->replies, err) < 0)
		return NULL;
	e->is_early = is_early;
	e->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	e->store =
		openat(e->folder, "store", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return e->store < 0 ? NULL : e;
}

static int obey(struct session *s, struct echo *e, const sigset_t *set)
{
	struct error err = ERROR_INIT;
	int sig;

	while (sigwait(set, &sig) == 0 && sig != SIGTERM && sig != SIGHUP) {
		if (sig == SIGUSR1) {
			(void)dprintf(STDOUT_FILENO, "ensured %d\n",
				      session_ensure(s, &err));
			continue;
		}
		session_admit(s, true);
		(void)dprintf(STDOUT_FILENO, "admitted 0\n");
	}
	session_stop(s, sig == SIGHUP);
	return sig == SIGHUP ? 7 : 0;
}

static int fail(const struct error *err)
{
	(void)fprintf(stderr, "fuse-echo: %s\n", err->msg);
	return 1;
}

int main(int argc, char **argv)
{
	bool early = argc == 5;
	struct session_config cfg = {
		.name = "echo",
		.threads = 4,
		.handler = early ? &echo_early_handler : &echo_handler,
		.fstype = "fuse.echo",
		.mount_data = "default_permissions",
		.log = "echo",
	};
	struct error err = ERROR_INIT;
	struct session *s = NULL;
	sigset_t set;
	int rc;

	if (argc < 4)
		return 2;
	/* No holder, no successor. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigaddset(&set, SIGUSR2);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	cfg.run_dir = argv[1];
	cfg.path = argv[2];
	echo_folder = argv[3];
	if (fd_keeper_open(&cfg.keeper, &err) < 0)
		return fail(&err);
	cfg.owner = echo_new(argv[3], early, &err);
	if (!cfg.owner)
		return fail(&err);
	rc = session_start(&cfg, &s, &err);
	if (rc < 0)
		return fail(&err);
	(void)dprintf(STDOUT_FILENO, "ready %d %d\n", (int)getpid(),
		      (int)session_is_adopted(s));
	rc = obey(s, cfg.owner, &set);
	fd_keeper_close(cfg.keeper);
	return rc;
}
