// SPDX-License-Identifier: Apache-2.0
#include "cli/job_say.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/job_words.h"

/* longest wait for the sender after the program has ended */
#define SEND_END_MS 5000

static void start_sender(struct job_say *s, const char *self)
{
	const struct job_stages *st = &s->file->stages;
	struct job_words w = { .v = NULL };
	AUTO_CLOSE int in = -1;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	in = ends[0];
	/* Never block on the pipe, in case the service hangs. */
	(void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
	job_words_add(&w, "%s", self);
	job_words_add(&w, "stage");
	job_words_add(&w, "send");
	job_words_add(&w, "--service=%s", st->service);
	if (st->token_file)
		job_words_add(&w, "--token-file=%s", st->token_file);
	if (st->ca_file)
		job_words_add(&w, "--ca-file=%s", st->ca_file);
	job_words_add(&w, "--job=%s", s->file->name);
	job_words_add(&w, "-");
	if (!w.is_short &&
	    child_start_with(w.v, in, STDERR_FILENO, STDERR_FILENO, &s->sender,
			     NULL) == 0)
		s->sender_fd = ends[1];
	else
		(void)close(ends[1]);
	job_words_fini(&w);
}

void job_say_begin(struct job_say *s, const struct job_file *f,
		   const char *self)
{
	char name[40];

	*s = (struct job_say){ .file = f, .sender_fd = -1 };
	if (!f->stages.is_there)
		return;
	(void)snprintf(name, sizeof(name), "job-%d", (int)getpid());
	if (f->stages.service)
		start_sender(s, self);
	else if (stage_emitter_new(getenv("BOOTSEER_EVENTS")
					   ? getenv("BOOTSEER_EVENTS")
					   : STAGE_EMIT_DIR,
				   name, &s->emitter, NULL) < 0)
		s->emitter = NULL;
}

void job_say(struct job_say *s, const char *stage, enum stage_ev ev,
	     int64_t status)
{
	AUTO_BUF line = BUF_INIT;
	struct stage_event e;

	if (!s->file || !s->file->stages.is_there)
		return;
	stage_make(stage, ev, 0, &e);
	stage_own_by_env(&e);
	e.job = stage_text(s->file->name);
	e.node = stage_text(stage_this_node());
	/* No rank: ranks are those of the program's processes, several on a node. */
	e.rank = STAGE_NONE;
	if (ev == STAGE_END)
		e.status = status;
	if (s->emitter)
		(void)!stage_emit(s->emitter, &e);
	else if (stage_event_format(&e, &line) == 0)
		(void)!write(s->sender_fd >= 0 ? s->sender_fd : STDERR_FILENO,
			     line.data, line.len);
}

void job_say_end(struct job_say *s)
{
	stage_emitter_free(s->emitter);
	s->emitter = NULL;
	if (s->sender_fd < 0)
		return;
	(void)close(s->sender_fd);
	s->sender_fd = -1;
	struct pollfd p = {
		.fd = (int)syscall(SYS_pidfd_open, s->sender, 0),
		.events = POLLIN,
	};

	if (p.fd < 0 || poll(&p, 1, SEND_END_MS) != 1)
		(void)kill(-s->sender, SIGKILL);
	fd_close(p.fd);
	(void)waitpid(s->sender, NULL, 0);
}
