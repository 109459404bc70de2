// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of starts for bootseer-registry (docs/formats/registry-api.md, "Images"), sent by a
 * thread of their own: a start waits for none of it.  Reports that cannot be sent wait, also in
 * files below ROOT for the next bootseerd, and the oldest gives way; the node keeps its own
 * figures anyway.
 */
#ifndef BOOTSEER_NODE_START_REPORTS_H
#define BOOTSEER_NODE_START_REPORTS_H

#include "common/digest.h"
#include "snapshotter/node/config.h"

#define START_REPORTS_MAX 64     /* that wait */
#define START_REPORT_BYTES 16384 /* of one; the service takes no more */

struct start_reports;

/* Without --service `*ret` is NULL, and all else does nothing. */
int start_reports_new(const struct node_config *cfg, struct start_reports **ret,
		      struct error *err) MUST_CHECK;
/* Reports that wait are in files then; a report that is being sent has seconds
 * to end. */
void start_reports_free(struct start_reports *r);

/* Which start; texts are copied. */
struct start_reported {
	const struct digest *image;
	const char *repo, *workload;
};
/* Takes `body`, JSON; NULL is nothing. */
void start_reports_add(struct start_reports *r, const struct start_reported *of,
		       char *body);

struct start_reports_stats {
	uint64_t sent, waiting;
	uint64_t dropped; /* too many waited, or the service does not take it */
};
void start_reports_get_stats(struct start_reports *r,
			     struct start_reports_stats *ret);

#endif
