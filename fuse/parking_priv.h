// SPDX-License-Identifier: Apache-2.0
/* Where requests wait that came before a restarted process knows what they ask for. */
#ifndef BOOTSEER_FUSE_PARKING_PRIV_H
#define BOOTSEER_FUSE_PARKING_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct parking;

/* session_handler.is_early; NULL: nothing is ever parked. */
typedef bool parking_early_fn(void *owner, uint64_t node, const char *name);

/* Closed at first: nothing is parked. */
struct parking *parking_new(parking_early_fn *is_early, void *owner) MUST_CHECK;
void parking_free(struct parking *p);
void parking_open(struct parking *p);

/*
 * Park a copy of the request, of `len` bytes and a NUL after them, if it came too
 * early.  False: process it now.
 */
bool parking_take(struct parking *p, const char *request, size_t len);

/*
 * Hand the requests that are no more too early to `process`, in the order they came;
 * `all`: the others too, and close.
 */
void parking_release(struct parking *p, bool all,
		     void (*process)(void *arg, void *request, size_t len),
		     void *arg);

#endif
