// SPDX-License-Identifier: Apache-2.0
/*
 * Leases, inside of the tracker: tracker_book.c keeps them, tracker_leases.c gives
 * them, tracker_window.c learns from how they end, tracker_wait.c knows who waits.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_BOOK_H
#define BOOTSEER_P2P_TRACKER_TRACKER_BOOK_H

#include "common/bytes.h"
#include "p2p/tracker/tracker_priv.h"

#define MS ((int64_t)1000000)
#define SHARE_MIN (MIB / 4) /* of the window, for one node */
#define READERS_USUAL 16u   /* at the origin at a time */
/* Members that call again must not drown the tracker: the pause for each of them. */
#define RETRY_PER_MEMBER (MS / 10)
#define SLOWER 4 /* late is who needs so many times as long as the others */

static inline int64_t clamp_ns(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Have room for what is said of these pieces, TRACKER_PIECES_MAX at most, and no more
 * than that: a call costs what it names.  -ENOMEM, -ENOSPC. */
int book_touch(struct tracker *t, struct tracker_image *i,
	       const uint32_t *pieces, size_t n, struct error *err) MUST_CHECK;
/* NULL: nothing was said of it, nor of those beside it. */
struct tracker_piece *book_piece(const struct tracker_image *i, uint32_t piece);
/* Room for more leases.  -ENOMEM, -ENOSPC. */
int book_grow(struct tracker *t, struct tracker_image *i,
	      struct error *err) MUST_CHECK;
/* Its `ends` is set: put it among the others. */
void book_sort(struct book *b, uint32_t at);
/* This member's lease of the piece, or NONE. */
uint32_t book_find(const struct tracker_image *i, uint32_t piece,
		   uint32_t slot);
/* The lease is over. */
void book_end(struct tracker *t, struct tracker_image *i, uint32_t at);

/* Bytes that a member reads soon; little while that is not known. */
uint64_t member_reads_soon(const struct swarm_member *m);
/* The part of `leased` bytes that the origin is busy with. */
uint64_t member_keeps_busy(const struct swarm_member *m, uint64_t leased);
/* After what it is leased, or how long it needs, has changed. */
void book_count(struct tracker_image *i, struct swarm_member *m);

/* The member that read this piece last and is still there; or NULL. */
struct swarm_member *piece_reader(const struct tracker *t,
				  const struct tracker_piece *p);
/* For so long from now the piece is to be had from `reader`, who is its
 * piece_reader(), and from the origin by nobody; 0 or less: it may be leased. */
int64_t piece_believed(const struct tracker *t, const struct tracker_piece *p,
		       const struct swarm_member *reader, bool demand,
		       int64_t now);
/* Demand for the piece was refused for demand_done_ns. */
bool wait_is_over(const struct tracker *t, const struct swarm_member *m,
		  uint32_t piece, int64_t now);
/* The piece is refused now. Returns when that is over; INT64_MAX: not known. */
int64_t wait_refused(const struct tracker *t, struct swarm_member *m,
		     uint32_t piece, int64_t now);
void wait_end(struct swarm_member *m, uint32_t piece);

/* Demand of this member is refused. */
void piece_awaited(struct tracker_piece *p, const struct swarm_member *m,
		   int64_t now);
void piece_leased(struct tracker_piece *p, const struct swarm_member *m);
void piece_ran_out(struct tracker_piece *p, const struct swarm_member *m);
/* Until then others come before this member, which has had the piece and did not read
 * it; 0: it may have it. */
int64_t piece_kept_until(const struct tracker *t, const struct tracker_piece *p,
			 const struct swarm_member *m, int64_t now);

/* Forget that the piece was read. */
void piece_forget(const struct tracker *t, struct tracker_image *i,
		  struct tracker_piece *p);

#endif
