// SPDX-License-Identifier: Apache-2.0
/*
 * Parts of a job that run in parallel before its program starts.  A part is a sequence of
 * commands, with alternative commands for when one fails.
 */
#ifndef BOOTSEER_CLI_JOB_PARTS_H
#define BOOTSEER_CLI_JOB_PARTS_H

#include "cli/job_say.h"
#include "cli/job_words.h"

#define JOB_PARTS_MAX \
	(JOB_CKPTS_MAX + 2) /* checkpoints, the image and the environment */
#define JOB_STEPS_MAX 64u

struct job_way {
	struct job_words steps[JOB_STEPS_MAX];
	size_t n;
};

struct job_part {
	const char *stage; /* the stage's name in the profiler */
	char what[128];    /* name of the part in messages */
	struct job_way way,
		otherwise;    /* commands if `way` fails; no steps: none */
	const char *ordinary; /* what `otherwise` does, for messages */
	bool is_open;         /* the commands' output goes to the user */
	bool is_ahead; /* not waited for, and may fail; goes on in `group` */
	/* How the part went. */
	bool is_done, is_ordinary;
	bool is_cut; /* a signal to the job ended the command that ran */
	int status;  /* exit status of the last command that failed; 0: none */
	char why[ERROR_MSG_MAX];
	/* State of the running command. */
	size_t at;
	pid_t pid;
	/* Process group of the last command, which is not reaped: else the number could belong to
	 * a strange process when the group is killed. */
	pid_t group;
	int pidfd, said;
	int reader; /* pidfd of the process that the command left; 0: none */
};

/* Add a step to a way and return its words; NULL: too many steps. */
struct job_words *job_way_step(struct job_way *w);

/* Run all parts to their ends, except those with is_ahead.  `stops`: the first failure ends all.
 * -EINTR: the signal *ret_signal was read from `signal_fd`, and no command runs any more. */
int job_parts_run(struct job_part *parts, size_t n, struct job_say *s,
		  int signal_fd, bool stops, int *ret_signal,
		  struct error *err) MUST_CHECK;
/* Kill what is left of the last command's group; wait at most ten seconds until its background
 * process has closed its files. */
void job_part_end_group(struct job_part *p);
void job_part_fini(struct job_part *p);

#endif
