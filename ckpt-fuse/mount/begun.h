// SPDX-License-Identifier: Apache-2.0
/*
 * Changes of names that were begun and not answered yet.  The kernel sends such a request
 * again when the process is killed, by the number that it had, and the change may have been
 * done.  They are in memory that outlives the process: docs/decisions/0021-done-twice.md.
 * Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_BEGUN_H
#define BOOTSEER_CKPT_FUSE_MOUNT_BEGUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct begun;

/* `fd` is borrowed until begun_free(), and has what a predecessor wrote; -1: a successor
 * knows of none. */
int begun_new(int fd, struct begun **ret, struct error *err) MUST_CHECK;
void begun_free(struct begun *b);

/* Before the store is asked to change anything, and after what makes the request fail was
 * looked at. */
void begun_add(struct begun *b, uint64_t request);
/* Has a predecessor begun it? */
bool begun_find(struct begun *b, uint64_t request);
/* Note that the request was answered. */
void begun_end(struct begun *b, uint64_t request);

#endif
