// SPDX-License-Identifier: Apache-2.0
/* A process in another mount namespace, in which environments are mounted for it. */
#ifndef BOOTSEER_ENVCACHE_ENTER_H
#define BOOTSEER_ENVCACHE_ENTER_H

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

struct env_asker;

/* Open the folder `path` as the asker sees it and with its rights; the asker must be allowed to
 * write to it.  No link is followed, and nothing leads out of the asker's root. */
int asker_open_target(const struct env_asker *a, const char *path, int *ret,
		      struct error *err) MUST_CHECK;
/* Open the asker's mount table. */
int asker_mounts(const struct env_asker *a, FILE **ret,
		 struct error *err) MUST_CHECK;

struct asker_overlay {
	const char *source; /* name in the mount table */
	const char *base;   /* empty folder of ours, for the target's mount */
	const char *upper, *work;
	int snapshot; /* O_PATH */
	int target;   /* descriptor from asker_open_target() */
	bool is_noexec;
};
/* Mount the overlay at the target in the asker's namespace, nosuid and nodev. */
int asker_mount(struct env_asker *a, const struct asker_overlay *o,
		struct error *err) MUST_CHECK;

#endif
