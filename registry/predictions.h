// SPDX-License-Identifier: Apache-2.0
/*
 * Predictions of starts, for images that nobody has started: made of the merged lists of
 * many repositories, kept in memory and made anew each five seconds while somebody asks.
 * Whose content is told to whom is in SECURITY.md.
 */
#ifndef BOOTSEER_REGISTRY_PREDICTIONS_H
#define BOOTSEER_REGISTRY_PREDICTIONS_H

#include "registry/hot.h"

/* Owners whose starts have read a block before others are told of it. */
#define PREDICTION_OWNERS_MIN 3u
#define PREDICTION_OWNER_MAX 256u

/* Any thread. */
struct predictions;
int predictions_new(struct db *db, struct hot *hot, struct predictions **ret,
		    struct error *err) MUST_CHECK;
void predictions_free(struct predictions *p);
DEFINE_AUTO(predictions)

/*
 * Get the prediction for whoever may see the repositories below `prefix` ("": all): an
 * encoded trace of no image. Blocks while it is made, but for nobody else who makes it.
 * -ENOENT: there is nothing to tell, or it is being made for the first time, or it could
 * not be made, which is logged: for who asks a missing prediction is a missing trace. The
 * caller gives it back.
 */
struct prediction_text;
int predictions_get(struct predictions *p, const char *prefix,
		    struct prediction_text **ret, struct error *err) MUST_CHECK;
const struct buf *prediction_trace(const struct prediction_text *t);
void predictions_put(struct predictions *p, struct prediction_text *t);

struct prediction_stats {
	uint64_t asked_total, told_total, made_total, made_ns_total;
	uint64_t entries; /* of the one made last */
};
void predictions_get_stats(struct predictions *p, struct prediction_stats *ret);

#endif
