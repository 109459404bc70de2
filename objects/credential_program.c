// SPDX-License-Identifier: Apache-2.0
#include "objects/credential_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/process.h"
#include "net/http.h"

#define ANSWER_MAX 65536
#define PROGRAM_TIMEOUT_MS 30000
#define PROGRAM_EXIT_MS 2000 /* time to exit after its answer */

static int read_answer(int fd, struct pace *pace, struct buf *ret,
		       struct error *err)
{
	int64_t end = clock_now_ms() + PROGRAM_TIMEOUT_MS;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - clock_now_ms();
		ssize_t n;

		if (pace_level(pace) == PACE_STOP)
			return error_set(err, ECANCELED, "not wanted any more");
		if (left <= 0)
			return error_set(err, ETIMEDOUT,
					 "no answer for %d seconds",
					 PROGRAM_TIMEOUT_MS / 1000);
		if (poll(&p, 1,
			 left < HTTP_STOP_MS ? (int)left : HTTP_STOP_MS) <= 0)
			continue;
		if (buf_reserve(ret, 4096) < 0 || ret->len > ANSWER_MAX)
			return error_set(err, EFBIG, "the answer is too long");
		n = read(fd, ret->data + ret->len, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read");
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
	}
}

/* Unblock the signals that pool threads block, which the program would inherit; and start it in
 * its own process group, so that process_reap() also kills its children. */
static int init_attributes(posix_spawnattr_t *ret)
{
	sigset_t none;
	int rc = posix_spawnattr_init(ret);

	(void)sigemptyset(&none);
	if (rc)
		return rc;
	(void)posix_spawnattr_setsigmask(ret, &none);
	(void)posix_spawnattr_setpgroup(ret, 0);
	(void)posix_spawnattr_setflags(ret, POSIX_SPAWN_SETSIGMASK |
						    POSIX_SPAWN_SETPGROUP);
	return 0;
}

static int spawn_program(const struct credential_program *p, int in, int out,
			 pid_t *ret, struct error *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	int rc = init_attributes(&how);

	if (rc)
		return error_nomem(err);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	rc = posix_spawnp(ret, p->argv[0], &files, &how, p->argv, p->envp);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&how);
	return rc ? error_errno(err, rc, "start it") : 0;
}

int credential_program_run(const struct credential_program *p,
			   struct buf *answer, int *status, struct error *err)
{
	AUTO_CLOSE int in_r = -1, in_w = -1, out_r = -1, out_w = -1;
	size_t len = strlen(p->input);
	int in[2], out[2], rc;
	pid_t pid = 0;

	if (len > CREDENTIAL_QUESTION_MAX)
		return error_set(err, ENAMETOOLONG, "the name is too long");
	if (pipe2(in, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	in_r = in[0];
	in_w = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	out_r = out[0];
	out_w = out[1];
	rc = spawn_program(p, in_r, out_w, &pid, err);
	if (rc < 0)
		return rc;
	(void)close(steal_fd(&out_w));
	/* The question is shorter than a pipe, so writing cannot block; and as this process
	 * still holds the read end, there is no SIGPIPE if the program is gone. */
	rc = fs_write_full(in_w, p->input, len);
	(void)close(steal_fd(&in_r));
	(void)close(steal_fd(&in_w));
	rc = read_answer(out_r, p->pace, answer, err);
	return process_reap(pid, PROGRAM_EXIT_MS, rc, status, err);
}
