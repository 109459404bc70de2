// SPDX-License-Identifier: Apache-2.0
/* Moves this process from its pod's namespaces to the node's. */
#ifndef BOOTSEER_CSI_HOST_H
#define BOOTSEER_CSI_HOST_H

#include "common/error.h"

/* Join the mount, network and control group namespaces of process 1, before this process has
 * threads.  -EINVAL: it is in them already. */
int host_enter(struct error *err) MUST_CHECK;

#endif
