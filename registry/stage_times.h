// SPDX-License-Identifier: Apache-2.0
/*
 * How long stages took on nodes, as histograms of Prometheus: by stage, and of no job or
 * node, so that there are few.  Starts are added when they are over.  Any thread.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_TIMES_H
#define BOOTSEER_REGISTRY_STAGE_TIMES_H

#include "common/buf.h"
#include "profiler/start_report.h"

#define STAGE_TIMES_MAX 64u /* names of stages; the others are "other" */

struct stage_times;
int stage_times_new(struct stage_times **ret, struct error *err) MUST_CHECK;
void stage_times_free(struct stage_times *t);
void stage_times_add(struct stage_times *t, const struct start_report *r);
/* Append them in the text format.  -ENOMEM. */
int stage_times_format(struct stage_times *t, struct buf *ret) MUST_CHECK;

#endif
