// SPDX-License-Identifier: Apache-2.0
/*
 * Whether the holder (--hold), which keeps the descriptors of mounts and starts
 * bootseerd again, is still there.  On the loop's thread.
 */
#ifndef BOOTSEER_NODE_HOLDER_H
#define BOOTSEER_NODE_HOLDER_H

#include "net/loop.h"
#include "snapshotter/node/control/node.h"

/* environment variable that --hold sets for bootseerd to the holder's own PID */
#define HOLDER_ENV "BOOTSEER_HELD"

struct holder_watch {
	struct node *node; /* its `holder_gone` is set when the holder ends */
	struct loop_watch watch;
	int pidfd; /* -1: no holder, or it is gone */
};

/* Log an error, and note it for `node doctor`, as soon as the holder ends. */
int holder_watch_start(struct holder_watch *h, struct loop *l, struct node *n,
		       struct error *err) MUST_CHECK;
void holder_watch_stop(struct holder_watch *h); /* also for one not started */

#define HOLDER_CURE \
	"run it by systemd with FileDescriptorStoreMax=, or restart it with " \
	"--hold once no container needs its lazy images: readers of those " \
	"fail when this bootseerd ends"

#endif
