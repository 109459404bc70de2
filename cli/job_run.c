// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer job run`: run the parts that a job's file names in parallel, then its program, as if
 * the program had been started directly.
 */
#include "cli/job_run.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/env_child.h"
#include "common/fs.h"

#define EXIT_OWN 125 /* a failure of ours, as in other container runners */
#define READY_LOOK_MS 100

struct job_run_config {
	bool dry_run, explain;
	struct job_file file; /* read by open() */
};

static const struct option_spec options[] = {
	{ .key = "dry-run",
	  .letter = 'n',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct job_run_config, dry_run),
	  .help = "Print what would be run, and run nothing." },
	{ .key = "explain",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct job_run_config, explain),
	  .help = "The same, with what of it is there already and would be "
		  "used again, asked of the node and the stores." },
	{ .key = NULL },
};

struct job_run {
	struct job_plan plan;
	struct job_say say;
	struct job_container container;
	int signal_fd;
	sigset_t old_mask;
	pid_t ready; /* process that watches the container's start and the
	              * ready file; 0: none */
};

static int take_signals(struct job_run *r, struct error *err)
{
	/* SIGUSR1 and SIGUSR2 also end a program that does not handle them. */
	static const int ends[] = { SIGHUP,  SIGINT,  SIGQUIT,
				    SIGTERM, SIGUSR1, SIGUSR2 };
	sigset_t set;

	env_signals_take();
	(void)sigemptyset(&set);
	/* Leave out ignored signals (nohup): a signalfd would get them all the same. */
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (!env_signal_is_ignored(ends[i]))
			(void)sigaddset(&set, ends[i]);
	(void)sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signal_fd < 0 ? error_errno(err, errno, "signals") : 0;
}

/* ------------------------------------------------------------------- ready file --- */

/* Let the checkpoint's readers start with the container's first process, then wait for the ready
 * file. */
static void watch_start(struct job_run *r)
{
	const char *file = r->plan.file->stages.ready_file;
	char path[PATH_MAX];

	for (;; (void)poll(NULL, 0, READY_LOOK_MS)) {
		pid_t pid =
			r->plan.image ? job_container_pid(&r->container) : 0;

		if (r->plan.image && !pid)
			continue;
		job_plan_let_read(&r->plan);
		if (!file)
			_exit(0);
		if (pid)
			(void)snprintf(path, sizeof(path), "/proc/%d/root%s",
				       (int)pid, file);
		else
			(void)snprintf(path, sizeof(path), "%s", file);
		if (access(path, F_OK) == 0)
			break;
	}
	job_say(&r->say, "train", STAGE_MARK, STAGE_NONE);
	_exit(0);
}

/* A ready file that exists before the start would show nothing, so it is not watched. */
static void start_watch(struct job_run *r)
{
	const char *file = r->plan.file->stages.ready_file;
	pid_t parent = getpid();

	if (!file && !r->plan.image)
		return;
	if (!r->plan.image && access(file, F_OK) == 0) {
		fprintf(stderr,
			"bootseer job run: '%s' is there already: nothing "
			"will tell that the program is ready\n",
			file);
		return;
	}
	r->ready = fork();
	if (r->ready < 0)
		job_plan_let_read(&r->plan);
	if (r->ready != 0)
		return;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	watch_start(r);
}

static void end_watch(struct job_run *r)
{
	if (r->ready <= 0)
		return;
	(void)kill(r->ready, SIGKILL);
	(void)waitpid(r->ready, NULL, 0);
	r->ready = 0;
}

/* ------------------------------------------------------------------------ parts --- */

/* The exit status that a failed part ends the job with; 0: it goes on. */
static int judge_part(const struct job_run *r, const struct job_part *p)
{
	if (!p->status || p->is_ahead)
		return 0;
	/* containerd may have the image from an earlier pull. */
	if (p == r->plan.image && !r->plan.file->stops) {
		fprintf(stderr,
			"bootseer job run: %s: %s: what containerd has of it "
			"is used\n",
			p->what, p->why);
		return 0;
	}
	fprintf(stderr, "bootseer job run: %s: %s: the program is not run\n",
		p->what, p->why);
	/* The set-up command is the job's own, so its status is the job's. */
	return strcmp(p->stage, "env") == 0 ? p->status : EXIT_OWN;
}

/* End the processes that read ahead first: they have files of the mounts open. */
static void end_ahead_readers(struct job_run *r)
{
	for (size_t i = 0; i < r->plan.n; i++)
		job_part_end_group(&r->plan.parts[i]);
}

/* Unmount a checkpoint.  False: some files are not stored. */
static bool unmount_ckpt(const struct job_run *r, const struct job_ckpt *c)
{
	struct job_words w = { .v = NULL };
	int status = 0;
	pid_t pid;

	job_words_add(&w, "%s", r->plan.self);
	job_words_add(&w, "ckpt");
	job_words_add(&w, "umount");
	job_words_add_option(&w, c->options, "--run");
	job_words_add(&w, "%s", c->dir);
	if (w.is_short ||
	    child_start(w.v, STDERR_FILENO, STDERR_FILENO, &pid, NULL) < 0)
		status = -1;
	else
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	job_words_fini(&w);
	return status == 0;
}

/* Was the mount made by the part's first step?  A step that failed by itself made none; an
 * existing mount is then another job's, whose program saves into it. */
static bool is_own_mount(const struct job_part *p, const struct job_ckpt *c)
{
	bool is_made = !p->is_ordinary && p->at > 0;
	bool may_be_made = p->is_cut && (p->status == 0 || p->status > 128);

	return (is_made || may_be_made) && job_plan_is_mounted(c);
}

static bool unmount_ckpts(struct job_run *r)
{
	const struct job_file *f = r->plan.file;
	bool is_good = true;

	end_ahead_readers(r);
	for (size_t i = 0; i < f->n_ckpts; i++) {
		const struct job_part *p = r->plan.mounts[i];

		if (p && is_own_mount(p, &f->ckpts[i]) &&
		    !unmount_ckpt(r, &f->ckpts[i]))
			is_good = false;
	}
	return is_good;
}

/* ---------------------------------------------------------------------- program --- */

/* Did a signal come after the parts were ready?  Then the program is not started. */
static bool was_signalled(const struct job_run *r, int *ret_status)
{
	struct signalfd_siginfo info;

	if (read(r->signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	*ret_status = (int)info.ssi_signo;
	return true;
}

static int run_command_here(struct job_run *r, int *ret_status,
			    struct error *err)
{
	int rc;

	if (was_signalled(r, ret_status))
		return 0;
	start_watch(r);
	rc = env_child_run(r->plan.command, -1, &r->old_mask, ret_status, NULL,
			   err);
	end_watch(r);
	return rc;
}

static int run_container(struct job_run *r, bool is_lazy, int *ret_status,
			 bool *ret_began, struct error *err)
{
	struct job_container *c = &r->container;
	int rc, told = 0;

	*c = (struct job_container){ .file = r->plan.file,
				     .self = r->plan.self,
				     .lock = -1,
				     .signals = -1,
				     .status = -1,
				     .relay = JOB_RELAY_INIT };
	rc = job_container_open(c, is_lazy, r->plan.command, r->say.sender_fd,
				err);
	if (rc == 0 && !was_signalled(r, ret_status)) {
		start_watch(r);
		rc = job_container_run(c, &r->old_mask, ret_status, &told, err);
		end_watch(r);
	}
	*ret_began = job_container_pid(c) > 0;
	/* The signal came when there was no program to handle it. */
	if (rc == 0 && told && (!*ret_began || WIFSIGNALED(*ret_status)))
		*ret_status = told;
	job_container_close(c);
	return rc;
}

/* Run the image by another snapshotter, as the container was not even started with ours. */
static int run_without_lazy_image(struct job_run *r, int *ret_status,
				  struct error *err)
{
	struct job_part *p = r->plan.image;
	bool began;
	int signal = 0, rc;

	fprintf(stderr,
		"bootseer job run: the container did not start (above): %s\n",
		p->ordinary);
	p->is_ordinary = true;
	p->is_done = false;
	p->at = 0;
	rc = job_parts_run(p, 1, &r->say, r->signal_fd, true, &signal, err);
	if (rc == -EINTR) {
		*ret_status = signal;
		return 0;
	}
	return rc < 0 ? rc : run_container(r, false, ret_status, &began, err);
}

static int run_program(struct job_run *r, int *ret_status, struct error *err)
{
	const struct job_part *image = r->plan.image;
	bool began = false, is_lazy;
	int rc;

	if (!image)
		return run_command_here(r, ret_status, err);
	/* If both pulls failed, containerd's image, if any, is from an earlier pull by ours. */
	is_lazy = !image->is_ordinary || image->status;
	rc = run_container(r, is_lazy, ret_status, &began, err);
	if (rc == 0 && *ret_status && !began && is_lazy &&
	    !r->plan.file->stops && !WIFSIGNALED(*ret_status))
		rc = run_without_lazy_image(r, ret_status, err);
	return rc;
}

/* Run the parts and the program; *ret_status is as of wait(2). */
static int run_job(struct job_run *r, int *ret_status, struct error *err)
{
	struct job_plan *p = &r->plan;
	int signal = 0;
	int rc = job_parts_run(p->parts, p->n, &r->say, r->signal_fd,
			       p->file->stops, &signal, err);

	if (rc == -EINTR) {
		*ret_status = signal;
		return 0;
	}
	for (size_t i = 0; rc == 0 && i < p->n; i++) {
		int status = judge_part(r, &p->parts[i]);

		if (status) {
			*ret_status = status << 8;
			return 0;
		}
	}
	return rc < 0 ? rc : run_program(r, ret_status, err);
}

static int make_mount_points(const struct job_file *f, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < f->n_ckpts; i++)
		if (f->ckpts[i].store)
			rc = fs_mkdir_p(f->ckpts[i].dir, 0755, err);
		else if (access(f->ckpts[i].dir, R_OK | X_OK) < 0)
			rc = error_set(err, errno,
				       "checkpoint '%.200s': %s; without a "
				       "'store' in the job's file nothing is "
				       "mounted there",
				       f->ckpts[i].dir, strerror(errno));
	return rc;
}

static int prepare_and_run_job(struct job_run *r, struct error *err)
{
	const struct job_file *f = r->plan.file;
	int status = 0;
	int rc = make_mount_points(f, err);

	if (rc == 0 && f->stages.is_there &&
	    setenv("BOOTSEER_JOB", f->name, 1) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = take_signals(r, err);
	if (rc < 0)
		return rc;
	job_say_begin(&r->say, f, r->plan.self);
	rc = run_job(r, &status, err);
	/* A program that succeeded but whose files are lost counts as failed. */
	if (!unmount_ckpts(r) && rc == 0 && status == 0)
		status = EXIT_OWN << 8;
	job_say_end(&r->say);
	(void)close(r->signal_fd);
	(void)sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
	if (rc == 0)
		env_end_as(status);
	return rc;
}

/* --------------------------------------------------------------------- command --- */

static int open_file(void *config, char **args, struct error *err)
{
	struct job_run_config *c = config;
	int rc = job_file_read(args[0], &c->file, err);

	if (rc == 0 && !c->file.command && !args[1]) {
		job_file_fini(&c->file);
		rc = error_set(err, EINVAL,
			       "which program? say it behind '--', or as "
			       "'command' in %.100s",
			       args[0]);
	}
	return rc;
}

static int run_job_command(const void *config, char **args, struct error *err)
{
	const struct job_run_config *c = config;
	AUTO_FINI(job_file) f = c->file;
	struct job_run r = { .plan = { .file = &f }, .signal_fd = -1 };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int rc;

	/* With "FILE -- COMMAND" the dashes are still among the operands. */
	args += args[1] && strcmp(args[1], "--") == 0 ? 2 : 1;
	r.plan.command = *args ? args : f.command;
	if (n < 0)
		return error_errno(err, errno, "/proc/self/exe");
	self[n] = '\0';
	r.plan.self = self;
	r.container.relay = (struct job_relay)JOB_RELAY_INIT;
	rc = !r.plan.command ? error_set(err, EINVAL, "no word is behind '--'")
			     : job_plan_make(&r.plan, err);
	if (rc == 0)
		rc = c->dry_run || c->explain
			     ? job_plan_print(&r.plan, c->explain, err)
			     : prepare_and_run_job(&r, err);
	job_plan_fini(&r.plan);
	return rc;
}

const struct command job_run_command = {
	.brief = "Run a program with what its job's file says it needs",
	.program = {
		.name = "bootseer job run",
		.usage = "[OPTIONS] FILE [-- COMMAND...]",
		.summary = "Have the image, the environment and the "
			   "checkpoints that FILE names on this node, all at "
			   "once, and run COMMAND, or that of the file, with "
			   "them. It ends as the program does: with its exit "
			   "status, or by its signal; 125: a part that the "
			   "program cannot do without failed.",
		.options = options,
		.examples =
			"  bootseer job run job.toml -- torchrun train.py\n"
			"  bootseer job run --explain job.toml\n",
		.see_also = "ctr(1)",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct job_run_config),
	.is_status = true,
	.failed = EXIT_OWN,
	.open = open_file,
	.run = run_job_command,
};
