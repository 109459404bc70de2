// SPDX-License-Identifier: Apache-2.0
/*
 * Merged lists: made from the votes in the database, kept there and in a bounded
 * memory.  What is in memory is only used for the version that the database names
 * now, or for a second longer: a list that changes is merged once a second.
 */
#ifndef BOOTSEER_REGISTRY_HOT_H
#define BOOTSEER_REGISTRY_HOT_H

#include "common/buf.h"
#include "registry/trace_db.h"

#define HOT_ETAG_MAX 40

/* A list; never changes. */
struct hot_list_text {
	struct buf trace; /* encoded */
	char etag[HOT_ETAG_MAX];
	uint64_t votes;
};

struct hot_stats {
	uint64_t hits_total, misses_total, stale_total, merges_total;
	uint64_t merge_ns_total, merge_failures_total;
	uint64_t lists, bytes;
};

/* Any thread. */
struct hot;
int hot_new(struct db *db, uint64_t bytes_max, int64_t timeout_ns,
	    struct hot **ret, struct error *err) MUST_CHECK;
void hot_free(struct hot *h);
DEFINE_AUTO(hot)

/*
 * The list of a start.  Blocks: the first who asks merges, the others wait for
 * him.  It may be older than `s` says while others are merged.  -ENOENT: its votes
 * have gone; -EBUSY: there is none yet, and merging takes too long or others wait for
 * it already, or too much memory is with clients that are slow.  Release with
 * hot_put().
 */
int hot_get(struct hot *h, const struct start *s, struct hot_list_text **ret,
	    struct error *err) MUST_CHECK;
/* The same without merging anything: a list that was made before, of any version. */
int hot_get_merged(struct hot *h, const struct start *s,
		   struct hot_list_text **ret, struct error *err) MUST_CHECK;
void hot_put(struct hot *h, struct hot_list_text *l);

void hot_get_stats(struct hot *h, struct hot_stats *ret);

#endif
