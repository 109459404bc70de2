// SPDX-License-Identifier: Apache-2.0
/*
 * Parts that a job waits for before its program begins, all at once, each of which is
 * some commands in a row, and others in their place where one of them fails.
 */
#ifndef BOOTSEER_CLI_JOB_PARTS_H
#define BOOTSEER_CLI_JOB_PARTS_H

#include "cli/job_say.h"
#include "cli/job_words.h"

#define JOB_PARTS_MAX \
	(JOB_CKPTS_MAX + 2) /* and the image, and the environment */
#define JOB_STEPS_MAX 64u

struct job_way {
	struct job_words steps[JOB_STEPS_MAX];
	size_t n;
};

struct job_part {
	const char *stage; /* as the profiler has it */
	char what[128];    /* for people */
	struct job_way way,
		otherwise;    /* of the second: no steps, there is none */
	const char *ordinary; /* what `otherwise` does, for people */
	bool is_open;         /* what the commands print is for people */
	bool is_ahead; /* nobody waits for it, or hears of its failure: it goes on
			* in `group` when the others have ended */
	/* Set: how it went. */
	bool is_done, is_ordinary;
	bool is_cut; /* a signal to the job ended the command that ran */
	int status; /* exit status of the command that failed last; 0: none did */
	char why[ERROR_MSG_MAX];
	/* The command that runs. */
	size_t at;
	pid_t pid;
	/* The last command's group, and its number, which is not reaped yet: else the
	 * number could be a stranger's by the time that the group is killed. */
	pid_t group;
	int pidfd, said;
	int reader; /* a descriptor of the process of the group that goes on; 0: none */
};

/* The next words of a way; NULL: there are too many. */
struct job_words *job_way_step(struct job_way *w);

/* Run them to their ends, but for those that are ahead.  -EINTR: `*ret_signal` of `signal_fd`
 * came, and none runs any more; `stops`: nothing is done otherwise. */
int job_parts_run(struct job_part *parts, size_t n, struct job_say *s,
		  int signal_fd, bool stops, int *ret_signal,
		  struct error *err) MUST_CHECK;
/* Kill what is left of the last command's group.  Its reader has no file open any more, unless it
 * takes longer than ten seconds. */
void job_part_end_group(struct job_part *p);
void job_part_fini(struct job_part *p);

#endif
