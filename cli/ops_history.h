// SPDX-License-Identifier: Apache-2.0
/* The events of each node in one list: left out, cordoned, away, failed, slow. */
#ifndef BOOTSEER_CLI_OPS_HISTORY_H
#define BOOTSEER_CLI_OPS_HISTORY_H

#include "cli/ops_study.h"

struct ops_event {
	const char *node; /* borrowed from the set or the inquiry */
	double from_s, to_s;
	const char *what; /* "left-out", "cordoned", "away", "failed", "slow" */
	char text[160];
};

struct ops_history {
	struct ops_event *v; /* sorted by node and time */
	size_t n, cap;
};

/* Make the list; `q` is NULL without metrics of nodes.  Release by ops_history_fini(). */
int ops_history_make(const struct ops_set *s, const struct ops_rule *r,
		     const struct ops_exclusions *e,
		     const struct ops_inquiry *q, struct ops_history *ret,
		     struct error *err) MUST_CHECK;
void ops_history_fini(struct ops_history *h);

void ops_history_print(FILE *out, const struct ops_history *h);
json_t *ops_history_json(const struct ops_history *h);

#endif
