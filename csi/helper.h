// SPDX-License-Identifier: Apache-2.0
/*
 * Programs that serve a volume: in a control group of their own, bootseer/ID, below the root
 * of each hierarchy.  They outlive this process, and the container that it runs in, whose
 * runtime ends what is in the container's group.
 */
#ifndef BOOTSEER_CSI_HELPER_H
#define BOOTSEER_CSI_HELPER_H

#include <stdint.h>

#include "common/error.h"

struct helper_job {
	const char *id;    /* of the volume: TARGET_ID_MAX */
	char *const *argv; /* argv[0] is a path */
	char *const *env;
	uint64_t
		memory; /* bytes of the group, where it can be bound; 0: as it is */
	const char *
		log; /* file that gets what it says; its last line is the reason */
};

/* Run it to its end, or to this process's; what it leaves running stays.  -EIO: it failed, and
 * why; -ETIMEDOUT: it took longer, and all of the group was killed. */
int helper_run(const struct helper_job *job, int64_t timeout_ms,
	       struct error *err) MUST_CHECK;

/* Start it, and wait until it says a line that begins with `ready`. */
int helper_start(const struct helper_job *job, const char *ready,
		 int64_t timeout_ms, struct error *err) MUST_CHECK;

/* Kill what is in the group, wait until it has ended, and remove the group. */
int helper_kill(const char *id, struct error *err) MUST_CHECK;

#endif
