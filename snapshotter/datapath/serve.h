// SPDX-License-Identifier: Apache-2.0
/* Answers READ requests from a device, with a limited pool of buffers that sessions may share. */
#ifndef BOOTSEER_DATAPATH_SERVE_H
#define BOOTSEER_DATAPATH_SERVE_H

#include <stdatomic.h>

#include "snapshotter/datapath/image_session.h"

/* A part of an answer whose bytes come from one place. */
struct read_piece {
	uint64_t voff; /* offset in the device, if data is NULL */
	/* the bytes themselves, valid as long as the image; or NULL */
	const void *data;
	size_t len;
	bool zero; /* true: the piece is zeros */
};

/* Names the next piece of an answer; see serve_read(). */
typedef int read_next_fn(const struct image_entry *image, uint64_t local,
			 uint64_t off, size_t len, struct read_piece *ret,
			 struct error *err);

/* The range that a READ asks for. */
struct read_request {
	struct session *session; /* held until the answer was sent */
	struct fuse_req *req;
	struct image_entry *image;
	uint64_t local; /* for next_piece: the inode in the image */
	uint64_t off;
	size_t len;
	read_next_fn *next_piece;
};

/* A READ that is being answered. */
struct read_slot {
	struct device_read read;
	struct read_pool *pool;
	struct read_request ask;
	size_t done; /* bytes of the answer that are in the buffer */
	struct reply_buffer *buffer;
	/* tells which event continues after a piece, see on_piece() */
	atomic_int turn;
	int rc; /* of the last piece */
	struct error err;
};

int read_pool_new(struct read_pool **ret, struct error *err) MUST_CHECK;
/* The last unref frees the pool, when no read is under way. */
void read_pool_ref(struct read_pool *p);
void read_pool_unref(struct read_pool *p); /* NULL is allowed */

/*
 * Answer `req`, of an image session, with bytes [off, off + len) of a node, pieces
 * of which `next_piece` names one after the other.  Takes the reference `image`.
 * Does not block: the request waits in a queue until it gets a buffer.  Reads of
 * bytes that are not on the node have half of the buffers, over all images; reads of
 * bytes that are here wait for none of those.
 * The answer is complete or an error, never short.
 */
void serve_read(struct fuse_req *req, struct image_entry *image, uint64_t local,
		uint64_t off, size_t len, read_next_fn *next_piece);

#endif
