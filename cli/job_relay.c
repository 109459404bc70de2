// SPDX-License-Identifier: Apache-2.0
/*
 * Passes on the output of a container's program.  `ctr run` may lose the last output (containerd
 * 1.6 to 2.3 close its pipes with the task), so the program writes to FIFOs that are read here.
 * The relay is in a session without a terminal, so it gets no signals from one; typed input is
 * passed on to it.
 */
#include "cli/job_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "profiler/stage_event.h"

#define READ_SIZE 65536u
/* at most this much fits into a pipe that poll() calls writable */
#define TYPED_SIZE 4096u
#define END_MS 10000

struct relay_stream {
	int in, out;
	char line[STAGE_LINE_MAX]; /* beginning of an unfinished line */
	size_t n;
	bool is_long; /* the line does not fit, so it is no event */
};

/* Pass lines that are stage events to the profiler; other lines are ignored. */
static void find_events(struct relay_stream *s, const char *text, size_t len,
			int events)
{
	for (size_t i = 0; i < len; i++) {
		if (s->n == sizeof(s->line)) {
			s->is_long = true;
			s->n = 0;
		}
		s->line[s->n++] = text[i];
		if (text[i] != '\n')
			continue;
		if (!s->is_long &&
		    memmem(s->line, s->n, STAGE_MARKER, strlen(STAGE_MARKER)))
			(void)!write(events, s->line, s->n);
		s->is_long = false;
		s->n = 0;
	}
}

/* Copy available bytes.  False: the end was reached, or the output has no reader. */
static bool copy_stream(struct relay_stream *s, size_t size, int events)
{
	char text[READ_SIZE];
	ssize_t n = read(s->in, text, size);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	if (events >= 0)
		find_events(s, text, (size_t)n, events);
	return fs_write_full(s->out, text, (size_t)n) == 0;
}

/* Copy input when there is some and the program's pipe has room, so that a program that does not
 * read never delays the output.  In the background the read fails, which ends the input. */
static void copy_typed_input(struct relay_stream *s, struct pollfd *p)
{
	if (p->fd == s->in) {
		*p = (struct pollfd){ .fd = s->out, .events = POLLOUT };
	} else if (copy_stream(s, TYPED_SIZE, -1)) {
		*p = (struct pollfd){ .fd = s->in, .events = POLLIN };
	} else {
		(void)close(s->out);
		p->fd = -1;
	}
}

/* Copy the streams.  When a reader of our output is gone, the FIFO is closed, so that the program
 * notices as with its own pipe. */
static void relay_main(struct relay_stream streams[3], int events)
{
	struct pollfd p[3];

	for (int i = 0; i < 3; i++)
		p[i] = (struct pollfd){ .fd = streams[i].in, .events = POLLIN };
	while (p[0].fd >= 0 || p[1].fd >= 0) {
		if (poll(p, 3, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++) {
			if (p[i].fd < 0 || !p[i].revents ||
			    copy_stream(&streams[i], READ_SIZE, events))
				continue;
			(void)close(p[i].fd);
			p[i].fd = -1;
		}
		if (p[2].fd >= 0 && p[2].revents)
			copy_typed_input(&streams[2], &p[2]);
	}
	_exit(0);
}

/* Make a FIFO; open it for reading, and once for writing, which keeps it open. */
static int open_fifo(const char *dir, const char *name, int *ret_in,
		     int *ret_keep, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, name);

	if (!path)
		return error_nomem(err);
	/* Any user of the container may write; other users cannot enter the folder above. */
	if (mkfifo(path, 0600) < 0 || chmod(path, 0622) < 0)
		return error_errno(err, errno, "make '%s'", path);
	*ret_in = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	*ret_keep = *ret_in < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
	return *ret_keep < 0 ? error_errno(err, errno, "open '%s'", path) : 0;
}

static void ignore_signals(void)
{
	static const int sent[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
				    SIGUSR2, SIGPIPE, SIGTSTP, SIGTTIN };

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
		(void)signal(sent[i], SIG_IGN);
}

static int open_typed(struct relay_stream *ret, int *ret_typed,
		      struct error *err)
{
	int ends[2];

	if (!isatty(STDIN_FILENO))
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	*ret = (struct relay_stream){ .in = STDIN_FILENO, .out = ends[1] };
	*ret_typed = ends[0];
	return 0;
}

int job_relay_start(const char *dir, int events, struct job_relay *ret,
		    struct error *err)
{
	struct relay_stream streams[3] = { { .in = -1, .out = STDOUT_FILENO },
					   { .in = -1, .out = STDERR_FILENO },
					   { .in = -1, .out = -1 } };
	int rc;

	*ret = (struct job_relay)JOB_RELAY_INIT;
	rc = open_fifo(dir, "out", &streams[0].in, &ret->keep[0], err);
	if (rc == 0)
		rc = open_fifo(dir, "err", &streams[1].in, &ret->keep[1], err);
	if (rc == 0)
		rc = open_typed(&streams[2], &ret->typed, err);
	if (rc == 0) {
		ret->pid = fork();
		if (ret->pid == 0) {
			(void)close(ret->keep[0]);
			(void)close(ret->keep[1]);
			fd_close(ret->typed);
			ignore_signals();
			relay_main(streams, events);
		}
		if (ret->pid < 0)
			rc = error_errno(err, errno, "fork");
	}
	for (int i = 0; i < 2; i++)
		fd_close(streams[i].in);
	fd_close(streams[2].out);
	if (rc < 0)
		job_relay_end(ret, false);
	return rc;
}

void job_relay_end(struct job_relay *r, bool has_writer)
{
	struct pollfd p = { .events = POLLIN };

	for (int i = 0; i < 2; i++)
		if (r->keep[i] >= 0)
			(void)close(steal_fd(&r->keep[i]));
	if (r->typed >= 0)
		(void)close(steal_fd(&r->typed));
	if (r->pid <= 0)
		return;
	p.fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	/* Without a surviving writer, only wait for the reader of our output, as the program
	 * itself would. */
	if (has_writer && (p.fd < 0 || poll(&p, 1, END_MS) != 1))
		(void)kill(r->pid, SIGKILL);
	fd_close(p.fd);
	(void)waitpid(r->pid, NULL, 0);
	r->pid = 0;
}
