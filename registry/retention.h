// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which recordings (votes) of a start are kept, and the weight of each. Pure.
 *
 * This bounds what a hostile node can do. It has one vote, which can neither add a block to the
 * list nor remove one once three nodes have voted. It cannot displace fresh recordings of others.
 * All votes of one token fill at most a quarter of the places when other tokens vote too.
 */
#ifndef BOOTSEER_REGISTRY_RETENTION_H
#define BOOTSEER_REGISTRY_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTES_MAX 32u      /* recordings of one start */
#define VOTES_TOKEN_MAX 8u /* recordings of one token, if others vote too */
#define VOTES_WANTED 5u
/* a younger vote is not displaced by others */
#define VOTE_FRESH_S 3600
#define VOTE_AGAIN_S 1 /* a node may vote again after this time */
/* more votes are wanted when the newest is older */
#define VOTE_WANTED_S (7 * 86400)
#define VOTE_HALF_LIFE_S (14 * 86400)
#define VOTE_WEIGHT_MAX 1000000u
/* The least weight. It keeps one of three votes below half of the total, which decides: at most 1 /
 * (1 + 2 * 0.6) = 0.45. */
#define VOTE_WEIGHT_MIN 600000u
#define HOT_MIN_CONFIDENCE 500u

struct vote {
	char *token, *node;
	int64_t received; /* seconds since 1970 */
	uint64_t memory;  /* bytes of the decoded recording */
};

enum verdict {
	VERDICT_STORE,    /* a place is free */
	VERDICT_REPLACE,  /* takes the place of the node's own earlier vote */
	VERDICT_DISPLACE, /* takes the place of another node's vote */
	VERDICT_ENOUGH,   /* the vote is not needed */
	VERDICT_TOO_SOON, /* the node has just voted */
};

/* Judge a vote of `token` and `node`. For VERDICT_DISPLACE, `*ret_at` is the index of the vote to
 * remove. */
enum verdict retention_judge(const struct vote *votes, size_t n,
			     const char *token, const char *node, int64_t now,
			     size_t *ret_at);

/* Weight of a vote of that age, VOTE_WEIGHT_MIN..VOTE_WEIGHT_MAX. */
uint32_t retention_weight(int64_t age_s);

bool retention_wants(uint64_t n, int64_t newest, int64_t now);

#endif
