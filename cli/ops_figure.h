// SPDX-License-Identifier: Apache-2.0
/* Figures (SVG) of a report of bootseer ops. */
#ifndef BOOTSEER_CLI_OPS_FIGURE_H
#define BOOTSEER_CLI_OPS_FIGURE_H

#include "profiler/ops/saves.h"

/* Write a text from strangers as HTML; unprintable characters become question marks. */
void ops_figure_text(const char *s, FILE *out);

struct ops_inquiry;

/* All data about a span of time; all but `phases` and `axis` may be NULL. */
struct ops_timeline {
	const struct ops_phases *phases;
	const struct ops_series *axis;
	const struct ops_set *set;
	const struct ops_rule *rule;
	const struct ops_inquiry *inquiry;
};

/* Draw large jobs, failures of nodes, and phases on one time axis. */
void ops_figure_timeline(const struct ops_timeline *t, FILE *out);
/* Draw the largest (or lowest) value of each column of pixels; values are divided by `scale` to
 * have the unit `unit`. */
void ops_figure_line(const char *title, const struct ops_series *s,
		     double scale, const char *unit, bool is_lowest, FILE *out);

/* Draw a bar for each value, and a line at `mark` (0: none), such as the mean. */
struct ops_figure_bar {
	const char *label; /* chosen by strangers; NULL: none */
	double value;
};
void ops_figure_bars(const char *title, const struct ops_figure_bar *v,
		     size_t n, const char *unit, double mark, FILE *out);

/* Draw lead times: how long before each failure its first precursor came. */
void ops_figure_leads(const struct ops_inquiry *q, FILE *out);

#endif
