// SPDX-License-Identifier: Apache-2.0
/*
 * A stream cut into parts that are sent in parallel. A part stays in memory until the store has
 * it, so that it can be sent again.
 */
#ifndef BOOTSEER_OBJECTS_STORE_PARTS_H
#define BOOTSEER_OBJECTS_STORE_PARTS_H

#include <pthread.h>

#include "objects/store/backend.h"

/* Part sizes grow, so that large objects have few parts: after each PARTS_GROW parts the size
 * doubles, up to a limit. */
#define PARTS_GROW 1000u

struct put_parts;

/* A part. The sender owns it from start() until put_parts_done(). */
struct part {
	struct object_put *put;
	unsigned int n;   /* number of the part, from 0 */
	uint64_t off;     /* offset of the part in the object */
	void *data;       /* page-aligned, in the store's memory */
	size_t len, size; /* bytes in it; size of the buffer */
	struct put_parts *of;
	struct work work;
	int64_t asked_ns; /* when it was queued for the workers */
};

/* Send the part, and return when it is sent. On a worker. */
typedef int put_parts_send_fn(const struct part *p, struct error *err);
/* Begin to send the part; put_parts_done() ends it, from any thread. */
typedef int put_parts_start_fn(struct part *p, struct error *err);

/* How a back end sends parts. */
struct put_parts_way {
	put_parts_send_fn *send;
	put_parts_start_fn *start; /* used when `send` is NULL */
	size_t part_size;
	unsigned int max_parallel; /* parts of one put sent at once */
};

/* Waits for the memory of the first part. */
int put_parts_new(struct object_put *p, const struct put_parts_way *way,
		  struct put_parts **ret, struct error *err) MUST_CHECK;
/* Waits for the parts being sent. */
void put_parts_free(struct put_parts *s);
/* `err` says why when `rc` is not 0. */
void put_parts_done(struct part *p, int rc, const struct error *err);

/* object_store_ops.put_room. NULL: the current part has less room. */
void *put_parts_room(struct object_put *p, size_t len);
/* object_store_ops.put_write. Bytes already at put_parts_room() are not copied. */
int put_parts_write(struct object_put *p, const void *data, size_t len,
		    struct error *err) MUST_CHECK;
/* Send the rest, and wait for all parts; if no part was sent yet, send nothing. */
int put_parts_finish(struct put_parts *s, struct error *err) MUST_CHECK;
/* Number of parts begun; if none, *ret_data has all bytes of the object. */
unsigned int put_parts_count(const struct put_parts *s, const void **ret_data,
			     size_t *ret_len);

#endif
