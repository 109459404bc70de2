// SPDX-License-Identifier: Apache-2.0
/*
 * Merged lists of hot blocks: made from the recordings (votes) in the database, stored there, and
 * cached in bounded memory. A cached list is used while the database names its version, and up to a
 * second longer, because a list that keeps changing is merged once a second.
 */
#ifndef BOOTSEER_REGISTRY_HOT_H
#define BOOTSEER_REGISTRY_HOT_H

#include "common/buf.h"
#include "registry/trace_db.h"

#define HOT_ETAG_MAX 40

/* A merged list; it never changes. */
struct hot_list_text {
	struct buf trace; /* encoded trace */
	char etag[HOT_ETAG_MAX];
	uint64_t votes;
};

struct hot_stats {
	uint64_t hits_total, misses_total, stale_total, merges_total;
	uint64_t merge_ns_total, merge_failures_total;
	uint64_t lists, bytes;
};

/* The cache of lists. Any thread may use it. */
struct hot;
int hot_new(struct db *db, uint64_t bytes_max, int64_t timeout_ns,
	    struct hot **ret, struct error *err) MUST_CHECK;
void hot_free(struct hot *h);
DEFINE_AUTO(hot)

/*
 * Get the list of a start. Blocks: the first caller merges, the others wait for its result. While
 * other lists are merged, the result may be older than the version in `s`. -ENOENT: the start's
 * recordings have gone. -EBUSY: there is no list yet and merging takes too long, or too many
 * threads wait for a merge, or slow clients hold too much memory. Release with hot_put().
 */
int hot_get(struct hot *h, const struct start *s, struct hot_list_text **ret,
	    struct error *err) MUST_CHECK;
/* The same without merging: returns an existing list of any version. */
int hot_get_merged(struct hot *h, const struct start *s,
		   struct hot_list_text **ret, struct error *err) MUST_CHECK;
void hot_put(struct hot *h, struct hot_list_text *l);

void hot_get_stats(struct hot *h, struct hot_stats *ret);

#endif
