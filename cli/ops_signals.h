// SPDX-License-Identifier: Apache-2.0
/* The metrics by which nodes are compared. */
#ifndef BOOTSEER_CLI_OPS_SIGNALS_H
#define BOOTSEER_CLI_OPS_SIGNALS_H

#include "cli/ops_prom.h"
#include "common/buf.h"

enum ops_signal_kind {
	OPS_SIGNAL_VALUE,
	OPS_SIGNAL_RATE,   /* rate of a counter */
	OPS_SIGNAL_ERRORS, /* growth of a counter in the last 15 minutes */
};

struct ops_signal {
	const char *over; /* joins the series of a node: "sum", "min", "max" */
	enum ops_signal_kind kind;
	const char *metric;
	const char *labels; /* in braces; "": none */
	int slow;           /* how a slow node differs: -1: lower; 1:
	                     * higher; 0: not */
	bool is_there;      /* the server is known to have the metric */
};

struct ops_signals {
	struct buf text; /* memory of all texts */
	struct ops_signal *v;
	size_t n;
};

/* The signals that a file lists, or the usual ones where `path` is NULL.  -EINVAL, as
 * fs_read_file(). */
int ops_signals_read(const char *path, struct ops_signals *ret,
		     struct error *err) MUST_CHECK;
void ops_signals_fini(struct ops_signals *s);

#define OPS_SIGNAL_NAME_MAX 160

/* The metric's name as a unique name without quotes.  If the metric stands in the list twice, a
 * colon and its position are appended. */
void ops_signal_name(const struct ops_signals *s, size_t index,
		     char out[OPS_SIGNAL_NAME_MAX]);

/* Append a query that gives a value for each node. */
int ops_signal_query(const struct ops_signal *s,
		     const struct ops_prom_config *c, uint32_t step_s,
		     struct buf *ret, struct error *err) MUST_CHECK;
/* ops_signal_query() for errors, over `length_s` seconds: 0 if no error came in that time. */
int ops_signal_growth_query(const struct ops_signal *s,
			    const struct ops_prom_config *c, uint32_t length_s,
			    struct buf *ret, struct error *err) MUST_CHECK;

#endif
