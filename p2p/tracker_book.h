// SPDX-License-Identifier: Apache-2.0
/*
 * Leases, inside of the tracker: tracker_book.c keeps them, tracker_leases.c gives
 * them, tracker_window.c learns from how they end.
 */
#ifndef BOOTSEER_P2P_TRACKER_BOOK_H
#define BOOTSEER_P2P_TRACKER_BOOK_H

#include "common/bytes.h"
#include "p2p/tracker_priv.h"

#define MS ((int64_t)1000000)
#define SHARE_MIN (MIB / 4) /* of the window, for one node */
#define READERS_USUAL 16u   /* at the origin at a time */
#define SLOWER 4 /* late is who needs so many times as long as the others */

static inline int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Nothing where it is there already.  -ENOMEM, -ENOSPC. */
int book_init(struct tracker *t, struct image *i, struct error *err) MUST_CHECK;
/* Room for more leases.  -ENOMEM, -ENOSPC. */
int book_grow(struct tracker *t, struct image *i, struct error *err) MUST_CHECK;
/* Its `ends` is set: put it among the others. */
void book_sort(struct book *b, uint32_t at);
/* This member's lease of the piece, or NONE. */
uint32_t book_find(const struct image *i, uint32_t piece, uint32_t slot);
/* The lease is over. */
void book_end(struct tracker *t, struct image *i, uint32_t at);

/* tracker_window.c: bytes that a member reads soon; little while that is not known. */
uint64_t member_reads_soon(const struct member *m);
/* Of so much that is leased to it, what the origin is busy with. */
uint64_t member_keeps_busy(const struct member *m, uint64_t leased);
/* After what it is leased, or how long it needs, has changed. */
void window_count(struct image *i, struct member *m);

/* Who read this piece and is still there. */
struct member *piece_reader(const struct tracker *t, const struct piece *p);
/* Nobody has read it. */
void piece_forget(const struct tracker *t, struct image *i, struct piece *p);

#endif
