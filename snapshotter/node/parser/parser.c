// SPDX-License-Identifier: Apache-2.0
/* bootseerd's side of the parser: runs its process and begins jobs. */
#include "snapshotter/node/parser/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "snapshotter/node/parser/parser_priv.h"

/* time for a killed process to end; after that it hangs in I/O */
#define KILL_MS 2000

const struct parser_bounds parser_bounds = {
	.begin = 10 * 1000,
	.stall = 30 * 1000,
	.whole = 300 * 1000,
};

/* ------------------------------------------------------------- the process --- */

static int spawn_at(struct parser *p, int sock, struct error *err)
{
	static char name[] = PARSER_NAME;
	char *const argv[] = { name, NULL };
	/* empty: bootseerd's environment has secrets */
	char *const environment[] = { NULL };
	posix_spawn_file_actions_t files;
	int rc = posix_spawn_file_actions_init(&files);

	if (rc)
		return error_errno(err, rc, "parser");
	rc = posix_spawn_file_actions_adddup2(&files, sock, PARSER_FD);
	if (rc == 0)
		rc = posix_spawn(&p->pid, p->program, &files, NULL, argv,
				 environment);
	(void)posix_spawn_file_actions_destroy(&files);
	if (rc)
		return error_errno(err, rc, "run the parser '%s'", p->program);
	p->pidfd = pidfd_open(p->pid, 0);
	return 0;
}

static int start(struct parser *p, struct error *err)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "parser");
	rc = spawn_at(p, pair[1], err);
	(void)close(pair[1]);
	if (rc < 0) {
		p->pid = 0;
		(void)close(pair[0]);
		return rc;
	}
	p->sock = pair[0];
	p->generation++;
	return 0;
}

/* End the parser's process.  If it hangs in the kernel, it is left behind. */
static void stop(struct parser *p)
{
	struct pollfd gone = { .fd = p->pidfd, .events = POLLIN };

	fd_close(p->sock);
	p->sock = -1;
	/* The process ends when its socket is closed; kill it in case it is stopped. */
	if (p->pid > 0) {
		(void)kill(p->pid, SIGKILL);
		if (p->pidfd >= 0)
			(void)poll(&gone, 1, KILL_MS);
		(void)waitpid(p->pid, NULL, p->pidfd >= 0 ? WNOHANG : 0);
	}
	fd_close(p->pidfd);
	p->pidfd = -1;
	p->pid = 0;
}

/* Run the parser again, unless another thread did so since `generation` was read. */
static int restart_parser(struct parser *p, uint64_t generation,
			  const char *why, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	if (p->generation == generation) {
		log_warning("parser",
			    "%s pid=%d action=\"killed and run again\"", why,
			    (int)p->pid);
		stop(p);
		rc = start(p, err);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* ---------------------------------------------------- --- asking the parser --- */

/* Send a job without waiting.  A full queue holds more jobs than bootseerd has threads, so the
 * parser must be stuck. */
static int send_job(int sock, const struct parser_job *job, const int *fds)
{
	struct parser_job copy = *job;
	struct iovec iov = { &copy, sizeof(copy) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * PARSER_N_FDS)];
	} control = { .bytes = { 0 } };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * PARSER_N_FDS);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * PARSER_N_FDS);
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno
								    : 0;
}

static int send_to(struct parser *p, const struct parser_job *job,
		   const int *fds, uint64_t *ret_generation)
{
	int rc = -EPIPE;

	pthread_mutex_lock(&p->lock);
	*ret_generation = p->generation;
	if (p->sock >= 0)
		rc = send_job(p->sock, job, fds);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* Receive the parser's answer; -EPIPE: its end is closed. */
static int receive_begun(int fd, struct parser_begun *ret)
{
	ssize_t n;

	do
		n = recv(fd, ret, sizeof(*ret), 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EPIPE;
	return n == (ssize_t)sizeof(*ret) ? ret->rc : -EPROTO;
}

/* Open the job's process by its PID, which could be another process's once the job has ended.
 * The PID is still the job's while the other end of `fd` is open: the job has it, and the
 * parser closes its copy before it reaps the job. */
static int open_job(int fd, pid_t pid, int *ret_pidfd)
{
	struct pollfd end = { .fd = fd, .events = 0 };
	AUTO_CLOSE int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;

	if (pid <= 0)
		return -EPROTO;
	if (pidfd < 0)
		return errno == ESRCH ? -ECHILD : -errno;
	if (poll(&end, 1, 0) != 0)
		return -ECHILD;
	*ret_pidfd = steal_fd(&pidfd);
	return 0;
}

/* Wait until the parser has named the job's process, and let that begin.  -EPIPE and -ETIMEDOUT
 * mean the parser failed, and leave `err` alone. */
static int begin_job(const struct parser *p, int fd, struct artifact_job *job,
		     struct error *err)
{
	struct pollfd w = { .fd = fd, .events = POLLIN };
	struct parser_begun said = { .rc = 0 };
	AUTO_CLOSE int pidfd = -1;
	int n, rc;

	do
		n = poll(&w, 1, p->bounds.begin);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return -ETIMEDOUT;
	rc = receive_begun(fd, &said);
	if (rc == -EPIPE)
		return rc;
	if (rc == 0)
		rc = open_job(fd, said.pid, &pidfd);
	if (rc == 0 && send(fd, "", 1, MSG_NOSIGNAL) < 0)
		rc = -errno;
	if (rc < 0)
		return error_set(err, rc == -EPIPE ? ECHILD : -rc,
				 "the parser begins no job: %s", strerror(-rc));
	job->pid = said.pid;
	job->pidfd = steal_fd(&pidfd);
	return 0;
}

static int ask_once(struct parser *p, const struct parser_job *job, int first,
		    int second, struct artifact_job *ret,
		    uint64_t *ret_generation, struct error *err)
{
	AUTO_CLOSE int from = -1;
	AUTO_CLOSE int to = -1;
	AUTO_CLOSE int begin_here = -1;
	AUTO_CLOSE int begin_there = -1;
	int pipes[2], pair[2], rc;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	from = pipes[0];
	to = pipes[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "socket");
	begin_here = pair[0];
	begin_there = pair[1];
	/* Non-blocking for bootseerd's end only. */
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, errno, "pipe");
	rc = send_to(p, job,
		     (const int[PARSER_N_FDS]){
			     [PARSER_FD_FIRST] = first,
			     [PARSER_FD_SECOND] = second,
			     [PARSER_FD_REPLY] = to,
			     [PARSER_FD_BEGIN] = begin_there,
		     },
		     ret_generation);
	if (rc == -EAGAIN)
		return -ETIMEDOUT;
	if (rc < 0)
		return -EPIPE;
	/* Close our copies, so that the end of the parser and the job is noticed. */
	(void)close(steal_fd(&begin_there));
	(void)close(steal_fd(&to));
	rc = begin_job(p, begin_here, ret, err);
	if (rc == 0)
		ret->reply = steal_fd(&from);
	return rc;
}

/*
 * Begin a job on two files, with a new pipe for its reply.  A
 * parser that has ended or does not answer is killed and run again, once; jobs
 * that it began are processes of their own and go on.  -ETIMEDOUT.
 */
static int ask_parser(struct parser *p, const struct parser_job *job, int first,
		      int second, struct artifact_job *ret, struct error *err)
{
	struct artifact_job begun = { .in = -1 };
	uint64_t generation = 0;
	int rc = ask_once(p, job, first, second, &begun, &generation, err);

	if (rc == -EPIPE || rc == -ETIMEDOUT) {
		rc = restart_parser(p, generation,
				    rc == -EPIPE ? "ended" : "does not answer",
				    err);
		if (rc < 0)
			return rc;
		rc = ask_once(p, job, first, second, &begun, &generation, err);
	}
	if (rc == -EPIPE)
		return error_set(err, ECHILD,
				 "the parser (" PARSER_NAME ") ends at once, "
				 "run again too: its log says why");
	if (rc == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "the parser (" PARSER_NAME ") began no job in "
				 "%d s, run again too: something stops it, or "
				 "the machine has no memory left",
				 p->bounds.begin / 1000);
	if (rc == 0)
		*ret = begun;
	return rc;
}

/* ------------------------------------------------------------ start and end --- */

int parser_pid(struct parser *p)
{
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	return (int)p->pid;
}

struct artifact_parser *parser_of_artifacts(struct parser *p)
{
	return &p->of_artifacts;
}

/* ------------------------------------------------------ --- the parser for artifacts --- */

/*
 * bootseerd's side of one job of the parser.  Malicious bytes may have taken the job over, so
 * its reply does not prove that it has ended: its file counts once the process is gone, and a
 * process that does not end is killed.
 */

#define KILL_JOB_MS 10000 /* time for a killed job to end */

/* ------------------------------------------------------------------ waiting --- */

/* Least processor time, in ns, of each millisecond for a job that counts as working, whatever
 * the load: a thousandth.  A job that uses less is stuck, or only wakes up to look busy. */
#define WORK_NS_PER_MS 1000

/* Processor time that the job has used, which confine_job() limits; 0 when it is gone. */
static int64_t used_ns(const struct artifact_job *job)
{
	struct timespec t = { .tv_sec = 0 };
	clockid_t clock;

	if (clock_getcpuclockid(job->pid, &clock) != 0 ||
	    clock_gettime(clock, &t) < 0)
		return 0;
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* A descriptor to wait for beside the end of the process. */
struct job_wait {
	int fd; /* -1: wait for the end of the process only */
	short events;
	int64_t end_ns; /* 0: wait as long as the job works */
};

static int wait_ms(const struct parser *p, const struct job_wait *w)
{
	int64_t left;

	if (!w->end_ns)
		return p->bounds.stall;
	left = (w->end_ns - clock_now_ns()) / 1000000 + 1;
	return left < 0                 ? 0
	       : left < p->bounds.stall ? (int)left
					: p->bounds.stall;
}

/* Wait; 0: `fd` is ready, or the process is gone (*ret_gone). */
static int wait_job(const struct parser *p, const struct artifact_job *job,
		    const struct job_wait *w, bool *ret_gone, struct error *err)
{
	struct pollfd v[] = { { .fd = job->pidfd, .events = POLLIN },
			      { .fd = w->fd, .events = w->events } };
	int64_t used = used_ns(job), now_used;
	int n;

	for (;;) {
		n = poll(v, ARRAY_SIZE(v), wait_ms(p, w));
		*ret_gone = n > 0 && v[0].revents;
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return error_errno(err, errno, "poll");
		if (n < 0)
			continue;
		if (w->end_ns && clock_now_ns() >= w->end_ns)
			return error_set(err, ETIMEDOUT,
					 "the process that parses it did not "
					 "end within %d s, and was killed",
					 p->bounds.whole / 1000);
		now_used = used_ns(job);
		if (now_used - used < p->bounds.stall * WORK_NS_PER_MS)
			return error_set(err, ETIMEDOUT,
					 "the process that parses it did "
					 "nothing for %d s, and was killed",
					 p->bounds.stall / 1000);
		used = now_used;
	}
}

/* ------------------------------------------------------------------- the end --- */

/* Bytes that the job replied: room for a reply and one byte too many. */
struct heard {
	char bytes[sizeof(struct parser_reply) + 1];
	size_t len;
	bool is_all; /* the pipe is closed: no more can come */
};

static void read_reply(struct heard *h, int fd)
{
	ssize_t n = 1;

	while (n > 0 && h->len < sizeof(h->bytes)) {
		n = read(fd, h->bytes + h->len, sizeof(h->bytes) - h->len);
		h->len += n > 0 ? (size_t)n : 0;
	}
	h->is_all = n == 0;
}

static bool says_too_much(const struct heard *h)
{
	return h->len > sizeof(struct parser_reply);
}

/* Read the job's reply until its process is gone.  Negative: the process has to be killed. */
static int read_reply_until_exit(const struct parser *p,
				 const struct artifact_job *job,
				 struct heard *h, struct error *err)
{
	struct job_wait w = { .fd = job->reply,
			      .events = POLLIN,
			      .end_ns = clock_now_ns() +
					p->bounds.whole * INT64_C(1000000) };
	bool gone = false;
	int rc = 0;

	while (rc == 0 && !gone && !says_too_much(h)) {
		rc = wait_job(p, job, &w, &gone, err);
		/* Read even if the process is gone: it may have replied just before. */
		if (rc == 0 && !h->is_all)
			read_reply(h, job->reply);
		if (h->is_all)
			w.fd = -1;
	}
	if (rc == 0 && says_too_much(h))
		rc = error_set(err, EBADMSG,
			       "the process that parses it said more than its "
			       "answer, and was killed");
	return rc;
}

/* Kill the job and wait for its end.  Returns `rc`, with `err`, unless the process does not end. */
static int kill_job(const struct artifact_job *job, int rc, struct error *err)
{
	struct pollfd gone = { .fd = job->pidfd, .events = POLLIN };
	int n;

	(void)pidfd_send_signal(job->pidfd, SIGKILL, NULL, 0);
	do
		n = poll(&gone, 1, KILL_JOB_MS);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return rc;
	return error_set(err, EIO,
			 "process %d that parses it cannot be killed: it hangs "
			 "in the kernel, look at the disk",
			 job->pid);
}

static int judge_reply(const struct heard *h, struct error *err)
{
	struct parser_reply r = { .err = ERROR_INIT };

	if (h->len < sizeof(r))
		return error_set(err, EBADMSG,
				 "the process that parses it died: it needed "
				 "more memory or time than an image may, or "
				 "crashed");
	memcpy(&r, h->bytes, sizeof(r));
	if (r.rc == 0)
		return 0;
	/* Make the text printable: a job that malicious bytes took over may write anything. */
	r.err.msg[sizeof(r.err.msg) - 1] = '\0';
	for (char *c = r.err.msg; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	return error_set(err, r.rc < 0 && r.rc > -4096 ? -r.rc : EBADMSG, "%s",
			 r.err.msg);
}

static int end_job(struct artifact_parser *a, struct artifact_job *job,
		   struct error *err)
{
	const struct parser *p = container_of(a, struct parser, of_artifacts);
	struct heard h = { .len = 0 };
	int rc;

	fd_close(job->in);
	if (job->is_stuck)
		rc = error_set(err, ETIMEDOUT,
			       "the process that parses it took nothing for "
			       "%d s, and was killed",
			       p->bounds.stall / 1000);
	else
		rc = read_reply_until_exit(p, job, &h, err);
	rc = rc < 0 ? kill_job(job, rc, err) : judge_reply(&h, err);
	(void)close(job->reply);
	(void)close(job->pidfd);
	return rc;
}

/* ----------------------------------------------------- --- beginning of jobs --- */

static int begin_unpack(struct artifact_parser *a, int fd, uint64_t size,
			struct artifact_job *ret, struct error *err)
{
	struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct parser_job job = { .kind = PARSER_UNPACK, .size = size };
	AUTO_CLOSE int from = -1;
	AUTO_CLOSE int to = -1;
	int in[2], rc;

	if (pipe2(in, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	from = in[0];
	to = in[1];
	/* Non-blocking for bootseerd's end only: the job waits when it reads. */
	if (fcntl(to, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, errno, "pipe");
	rc = ask_parser(p, &job, fd, from, ret, err);
	if (rc == 0)
		ret->in = steal_fd(&to);
	return rc;
}

static int put_packed(struct artifact_parser *a, struct artifact_job *job,
		      const void *data, size_t len, struct error *err)
{
	const struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct job_wait w = { .fd = job->in, .events = POLLOUT };
	const char *at = data;
	bool gone = false;
	int rc = 0;

	while (rc == 0 && len) {
		ssize_t n = write(job->in, at, len);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN && !gone) {
			rc = wait_job(p, job, &w, &gone, err);
			job->is_stuck = rc < 0;
		} else if (errno != EINTR) {
			/* The job has closed its end; its reply says why. */
			rc = error_set(err, EBADMSG, "unpack: %s",
				       strerror(errno));
		}
	}
	return rc;
}

static int begin_check(struct artifact_parser *a, enum artifact_file file,
		       int fd, uint64_t size, struct artifact_job *ret,
		       struct error *err)
{
	struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct parser_job job = {
		.kind = file == ARTIFACT_MAP ? PARSER_CHECK_MAP
					     : PARSER_CHECK_META,
		.size = size,
	};

	return ask_parser(p, &job, fd, fd, ret, err);
}

static void init_jobs(struct parser *p)
{
	p->of_artifacts = (struct artifact_parser){
		.unpack = begin_unpack,
		.put = put_packed,
		.check = begin_check,
		.end = end_job,
	};
}

static int check_path(struct parser *p, enum artifact_file file,
		      const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct artifact_job job = { .in = -1 };
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%s'", path);
	rc = begin_check(&p->of_artifacts, file, fd, (uint64_t)st.st_size, &job,
			 err);
	return rc < 0 ? rc : end_job(&p->of_artifacts, &job, err);
}

int parser_check(struct parser *p, const char *meta_path, const char *map_path,
		 struct error *err)
{
	int rc = check_path(p, ARTIFACT_META, meta_path, err);

	if (rc < 0)
		return error_wrap(err, rc, "metadata image");
	rc = check_path(p, ARTIFACT_MAP, map_path, err);
	return rc < 0 ? error_wrap(err, rc, "block map") : 0;
}

int parser_open_bounded(const char *program, const struct parser_bounds *bounds,
			struct parser **ret, struct error *err)
{
	struct parser *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->sock = -1;
	p->pidfd = -1;
	p->bounds = *bounds;
	init_jobs(p);
	pthread_mutex_init(&p->lock, NULL);
	p->program = strdup(program);
	rc = p->program ? start(p, err) : error_nomem(err);
	if (rc < 0)
		parser_close(p);
	else
		*ret = p;
	return rc;
}

int parser_open(const char *program, struct parser **ret, struct error *err)
{
	return parser_open_bounded(program, &parser_bounds, ret, err);
}

void parser_close(struct parser *p)
{
	if (!p)
		return;
	stop(p);
	pthread_mutex_destroy(&p->lock);
	free(p->program);
	free(p);
}
