// SPDX-License-Identifier: Apache-2.0
/*
 * Which recordings of a start are kept, and what each weighs.  Pure.
 *
 * What a hostile node can do is bounded here: it has one vote, which puts no block
 * on the list and takes none off it once three have voted; it cannot displace
 * fresh recordings of others; and all votes of one token together fill a quarter
 * of the places when other tokens vote too.
 */
#ifndef BOOTSEER_REGISTRY_RETENTION_H
#define BOOTSEER_REGISTRY_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTES_MAX 32u      /* recordings of one start */
#define VOTES_TOKEN_MAX 8u /* of one token, where others vote too */
#define VOTES_WANTED 5u
#define VOTE_FRESH_S 3600         /* not displaced by others within this */
#define VOTE_AGAIN_S 1            /* a node waits so long to vote again */
#define VOTE_WANTED_S (7 * 86400) /* the newest is older: more are wanted */
#define VOTE_HALF_LIFE_S (14 * 86400)
#define VOTE_WEIGHT_MAX 1000000u
/* The least weight.  Of three votes one has at most 1 / (1 + 2 * 0.6) = 0.45 of
 * the whole then, and half of it decides. */
#define VOTE_WEIGHT_MIN 600000u
#define HOT_MIN_CONFIDENCE 500u

struct vote {
	char *token, *node;
	int64_t received; /* seconds since 1970 */
	uint64_t memory;  /* bytes, decoded */
};

enum verdict {
	VERDICT_STORE,    /* there is a place */
	VERDICT_REPLACE,  /* the place of its own last one */
	VERDICT_DISPLACE, /* the place of another */
	VERDICT_ENOUGH,   /* not needed */
	VERDICT_TOO_SOON, /* it has just voted */
};

/* Judge a vote of `token` and `node`; `*ret_at` is the index of the one to be displaced. */
enum verdict retention_judge(const struct vote *votes, size_t n,
			     const char *token, const char *node, int64_t now,
			     size_t *ret_at);

/* Weight of a vote of that age, VOTE_WEIGHT_MIN..VOTE_WEIGHT_MAX. */
uint32_t retention_weight(int64_t age_s);

bool retention_wants(uint64_t n, int64_t newest, int64_t now);

#endif
