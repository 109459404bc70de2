// SPDX-License-Identifier: Apache-2.0
/* Changes of a command where nobody named a target. */
#ifndef BOOTSEER_ENVCACHE_USUAL_TARGETS_H
#define BOOTSEER_ENVCACHE_USUAL_TARGETS_H

#include "envcache/changes.h"

/* Is it what other nodes may have, as the scan behind the command has it?  -ENOTSUP: what
 * changed may be on a volume; -EPERM: keys, passwords or the name of this machine. */
int usual_targets_check(const struct changes *c, const struct env_scan *after,
			struct error *err) MUST_CHECK;

#endif
