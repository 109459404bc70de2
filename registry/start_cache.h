// SPDX-License-Identifier: Apache-2.0
/*
 * Analysed starts, the last ones asked for, so that a page that is looked at costs one
 * analysis for each batch that comes, for which only the events of the nodes that sent
 * something are read.  Any thread; finding blocks on the database.
 */
#ifndef BOOTSEER_REGISTRY_START_CACHE_H
#define BOOTSEER_REGISTRY_START_CACHE_H

#include "profiler/start_blame.h"
#include "registry/db.h"
#include "registry/stage_db.h"

struct start_cache;

/* A start and what was found about it; not changed any more. */
struct start_found {
	struct start_found *next; /* the cache's */
	size_t bytes;
	unsigned int refs;

	struct job_start head; /* its texts are this struct's */
	char *texts[3];
	struct start_set *set;
	struct start_report report;
	struct start_blame *blames;
	size_t n_blames;
	int64_t left_out; /* events past the bounds of a set */
	bool has_events;  /* the set has them still: more may come */
};

int start_cache_new(struct db *db, size_t max_bytes, struct start_cache **ret,
		    struct error *err) MUST_CHECK;
void start_cache_free(struct start_cache *c);

/* The start as it is now; give it back with start_cache_put().  -ENOENT. */
int start_cache_get(struct start_cache *c, int64_t id,
		    const struct start_found **ret,
		    struct error *err) MUST_CHECK;
void start_cache_put(struct start_cache *c, const struct start_found *f);

struct start_cache_stats {
	uint64_t hits_total, misses_total, bytes;
};
void start_cache_get_stats(struct start_cache *c,
			   struct start_cache_stats *ret);

#endif
