// SPDX-License-Identifier: Apache-2.0
/* Write the findings of bootseer ops precursors as Prometheus rules. */
#ifndef BOOTSEER_CLI_OPS_RULES_H
#define BOOTSEER_CLI_OPS_RULES_H

#include "cli/ops_study.h"

/* Make a file of rules, without metrics that tell nothing.  -ENODATA: no metric is left. */
int ops_rules_write(const struct ops_inquiry *q, struct buf *ret,
		    struct error *err) MUST_CHECK;

#endif
