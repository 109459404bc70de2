// SPDX-License-Identifier: Apache-2.0
/*
 * A stream cut into parts, which are sent beside one another.  A part stays in memory
 * until the store has it, so that it can be sent again.
 */
#ifndef BOOTSEER_OBJECTS_STORE_PARTS_H
#define BOOTSEER_OBJECTS_STORE_PARTS_H

#include <pthread.h>

#include "objects/store/backend.h"

/* Parts grow, so that large objects have few: each GROW of them have twice the size
 * of those before, up to the bound. */
#define PARTS_GROW 1000u

struct put_parts;

/* A part; its owner is the sender from its start until put_parts_done(). */
struct part {
	struct object_put *put;
	unsigned int n;   /* from 0 */
	uint64_t off;     /* of its first byte in the object */
	void *data;       /* page-aligned, in the store's memory */
	size_t len, size; /* bytes of it, and room for them */
	struct put_parts *of;
	struct work work;
	int64_t asked_ns; /* when it was given to the workers */
};

/* Send it, and return when it is sent.  On a worker. */
typedef int put_parts_send_fn(const struct part *p, struct error *err);
/* Begin to send it; put_parts_done() ends it, from any thread. */
typedef int put_parts_start_fn(struct part *p, struct error *err);

/* How a back end sends parts. */
struct put_parts_way {
	put_parts_send_fn *send;
	put_parts_start_fn *start; /* used when `send` is NULL */
	size_t part_size;
	unsigned int max_parallel; /* of one put */
};

/* Takes the memory of the first part, waiting for it. */
int put_parts_new(struct object_put *p, const struct put_parts_way *way,
		  struct put_parts **ret, struct error *err) MUST_CHECK;
/* Waits for the parts that are under way. */
void put_parts_free(struct put_parts *s);
/* `err` says why when `rc` is not 0. */
void put_parts_done(struct part *p, int rc, const struct error *err);

/* NULL: the part that is filled has less room. */
void *put_parts_room(struct put_parts *s, size_t len);
/* Bytes that lie in the room already are not copied. */
int put_parts_write(struct put_parts *s, const void *data, size_t len,
		    struct error *err) MUST_CHECK;
/* Send the rest, unless no part was sent, and wait for all. */
int put_parts_finish(struct put_parts *s, struct error *err) MUST_CHECK;
/* How many parts were begun; if none, *ret_data has all bytes of the object. */
unsigned int put_parts_count(const struct put_parts *s, const void **ret_data,
			     size_t *ret_len);

#endif
