// SPDX-License-Identifier: Apache-2.0
/*
 * Reports of nodes on starts of images, in the database: the last report of each node and
 * start. All of it blocks: threads of the pool only.
 */
#ifndef BOOTSEER_REGISTRY_IMAGE_DB_H
#define BOOTSEER_REGISTRY_IMAGE_DB_H

#include "registry/db.h"
#include "registry/image_report.h"

#define IMAGE_NODE_STARTS_MAX 100 /* of one node; the oldest leave */
#define IMAGE_STARTS_MAX 100000   /* of all nodes; likewise */
#define IMAGE_ROWS_MAX 20000      /* that one question reads */

/* Which start of an image; texts are borrowed. */
struct image_start_name {
	const char *image, *repo, *workload, *node;
};

/* Put it in the place of what the node said before of the same start. */
int image_db_put(struct db *db, const struct image_start_name *n, int64_t now,
		 const struct image_report *r, struct error *err) MUST_CHECK;

/* An image with a workload that nodes started. */
struct image_line {
	const char *image, *repo, *workload, *name;
	int64_t starts, nodes, received; /* received: the last, s since 1970 */
	int64_t peer_bytes, origin_bytes;
};
/* The last heard of first; of a token that is bound to `prefix` (or ""), and of one
 * repository unless that is "". */
int image_db_list(struct db *db, const char *prefix, const char *repo,
		  int64_t limit,
		  int (*each)(void *arg, const struct image_line *l), void *arg,
		  struct error *err) MUST_CHECK;

struct image_start_row {
	const char *node, *job, *name, *figures; /* figures: JSON */
	int64_t attempt, received, peer_bytes, origin_bytes;
};
/* List the starts of an image, repository and workload; the newest first. `n->node` is
 * not asked. */
int image_db_starts(struct db *db, const struct image_start_name *n,
		    int64_t limit,
		    int (*each)(void *arg, const struct image_start_row *r),
		    void *arg, struct error *err) MUST_CHECK;

/* From whom a node had blocks. */
struct image_peers_row {
	struct image_start_name of;
	const char *peers; /* lines of registry/peer_sums.h */
	int64_t peer_bytes, origin_bytes;
};
struct image_peers_query {
	const char *job; /* of this start; NULL: of all since `since` */
	int64_t attempt, since;
	const char *image; /* "" any */
};
int image_db_peers(struct db *db, const struct image_peers_query *q,
		   int (*each)(void *arg, const struct image_peers_row *r),
		   void *arg, struct error *err) MUST_CHECK;

/* Forget what is older than `before`, then what is too much; how many. */
int image_db_sweep(struct db *db, int64_t before, struct error *err) MUST_CHECK;

#endif
