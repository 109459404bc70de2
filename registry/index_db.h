// SPDX-License-Identifier: Apache-2.0
/*
 * Indexes of ordinary images, which nodes made and offer to others: docs/formats/registry-api.md,
 * "Indexes of images".  An offer is of an image, a repository and an owner (a token or a
 * certificate), and its bytes, which come in parts, are asked for by its number: nobody puts other
 * bytes in the place of another's.  All of it
 * blocks: threads of the pool only.  Times are seconds since 1970, and the caller's.
 */
#ifndef BOOTSEER_REGISTRY_INDEX_DB_H
#define BOOTSEER_REGISTRY_INDEX_DB_H

#include "common/buf.h"
#include "registry/db.h"

#define INDEX_PART_MAX (4u << 20)  /* bytes */
#define INDEX_PARTS_MAX 256        /* of one offer */
#define INDEX_SIGNATURE_MAX 32768u /* bytes, as it was sent */
#define INDEX_CLAIM_S 7200         /* from the last part of a node on */
#define INDEX_KEEP_S 3600          /* one so young is not made anew */
#define INDEX_OFFERS_MAX 10000     /* of one owner */
#define INDEX_LIST_MAX 8           /* offers of an image that are shown */

enum index_state {
	INDEX_COMING,    /* a node makes or sends it */
	INDEX_WHOLE,     /* others may have it */
	INDEX_WITHDRAWN, /* somebody found it wrong */
};

/* The owner of an offer; texts are borrowed. */
struct index_name {
	const char *image, *repo, *owner, *node;
	int64_t now;
};

/* 1: `node` is to make it.  0: `ret` says why not. -EDQUOT: the owner offers too many. */
int index_db_claim(struct db *db, const struct index_name *n,
		   enum index_state *ret, struct error *err) MUST_CHECK;

/* Part `part` of what `node` claimed; `max` bytes are kept in all, and the owner that takes
 * most gives what was used least recently. -ECANCELED: it has no claim.  -EFBIG. */
int index_db_put_part(struct db *db, const struct index_name *n, int64_t part,
		      const void *data, size_t len, uint64_t max,
		      struct error *err) MUST_CHECK;

struct index_published {
	const char *artifact;  /* its digest */
	const char *signature; /* base64 */
	int64_t parts;
};
/* All parts came: what the owner offered before goes. -ECANCELED: no claim, other parts, or
 * somebody withdrew this artifact. */
int index_db_publish(struct db *db, const struct index_name *n,
		     const struct index_published *p,
		     struct error *err) MUST_CHECK;

/* Offers that are whole, of anybody, the newest first; texts are borrowed for the call. */
struct index_offer {
	const char *artifact, *signature;
	int64_t bytes, parts, made, id;
};
int index_db_list(struct db *db, const struct index_name *n,
		  int (*each)(void *arg, const struct index_offer *o),
		  void *arg, struct error *err) MUST_CHECK;

/* A part of the offer `id` that is whole, and of this artifact. -ENOENT. */
int index_db_part(struct db *db, const struct index_name *n, int64_t id,
		  const char *artifact, int64_t part, struct buf *ret,
		  struct error *err) MUST_CHECK;

/* The artifact is wrong: whoever offered it.  How many offers. */
int index_db_withdraw(struct db *db, const struct index_name *n,
		      const char *artifact, struct error *err) MUST_CHECK;

/* Forget all offers of an image in a repository, also that they were withdrawn. */
int index_db_forget(struct db *db, const struct index_name *n,
		    struct error *err) MUST_CHECK;

/* Remove offers that nobody used since `before`, and claims that are over by `now`. */
int index_db_sweep(struct db *db, int64_t before, int64_t now,
		   struct error *err) MUST_CHECK;

#endif
