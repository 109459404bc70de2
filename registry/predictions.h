// SPDX-License-Identifier: Apache-2.0
/*
 * Predicts what a start reads, for images that were never started: made from the merged lists of
 * many repositories, cached in memory, and made again every five seconds while they are used.
 * SECURITY.md says which content is revealed to which callers.
 */
#ifndef BOOTSEER_REGISTRY_PREDICTIONS_H
#define BOOTSEER_REGISTRY_PREDICTIONS_H

#include "registry/hot.h"

/* A block is shown to other owners once starts of so many owners have read it. */
#define PREDICTION_OWNERS_MIN 3u
#define PREDICTION_OWNER_MAX 256u

/* Any thread may use it. */
struct predictions;
int predictions_new(struct db *db, struct hot *hot, struct predictions **ret,
		    struct error *err) MUST_CHECK;
void predictions_free(struct predictions *p);
DEFINE_AUTO(predictions)

/*
 * Get the prediction for a caller that may see the repositories below `prefix` ("": all): an
 * encoded trace of no image. Blocks while this call makes it, but does not wait for another thread
 * that makes one. -ENOENT: nothing to predict, or the first prediction is being made, or making it
 * failed, which is logged; the caller treats it like a missing trace. Release with
 * predictions_put().
 */
struct prediction_text;
int predictions_get(struct predictions *p, const char *prefix,
		    struct prediction_text **ret, struct error *err) MUST_CHECK;
const struct buf *prediction_trace(const struct prediction_text *t);
void predictions_put(struct predictions *p, struct prediction_text *t);

struct prediction_stats {
	uint64_t asked_total, told_total, made_total, made_ns_total;
	uint64_t entries; /* entries of the latest prediction */
};
void predictions_get_stats(struct predictions *p, struct prediction_stats *ret);

#endif
