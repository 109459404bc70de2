// SPDX-License-Identifier: Apache-2.0
/*
 * Cache of analysed starts. A page that is open costs one analysis for each new batch, and each
 * reads only the events of nodes that sent some. Any thread; a lookup blocks on the database.
 */
#ifndef BOOTSEER_REGISTRY_START_CACHE_H
#define BOOTSEER_REGISTRY_START_CACHE_H

#include "profiler/start_blame.h"
#include "registry/db.h"
#include "registry/stage_db.h"

struct start_cache;

/* A start and its analysis; it never changes. */
struct start_found {
	struct start_found *next; /* list of the cache */
	size_t bytes;
	unsigned int refs;

	struct job_start head; /* its texts point into `texts` */
	char *texts[3];
	struct start_set *set;
	struct start_report report;
	struct start_blame *blames;
	size_t n_blames;
	/* number of events dropped because the set was full */
	int64_t left_out;
	/* the set still holds its events, because more may come */
	bool has_events;
};

int start_cache_new(struct db *db, size_t max_bytes, struct start_cache **ret,
		    struct error *err) MUST_CHECK;
void start_cache_free(struct start_cache *c);

/* Get the analysis of the start as it is now. Release it with start_cache_put(). -ENOENT: no such
 * start. */
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
