// SPDX-License-Identifier: Apache-2.0
#include "cli/job_parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/job_file.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

/* bytes kept of a failed command's output, to find its last line */
#define SAID_TAIL 4096
#define TICK_MS 500 /* between two checks of the time */
#define SAY_FIRST_MS 2000
#define SAY_AGAIN_MS 30000
/* a command is killed if it has not ended this long after it was told to */
#define END_MS 10000

struct job_words *job_way_step(struct job_way *w)
{
	return w->n < JOB_STEPS_MAX ? &w->steps[w->n++] : NULL;
}

static void free_way_steps(struct job_way *w)
{
	for (size_t i = 0; i < w->n; i++)
		job_words_fini(&w->steps[i]);
	w->n = 0;
}

void job_part_fini(struct job_part *p)
{
	free_way_steps(&p->way);
	free_way_steps(&p->otherwise);
}

static struct job_way *current_way_of_part(struct job_part *p)
{
	return p->is_ordinary ? &p->otherwise : &p->way;
}

/* ------------------------------------------------------------------------ a step --- */

static int start_step(struct job_part *p, struct error *err)
{
	struct job_words *w = &current_way_of_part(p)->steps[p->at];
	int out = STDERR_FILENO, rc;

	if (w->is_short || !w->v)
		return error_nomem(err);
	if (p->group > 0)
		(void)waitpid(p->group, NULL, 0);
	p->group = 0;
	p->said = p->is_open ? -1 : memfd_create("job", MFD_CLOEXEC);
	if (p->said >= 0)
		out = p->said;
	rc = child_start_tied(w->v, out, out, &p->pid, err);
	if (rc == 0) {
		p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
		if (p->pidfd >= 0) {
			p->group = p->pid;
			return 0;
		}
		rc = error_errno(err, errno, "pidfd");
		(void)kill(-p->pid, SIGKILL);
		(void)waitpid(p->pid, NULL, 0);
		p->pid = 0;
	}
	if (p->said >= 0)
		(void)close(steal_fd(&p->said));
	return rc;
}

/* Keep the last line of the command's output as the reason. */
static void note_last_output_line(struct job_part *p)
{
	char tail[SAID_TAIL + 1];
	off_t end = p->said >= 0 ? lseek(p->said, 0, SEEK_END) : 0;
	size_t n = end > SAID_TAIL ? SAID_TAIL : (size_t)(end > 0 ? end : 0);
	char *line;

	(void)snprintf(p->why, sizeof(p->why), "exit status %d", p->status);
	if (!n || fs_pread_full(p->said, tail, n, (uint64_t)end - n) < 0)
		return;
	while (n && (tail[n - 1] == '\n' || tail[n - 1] == '\r'))
		n--;
	tail[n] = '\0';
	line = memrchr(tail, '\n', n);
	line = line ? line + 1 : tail;
	text_make_printable(line);
	if (*line)
		(void)snprintf(p->why, sizeof(p->why), "%.*s",
			       (int)sizeof(p->why) - 1, line);
}

/* The command may leave a background process in its group and print its number.  Open a pidfd of
 * that process, to wait until it has closed its files: the group's end does not show that. */
static void open_left_reader(struct job_part *p)
{
	char text[32] = "";
	pid_t pid;
	int fd;

	if (p->said < 0 || pread(p->said, text, sizeof(text) - 1, 0) <= 0)
		return;
	pid = (pid_t)strtol(text, NULL, 10);
	if (pid <= 0 || pid == p->group || getpgid(pid) != p->group)
		return;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	p->reader = fd > 0 ? fd : 0;
}

void job_part_end_group(struct job_part *p)
{
	struct pollfd reader = { .fd = p->reader, .events = POLLIN };

	if (p->group > 0) {
		(void)kill(-p->group, SIGKILL);
		(void)waitpid(p->group, NULL, 0);
		p->group = 0;
	}
	if (p->reader) {
		(void)poll(&reader, 1, END_MS);
		(void)close(p->reader);
		p->reader = 0;
	}
}

static void end_step(struct job_part *p)
{
	siginfo_t info = { .si_code = 0 };

	/* Do not reap the command: as a zombie it keeps the number of `group` in use. */
	while (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT) < 0 &&
	       errno == EINTR)
		;
	p->status = info.si_code == CLD_EXITED ? info.si_status
					       : 128 + info.si_status;
	(void)close(steal_fd(&p->pidfd));
	p->pid = 0;
	if (p->status)
		note_last_output_line(p);
	else
		open_left_reader(p);
	if (p->said >= 0)
		(void)close(steal_fd(&p->said));
}

/* ---------------------------------------------------------------------- the parts --- */

/* Start a step; a step that cannot be started counts as failed. */
static void begin_step(struct job_part *p)
{
	struct error err = ERROR_INIT;

	if (start_step(p, &err) == 0)
		return;
	p->pidfd = -1;
	p->status = err.code == ENOENT ? 127 : 126;
	(void)snprintf(p->why, sizeof(p->why), "%s", err.msg);
}

/* After a step: start the next one, or after a failure the alternative steps, or end the part. */
static void begin_next_step(struct job_part *p, struct job_say *s, bool stops)
{
	for (;;) {
		if (p->status == 0 && ++p->at < current_way_of_part(p)->n) {
			begin_step(p);
		} else if (p->status && !p->is_ordinary && p->otherwise.n &&
			   !stops) {
			fprintf(stderr, "bootseer job run: %s: %s: %s\n",
				p->what, p->why, p->ordinary);
			/* The stage ends with the failure and starts again, so that the web page
			 * shows both. */
			job_say(s, p->stage, STAGE_END, p->status);
			job_say(s, p->stage, STAGE_BEGIN, STAGE_NONE);
			p->is_ordinary = true;
			p->at = 0;
			p->status = 0;
			begin_step(p);
		} else {
			p->is_done = true;
			/* A failed prefetch counts as success: at a job's first start there is
			 * nothing to prefetch. */
			job_say(s, p->stage, STAGE_END,
				p->is_ahead ? 0 : p->status);
			return;
		}
		if (p->pidfd >= 0)
			return;
	}
}

static void signal_all_parts(struct job_part *parts, size_t n, int sig)
{
	for (size_t i = 0; i < n; i++)
		if (!parts[i].is_done && parts[i].pid > 0)
			(void)kill(-parts[i].pid, sig);
}

/* Tell all commands to end, and kill those that have not after END_MS. */
static void end_all_parts(struct job_part *parts, size_t n, int sig)
{
	int64_t until = clock_now_ms() + END_MS;

	signal_all_parts(parts, n, sig);
	for (size_t i = 0; i < n; i++) {
		struct pollfd p = { .fd = parts[i].pidfd, .events = POLLIN };
		int64_t left = until - clock_now_ms();

		if (parts[i].is_done || parts[i].pidfd < 0)
			continue;
		if (poll(&p, 1, left > 0 ? (int)left : 0) <= 0)
			(void)kill(-parts[i].pid, SIGKILL);
		end_step(&parts[i]);
		parts[i].is_done = parts[i].is_cut = true;
	}
}

/* Print which parts take long, so that users see what is waited for. */
static void print_slow_parts(const struct job_part *parts, size_t n,
			     int64_t *next_ms)
{
	AUTO_BUF what = BUF_INIT;
	int rc = 0;

	if (clock_now_ms() < *next_ms)
		return;
	*next_ms = clock_now_ms() + SAY_AGAIN_MS;
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!parts[i].is_done && !parts[i].is_ahead)
			rc = buf_printf(&what, "%s%s", what.len ? ", " : "",
					parts[i].what);
	if (rc == 0 && what.len)
		fprintf(stderr, "bootseer job run: waiting for %s\n",
			what.data);
}

static size_t collect_parts(struct job_part *parts, size_t n, int signal_fd,
			    struct pollfd *ret)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct pollfd){ .fd = parts[i].is_done
							? -1
							: parts[i].pidfd,
					  .events = POLLIN };
		left += !parts[i].is_done;
	}
	ret[n] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	return left;
}

static bool is_waited_for(const struct job_part *parts, size_t n)
{
	bool is = false;

	for (size_t i = 0; i < n; i++)
		is = is || (!parts[i].is_done && !parts[i].is_ahead);
	return is;
}

/* Leave the parts running that are not waited for; their groups are killed with the job. */
static void leave_unawaited_parts(struct job_part *parts, size_t n,
				  struct job_say *s)
{
	for (size_t i = 0; i < n; i++) {
		struct job_part *p = &parts[i];

		if (p->is_done)
			continue;
		(void)close(steal_fd(&p->pidfd));
		if (p->said >= 0)
			(void)close(steal_fd(&p->said));
		p->pid = 0;
		p->is_done = true;
		job_say(s, p->stage, STAGE_END, 0);
	}
}

int job_parts_run(struct job_part *parts, size_t n, struct job_say *s,
		  int signal_fd, bool stops, int *ret_signal, struct error *err)
{
	int64_t next_ms = clock_now_ms() + SAY_FIRST_MS;
	struct signalfd_siginfo info;
	struct pollfd p[JOB_PARTS_MAX + 1];

	if (n > JOB_PARTS_MAX)
		return error_set(err, E2BIG, "too many parts");
	for (size_t i = 0; i < n; i++) {
		parts[i].said = parts[i].pidfd = -1;
		job_say(s, parts[i].stage, STAGE_BEGIN, STAGE_NONE);
		begin_step(&parts[i]);
		if (parts[i].pidfd < 0)
			begin_next_step(&parts[i], s, stops);
	}
	while (collect_parts(parts, n, signal_fd, p) > 0 &&
	       is_waited_for(parts, n)) {
		print_slow_parts(parts, n, &next_ms);
		if (poll(p, n + 1, TICK_MS) <= 0)
			continue;
		if (p[n].revents &&
		    read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			*ret_signal = (int)info.ssi_signo;
			end_all_parts(parts, n, *ret_signal);
			return -EINTR;
		}
		for (size_t i = 0; i < n; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			end_step(&parts[i]);
			begin_next_step(&parts[i], s, stops);
		}
	}
	leave_unawaited_parts(parts, n, s);
	return 0;
}
