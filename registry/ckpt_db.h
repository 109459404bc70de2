// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and saves of checkpoints in the database: of one start with its nodes and rounds, and as
 * one row of sums for each start and stage. The service keeps the sums up to date, so that a list
 * of many starts reads no events. All functions block: call them on pool threads only.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_DB_H
#define BOOTSEER_REGISTRY_CKPT_DB_H

#include "profiler/start_ckpt.h"
#include "registry/db.h"
#include "registry/stage_db.h"

/* A start with its loads and saves, including those after training began. */
struct ckpt_found {
	struct job_start head; /* its texts point into `texts` */
	char *texts[3];
	/* holds only the names that the other members use */
	struct start_set *set;
	struct start_node *nodes;
	size_t n_nodes;
	struct start_ckpt ckpt; /* its node numbers are indices of `nodes` */
	/* number of events dropped because the set was full */
	int64_t left_out;
};

/* Read a start. The caller calls ckpt_found_fini() on `*ret`, also after a failure. -ENOENT: no
 * such start. */
int ckpt_db_get(struct db *db, int64_t id, struct ckpt_found *ret,
		struct error *err) MUST_CHECK;
void ckpt_found_fini(struct ckpt_found *f);

/* About how many bytes of memory `f` takes. */
size_t ckpt_found_bytes(const struct ckpt_found *f);

/* The start's revision, which grows by one with each batch from a node. -ENOENT: no such start. */
int ckpt_db_revision(struct db *db, int64_t id, int64_t *ret,
		     struct error *err) MUST_CHECK;

/* Find starts that sent events after their loads and saves were last summed up, if that was at
 * least a minute ago. Returns the number of ids, or -errno. now: seconds since 1970. */
int ckpt_db_due(struct db *db, int64_t now, int64_t *ids, size_t max,
		struct error *err) MUST_CHECK;

/* Store the sums of a start, unless the database has sums of a later revision. */
int ckpt_db_put(struct db *db, int64_t now, const struct ckpt_found *f,
		struct error *err) MUST_CHECK;

/* All loads or all saves of a start; texts are borrowed. */
struct ckpt_row {
	int64_t start, attempt;
	int64_t last; /* when the last run ended, seconds since 1970 */
	int64_t rounds, nodes, runs, open, bytes;
	int64_t job_ms, run_ms, wait_ms, queue_ms, storage_ms, network_ms;
	/* times of nodes; `slow`: how many nodes were slow */
	int64_t median_ms, max_ms, slow;
	const char *job, *image, *label, *stage;
	const char *slowest; /* name of the slowest node */
};

struct ckpt_query {
	/* seconds since 1970: rows whose `last` is earlier are left out */
	int64_t since;
	struct job_filter filter;
	int64_t limit; /* rows at most */
};

/* Call `each` with each row, the one that ended last first. */
int ckpt_db_list(struct db *db, const struct ckpt_query *q,
		 int (*each)(void *arg, const struct ckpt_row *row), void *arg,
		 struct error *err) MUST_CHECK;

#endif
