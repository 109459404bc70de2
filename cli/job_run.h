// SPDX-License-Identifier: Apache-2.0
/* Plans of `bootseer job run`, which are shown or carried out. */
#ifndef BOOTSEER_CLI_JOB_RUN_H
#define BOOTSEER_CLI_JOB_RUN_H

#include "cli/job_container.h"
#include "cli/job_parts.h"

struct job_plan {
	const struct job_file *file;
	const char *self;
	char *const *command;
	struct job_part parts[JOB_PARTS_MAX];
	size_t n;
	struct job_part *image; /* of `parts`, or NULL */
	/* The mount of each checkpoint; NULL: it is mounted already, and stays. */
	struct job_part *mounts[JOB_CKPTS_MAX];
	int go[2]; /* a pipe that readers of checkpoints wait at; 0: none */
};

/* All that will be done; nothing of it is done yet. */
int job_plan_make(struct job_plan *p, struct error *err) MUST_CHECK;
/* The container is there: from now on checkpoints are read ahead. */
void job_plan_let_read(const struct job_plan *p);
void job_plan_fini(struct job_plan *p);
/* Asked of the kernel. */
bool job_plan_is_mounted(const struct job_ckpt *c);

/* Print the plan for people; `explains`: with what of it would be reused. */
int job_plan_print(const struct job_plan *p, bool explains,
		   struct error *err) MUST_CHECK;

#endif
