// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes' reports on starts of images, in the database: the last report of each node and start. All
 * functions block: call them on pool threads only.
 */
#ifndef BOOTSEER_REGISTRY_IMAGE_DB_H
#define BOOTSEER_REGISTRY_IMAGE_DB_H

#include "registry/db.h"
#include "registry/image_report.h"

/* starts kept of one node; the oldest are deleted */
#define IMAGE_NODE_STARTS_MAX 100
/* starts kept of all nodes; the oldest are deleted */
#define IMAGE_STARTS_MAX 100000
#define IMAGE_ROWS_MAX 20000 /* rows that one query reads at most */

/* Identifies starts of an image on a node; texts are borrowed. */
struct image_start_name {
	const char *image, *repo, *workload, *node;
};

/* Store a report in place of the node's earlier report on the same start. */
int image_db_put(struct db *db, const struct image_start_name *n, int64_t now,
		 const struct image_report *r, struct error *err) MUST_CHECK;

/* An image and workload that nodes started, with sums. */
struct image_line {
	const char *image, *repo, *workload, *name;
	/* received: of the latest report, seconds since 1970 */
	int64_t starts, nodes, received;
	int64_t peer_bytes, origin_bytes;
};
/* List images, the one reported last first: those of repositories below `prefix` ("": all), and if
 * `repo` is not "", of that repository only. */
int image_db_list(struct db *db, const char *prefix, const char *repo,
		  int64_t limit,
		  int (*each)(void *arg, const struct image_line *l), void *arg,
		  struct error *err) MUST_CHECK;

struct image_start_row {
	const char *node, *job, *name, *figures; /* figures: JSON */
	int64_t attempt, received, peer_bytes, origin_bytes;
};
/* List the starts of an image, repository and workload, the newest first. `n->node` is ignored. */
int image_db_starts(struct db *db, const struct image_start_name *n,
		    int64_t limit,
		    int (*each)(void *arg, const struct image_start_row *r),
		    void *arg, struct error *err) MUST_CHECK;

/* The peers that a node got blocks from, in one start. */
struct image_peers_row {
	struct image_start_name of;
	const char *peers; /* lines in the format of registry/peer_sums.h */
	int64_t peer_bytes, origin_bytes;
};
struct image_peers_query {
	const char *job; /* job of the start; NULL: all starts since `since` */
	int64_t attempt, since;
	const char *image; /* "": any */
};
int image_db_peers(struct db *db, const struct image_peers_query *q,
		   int (*each)(void *arg, const struct image_peers_row *r),
		   void *arg, struct error *err) MUST_CHECK;

/* Delete starts older than `before`, then the oldest beyond the limits. Returns how many. */
int image_db_sweep(struct db *db, int64_t before, struct error *err) MUST_CHECK;

#endif
