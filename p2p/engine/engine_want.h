// SPDX-License-Identifier: Apache-2.0
/* Waiting for pieces: a reader for single pieces, a list for many. Used on the loop only. */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_WANT_H
#define BOOTSEER_P2P_ENGINE_ENGINE_WANT_H

#include <pthread.h>
#include <sys/queue.h>

#include "blockstore/device.h"

#define WAITER_BUCKETS 1024u
#define PIECE_NONE UINT32_MAX

struct bytes;
struct p2p_image;

/* A reader that waits for a piece. */
struct waiter {
	LIST_ENTRY(waiter) link;
	struct reader *reader;
	uint32_t piece; /* PIECE_NONE: not waiting */
	size_t index;   /* index of the block in the request */
};
LIST_HEAD(waiter_list, waiter);

enum answer {
	ANSWER_NONE,
	ANSWER_BYTES,
	ANSWER_CACHED, /* the block is in the cache */
};

struct reader {
	struct p2p_image *i;
	const struct block_req *req;
	uint32_t *pieces;
	struct waiter *waiters;
	int64_t deadline;
	size_t next;    /* next block to hand out */
	size_t wanted;  /* first block that is not wanted yet */
	uint64_t ahead; /* unpacked bytes from `next` to `wanted` */
	uint64_t taken; /* bytes that the reader took since want_ahead() */
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t progress;
	struct bytes **bytes;
	uint8_t *answers; /* enum answer */
	int rc;
	struct error err;
};

/* A call of p2p_image_fetch(). */
struct lister {
	LIST_ENTRY(lister) link;
	struct p2p_image *i;
	const struct device_list *list;
	uint32_t *pieces; /* distinct, in the order wanted */
	size_t n;
	/* Bit for each piece of the image; used on the loop. */
	uint8_t *awaited;
	uint8_t *held;        /* pieces that were here before the call */
	bool is_paused;       /* used on the loop */
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t progress;
	struct came {
		uint32_t piece, cost;
	} * came;
	size_t n_came; /* entries of `came`; entries that the caller took */
	size_t n_taken;
	uint64_t came_bytes;
	int rc;
	struct error err;
};

/* Initialize without waiting readers. */
void wants_init(struct p2p_image *i);
/* Want as many of the reader's blocks as memory has room for: the next one, and some
 * ahead of it. */
void want_ahead(struct reader *r);
/* Is want_ahead() worth calling: all that was wanted was taken, or half of what is ahead? */
bool want_more(const struct reader *r);
/* Want a block that the cache has lost: fetch its bytes, whatever the cache says. */
void want_again(struct reader *r, size_t index);
/* Wait again for the blocks that a failed reader did not get. */
void want_rest(struct reader *r);
void want_no_read(struct reader *r);
/* When the last reader that waits for the piece gives up; 0: no reader waits. */
int64_t want_deadline(const struct p2p_image *i, uint32_t piece);
void want_list(struct lister *l);
void want_no_list(struct lister *l);
void want_pause(struct lister *l, bool is_paused);
/* Pass the lists' wants to the core. */
void want_update(struct p2p_image *i, int64_t now);
/* A piece came (`bytes` NULL: it is in the cache). `kept`: 0, or why the cache did not store
 * it. */
void want_came(struct p2p_image *i, uint32_t piece, struct bytes *bytes,
	       uint32_t cost, int kept, const struct error *err);
void want_failed(struct p2p_image *i, uint32_t piece, int rc,
		 const struct error *err);

#endif
