// SPDX-License-Identifier: Apache-2.0
/* What the files of the tracker share: images, members, leases. */
#ifndef BOOTSEER_P2P_TRACKER_PRIV_H
#define BOOTSEER_P2P_TRACKER_PRIV_H

#include "p2p/tracker.h"

#define NONE UINT32_MAX /* no index */

/* Doubly linked, by index into an array of its own. */
struct link {
	uint32_t prev, next;
};
struct list {
	uint32_t first, last;
};

/* What is known of one piece of an image. */
struct piece {
	uint32_t lease;       /* first of its leases; NONE */
	uint32_t done_by;     /* slot of who read it last ... */
	uint32_t done_serial; /* ... if that is still the same; 0: nobody */
	uint32_t done_ms;     /* when; the low bits */
};

struct lease {
	uint32_t piece, bytes;
	uint32_t slot;      /* of the holder */
	uint32_t zone;      /* of the holder, hashed */
	uint32_t next;      /* of the piece, or of those that are free */
	struct link by_end; /* sorted by `ends` */
	uint64_t call;      /* in which it was given */
	uint64_t queue;     /* bytes the holder was to read by then */
	int64_t since, ends;
};

struct book {
	struct piece *pieces; /* n_pieces; NULL: nobody asked for one */
	struct lease *leases;
	uint32_t n_leases, cap, free;
	struct list by_end;
};

/* A member as it is looked at when others are chosen. */
struct who {
	uint32_t slot, rack, zone; /* hashed; 0 unknown */
};

struct image {
	struct digest digest;
	uint32_t n_pieces;
	uint32_t n_complete, n_done; /* members; pieces read by one of them */
	struct image *next;          /* of the same bucket */
	struct image *older, *newer; /* by the last call */
	struct who *who;
	uint32_t n_who, cap_who;
	struct book book;
	/* Members that asked for leases since then, and in the time before. */
	uint32_t n_asked, n_asked_before, asked_round;
	int64_t asked_since;
	uint64_t flying; /* bytes that the origin is busy with */
	uint64_t window; /* how many these may be */
	/* Bytes a second of the origin; since when so many were counted. */
	uint64_t rate, rate_bytes;
	int64_t rate_since;
	bool is_steady;     /* the origin has failed: grow slowly */
	bool is_short;      /* the last one that was looked at had no room */
	int64_t ns_per_mib; /* that a holder needs, smoothed */
	int64_t read_since; /* when the newest lease began of which the piece was read */
	int64_t cut_at;     /* the window was made smaller */
	int64_t wait_until; /* the origin wants to be left alone */
};

/* One node in one image. */
struct member {
	struct image *image; /* NULL: the slot is free */
	char *text;          /* name, addr, rack, zone, region; each with NUL */
	uint32_t hash;       /* of image and name */
	uint32_t next;       /* of the same bucket, or of those that are free */
	struct link by_age;  /* by `seen` */
	uint32_t at;         /* in image->who */
	uint32_t serial;     /* never given twice */
	uint32_t have;
	uint64_t run, opening; /* of the last call; 0: not told */
	uint32_t n_leases, n_done;
	int64_t ns_per_mib; /* that it needs, smoothed; 0: not known */
	unsigned int late;  /* leases that ran out, less those that did not */
	uint64_t late_call;
	uint64_t flying;    /* bytes leased to it ... */
	uint64_t counted;   /* ... of these, in the image's */
	int64_t late_until; /* nothing is leased to it before, for bulk */
	bool has_leased;
	uint32_t asked_round; /* of the image, in which it asked last */
	int64_t seen;
	/* The address before, when it was left, 0: never; to find out two nodes of
	 * one name. */
	uint32_t addr_before;
	int64_t moved;
};

struct tracker {
	struct tracker_config cfg;
	uint64_t epoch, random, n_calls;
	uint32_t serial;
	struct image **images; /* buckets */
	size_t n_buckets_i, n_images;
	struct image *oldest, *newest;
	uint32_t *heads; /* buckets of members */
	size_t n_buckets_m;
	struct member *members;
	uint32_t n_slots, cap_slots, free_slot, n_members;
	struct list by_age;
	struct tracker_stats stats;
};

/* tracker.c */
uint64_t tracker_random(struct tracker *t);
/* Take `n` bytes into account; make room by dropping the longest silent images,
 * but `keep`.  -ENOSPC. */
int tracker_reserve(struct tracker *t, uint64_t n, const struct image *keep,
		    struct error *err) MUST_CHECK;
void image_drop(struct tracker *t, struct image *i);

/* tracker_members.c */
struct member *member_find(struct tracker *t, const struct image *i,
			   const char *node);
struct member *member_add(struct tracker *t, struct image *i,
			  const struct tracker_call *c,
			  struct error *err) MUST_CHECK;
int member_update(struct tracker *t, struct member *m,
		  const struct tracker_call *c, int64_t now,
		  struct tracker_answer *ret, struct error *err) MUST_CHECK;
/* Its leases end.  The image stays. */
void member_remove(struct tracker *t, struct member *m);
void member_describe(const struct member *m, struct tracker_member *ret);
/* Add to what is in `ret` already. */
void members_choose(struct tracker *t, const struct member *self,
		    struct tracker_answer *ret);

/* tracker_book.c */
void book_fini(struct tracker *t, struct image *i);
void leases_drop(struct tracker *t, struct image *i, uint32_t slot);

/* tracker_window.c */
void leases_expire(struct tracker *t, struct image *i, int64_t now);
void leases_report(struct tracker *t, struct member *m,
		   const struct tracker_call *c, int64_t now);

/* tracker_leases.c */
int leases_give(struct tracker *t, struct member *m,
		const struct tracker_call *c, int64_t now,
		struct tracker_answer *ret, struct error *err) MUST_CHECK;

#endif
