// SPDX-License-Identifier: Apache-2.0
/* A token bucket: limits a rate and a burst. The caller passes the time. */
#ifndef BOOTSEER_P2P_NET_NET_RATE_H
#define BOOTSEER_P2P_NET_NET_RATE_H

#include <stdint.h>

struct bucket {
	uint64_t rate;  /* tokens a second; 0: no limit */
	int64_t tokens; /* below 0: taken in advance */
	int64_t burst;
	int64_t at; /* when it was last filled */
};

/* Full at first. */
void bucket_init(struct bucket *b, uint64_t rate, int64_t burst, int64_t now);
/* Bytes that may be taken now: at most `want`; 0 none. */
uint32_t bucket_look(struct bucket *b, uint32_t want, int64_t now);
/* The same for bytes of a transfer: 0 until there are enough for one system call. Moving each
 * byte when its time comes would keep a processor busy with calls. */
uint32_t bucket_look_bytes(struct bucket *b, uint32_t want, int64_t now);
/* Take `n` tokens, even more than there are: later ones then wait. */
void bucket_take(struct bucket *b, uint32_t n);

#endif
