// SPDX-License-Identifier: Apache-2.0
/* A job's file of a text, read; for tests of what it says and of what is made of it. */
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

/* Variables of launchers, which the machine of the test may have. */
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
