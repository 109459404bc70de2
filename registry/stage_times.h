// SPDX-License-Identifier: Apache-2.0
/*
 * Prometheus histograms of how long stages took on nodes. They are labelled by stage only, not by
 * job or node, so that there are few. A start is added when it is finished. Any thread.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_TIMES_H
#define BOOTSEER_REGISTRY_STAGE_TIMES_H

#include "common/buf.h"
#include "profiler/start_report.h"

/* stages with a histogram of their own; all others are in "other" */
#define STAGE_TIMES_MAX 64u

struct stage_times;
int stage_times_new(struct stage_times **ret, struct error *err) MUST_CHECK;
void stage_times_free(struct stage_times *t);
void stage_times_add(struct stage_times *t, const struct start_report *r);
/* Append the histograms in Prometheus' text format. -ENOMEM. */
int stage_times_format(struct stage_times *t, struct buf *ret) MUST_CHECK;

#endif
