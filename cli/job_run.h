// SPDX-License-Identifier: Apache-2.0
/* The plan of `bootseer job run`, which is either printed or carried out. */
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
	struct job_part *image; /* element of `parts`, or NULL */
	/* The mount of each checkpoint; NULL: mounted already, not unmounted at the end. */
	struct job_part *mounts[JOB_CKPTS_MAX];
	int go[2]; /* pipe that readers of checkpoints wait at; 0: none */
};

/* Make the plan of all steps; nothing is started. */
int job_plan_make(struct job_plan *p, struct error *err) MUST_CHECK;
/* Let the readers of checkpoints start, as the container is running. */
void job_plan_let_read(const struct job_plan *p);
void job_plan_fini(struct job_plan *p);
/* Is the checkpoint's folder a mount point now? */
bool job_plan_is_mounted(const struct job_ckpt *c);

/* Print the plan; `explains`: also print what would be reused. */
int job_plan_print(const struct job_plan *p, bool explains,
		   struct error *err) MUST_CHECK;

#endif
