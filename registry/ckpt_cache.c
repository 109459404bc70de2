// SPDX-License-Identifier: Apache-2.0
#include "registry/ckpt_cache.h"

#include <pthread.h>
#include <stdlib.h>

struct cached_ckpt {
	struct ckpt_found found;
	unsigned int refs; /* users, plus one while the cache keeps it */
};

struct ckpt_cache {
	struct db *db;
	pthread_mutex_t lock; /* protects `kept` and all `refs` */
	/* The most recently used is first; unused places at the end are NULL. */
	struct cached_ckpt *kept[CKPT_CACHE_STARTS];
};

int ckpt_cache_new(struct db *db, struct ckpt_cache **ret, struct error *err)
{
	struct ckpt_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	c->db = db;
	(void)pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

static void cached_free(struct cached_ckpt *e)
{
	ckpt_found_fini(&e->found);
	free(e);
}

void ckpt_cache_free(struct ckpt_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < CKPT_CACHE_STARTS && c->kept[i]; i++)
		cached_free(c->kept[i]);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Put `e` first. Returns the entry that leaves the cache: the older one of the same start, else the
 * last one if the cache was full, else NULL. */
static struct cached_ckpt *move_to_front(struct ckpt_cache *c,
					 struct cached_ckpt *e)
{
	int64_t id = e->found.head.id;

	for (size_t i = 0; i < CKPT_CACHE_STARTS && e; i++) {
		struct cached_ckpt *was = c->kept[i];

		c->kept[i] = e;
		e = was;
		if (e && e->found.head.id == id)
			break;
	}
	return e;
}

static struct cached_ckpt *find_kept(struct ckpt_cache *c, int64_t id,
				     int64_t revision)
{
	struct cached_ckpt *e = NULL;

	(void)pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < CKPT_CACHE_STARTS && c->kept[i] && !e; i++)
		if (c->kept[i]->found.head.id == id &&
		    c->kept[i]->found.head.revision == revision)
			e = c->kept[i];
	if (e) {
		(void)move_to_front(c, e);
		e->refs++;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return e;
}

static void keep_found(struct ckpt_cache *c, struct cached_ckpt *e)
{
	struct cached_ckpt *gone;

	if (ckpt_found_bytes(&e->found) > CKPT_CACHE_BYTES)
		return;
	(void)pthread_mutex_lock(&c->lock);
	e->refs++;
	gone = move_to_front(c, e);
	if (gone && --gone->refs)
		gone = NULL;
	(void)pthread_mutex_unlock(&c->lock);
	if (gone)
		cached_free(gone);
}

/* Find the sums of a start. Sums of fewer events than `least` are not kept. */
static int ckpt_find(struct ckpt_cache *c, int64_t id, int64_t least,
		     const struct ckpt_found **ret, struct error *err)
{
	struct cached_ckpt *e;
	int64_t revision;
	int rc = ckpt_db_revision(c->db, id, &revision, err);

	if (rc < 0)
		return rc;
	e = find_kept(c, id, revision);
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return error_nomem(err);
		e->refs = 1;
		rc = ckpt_db_get(c->db, id, &e->found, err);
		if (rc < 0) {
			cached_free(e);
			return rc;
		}
		if (e->found.head.events >= least)
			keep_found(c, e);
	}
	*ret = &e->found;
	return 0;
}

int ckpt_cache_get(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err)
{
	return ckpt_find(c, id, 0, ret, err);
}

int ckpt_cache_sum(struct ckpt_cache *c, int64_t id,
		   const struct ckpt_found **ret, struct error *err)
{
	return ckpt_find(c, id, CKPT_CACHE_LARGE, ret, err);
}

void ckpt_cache_put(struct ckpt_cache *c, const struct ckpt_found *f)
{
	struct cached_ckpt *e;
	bool is_last;

	if (!f)
		return;
	e = container_of((struct ckpt_found *)(uintptr_t)f, struct cached_ckpt,
			 found);
	(void)pthread_mutex_lock(&c->lock);
	is_last = --e->refs == 0;
	(void)pthread_mutex_unlock(&c->lock);
	if (is_last)
		cached_free(e);
}
