// SPDX-License-Identifier: Apache-2.0
/*
 * The stored form of pieces that came lately, so that they are passed on as they
 * came: one file without a name, used as a ring.  Any thread.
 *
 * A place is never written over while somebody sends from it.  What the kernel
 * still has to send of a place that is used again stays as it was: the place is
 * punched first, so that new bytes get pages of their own.
 */
#ifndef BOOTSEER_P2P_ENGINE_RELAY_H
#define BOOTSEER_P2P_ENGINE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct relay;

/* `bytes` at most, in the folder `dir`.  -EOPNOTSUPP: its file system cannot. */
int relay_open(const char *dir, uint64_t bytes, struct relay **ret,
	       struct error *err) MUST_CHECK;
void relay_free(struct relay *r); /* NULL is allowed */
DEFINE_AUTO(relay)

/* Keep a piece; the oldest leave.  -EEXIST: it is here; -ENOSPC: all that could
 * leave is being sent; or as of a write. */
int relay_put(struct relay *r, uint64_t image, uint32_t piece, const void *data,
	      uint32_t len) MUST_CHECK;

struct relay_extent;
struct relay_ref {
	int fd; /* the relay's */
	uint64_t off;
	uint32_t len;
	struct relay_extent *extent;
};
/* Where a piece is; it stays there until relay_done(). */
bool relay_get(struct relay *r, uint64_t image, uint32_t piece,
	       struct relay_ref *ret);
void relay_done(struct relay *r, const struct relay_ref *ref);

/* Bytes that it keeps. */
uint64_t relay_used(struct relay *r);

#endif
