// SPDX-License-Identifier: Apache-2.0
/*
 * Indexes of ordinary images, which nodes make and offer to others: docs/formats/registry-api.md,
 * "Indexes of images". An offer belongs to an image, a repository and an owner (a token or a
 * certificate). Its bytes are stored in parts and read by the offer's number, so that no owner can
 * replace another's bytes. All functions block: call them on pool threads only. Times are seconds
 * since 1970, and passed in by the caller.
 */
#ifndef BOOTSEER_REGISTRY_INDEX_DB_H
#define BOOTSEER_REGISTRY_INDEX_DB_H

#include "common/buf.h"
#include "registry/db.h"

#define INDEX_PART_MAX (4u << 20)  /* bytes of a part */
#define INDEX_PARTS_MAX 256        /* parts of one offer */
#define INDEX_SIGNATURE_MAX 32768u /* bytes of a signature in base64 */
/* a claim ends so long after the node's last part */
#define INDEX_CLAIM_S 7200
#define INDEX_KEEP_S 3600      /* a younger index is not made again */
#define INDEX_OFFERS_MAX 10000 /* offers of one owner */
#define INDEX_LIST_MAX 8       /* offers of an image that a list shows */

enum index_state {
	INDEX_COMING,    /* a node makes or sends the index */
	INDEX_WHOLE,     /* complete: other nodes may read it */
	INDEX_WITHDRAWN, /* a caller reported it as wrong */
};

/* Identifies an owner's offer, and the node that calls; texts are borrowed. */
struct index_name {
	const char *image, *repo, *owner, *node;
	int64_t now;
};

/* Claim the making of an index. Returns 1: `node` shall make it. 0: no need; `ret` is the state of
 * the existing offer. -EDQUOT: the owner has too many offers. */
int index_db_claim(struct db *db, const struct index_name *n,
		   enum index_state *ret, struct error *err) MUST_CHECK;

/* Store part `part` of the index that `node` claimed. At most `max` bytes are stored in all; beyond
 * that, the least recently used offers of the largest owner are deleted. -ECANCELED: the node has
 * no claim. -EFBIG: no room. */
int index_db_put_part(struct db *db, const struct index_name *n, int64_t part,
		      const void *data, size_t len, uint64_t max,
		      struct error *err) MUST_CHECK;

struct index_published {
	const char *artifact;  /* digest of the artifact */
	const char *signature; /* base64 */
	int64_t parts;
};
/* All parts have come: offer the index in place of the owner's earlier one. -ECANCELED: no claim,
 * other parts, or the artifact was withdrawn. */
int index_db_publish(struct db *db, const struct index_name *n,
		     const struct index_published *p,
		     struct error *err) MUST_CHECK;

/* A complete offer of any owner. They are listed newest first; texts are borrowed for the call. */
struct index_offer {
	const char *artifact, *signature;
	int64_t bytes, parts, made, id;
};
int index_db_list(struct db *db, const struct index_name *n,
		  int (*each)(void *arg, const struct index_offer *o),
		  void *arg, struct error *err) MUST_CHECK;

/* Read a part of the complete offer `id`, which must be of this artifact. -ENOENT: there is no such
 * offer or part. */
int index_db_part(struct db *db, const struct index_name *n, int64_t id,
		  const char *artifact, int64_t part, struct buf *ret,
		  struct error *err) MUST_CHECK;

/* Withdraw all offers of a wrong artifact, whichever owner made them. Returns how many. */
int index_db_withdraw(struct db *db, const struct index_name *n,
		      const char *artifact, struct error *err) MUST_CHECK;

/* Delete all offers of an image in a repository, withdrawn ones included. */
int index_db_forget(struct db *db, const struct index_name *n,
		    struct error *err) MUST_CHECK;

/* Delete offers that were not used since `before`, and claims that ended before `now`. */
int index_db_sweep(struct db *db, int64_t before, int64_t now,
		   struct error *err) MUST_CHECK;

#endif
