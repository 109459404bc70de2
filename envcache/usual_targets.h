// SPDX-License-Identifier: Apache-2.0
/* Check a command's changes when no target was named. */
#ifndef BOOTSEER_ENVCACHE_USUAL_TARGETS_H
#define BOOTSEER_ENVCACHE_USUAL_TARGETS_H

#include "envcache/changes.h"

/* May other nodes get these changes?  `after` is the scan after the command.  -ENOTSUP: changes
 * may be on a volume; -EPERM: the changes include keys, passwords or this machine's id. */
int usual_targets_check(const struct changes *c, const struct env_scan *after,
			struct error *err) MUST_CHECK;

#endif
