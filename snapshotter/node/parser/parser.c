// SPDX-License-Identifier: Apache-2.0
/* bootseerd's side of the parser: its process, and how a job of it begins. */
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
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "snapshotter/node/parser/parser_priv.h"

#define KILL_MS 2000 /* until a killed process is gone; else it hangs in I/O */

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
	char *const environment[] = { NULL }; /* there are secrets in ours */
	posix_spawn_file_actions_t files;
	int rc = posix_spawn_file_actions_init(&files);

	if (rc)
		return error_set(err, rc, "parser: %s", strerror(rc));
	rc = posix_spawn_file_actions_adddup2(&files, sock, PARSER_FD);
	if (rc == 0)
		rc = posix_spawn(&p->pid, p->program, &files, NULL, argv,
				 environment);
	(void)posix_spawn_file_actions_destroy(&files);
	if (rc)
		return error_set(err, rc, "run the parser '%s': %s", p->program,
				 strerror(rc));
	p->pidfd = pidfd_open(p->pid, 0);
	return 0;
}

static int start(struct parser *p, struct error *err)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "parser: %s", strerror(errno));
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

/* A process that hangs in the kernel cannot be waited for: it is left to it. */
static void stop(struct parser *p)
{
	struct pollfd gone = { .fd = p->pidfd, .events = POLLIN };

	if (p->sock >= 0)
		(void)close(p->sock);
	p->sock = -1;
	/* It ends with its socket, unless somebody stopped it. */
	if (p->pid > 0) {
		(void)kill(p->pid, SIGKILL);
		if (p->pidfd >= 0)
			(void)poll(&gone, 1, KILL_MS);
		(void)waitpid(p->pid, NULL, p->pidfd >= 0 ? WNOHANG : 0);
	}
	if (p->pidfd >= 0)
		(void)close(p->pidfd);
	p->pidfd = -1;
	p->pid = 0;
}

/* Unless somebody did it since `generation` was asked. */
static int run_again(struct parser *p, uint64_t generation, const char *why,
		     struct error *err)
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

/* ------------------------------------------------------------------- asking --- */

/* Never waits: what cannot be queued is behind more jobs than bootseerd has
 * threads, so the parser does not take them. */
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

/* -EPIPE: nobody is there to say anything any more. */
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

/* The job's process by its number, which may be another's when the job has ended.  It
 * has not while somebody holds the other end of `fd`: the parser lets go of it before
 * it lets a number go, and who else has it is the job. */
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

/* Until the parser has named the process, which then may begin.  -EPIPE and
 * -ETIMEDOUT are the parser's, and leave `err` alone. */
static int begin(const struct parser *p, int fd, struct artifact_job *job,
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
		return error_set(err, errno, "pipe: %s", strerror(errno));
	from = pipes[0];
	to = pipes[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	begin_here = pair[0];
	begin_there = pair[1];
	/* Only this end. */
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
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
	/* So that the end of all who could answer is seen. */
	(void)close(steal_fd(&begin_there));
	(void)close(steal_fd(&to));
	rc = begin(p, begin_here, ret, err);
	if (rc == 0)
		ret->reply = steal_fd(&from);
	return rc;
}

int parser_ask(struct parser *p, const struct parser_job *job, int first,
	       int second, struct artifact_job *ret, struct error *err)
{
	struct artifact_job begun = { .in = -1 };
	uint64_t generation = 0;
	int rc;

	rc = ask_once(p, job, first, second, &begun, &generation, err);
	if (rc == -EPIPE || rc == -ETIMEDOUT) {
		rc = run_again(p, generation,
			       rc == -EPIPE ? "ended" : "does not answer", err);
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
	int pid;

	pthread_mutex_lock(&p->lock);
	pid = (int)p->pid;
	pthread_mutex_unlock(&p->lock);
	return pid;
}

struct artifact_parser *parser_of_artifacts(struct parser *p)
{
	return &p->of_artifacts;
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
	parser_init_jobs(p);
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
