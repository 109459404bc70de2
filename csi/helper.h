// SPDX-License-Identifier: Apache-2.0
/*
 * Programs that serve a volume, each in a control group of its own, bootseer/ID, below the root
 * of each hierarchy.  So they outlive this process and its container: a runtime kills only the
 * container's own group.
 */
#ifndef BOOTSEER_CSI_HELPER_H
#define BOOTSEER_CSI_HELPER_H

#include <stdint.h>

#include "common/error.h"

struct helper_job {
	const char *id;    /* volume id of TARGET_ID_MAX bytes */
	char *const *argv; /* argv[0] is a path */
	char *const *env;
	uint64_t
		memory; /* bytes of the group, where it can be bound; 0: as it is */
	const char *
		log; /* file that gets what it says; its last line is the reason */
};

/* Run the program until it ends, or this process does; processes that it leaves running stay.
 * -EIO: it failed, with the reason; -ETIMEDOUT: it took longer, and its whole group was killed. */
int helper_run(const struct helper_job *job, int64_t timeout_ms,
	       struct error *err) MUST_CHECK;

/* Start the program, and wait until its output has a line that begins with `ready`. */
int helper_start(const struct helper_job *job, const char *ready,
		 int64_t timeout_ms, struct error *err) MUST_CHECK;

/* Kill all processes of the group, wait until they have ended, and remove the group. */
int helper_kill(const char *id, struct error *err) MUST_CHECK;

#endif
