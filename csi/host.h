// SPDX-License-Identifier: Apache-2.0
/* The way from a pod to its node. */
#ifndef BOOTSEER_CSI_HOST_H
#define BOOTSEER_CSI_HOST_H

#include "common/error.h"

/* Join the mount, network and control group namespaces of process 1.  Before this process
 * has threads.  -EINVAL: it is in them already. */
int host_enter(struct error *err) MUST_CHECK;

#endif
