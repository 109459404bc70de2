// SPDX-License-Identifier: Apache-2.0
/* Read a job file from a text; for tests of the file and of plans made from it. */
#ifndef BOOTSEER_TESTS_JOB_TEXT_H
#define BOOTSEER_TESTS_JOB_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job_file.h"

static inline int job_text_read(const char *text, struct job_file *ret,
				struct error *err)
{
	char path[] = "/tmp/job.XXXXXX";
	int fd = mkstemp(path);
	int rc = fd < 0 || write(fd, text, strlen(text)) < 0
			 ? error_set(err, EIO, "no file")
			 : job_file_read(path, ret, err);

	if (fd >= 0) {
		(void)close(fd);
		(void)unlink(path);
	}
	return rc;
}

/* Unset variables of launchers, which may be set on the machine that runs the test. */
static inline void job_text_forget_launcher(void)
{
	static const char *const names[] = {
		"BOOTSEER_JOB", "BOOTSEER_SERVICE",    "BOOTSEER_RANK",
		"SLURM_NODEID", "GROUP_RANK",          "NODE_RANK",
		"RANK",         "PET_NODE_RANK",       "JOB_COMPLETION_INDEX",
		"JOB_NAME",     "TORCHELASTIC_RUN_ID", "SLURM_JOB_NAME",
		"MASTER_ADDR"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		(void)unsetenv(names[i]);
}

#endif
