// SPDX-License-Identifier: Apache-2.0
#include "cli/container.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"

#define LINE_MAX_BYTES 65536u /* longer lines are matched in parts */
#define LOOK_MS 20            /* pause between checks for the ready file */
#define RUNC_TIMEOUT_MS 30000
#define KILL_TIMEOUT_MS 10000

/* An output stream (stdout or stderr) of the container. */
struct output_stream {
	int in, to;
	struct buf line; /* the unfinished line */
};

struct container {
	struct container_config cfg;
	char *root, *pid_file; /* runc's state folder and pid file */
	regex_t line;
	bool has_line;
	struct output_stream streams[2];
	pid_t pid; /* process number of runc; 0: not started */
	int pidfd;
	int init_fd; /* the container's first process, or -1 */
	int root_fd; /* the container's own root, or -1 */
	bool ready, ended;
	int status;
};

/* -------------------------------------------------------------------- start --- */

static int open_streams(struct container *c, int ret_ends[2], struct error *err)
{
	for (size_t i = 0; i < 2; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return error_errno(err, errno, "pipe");
		c->streams[i].in = ends[0];
		c->streams[i].to = (int)i + 1;
		c->streams[i].line.limit = LINE_MAX_BYTES;
		ret_ends[i] = ends[1];
		if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
			return error_errno(err, errno, "pipe");
	}
	return 0;
}

static int start_runc(struct container *c, struct error *err)
{
	char *argv[] = { (char[]){ "runc" },
			 (char[]){ "--root" },
			 c->root,
			 (char[]){ "run" },
			 (char[]){ "--bundle" },
			 (char *)(uintptr_t)c->cfg.dir,
			 (char[]){ "--pid-file" },
			 c->pid_file,
			 (char *)(uintptr_t)c->cfg.id,
			 NULL };
	int ends[2] = { -1, -1 };
	int rc = open_streams(c, ends, err);

	if (rc == 0)
		rc = child_start(argv, ends[0], ends[1], &c->pid, err);
	for (size_t i = 0; i < 2; i++)
		fd_close(ends[i]);
	if (rc < 0) {
		c->pid = 0;
		return rc;
	}
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pidfd < 0 ? error_errno(err, errno, "pidfd") : 0;
}

static int compile_line(const char *line, regex_t *ret, struct error *err)
{
	char why[128];
	int rc = regcomp(ret, line, REG_EXTENDED | REG_NOSUB);

	if (rc == 0)
		return 0;
	(void)regerror(rc, ret, why, sizeof(why));
	return error_set(err, EINVAL, "--ready-line '%s': %s", line, why);
}

int container_line_check(const char *line, struct error *err)
{
	regex_t compiled;
	int rc = compile_line(line, &compiled, err);

	if (rc == 0)
		regfree(&compiled);
	return rc;
}

int container_start(const struct container_config *cfg, struct container **ret,
		    struct error *err)
{
	struct container *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (!c)
		return error_nomem(err);
	c->cfg = *cfg;
	c->pidfd = c->init_fd = c->root_fd = -1;
	c->streams[0].in = c->streams[1].in = -1;
	if (asprintf(&c->root, "%s/runc", cfg->dir) < 0)
		c->root = NULL;
	if (asprintf(&c->pid_file, "%s/pid", cfg->dir) < 0)
		c->pid_file = NULL;
	if (!c->root || !c->pid_file)
		rc = error_nomem(err);
	if (rc == 0 && cfg->ready_line) {
		rc = compile_line(cfg->ready_line, &c->line, err);
		c->has_line = rc == 0;
	}
	if (rc == 0)
		rc = start_runc(c, err);
	if (rc < 0) {
		container_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

/* --------------------------------------------------------------------- ready --- */

/* Does the ready file exist?  Looked up in the container's own root, so that its mounts count and
 * no symbolic link leads out. */
static bool has_ready_file(struct container *c)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;
	AUTO_BUF pid = BUF_INIT;

	if (c->root_fd < 0) {
		if (fs_read_file(c->pid_file, 32, &pid, NULL) < 0 || !pid.len)
			return false;
		if (asprintf(&path, "/proc/%.20s/root", pid.data) < 0) {
			path = NULL;
			return false;
		}
		c->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (c->root_fd < 0)
		return false;
	fd = fs_openat2(c->root_fd, c->cfg.ready_file, O_PATH, RESOLVE_IN_ROOT);
	return fd >= 0;
}

static void match_ready_line(struct container *c, struct output_stream *s,
			     const char *data, size_t len)
{
	while (len && c->has_line && !c->ready) {
		const char *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) : len;

		/* Bytes that do not fit are matched as another line. */
		if (n > LINE_MAX_BYTES - s->line.len)
			n = LINE_MAX_BYTES - s->line.len;
		if (buf_append(&s->line, data, n) < 0)
			return;
		if (n < len || s->line.len == LINE_MAX_BYTES) {
			c->ready =
				s->line.len && regexec(&c->line, s->line.data,
						       0, NULL, 0) == 0;
			buf_reset(&s->line);
			n += n < len && data[n] == '\n';
		}
		data += n;
		len -= n;
	}
}

/* Copy available output to ours; false at its end. */
static bool copy_output(struct container *c, struct output_stream *s)
{
	char data[65536];
	ssize_t n = read(s->in, data, sizeof(data));

	if (n > 0) {
		/* An error of our own output must not stop the container's start. */
		(void)!fs_write_full(s->to, data, (size_t)n);
		match_ready_line(c, s, data, (size_t)n);
		return true;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void copy_all_output(struct container *c)
{
	for (size_t i = 0; i < 2; i++) {
		struct output_stream *s = &c->streams[i];

		while (s->in >= 0) {
			struct pollfd p = { .fd = s->in, .events = POLLIN };

			if (poll(&p, 1, 0) <= 0)
				break;
			if (!copy_output(c, s))
				(void)close(steal_fd(&s->in));
		}
	}
}

static void reap_runc(struct container *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->ended = true;
	c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					: WEXITSTATUS(status);
}

/* ---------------------------------------------------------------------- wait --- */

/* Open the first process of the container, to be able to kill it if runc's state is lost. */
static void open_init_process(struct container *c)
{
	AUTO_BUF pid = BUF_INIT;

	if (c->init_fd < 0 && !c->ended &&
	    fs_read_file(c->pid_file, 32, &pid, NULL) == 0 && pid.len)
		c->init_fd = (int)syscall(SYS_pidfd_open, atoi(pid.data), 0);
}

/* Wait until something happens; true when there is an event to return. */
static bool wait_round(struct container *c, int64_t until_ns,
		       enum container_event *ret)
{
	struct pollfd p[] = {
		{ .fd = c->streams[0].in, .events = POLLIN },
		{ .fd = c->streams[1].in, .events = POLLIN },
		{ .fd = c->pidfd, .events = POLLIN },
		{ .fd = c->cfg.signal_fd, .events = POLLIN },
	};
	int64_t left_ms = (until_ns - clock_now_ns() + 999999) / 1000000;

	if (c->cfg.ready_file && left_ms > LOOK_MS)
		left_ms = LOOK_MS;
	if (left_ms > INT32_MAX)
		left_ms = INT32_MAX;
	(void)poll(p, ARRAY_SIZE(p), left_ms > 0 ? (int)left_ms : 0);
	for (size_t i = 0; i < 2; i++)
		if (p[i].revents && !copy_output(c, &c->streams[i]))
			(void)close(steal_fd(&c->streams[i].in));
	if (p[2].revents) {
		copy_all_output(c);
		reap_runc(c);
	}
	open_init_process(c);
	if (c->ready || (c->cfg.ready_file && has_ready_file(c)))
		*ret = CONTAINER_READY;
	else if (c->ended)
		*ret = CONTAINER_ENDED;
	else if (p[3].revents)
		*ret = CONTAINER_SIGNAL;
	else if (clock_now_ns() >= until_ns)
		*ret = CONTAINER_LATE;
	else
		return false;
	return true;
}

int container_wait(struct container *c, int64_t until_ns,
		   enum container_event *ret, struct error *err)
{
	if (c->ended)
		return error_set(err, ESRCH, "the container has ended");
	while (!wait_round(c, until_ns, ret))
		;
	return 0;
}

int container_status(const struct container *c)
{
	return c->status;
}

/* ----------------------------------------------------------------------- end --- */

static void call_runc(struct container *c, const char *verb, const char *last)
{
	char *argv[] = { (char[]){ "runc" },
			 (char[]){ "--root" },
			 c->root,
			 (char *)(uintptr_t)verb,
			 (char *)(uintptr_t)c->cfg.id,
			 (char *)(uintptr_t)last,
			 NULL };
	AUTO_BUF text = { .limit = 4096 };
	struct error err = ERROR_INIT;
	int status;

	/* The container may be gone already; the caller checks whether it still runs. */
	(void)!child_capture(argv, RUNC_TIMEOUT_MS, &text, &status, &err);
}

static void kill_and_wait(struct container *c)
{
	int64_t until = clock_now_ns() + (int64_t)KILL_TIMEOUT_MS * 1000000;

	open_init_process(c);
	if (c->init_fd < 0 ||
	    syscall(SYS_pidfd_send_signal, c->init_fd, SIGKILL, NULL, 0) < 0)
		call_runc(c, "kill", "KILL");
	while (!c->ended && clock_now_ns() < until) {
		enum container_event e;

		c->cfg.signal_fd = -1; /* the container is being ended anyway */
		c->cfg.ready_file = NULL;
		c->ready = false;
		(void)wait_round(c, until, &e);
	}
	if (!c->ended) {
		(void)kill(c->pid, SIGKILL);
		reap_runc(c);
	}
}

void container_free(struct container *c)
{
	if (!c)
		return;
	if (c->pid && !c->ended)
		kill_and_wait(c);
	/* The last argument is a flag; runc accepts flags after the id. */
	if (c->pid)
		call_runc(c, "delete", "--force");
	for (size_t i = 0; i < 2; i++) {
		fd_close(c->streams[i].in);
		buf_fini(&c->streams[i].line);
	}
	fd_close(c->pidfd);
	fd_close(c->init_fd);
	fd_close(c->root_fd);
	if (c->has_line)
		regfree(&c->line);
	free(c->root);
	free(c->pid_file);
	free(c);
}
