// SPDX-License-Identifier: Apache-2.0
/* Signals that end a process which has no mount yet: it may wait for its store, long. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_BEGINNING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_BEGINNING_H

#include "common/cleanup.h"
#include "common/error.h"

struct beginning;

/* Until beginning_end() SIGTERM or SIGINT, read from `signals` (a signalfd), ends the process
 * at once, as one that was unmounted, after `before_end(arg)`, which is called on a thread of
 * its own. */
int beginning_start(int signals, void (*before_end)(void *arg), void *arg,
		    struct beginning **ret, struct error *err) MUST_CHECK;
/* What comes from now on is the caller's to read.  NULL is allowed. */
void beginning_end(struct beginning *b);

#endif
