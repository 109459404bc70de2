// SPDX-License-Identifier: Apache-2.0
/*
 * The tracker's state, in memory only: which nodes take part in which image, and which pieces they
 * read from the origin. Pure: bootseer-registry runs it behind HTTP, a node runs it itself for an
 * image when no tracker can be reached, and the simulator runs it too.
 *
 * One thread at a time.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_H
#define BOOTSEER_P2P_TRACKER_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

#define TRACKER_NAME_MAX 255u   /* bytes of a node's name */
#define TRACKER_ADDR_MAX 63u    /* "ADDR:PORT", IPv6 in brackets */
#define TRACKER_PLACE_MAX 63u   /* bytes of rack, zone, region */
#define TRACKER_MEMBERS_MAX 64u /* given in one answer */
#define TRACKER_PIECES_MAX 256u /* of one request or report */
#define TRACKER_IMAGE_PIECES_MAX (1u << 24)
#define TRACKER_PIECE_BYTES_MAX (8u << 20) /* stored bytes of a piece */

/* Limits of tracker_new() in brackets. */
struct tracker_config {
	uint64_t seed; /* seed of random choices and of the epoch */
	/* Swarms, [1, 2^20]: an image counts twice, with its metadata. When full, the one
	 * silent for longest is dropped. */
	size_t images_max;
	/* Members of all images, [1, 2^24]; likewise. */
	size_t members_max;
	uint64_t memory_max;   /* bytes of the books over pieces and leases */
	int64_t member_ttl_ns; /* a member silent for this long is removed */
	int64_t lease_min_ns, lease_max_ns; /* time of a lease */
	/* How long a piece that a member read is not leased again, for bulk and for demand, since
	 * that member has it for others.  A member that read without a lease is believed for
	 * demand_done_ns, for bulk, and once for each piece.  A member that asks for the piece as
	 * demand for this long is given a lease all the same. */
	int64_t done_ns, demand_done_ns;
	unsigned int copies; /* leases of a piece at once, per zone [1, 16] */
	/* Bytes that the origin of an image is busy with at once, at most
	 * [TRACKER_PIECE_BYTES_MAX, 2^40]; less when it fails.  What is leased
	 * to a node beyond what it reads in a second does not count. */
	uint64_t flying_max;
	int64_t interval_ns; /* time between two calls of a node */
};
extern const struct tracker_config tracker_config_default;

struct tracker;
int tracker_new(const struct tracker_config *cfg, struct tracker **ret,
		struct error *err) MUST_CHECK;
void tracker_free(struct tracker *t);
DEFINE_AUTO(tracker)

/* A node's call about an image. */
struct tracker_call {
	struct digest image;
	const char *node, *addr;          /* name and address of the node */
	const char *rack, *zone, *region; /* "" unknown */
	/* Pieces of the image; pieces that the node has. */
	uint32_t n_pieces, have;
	bool leaving; /* the node leaves the image */
	/* `run`: random number of the node's present run; `opening`: how often it opened the
	 * image in this run. Calls may overtake each other; a call of an earlier opening is
	 * ignored. 0: not given. */
	uint64_t run, opening;
	bool wants_members;
	/* Pieces that the node wants to read from the origin, most wanted
	 * first; a reader waits for the first `n_demand` of them. */
	const uint32_t *want;
	const uint32_t *want_bytes; /* stored bytes of each */
	size_t n_want, n_demand;
	/* Leases that ended, maybe after their time: pieces read; pieces not read or not wanted
	 * any more. */
	const uint32_t *done, *failed;
	size_t n_done, n_failed;
	int64_t origin_wait_ns; /* the origin said 429 or 503: Retry-After */
};

struct tracker_member {
	char node[TRACKER_NAME_MAX + 1];
	char addr[TRACKER_ADDR_MAX + 1];
	char rack[TRACKER_PLACE_MAX + 1], zone[TRACKER_PLACE_MAX + 1],
		region[TRACKER_PLACE_MAX + 1];
	uint32_t have;
};

struct tracker_answer {
	/* Random number of this tracker; a restarted tracker has lost its state. */
	uint64_t epoch;
	/* Other members: first those that read pieces that are not granted, then about half
	 * from the same rack, 30 % from the zone, and at least 20 % and 8 drawn from all
	 * others. */
	struct tracker_member members[TRACKER_MEMBERS_MAX];
	size_t n_members;
	/* A subset of `want`; neighbouring pieces beside each other. */
	uint32_t granted[TRACKER_PIECES_MAX];
	size_t n_granted;
	/* Duration of the leases; after it, a piece may be leased again. */
	int64_t ttl_ns;
	int64_t retry_ns; /* when to ask again for pieces not granted */
	/* The origin or this node has enough to do, so not all pieces were considered.
	 * Otherwise each piece not granted is being read by a member. */
	bool is_full;
	int64_t interval_ns;
	uint32_t swarm; /* members in all */
	/* Address of another node that calls with this node's name; "": none. */
	char namesake[TRACKER_ADDR_MAX + 1];
};

/*
 * Handle a node's call. `now` must not go back. Members that name different numbers of pieces for
 * an image are kept apart, like members of different images. -EINVAL: an impossible value;
 * -ENOSPC: a limit. `ret` is large: keep it off the stack.
 */
int tracker_hear(struct tracker *t, const struct tracker_call *c, int64_t now,
		 struct tracker_answer *ret, struct error *err) MUST_CHECK;

/* Remove silent members and expired leases. */
void tracker_sweep(struct tracker *t, int64_t now);

struct tracker_stats {
	uint64_t images, members, leases, memory;
	uint64_t calls_total, granted_total, refused_total, expired_total,
		done_total, failed_total, namesakes_total;
};
void tracker_get_stats(const struct tracker *t, struct tracker_stats *ret);

struct tracker_image_info {
	struct digest image;
	uint32_t n_pieces;
	uint32_t members, complete; /* complete: has all pieces */
	uint32_t leases,
		done; /* pieces leased; pieces read by present members */
	/* Bytes that the origin is busy with, and the limit of these bytes. A member's leases
	 * count up to what it reads in a second. */
	uint64_t flying, window;
};
/* Call `each` for each image, latest call first; an image whose members name different numbers
 * of pieces comes once for each number. */
void tracker_each_image(const struct tracker *t,
			void (*each)(void *arg,
				     const struct tracker_image_info *i),
			void *arg);
/* False: no node takes part. If members name different numbers of pieces, this function and the
 * next are about the most frequent one. */
bool tracker_get_image(const struct tracker *t, const struct digest *image,
		       struct tracker_image_info *ret);

struct tracker_member_info {
	struct tracker_member member;
	uint32_t leases;
	uint64_t flying; /* bytes leased to the member */
	int64_t seen;    /* `now` of its last call */
};
void tracker_each_member(const struct tracker *t, const struct digest *image,
			 void (*each)(void *arg,
				      const struct tracker_member_info *i),
			 void *arg);

/*
 * Order of trackers (or nodes) responsible for an image, by rendezvous hashing (Thaler and
 * Ravishankar, 1998) over their names. Fills `ret` with indices of `names`.
 */
int rendezvous(const struct digest *image, const char *const *names, size_t n,
	       size_t *ret, struct error *err) MUST_CHECK;

#endif
