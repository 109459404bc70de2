// SPDX-License-Identifier: Apache-2.0
/* Answering READ requests from a device, with a bounded pool of buffers. */
#ifndef BOOTSEER_DATAPATH_SERVE_H
#define BOOTSEER_DATAPATH_SERVE_H

#include <stdatomic.h>

#include "snapshotter/datapath/images.h"

#define READ_MAX (1u << 20) /* bytes of one FUSE request */

struct fuse_req;
struct read_pool;

/* Bytes that lie one after the other in an answer. */
struct read_piece {
	uint64_t voff; /* byte of the device, when data is NULL */
	const void
		*data; /* or the bytes themselves, valid while the image is */
	size_t len;
	bool zero; /* or zeros */
};

struct read_slot;

/* How an answer is put together; see serve_read(). */
typedef int read_next_fn(struct read_slot *slot, uint64_t off, size_t len,
			 struct read_piece *ret, struct error *err);

/* One READ under way. */
struct read_slot {
	struct device_read read;
	struct read_pool *pool;
	struct read_slot *next; /* free list */
	struct fuse_req *req;
	struct image_entry *image;
	read_next_fn *next_piece;
	uint64_t local; /* for next_piece: the node within the image */
	uint64_t off;   /* of the request */
	size_t len;
	size_t done; /* bytes of it that are in buf */
	char *buf;
	bool large;
	atomic_int turn; /* who goes on after a piece, see on_piece() */
	int rc;          /* of the last piece */
	struct error err;
};

/* `release` is called with `arg` after each answer was sent. */
int read_pool_new(struct image_table *images, void (*release)(void *arg),
		  void *arg, struct read_pool **ret,
		  struct error *err) MUST_CHECK;
void read_pool_free(struct read_pool *p); /* with no read under way */

/*
 * Answer `req` with bytes [off, off + len) of a node, pieces of which
 * `next_piece` names one after the other.  Takes the reference `image`.
 * Does not block: while all buffers are in use the request waits in a queue.
 * The answer is complete or an error, never short.
 */
void serve_read(struct read_pool *p, struct fuse_req *req,
		struct image_entry *image, uint64_t local, uint64_t off,
		size_t len, read_next_fn *next_piece);

#endif
