// SPDX-License-Identifier: Apache-2.0
/* Parts that the files of the tracker share: images, members, leases. */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_PRIV_H
#define BOOTSEER_P2P_TRACKER_TRACKER_PRIV_H

#include "common/hash.h"
#include "p2p/tracker/tracker.h"

#define NONE UINT32_MAX /* no index */
#define TRACKER_SLOTS_MAX (1u << 24)
#define TRACKER_TAKEN 65536u /* accounts of nodes; a power of two */

/* Doubly linked, by index into an array of its own. */
struct tracker_link {
	uint32_t prev, next;
};
struct tracker_list {
	uint32_t first, last;
};

/* The tracker's knowledge of a piece of an image. */
struct tracker_piece {
	uint32_t lease; /* first of its leases; NONE */
	/* Slot of who read it last, below TRACKER_SLOTS_MAX. */
	uint32_t done_by : 24;
	uint32_t is_claim : 1; /* that one had no lease of it */
	uint32_t
		was_claimed : 1; /* such a word was believed once, of whomever */
	/* The holder of the last lease let it run out, or had it twice
	 * running. */
	uint32_t is_wasted : 1;
	uint32_t is_awaited : 1; /* another node has a reader for it */
	uint32_t
		done_serial; /* of the member in that slot; 0: nobody read it */
	uint32_t done_ms;    /* when; the low bits */
	uint32_t held_by;    /* last; of the node's name, 0: nobody */
	uint32_t awaited_ms; /* since that node's lease; the low bits */
};

struct lease {
	uint32_t piece, bytes;
	uint32_t slot; /* of the holder */
	uint32_t zone; /* of the holder, hashed */
	uint32_t next; /* of the piece, or of those that are free */
	struct tracker_link by_end; /* sorted by `ends` */
	uint64_t call;              /* in which it was given */
	uint64_t
		queue; /* bytes the holder had under lease when this one was given */
	int64_t since, ends;
};

#define PAGE_PIECES 256u

struct book {
	/* PAGE_PIECES each, but the last one; NULL: nobody asked for one of them.  NULL
	 * itself: nobody asked for any. */
	struct tracker_piece **pages;
	uint64_t memory; /* bytes of all of it */
	struct lease *leases;
	uint32_t n_leases, cap, free;
	struct tracker_list by_end;
};

/* A member as it is looked at when others are chosen. */
struct who {
	uint32_t slot, rack, zone; /* hashed; 0 unknown */
	uint32_t node;             /* member_node_hash() */
};

struct tracker_image {
	struct digest digest;
	uint32_t n_pieces;
	uint32_t n_complete, n_done; /* members; pieces read by one of them */
	struct tracker_image *next;  /* of the same bucket */
	struct tracker_image *older, *newer; /* by the last call */
	struct who *who;
	uint32_t n_who, cap_who;
	struct book book;
	/* Members that asked for leases since asked_since, and in the interval before it. */
	uint32_t n_asked, n_asked_before, asked_round;
	int64_t asked_since;
	uint64_t flying; /* bytes that the origin is busy with */
	uint64_t window; /* how many these may be */
	/* The origin's bytes a second; bytes that came since rate_since, for the next estimate. */
	uint64_t rate, rate_bytes;
	int64_t rate_since;
	/* what the window is at least until the origin fails: some of the pieces that members
	 * ask for, each of them */
	uint64_t window_first;
	bool is_steady;     /* the origin has failed: grow slowly */
	bool is_short;      /* the last one that was looked at had no room */
	int64_t ns_per_mib; /* that a holder needs, smoothed */
	int64_t read_since; /* when the newest lease began of which the piece was read */
	int64_t cut_at;  /* when the window was last made smaller */
	uint32_t cut_by; /* slot of the member on whose word it was */
};

/* A node's part in an image. */
struct swarm_member {
	struct tracker_image *image; /* NULL: the slot is free */
	char *text;    /* name, addr, rack, zone, region; each with NUL */
	uint32_t hash; /* of image and name */
	uint32_t node; /* of the name; not 0 */
	uint32_t next; /* of the same bucket, or of those that are free */
	struct tracker_link by_age; /* by `seen` */
	uint32_t at;                /* in image->who */
	uint32_t serial;            /* never given twice */
	uint32_t have;
	uint64_t run, opening; /* of the last call; 0: not told */
	uint32_t n_leases, n_done;
	int64_t ns_per_mib; /* that it needs, smoothed; 0: not known */
	unsigned int late;  /* leases that ran out, less those that did not */
	uint64_t late_call;
	uint64_t flying;  /* bytes leased to it */
	uint64_t counted; /* part of `flying` that counts in the image's sum */
	int64_t late_until; /* nothing is leased to it before, for bulk */
	bool has_leased;
	struct reader_wait
		*waits;       /* of its readers; NULL: none was refused yet */
	int64_t wait_until;   /* the origin wants to be left alone by it */
	uint32_t asked_round; /* of the image, in which it asked last */
	int64_t seen;
	/* The address before, when it was left, 0: never; to find out two nodes of
	 * one name. */
	uint32_t addr_before;
	int64_t moved;
};

/* Sums of what nodes take by images of few, in parts of one. Two nodes whose
 * names have one hash count as one; since the hash is seeded, nobody chooses
 * which. */
struct taken {
	uint64_t images, memory;
};

struct tracker {
	struct tracker_config cfg;
	uint64_t epoch, random, n_calls;
	struct hash_seed seed; /* of the tables */
	uint32_t serial;
	struct tracker_image **images; /* buckets */
	size_t n_buckets_i, n_images;
	struct tracker_image *oldest, *newest;
	uint32_t *heads; /* buckets of members */
	size_t n_buckets_m;
	struct swarm_member *members;
	uint32_t n_slots, cap_slots, free_slot, n_members;
	struct tracker_list by_age;
	struct taken *taken; /* TRACKER_TAKEN of them: tracker_room.c */
	struct tracker_stats stats;
};

/* splitmix64: small, and good enough to draw lots. */
static inline uint64_t tracker_random(struct tracker *t)
{
	uint64_t z = t->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Seeded: calls may name images that nobody has. */
static inline uint64_t image_hash(const struct tracker *t,
				  const struct digest *d, uint32_t n_pieces)
{
	uint64_t h = hash_seeded(&t->seed, d->b, sizeof(d->b));

	return hash_seeded(&t->seed, &n_pieces, sizeof(n_pieces)) ^ h;
}

/* tracker_images.c */
struct tracker_image *tracker_image_find(const struct tracker *t,
					 const struct digest *d,
					 uint32_t n_pieces);
const struct tracker_image *tracker_image_main(const struct tracker *t,
					       const struct digest *d);
struct tracker_image *
tracker_image_add(struct tracker *t, const struct digest *d, uint32_t n_pieces);
/* A call named it: it is the newest now. */
void tracker_image_touch(struct tracker *t, struct tracker_image *i);
void image_drop(struct tracker *t, struct tracker_image *i);

/* tracker_room.c */
int taken_new(struct tracker *t, struct error *err) MUST_CHECK;
/* Its members pay for it, or no more: around whatever changes who they are. */
void image_charge(struct tracker *t, const struct tracker_image *i);
void image_discharge(struct tracker *t, const struct tracker_image *i);
/* Its book takes so many bytes more, or less. */
void book_memory(struct tracker *t, struct tracker_image *i, int64_t more);
/* The image that gives way to `more` bytes (else images) of member_node_hash() `node`; `keep` is
 * the caller's, NULL: a new one.  NULL: none has to. */
struct tracker_image *room_victim(const struct tracker *t,
				  const struct tracker_image *keep,
				  uint32_t node, uint64_t more, bool is_memory);

/* For one more image, of this member_node_hash(); another may be dropped.  -ENOSPC. */
int tracker_make_room(struct tracker *t, uint32_t node,
		      struct error *err) MUST_CHECK;

/* tracker_members.c */
uint32_t member_node_hash(const struct tracker *t, const char *node);
struct swarm_member *
member_find(struct tracker *t, const struct tracker_image *i, const char *node);
struct swarm_member *member_add(struct tracker *t, struct tracker_image *i,
				const struct tracker_call *c,
				struct error *err) MUST_CHECK;
int member_update(struct tracker *t, struct swarm_member *m,
		  const struct tracker_call *c, int64_t now,
		  struct tracker_answer *ret, struct error *err) MUST_CHECK;
/* Its leases end.  The image stays. */
void member_remove(struct tracker *t, struct swarm_member *m);
void member_describe(const struct swarm_member *m, struct tracker_member *ret);
/* Add to what is in `ret` already. */
void members_choose(struct tracker *t, const struct swarm_member *self,
		    struct tracker_answer *ret);

void book_fini(struct tracker *t, struct tracker_image *i);
void leases_drop(struct tracker *t, struct tracker_image *i, uint32_t slot);

/* tracker_window.c */
void leases_expire(struct tracker *t, struct tracker_image *i, int64_t now);
/* Until the origin fails, each of `askers` has room for pieces of so many bytes. */
void window_begin(const struct tracker *t, struct tracker_image *i,
		  uint32_t askers, uint32_t bytes);
void leases_report(struct tracker *t, struct swarm_member *m,
		   const struct tracker_call *c, int64_t now);

/* tracker_leases.c */
int leases_give(struct tracker *t, struct swarm_member *m,
		const struct tracker_call *c, int64_t now,
		struct tracker_answer *ret, struct error *err) MUST_CHECK;

#endif
