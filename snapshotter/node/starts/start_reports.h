// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of starts for bootseer-registry (docs/formats/registry-api.md, "Images"), sent by a
 * thread of its own, so that no start waits.  Reports that cannot be sent are kept, also in
 * files below ROOT for the next bootseerd; if there are too many, the oldest is dropped.  The
 * node has its own copy of the figures anyway.
 */
#ifndef BOOTSEER_NODE_START_REPORTS_H
#define BOOTSEER_NODE_START_REPORTS_H

#include "common/digest.h"
#include "snapshotter/node/config.h"

#define START_REPORTS_MAX 64 /* reports that wait */
/* size of a report; the service takes no more */
#define START_REPORT_BYTES 16384

struct start_reports;

/* Without --service `*ret` is NULL, and the other functions do nothing with it. */
int start_reports_new(const struct node_config *cfg, struct start_reports **ret,
		      struct error *err) MUST_CHECK;
/* Close; waiting reports are in files then.  A report that is being sent gets some seconds. */
void start_reports_free(struct start_reports *r);

/* The start that a report is about; texts are copied. */
struct start_reported {
	const struct digest *image;
	const char *repo, *workload;
};
/* Add a report; takes `body`, JSON; NULL: nothing is added. */
void start_reports_add(struct start_reports *r, const struct start_reported *of,
		       char *body);

struct start_reports_stats {
	uint64_t sent, waiting;
	uint64_t dropped; /* too many waited, or the service does not take it */
};
void start_reports_get_stats(struct start_reports *r,
			     struct start_reports_stats *ret);

#endif
