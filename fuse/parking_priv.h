// SPDX-License-Identifier: Apache-2.0
/* Holds requests that arrive before a restarted process knows the nodes that they name. */
#ifndef BOOTSEER_FUSE_PARKING_PRIV_H
#define BOOTSEER_FUSE_PARKING_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct parking;

/* See session_handler.is_early; NULL: no request is parked. */
typedef bool parking_early_fn(void *owner, uint64_t node, const char *name);

/* Make a parking, which is closed at first: it parks nothing until parking_open(). */
struct parking *parking_new(parking_early_fn *is_early, void *owner) MUST_CHECK;
void parking_free(struct parking *p);
void parking_open(struct parking *p);

/*
 * Park a copy of the request (`len` bytes and a NUL) if it must wait. False: process it now.
 */
bool parking_take(struct parking *p, const char *request, size_t len);

/*
 * Pass the requests that need not wait any more to `process`, in the order of arrival; `all`:
 * pass all, and close.
 */
void parking_release(struct parking *p, bool all,
		     void (*process)(void *arg, void *request, size_t len),
		     void *arg);

#endif
