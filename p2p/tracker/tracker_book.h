// SPDX-License-Identifier: Apache-2.0
/*
 * Leases in the tracker: tracker_book.c stores them, tracker_leases.c gives them, tracker_window.c
 * learns from their ends, tracker_wait.c tracks waiting readers.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_BOOK_H
#define BOOTSEER_P2P_TRACKER_TRACKER_BOOK_H

#include "common/bytes.h"
#include "p2p/tracker/tracker_priv.h"

#define MS ((int64_t)1000000)
#define SHARE_MIN (MIB / 4) /* share of the window for one node, at least */
#define READERS_USUAL 16u   /* members that usually read the origin at once */
/* Pause per member between calls, so that retries do not overload the tracker. */
#define RETRY_PER_MEMBER (MS / 10)
#define SLOWER 4 /* a member is late if it needs this many times the usual */

static inline int64_t clamp_ns(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Allocate records for these pieces (TRACKER_PIECES_MAX at most) and no others, so that a call
 * costs only what it names. -ENOMEM, -ENOSPC. */
int book_touch(struct tracker *t, struct tracker_image *i,
	       const uint32_t *pieces, size_t n, struct error *err) MUST_CHECK;
/* NULL: nothing is recorded of it or its neighbours. */
struct tracker_piece *book_piece(const struct tracker_image *i, uint32_t piece);
/* Room for more leases.  -ENOMEM, -ENOSPC. */
int book_grow(struct tracker *t, struct tracker_image *i,
	      struct error *err) MUST_CHECK;
/* Sort the lease into the list by its `ends`. */
void book_sort(struct book *b, uint32_t at);
/* This member's lease of the piece, or NONE. */
uint32_t book_find(const struct tracker_image *i, uint32_t piece,
		   uint32_t slot);
/* End a lease. */
void book_end(struct tracker *t, struct tracker_image *i, uint32_t at);

/* Bytes that a member reads soon; a small default while its speed is unknown. */
uint64_t member_reads_soon(const struct swarm_member *m);
/* The part of `leased` bytes that the origin is busy with. */
uint64_t member_keeps_busy(const struct swarm_member *m, uint64_t leased);
/* Update the image's sums after the member's leases or speed changed. */
void book_count(struct tracker_image *i, struct swarm_member *m);

/* The member that read this piece last and is still there; or NULL. */
struct swarm_member *piece_reader(const struct tracker *t,
				  const struct tracker_piece *p);
/* How long the piece is to be had from `reader` (its piece_reader()) and not leased; 0 or less:
 * it may be leased. */
int64_t piece_believed(const struct tracker *t, const struct tracker_piece *p,
		       const struct swarm_member *reader, bool demand,
		       int64_t now);
/* Was demand for the piece refused for demand_done_ns? */
bool wait_is_over(const struct tracker *t, const struct swarm_member *m,
		  uint32_t piece, int64_t now);
/* Note a refusal. Returns until when it lasts; INT64_MAX: not known. */
int64_t wait_refused(const struct tracker *t, struct swarm_member *m,
		     uint32_t piece, int64_t now);
void wait_end(struct swarm_member *m, uint32_t piece);

/* Note that demand of this member is refused. */
void piece_awaited(struct tracker_piece *p, const struct swarm_member *m,
		   int64_t now);
void piece_leased(struct tracker_piece *p, const struct swarm_member *m);
void piece_ran_out(struct tracker_piece *p, const struct swarm_member *m);
/* Until when other members go first, because this one had the piece leased and did not read it;
 * 0: it may have it. */
int64_t piece_kept_until(const struct tracker *t, const struct tracker_piece *p,
			 const struct swarm_member *m, int64_t now);

/* Forget that the piece was read. */
void piece_forget(const struct tracker *t, struct tracker_image *i,
		  struct tracker_piece *p);

#endif
