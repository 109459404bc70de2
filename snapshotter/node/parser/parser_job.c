// SPDX-License-Identifier: Apache-2.0
/*
 * The parser's side.  Its process parses nothing itself: it forks for each job, so that an
 * error of one image affects no other.  A job begins when bootseerd has its pidfd, which tells
 * when the process is gone and no longer writes its files; its reply does not prove that
 * (parser.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "common/log.h"
#include "image/erofs/erofs.h"
#include "snapshotter/node/parser/confine.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/parser/parser_priv.h"

/* Bytes for a decoder: zstd limits its window to 128 MiB. */
#define UNPACK_MEMORY (192 * MIB)
/* Bytes that the checker needs besides half of the size that it checks. */
#define CHECK_MEMORY (64 * MIB)

static int unpack_all(int in, struct artifact_unpack *u, struct error *err)
{
	uint8_t from[65536];
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = read(in, from, sizeof(from))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		rc = n < 0 ? error_errno(err, errno, "read")
			   : artifact_unpack_put(u, from, (size_t)n, err);
	}
	return rc < 0 ? rc : artifact_unpack_end(u, err);
}

/* ------------------------------------------------------------------ checking --- */

static int map_fd(int fd, void **ret, size_t *ret_len, struct error *err)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "stat");
	if (st.st_size == 0)
		return error_set(err, EINVAL, "the file is empty");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE,
		 fd, 0);
	if (p == MAP_FAILED)
		return error_errno(err, errno, "map");
	*ret = p;
	*ret_len = (size_t)st.st_size;
	return 0;
}

static int check_file(enum parser_kind kind, int fd, struct error *err)
{
	struct erofs_image image;
	struct blockmap blocks;
	void *data = NULL;
	size_t len = 0;
	int rc = map_fd(fd, &data, &len, err);

	if (rc < 0)
		return rc;
	return kind == PARSER_CHECK_MAP ? blockmap_open(data, len, &blocks, err)
					: erofs_check(data, len, &image, err);
}

/* ---------------------------------------------------------------------- jobs --- */

static int do_unpack(const struct parser_job *job, const int *fds,
		     uint64_t memory, struct error *err)
{
	struct artifact_unpack *u;
	int rc = artifact_unpack_new(fds[PARSER_FD_FIRST], job->size, &u, err);

	if (rc == 0)
		rc = confine_job(memory + UNPACK_MEMORY, job->size, err);
	return rc < 0 ? rc : unpack_all(fds[PARSER_FD_SECOND], u, err);
}

static int do_check(const struct parser_job *job, const int *fds,
		    uint64_t memory, struct error *err)
{
	int rc = confine_job(memory + CHECK_MEMORY + job->size / 2, 0, err);

	return rc < 0 ? rc : check_file(job->kind, fds[PARSER_FD_FIRST], err);
}

void parser_do(const struct parser_job *job, const int fds[PARSER_N_FDS],
	       uint64_t memory)
{
	struct parser_reply r = { .err = ERROR_INIT };
	ssize_t n;

	if (job->kind == PARSER_UNPACK)
		r.rc = do_unpack(job, fds, memory, &r.err);
	else if (job->kind == PARSER_CHECK_META ||
		 job->kind == PARSER_CHECK_MAP)
		r.rc = do_check(job, fds, memory, &r.err);
	else
		r.rc = error_set(&r.err, EINVAL, "no such job");
	n = write(fds[PARSER_FD_REPLY], &r, sizeof(r));
	/* The process's end frees its memory. */
	_exit(n == (ssize_t)sizeof(r) ? 0 : 1);
}

/* --------------------------------------------------------------- the process --- */

/* Receive a job; false when bootseerd's end is closed. */
static bool receive_job(struct parser_job *job, int fds[PARSER_N_FDS],
			bool *ret_whole)
{
	struct iovec iov = { job, sizeof(*job) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * PARSER_N_FDS)];
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	const struct cmsghdr *c;
	ssize_t n = recvmsg(PARSER_FD, &msg, MSG_CMSG_CLOEXEC);

	*ret_whole = false;
	if (n < 0)
		return errno == EINTR;
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return n > 0;
	/* If bootseerd did not send all descriptors, they stay open until this process ends. */
	if (c->cmsg_len == CMSG_LEN(sizeof(int) * PARSER_N_FDS)) {
		memcpy(fds, CMSG_DATA(c), sizeof(int) * PARSER_N_FDS);
		*ret_whole = n == (ssize_t)sizeof(*job);
	}
	return *ret_whole;
}

/* Let the kernel kill a job that takes too much memory before other processes; as a child of
 * bootseerd it would be the last. */
static void prefer_oom_kill(void)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/oom_score_adj", "we");

	if (f)
		(void)fputs("500", f);
}

/* Close descriptors that bootseerd was started with, such as a container's output or a mount's. */
static void close_inherited_fds(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(null, STDOUT_FILENO);
	}
	(void)close_range(PARSER_FD + 1, ~0u, 0);
}

/* Wait for bootseerd's byte before the job's data is touched: bootseerd has opened the job's
 * pidfd then.  False: bootseerd gave up waiting. */
static bool wait_for_begin(int begin)
{
	char go;
	ssize_t n;

	do
		n = read(begin, &go, sizeof(go));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(go);
}

static void run_child(parser_do_fn *fn, const struct parser_job *job,
		      const int *fds, uint64_t memory)
{
	/* With these descriptors the job could forge bootseerd's log, or send jobs. */
	(void)close(PARSER_FD);
	(void)close(STDERR_FILENO);
	if (wait_for_begin(fds[PARSER_FD_BEGIN])) {
		(void)close(fds[PARSER_FD_BEGIN]);
		fn(job, fds, memory);
	}
	_exit(1);
}

/* Tell bootseerd the job's PID, or that fork failed.  A pidfd is not sent: sent descriptors
 * count against a limit shared by all processes of this user, and get lost. */
static void send_job_pid(int begin, pid_t pid)
{
	struct parser_begun said = { .rc = pid < 0 ? -errno : 0, .pid = pid };

	/* Ignore a failure: bootseerd may have given up waiting. */
	(void)!send(begin, &said, sizeof(said), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void parser_on_child(int signo)
{
	int kept = errno;

	(void)signo;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	errno = kept;
}

void parser_serve(parser_do_fn *fn, uint64_t memory)
{
	const struct sigaction reap = { .sa_handler = parser_on_child,
					.sa_flags = SA_RESTART | SA_NOCLDSTOP };
	struct parser_job job;
	int fds[PARSER_N_FDS];
	sigset_t child;
	bool whole;
	pid_t pid;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigaction(SIGCHLD, &reap, NULL);
	while (receive_job(&job, fds, &whole)) {
		if (!whole)
			continue;
		/* Block SIGCHLD: the PID must not be reaped and reused until bootseerd has its
		 * pidfd, which it checks by this process's copies of the descriptors. */
		(void)sigprocmask(SIG_BLOCK, &child, NULL);
		pid = fork();
		if (pid == 0)
			run_child(fn, &job, fds, memory);
		send_job_pid(fds[PARSER_FD_BEGIN], pid);
		for (int k = 0; k < PARSER_N_FDS; k++)
			(void)close(fds[k]);
		(void)sigprocmask(SIG_UNBLOCK, &child, NULL);
	}
}

int parser_main(void)
{
	struct error err = ERROR_INIT;
	bool leads_group = setsid() >= 0;
	uint64_t memory = confine_data_bytes();

	(void)prctl(PR_SET_NAME, "bootseerd-parse", 0, 0, 0);
	close_inherited_fds();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)!chdir("/");
	prefer_oom_kill();
	if (confine_parser(&err) < 0) {
		log_error("parser", "not confined reason=\"%s\"", err.msg);
		return 1;
	}
	parser_serve(parser_do, memory);
	/* bootseerd has ended: kill jobs that sleep, which would stay for ever. */
	if (leads_group)
		(void)kill(0, SIGKILL);
	return 0;
}
