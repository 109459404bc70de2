// SPDX-License-Identifier: Apache-2.0
#include "registry/retention.h"

#include <string.h>

static bool vote_is_older(const struct vote *votes, size_t n, size_t a,
			  size_t b)
{
	return b == n || votes[a].received < votes[b].received;
}

/* All places are full: index of the vote to remove for a vote of `token`; n: none may be
 * removed. */
static size_t find_vote_to_replace(const struct vote *votes, size_t n,
				   const char *token, int64_t now)
{
	size_t oldest = n, own = n, n_own = 0;

	for (size_t i = 0; i < n; i++) {
		if (vote_is_older(votes, n, i, oldest))
			oldest = i;
		if (strcmp(votes[i].token, token) != 0)
			continue;
		n_own++;
		if (vote_is_older(votes, n, i, own))
			own = i;
	}
	if (n_own >= VOTES_TOKEN_MAX)
		oldest = own;
	return votes[oldest].received + VOTE_FRESH_S < now ? oldest : n;
}

/* Has the token used its share of places while other tokens vote too? Then it only replaces its own
 * votes. */
static bool has_share(const struct vote *votes, size_t n, const char *token)
{
	size_t own = 0;

	for (size_t i = 0; i < n; i++)
		own += strcmp(votes[i].token, token) == 0;
	return own >= VOTES_TOKEN_MAX && own < n;
}

enum verdict retention_judge(const struct vote *votes, size_t n,
			     const char *token, const char *node, int64_t now,
			     size_t *ret_at)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(votes[i].token, token) != 0 ||
		    strcmp(votes[i].node, node) != 0)
			continue;
		return now - votes[i].received < VOTE_AGAIN_S ? VERDICT_TOO_SOON
							      : VERDICT_REPLACE;
	}
	if (n < VOTES_MAX && !has_share(votes, n, token))
		return VERDICT_STORE;
	*ret_at = find_vote_to_replace(votes, n, token, now);
	return *ret_at < n ? VERDICT_DISPLACE : VERDICT_ENOUGH;
}

uint32_t retention_weight(int64_t age_s)
{
	const int64_t half = VOTE_WEIGHT_MAX / 2;
	int64_t weight;

	if (age_s <= 0)
		return VOTE_WEIGHT_MAX;
	if (age_s >= VOTE_HALF_LIFE_S)
		return VOTE_WEIGHT_MIN;
	/* A straight line is close enough to exponential decay within the first half-life. */
	weight = VOTE_WEIGHT_MAX - half * age_s / VOTE_HALF_LIFE_S;
	return weight > VOTE_WEIGHT_MIN ? (uint32_t)weight : VOTE_WEIGHT_MIN;
}

bool retention_wants(uint64_t n, int64_t newest, int64_t now)
{
	return n < VOTES_WANTED || now - newest > VOTE_WANTED_S;
}
