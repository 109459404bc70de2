// SPDX-License-Identifier: Apache-2.0
/* Answering READ requests from a device, with a bounded pool of buffers, which
 * sessions may share. */
#ifndef BOOTSEER_DATAPATH_SERVE_H
#define BOOTSEER_DATAPATH_SERVE_H

#include <stdatomic.h>

#include "snapshotter/datapath/image_session.h"

/* Bytes that lie one after the other in an answer. */
struct read_piece {
	uint64_t voff; /* byte of the device, when data is NULL */
	const void
		*data; /* or the bytes themselves, valid while the image is */
	size_t len;
	bool zero; /* or zeros */
};

/* How an answer is put together; see serve_read(). */
typedef int read_next_fn(const struct image_entry *image, uint64_t local,
			 uint64_t off, size_t len, struct read_piece *ret,
			 struct error *err);

/* The range of a READ. */
struct read_request {
	struct session *session; /* held until the answer was sent */
	struct fuse_req *req;
	struct image_entry *image;
	uint64_t local; /* for next_piece: the node within the image */
	uint64_t off;
	size_t len;
	read_next_fn *next_piece;
};

/* A READ under way. */
struct read_slot {
	struct device_read read;
	struct read_pool *pool;
	struct read_request ask;
	size_t done; /* bytes of it that are in buf */
	struct reply_buffer *buffer;
	atomic_int turn; /* who goes on after a piece, see on_piece() */
	int rc;          /* of the last piece */
	struct error err;
};

int read_pool_new(struct read_pool **ret, struct error *err) MUST_CHECK;
/* The last user frees it, with no read under way. */
void read_pool_ref(struct read_pool *p);
void read_pool_unref(struct read_pool *p); /* NULL is allowed */

/*
 * Answer `req`, of an image session, with bytes [off, off + len) of a node, pieces
 * of which `next_piece` names one after the other.  Takes the reference `image`.
 * Does not block: the request waits in a queue while it can have no buffer.  Reads of
 * bytes that are not on the node have half of the buffers, over all images; reads of
 * bytes that are here wait for none of those.
 * The answer is complete or an error, never short.
 */
void serve_read(struct fuse_req *req, struct image_entry *image, uint64_t local,
		uint64_t off, size_t len, read_next_fn *next_piece);

#endif
