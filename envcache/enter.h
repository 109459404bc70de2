// SPDX-License-Identifier: Apache-2.0
/* A process in another mount namespace, for which environments are mounted there. */
#ifndef BOOTSEER_ENVCACHE_ENTER_H
#define BOOTSEER_ENVCACHE_ENTER_H

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

struct env_asker;

/* Open `path`, a folder into which the asker itself may write, as the asker sees it and
 * with its rights.  No link is followed, and nothing leads out of its root. */
int asker_open_target(const struct env_asker *a, const char *path, int *ret,
		      struct error *err) MUST_CHECK;
/* Its table of mounts, from the beginning. */
int asker_mounts(const struct env_asker *a, FILE **ret,
		 struct error *err) MUST_CHECK;

struct asker_overlay {
	const char *source; /* name in the table of mounts */
	const char *
		base; /* an empty folder of ours: the target is attached here */
	const char *upper, *work;
	int snapshot; /* O_PATH */
	int target;   /* from asker_open_target() */
	bool is_noexec;
};
/* Mount the overlay at the target in the asker's namespace, nosuid and nodev. */
int asker_mount(struct env_asker *a, const struct asker_overlay *o,
		struct error *err) MUST_CHECK;

#endif
