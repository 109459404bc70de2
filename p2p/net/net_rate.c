// SPDX-License-Identifier: Apache-2.0
#include "p2p/net/net_rate.h"

/* A system call moves at least this many bytes, or 1/CALLS_A_SECOND of the rate if that is
 * less. */
#define CALL_BYTES (16u << 10)
#define CALLS_A_SECOND 64

void bucket_init(struct bucket *b, uint64_t rate, int64_t burst, int64_t now)
{
	*b = (struct bucket){
		.rate = rate, .tokens = burst, .burst = burst, .at = now
	};
}

uint32_t bucket_look(struct bucket *b, uint32_t want, int64_t now)
{
	double more;

	if (!b->rate)
		return want;
	more = (double)(now - b->at) * (double)b->rate / 1e9;
	if (more >= (double)(b->burst - b->tokens)) {
		b->at = now;
		b->tokens = b->burst;
	} else if (more >= 1) {
		/* Advance by the time of whole tokens, so that fractions are kept. */
		b->at += (int64_t)((double)(int64_t)more * 1e9 /
				   (double)b->rate);
		b->tokens += (int64_t)more;
	}
	if (b->tokens <= 0)
		return 0;
	return b->tokens < want ? (uint32_t)b->tokens : want;
}

uint32_t bucket_look_bytes(struct bucket *b, uint32_t want, int64_t now)
{
	uint32_t n = bucket_look(b, want, now);

	return n < want && n < CALL_BYTES && n < b->rate / CALLS_A_SECOND ? 0
									  : n;
}

void bucket_take(struct bucket *b, uint32_t n)
{
	if (b->rate)
		b->tokens -= n;
}
