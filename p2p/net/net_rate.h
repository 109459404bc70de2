// SPDX-License-Identifier: Apache-2.0
/* A token bucket: so much a second, and so much at once.  Time is an argument. */
#ifndef BOOTSEER_P2P_NET_NET_RATE_H
#define BOOTSEER_P2P_NET_NET_RATE_H

#include <stdint.h>

struct bucket {
	uint64_t rate;  /* a second; 0: no bound */
	int64_t tokens; /* below 0: taken ahead */
	int64_t burst;
	int64_t at; /* when it was last filled */
};

/* Full at first. */
void bucket_init(struct bucket *b, uint64_t rate, int64_t burst, int64_t now);
/* Bytes that may be taken now: at most `want`; 0 none. */
uint32_t bucket_look(struct bucket *b, uint32_t want, int64_t now);
/* The same for bytes of a transfer: none until there are enough for one call.  A transfer
 * that took each byte as its time came would keep a processor busy with calls. */
uint32_t bucket_look_bytes(struct bucket *b, uint32_t want, int64_t now);
/* Also more than there is: the next ones wait for it. */
void bucket_take(struct bucket *b, uint32_t n);

#endif
