// SPDX-License-Identifier: Apache-2.0
/*
 * A ring of recently received pieces in their stored (compressed) form, in one unnamed file, so
 * that they can be passed on as they came. Any thread.
 *
 * A place is never overwritten while it is being sent. Its old pages may still be in a socket's
 * queue when it is used again; so the place is punched first, and new bytes get new pages.
 */
#ifndef BOOTSEER_P2P_ENGINE_RELAY_H
#define BOOTSEER_P2P_ENGINE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct relay;

/* Use at most `bytes` in the folder `dir`. -EOPNOTSUPP: its file system cannot punch holes. */
int relay_open(const char *dir, uint64_t bytes, struct relay **ret,
	       struct error *err) MUST_CHECK;
void relay_free(struct relay *r); /* NULL is allowed */
DEFINE_AUTO(relay)

/* Store a piece, replacing the oldest. -EEXIST: it is stored already; -ENOSPC: all old pieces
 * are being sent; or an error of the write. */
int relay_put(struct relay *r, uint64_t image, uint32_t piece, const void *data,
	      uint32_t len) MUST_CHECK;

struct relay_extent;
struct relay_ref {
	int fd; /* the relay's file */
	uint64_t off;
	uint32_t len;
	struct relay_extent *extent;
};
/* Find a piece; it stays in place until relay_done(). */
bool relay_get(struct relay *r, uint64_t image, uint32_t piece,
	       struct relay_ref *ret);
void relay_done(struct relay *r, const struct relay_ref *ref);

/* Bytes of stored pieces. */
uint64_t relay_used(struct relay *r);

#endif
