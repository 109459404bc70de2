// SPDX-License-Identifier: Apache-2.0
/* Waits for pieces: readers for one each, lists for many.  The loop's. */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_WANT_H
#define BOOTSEER_P2P_ENGINE_ENGINE_WANT_H

#include <pthread.h>
#include <sys/queue.h>

#include "blockstore/device.h"

#define WAITER_BUCKETS 1024u
#define PIECE_NONE UINT32_MAX

struct bytes;
struct p2p_image;

/* A wait of a reader for a piece. */
struct waiter {
	LIST_ENTRY(waiter) link;
	struct reader *reader;
	uint32_t piece; /* PIECE_NONE: does not wait */
	size_t index;   /* of the block in the request */
};
LIST_HEAD(waiter_list, waiter);

enum answer {
	ANSWER_NONE,
	ANSWER_BYTES,
	ANSWER_CACHED, /* the cache has it */
};

struct reader {
	struct p2p_image *i;
	const struct block_req *req;
	uint32_t *pieces;
	struct waiter *waiters;
	int64_t deadline;
	size_t next;    /* block that is to be given next */
	size_t wanted;  /* the first that is not wanted yet */
	uint64_t ahead; /* unpacked bytes from `next` to `wanted` */
	uint64_t taken; /* bytes that the reader took since want_ahead() */
	pthread_mutex_t lock; /* all below */
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
	uint8_t *awaited; /* a bit for each piece of the image; the loop's */
	uint8_t *held;    /* before it began */
	bool is_paused;   /* the loop's */
	pthread_mutex_t lock; /* all below */
	pthread_cond_t progress;
	struct came {
		uint32_t piece, cost;
	} * came;
	size_t n_came; /* of them, and those of them that the caller took */
	size_t n_taken;
	uint64_t came_bytes;
	int rc;
	struct error err;
};

/* Begin without readers that wait. */
void wants_init(struct p2p_image *i);
/* Want as many of the reader's blocks as memory has room for: the next one, and some
 * ahead of it. */
void want_ahead(struct reader *r);
/* Is want_ahead() worth calling: all that was wanted was taken, or half of what is ahead? */
bool want_more(const struct reader *r);
/* Want a block that the cache has lost: its bytes are brought, whatever the cache says. */
void want_again(struct reader *r, size_t index);
/* Wait again for what a reader that failed has not got. */
void want_rest(struct reader *r);
void want_no_read(struct reader *r);
/* When the last of the readers who wait for it gives up; 0: there is none. */
int64_t want_deadline(const struct p2p_image *i, uint32_t piece);
void want_list(struct lister *l);
void want_no_list(struct lister *l);
void want_pause(struct lister *l, bool is_paused);
/* Hand the core what the lists want. */
void want_update(struct p2p_image *i, int64_t now);
/* A piece came (`bytes` may be NULL: from the cache); `kept`: or why not. */
void want_came(struct p2p_image *i, uint32_t piece, struct bytes *bytes,
	       uint32_t cost, int kept, const struct error *err);
void want_failed(struct p2p_image *i, uint32_t piece, int rc,
		 const struct error *err);

#endif
