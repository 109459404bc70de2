// SPDX-License-Identifier: Apache-2.0
/* Findings of bootseer ops precursors as rules of Prometheus. */
#ifndef BOOTSEER_CLI_OPS_RULES_H
#define BOOTSEER_CLI_OPS_RULES_H

#include "cli/ops_study.h"

/* A file of rules; metrics that tell nothing are left out.  -ENODATA: all are. */
int ops_rules_write(const struct ops_inquiry *q, struct buf *ret,
		    struct error *err) MUST_CHECK;

#endif
