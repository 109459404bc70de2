// SPDX-License-Identifier: Apache-2.0
/* Structures shared by the files of the tracker: images, members, leases. */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_PRIV_H
#define BOOTSEER_P2P_TRACKER_TRACKER_PRIV_H

#include "common/hash.h"
#include "p2p/tracker/tracker.h"

#define NONE UINT32_MAX /* no index */
#define TRACKER_SLOTS_MAX (1u << 24)
#define TRACKER_TAKEN 65536u /* accounts of nodes; a power of two */

/* A doubly linked list by index into an array. */
struct tracker_link {
	uint32_t prev, next;
};
struct tracker_list {
	uint32_t first, last;
};

/* The record that the tracker has of a piece of an image. */
struct tracker_piece {
	uint32_t lease; /* index of its first lease, or NONE */
	/* Slot of the member that read it last, below TRACKER_SLOTS_MAX. */
	uint32_t done_by : 24;
	uint32_t is_claim : 1; /* that member read it without a lease */
	/* A read without a lease was believed once already. */
	uint32_t was_claimed : 1;
	/* The last holder let its lease run out, or had two in a row. */
	uint32_t is_wasted : 1;
	uint32_t is_awaited : 1; /* a reader of another node waits for it */
	/* Serial of the member in done_by; 0: not read. */
	uint32_t done_serial;
	uint32_t done_ms; /* low bits of the time it was read */
	uint32_t held_by; /* hash of the last holder's name; 0: none */
	/* Low bits of the time since which a reader waits. */
	uint32_t awaited_ms;
};

struct lease {
	uint32_t piece, bytes;
	uint32_t slot; /* slot of the holder */
	uint32_t zone; /* hash of the holder's zone */
	uint32_t next; /* next lease of the piece, or next free entry */
	struct tracker_link by_end; /* sorted by `ends` */
	uint64_t call;              /* number of the call that gave it */
	uint64_t
		queue; /* bytes the holder had under lease when this one was given */
	int64_t since, ends;
};

#define PAGE_PIECES 256u

struct book {
	/* Pages of PAGE_PIECES pieces (the last has fewer); NULL page: none of its pieces was
	 * asked for; `pages` NULL: no piece was. */
	struct tracker_piece **pages;
	uint64_t memory; /* bytes of the whole book */
	struct lease *leases;
	uint32_t n_leases, cap, free;
	struct tracker_list by_end;
};

/* A member as seen by the choice of members to name. */
struct who {
	uint32_t slot, rack, zone; /* rack and zone hashed; 0: unknown */
	uint32_t node;             /* member_node_hash() */
};

struct tracker_image {
	struct digest digest;
	uint32_t n_pieces;
	uint32_t n_complete, n_done; /* members; pieces read by one of them */
	struct tracker_image *next;  /* next in the hash bucket */
	/* List by time of the last call. */
	struct tracker_image *older, *newer;
	struct who *who;
	uint32_t n_who, cap_who;
	struct book book;
	/* Members that asked for leases since asked_since, and in the interval before it. */
	uint32_t n_asked, n_asked_before, asked_round;
	int64_t asked_since;
	uint64_t flying; /* bytes that the origin is busy with */
	uint64_t window; /* limit of `flying` */
	/* The origin's bytes a second; bytes that came since rate_since, for the next estimate. */
	uint64_t rate, rate_bytes;
	int64_t rate_since;
	/* what the window is at least until the origin fails: some of the pieces that members
	 * ask for, each of them */
	uint64_t window_first;
	bool is_steady;     /* the origin has failed: grow slowly */
	bool is_short;      /* the last request found no room in the window */
	int64_t ns_per_mib; /* time that holders need for a MiB, smoothed */
	/* Begin of the newest lease whose piece was read. */
	int64_t read_since;
	int64_t cut_at;  /* when the window was last made smaller */
	uint32_t cut_by; /* slot of the member that reported the failure */
};

/* A node's part in an image. */
struct swarm_member {
	struct tracker_image *image; /* NULL: the slot is free */
	char *text;    /* name, addr, rack, zone, region; each with NUL */
	uint32_t hash; /* hash of image and name */
	uint32_t node; /* hash of the name; not 0 */
	uint32_t next; /* next in the bucket, or next free slot */
	struct tracker_link by_age; /* list sorted by `seen` */
	uint32_t at;                /* index in image->who */
	uint32_t serial;            /* unique number */
	uint32_t have;
	uint64_t run, opening; /* as in the last call; 0: not given */
	uint32_t n_leases, n_done;
	/* Time it needs for a MiB, smoothed; 0: unknown. */
	int64_t ns_per_mib;
	unsigned int late; /* leases that ran out, less those that did not */
	uint64_t late_call;
	uint64_t flying;  /* bytes leased to it */
	uint64_t counted; /* part of `flying` that counts in the image's sum */
	/* Until then, a call of it that only wants pieces ahead of its readers (bulk), none that
	 * a reader waits for (demand), gets no lease; except when half of the others are late. */
	int64_t late_until;
	bool has_leased;
	/* Refused demands; NULL: none was refused yet. */
	struct reader_wait *waits;
	int64_t wait_until;   /* the origin asked it to wait until then */
	uint32_t asked_round; /* round of the image in which it last asked */
	int64_t seen;
	/* Hash of the previous address, and when it was left (0: never), to detect two nodes
	 * with one name. */
	uint32_t addr_before;
	int64_t moved;
};

/* Shares of a node in images with few members: number of images and bytes. Two names with the
 * same hash count as one node; the hash is seeded, so that nodes cannot choose which. */
struct taken {
	uint64_t images, memory;
};

struct tracker {
	struct tracker_config cfg;
	uint64_t epoch, random, n_calls;
	struct hash_seed seed; /* seed of the hash tables */
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

/* Seeded, because calls may name made-up images. */
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
/* A call named the image: move it to the newest end. */
void tracker_image_touch(struct tracker *t, struct tracker_image *i);
void image_drop(struct tracker *t, struct tracker_image *i);

/* tracker_room.c */
int taken_new(struct tracker *t, struct error *err) MUST_CHECK;
/* Add the image to its members' accounts, or take it out: call around changes of the members. */
void image_charge(struct tracker *t, const struct tracker_image *i);
void image_discharge(struct tracker *t, const struct tracker_image *i);
/* The image's book grew, or shrank, by so many bytes. */
void book_memory(struct tracker *t, struct tracker_image *i, int64_t more);
/* Choose the image to drop for `more` bytes (or one more image) of the node with
 * member_node_hash() `node`; `keep` is the caller's image, NULL: a new one. NULL: none needs to
 * be dropped. */
struct tracker_image *room_victim(const struct tracker *t,
				  const struct tracker_image *keep,
				  uint32_t node, uint64_t more, bool is_memory);

/* Make room for one more image of this member_node_hash(); may drop another. -ENOSPC. */
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
/* Remove a member and its leases. The image stays. */
void member_remove(struct tracker *t, struct swarm_member *m);
void member_describe(const struct swarm_member *m, struct tracker_member *ret);
/* Choose members and add them to those in `ret`. */
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
