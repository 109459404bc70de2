// SPDX-License-Identifier: Apache-2.0
/* Buffers for blocks that are reused: the one given back last is taken next, so that few are
 * in use and these are in the processor's cache. */
#include <pthread.h>
#include <stdlib.h>

#include "blockstore/blockstore.h"

#define KEPT_MAX 8u

/* Link at the start of an unused buffer. */
struct free_room {
	struct free_room *next;
};

struct block_rooms {
	pthread_mutex_t lock; /* protects both members below */
	struct free_room *first;
	unsigned int n_free;
};

struct block_rooms *block_rooms_new(void)
{
	struct block_rooms *r = calloc(1, sizeof(*r));

	if (r)
		(void)pthread_mutex_init(&r->lock, NULL);
	return r;
}

void *block_room_take(struct block_rooms *r)
{
	struct free_room *room = NULL;

	if (r) {
		(void)pthread_mutex_lock(&r->lock);
		room = r->first;
		if (room) {
			r->first = room->next;
			r->n_free--;
		}
		(void)pthread_mutex_unlock(&r->lock);
	}
	return room ? room : malloc(BLOCK_USIZE_MAX);
}

void block_room_give(struct block_rooms *r, void *room)
{
	bool is_kept = false;

	if (r && room) {
		(void)pthread_mutex_lock(&r->lock);
		is_kept = r->n_free < KEPT_MAX;
		if (is_kept) {
			*(struct free_room *)room =
				(struct free_room){ .next = r->first };
			r->first = room;
			r->n_free++;
		}
		(void)pthread_mutex_unlock(&r->lock);
	}
	if (!is_kept)
		free(room);
}

void block_rooms_trim(struct block_rooms *r)
{
	struct free_room *room, *next;

	(void)pthread_mutex_lock(&r->lock);
	room = steal_ptr(&r->first);
	r->n_free = 0;
	(void)pthread_mutex_unlock(&r->lock);
	for (; room; room = next) {
		next = room->next;
		free(room);
	}
}

void block_rooms_free(struct block_rooms *r)
{
	if (!r)
		return;
	block_rooms_trim(r);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}
