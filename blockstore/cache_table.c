// SPDX-License-Identifier: Apache-2.0
/* Finds entries by digest: a hash table in shards. Also has the clock list. */
#include <string.h>

#include "blockstore/cache.h"
#include "common/bytes.h"

#define BUCKETS_FIRST 16u

int table_init(struct cache *c, struct error *err)
{
	int rc;

	c->free_entries = ENTRY_NIL;
	c->clock_head = ENTRY_NIL;
	c->clock_tail = ENTRY_NIL;
	for (size_t i = 0; i < CACHE_SHARDS; i++) {
		(void)pthread_mutex_init(&c->shards[i].lock, NULL);
		(void)pthread_cond_init(&c->shards[i].verified_one, NULL);
	}
	rc = hash_seed_new(&c->seed, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		s->buckets = malloc(BUCKETS_FIRST * sizeof(*s->buckets));
		if (!s->buckets)
			return error_nomem(err);
		memset(s->buckets, 0xff, BUCKETS_FIRST * sizeof(*s->buckets));
		s->mask = BUCKETS_FIRST - 1;
	}
	return 0;
}

void table_fini(struct cache *c)
{
	for (size_t i = 0; i < CACHE_SHARDS; i++) {
		free(c->shards[i].buckets);
		(void)pthread_cond_destroy(&c->shards[i].verified_one);
		(void)pthread_mutex_destroy(&c->shards[i].lock);
	}
	for (size_t i = 0; i < ENTRY_CHUNKS_MAX && c->chunks[i]; i++)
		free(c->chunks[i]);
}

static uint32_t bucket_of(const struct cache *c, const struct shard *s,
			  const struct digest *d)
{
	return (uint32_t)hash_seeded(&c->seed, d->b, sizeof(d->b)) & s->mask;
}

uint32_t table_find(struct cache *c, struct shard *s, const struct digest *d)
{
	uint32_t id = s->buckets[bucket_of(c, s, d)];

	while (id != ENTRY_NIL) {
		const struct entry *e = entry_at(c, id);

		if (digest_equal(&e->digest, d))
			break;
		id = e->hnext;
	}
	return id;
}

uint32_t table_take(struct cache *c)
{
	uint32_t id = c->free_entries, chunk;

	if (id != ENTRY_NIL) {
		c->free_entries = entry_at(c, id)->hnext;
		return id;
	}
	chunk = c->n_entries / ENTRY_CHUNK;
	if (chunk == ENTRY_CHUNKS_MAX)
		return ENTRY_NIL;
	if (!c->chunks[chunk]) {
		c->chunks[chunk] = calloc(ENTRY_CHUNK, sizeof(struct entry));
		if (!c->chunks[chunk])
			return ENTRY_NIL;
	}
	return c->n_entries++;
}

void table_give(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);

	memset(e, 0, sizeof(*e));
	e->hnext = c->free_entries;
	c->free_entries = id;
}

/* Double the buckets. When memory is short, chains just get longer. */
static void cache_table_grow(struct cache *c, struct shard *s)
{
	size_t n = ((size_t)s->mask + 1) * 2;
	uint32_t *old = s->buckets, n_old = s->mask + 1;
	uint32_t *fresh = malloc(n * sizeof(*fresh));

	if (!fresh)
		return;
	memset(fresh, 0xff, n * sizeof(*fresh));
	s->buckets = fresh;
	s->mask = (uint32_t)n - 1;
	for (uint32_t i = 0; i < n_old; i++) {
		uint32_t id = old[i];

		while (id != ENTRY_NIL) {
			struct entry *e = entry_at(c, id);
			uint32_t *to = &fresh[bucket_of(c, s, &e->digest)];
			uint32_t next = e->hnext;

			e->hnext = *to;
			*to = id;
			id = next;
		}
	}
	free(old);
}

void table_insert(struct cache *c, struct shard *s, uint32_t id)
{
	struct entry *e = entry_at(c, id);
	uint32_t *to;

	if (s->count > s->mask)
		cache_table_grow(c, s);
	to = &s->buckets[bucket_of(c, s, &e->digest)];
	e->hnext = *to;
	*to = id;
	s->count++;
}

void table_remove(struct cache *c, struct shard *s, uint32_t id)
{
	struct entry *e = entry_at(c, id);
	uint32_t *at = &s->buckets[bucket_of(c, s, &e->digest)];

	while (*at != id)
		at = &entry_at(c, *at)->hnext;
	*at = e->hnext;
	e->hnext = ENTRY_NIL;
	s->count--;
}

void clock_append(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);

	e->prev = c->clock_tail;
	e->next = ENTRY_NIL;
	if (c->clock_tail != ENTRY_NIL)
		entry_at(c, c->clock_tail)->next = id;
	else
		c->clock_head = id;
	c->clock_tail = id;
}

void clock_prepend(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);

	e->next = c->clock_head;
	e->prev = ENTRY_NIL;
	if (c->clock_head != ENTRY_NIL)
		entry_at(c, c->clock_head)->prev = id;
	else
		c->clock_tail = id;
	c->clock_head = id;
}

void clock_remove(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);

	if (e->prev != ENTRY_NIL)
		entry_at(c, e->prev)->next = e->next;
	else
		c->clock_head = e->next;
	if (e->next != ENTRY_NIL)
		entry_at(c, e->next)->prev = e->prev;
	else
		c->clock_tail = e->prev;
}
