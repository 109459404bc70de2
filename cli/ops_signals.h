// SPDX-License-Identifier: Apache-2.0
/* The metrics by which nodes are compared. */
#ifndef BOOTSEER_CLI_OPS_SIGNALS_H
#define BOOTSEER_CLI_OPS_SIGNALS_H

#include "cli/ops_prom.h"
#include "common/buf.h"

enum ops_signal_kind {
	OPS_SIGNAL_VALUE,
	OPS_SIGNAL_RATE, /* of a counter */
	OPS_SIGNAL_ERRORS, /* growth of a counter in the last quarter of an hour */
};

struct ops_signal {
	const char *over; /* the series of a node: "sum", "min" or "max" */
	enum ops_signal_kind kind;
	const char *metric;
	const char *labels; /* in braces; "" */
	int slow;           /* -1: a slow node has less of it; 1: more; 0 */
	bool is_there;      /* the server has it, as far as it was asked */
};

struct ops_signals {
	struct buf text; /* all texts */
	struct ops_signal *v;
	size_t n;
};

/* The signals that a file lists, or the usual ones where `path` is NULL.  -EINVAL, as
 * fs_read_file(). */
int ops_signals_read(const char *path, struct ops_signals *ret,
		     struct error *err) MUST_CHECK;
void ops_signals_fini(struct ops_signals *s);

#define OPS_SIGNAL_NAME_MAX 160

/* A name that no other signal of the list has, and that needs no quotes: its metric, and behind a
 * colon its place, where that is not enough, for a metric may stand in a list twice. */
void ops_signal_name(const struct ops_signals *s, size_t index,
		     char out[OPS_SIGNAL_NAME_MAX]);

/* An expression with a value for each node. */
int ops_signal_query(const struct ops_signal *s,
		     const struct ops_prom_config *c, uint32_t step_s,
		     struct buf *ret, struct error *err) MUST_CHECK;
/* The same of errors, over so much more time than usual: 0 where none came in all of it. */
int ops_signal_growth_query(const struct ops_signal *s,
			    const struct ops_prom_config *c, uint32_t length_s,
			    struct buf *ret, struct error *err) MUST_CHECK;

#endif
