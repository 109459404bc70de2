// SPDX-License-Identifier: Apache-2.0
/* Read failures, and the metrics of nodes before them, from a Prometheus. */
#ifndef BOOTSEER_CLI_OPS_STUDY_H
#define BOOTSEER_CLI_OPS_STUDY_H

#include "cli/ops.h"
#include "cli/ops_signals.h"
#include "common/hash.h"
#include "profiler/ops/precursors.h"

struct ops_node_name {
	uint32_t number;
	UT_hash_handle hh;
	char name[];
};

struct ops_inquiry {
	const struct ops_config *c;
	struct prom *prom;
	struct ops_signals signals;
	struct ops_node_name *names;  /* hash table by name */
	struct ops_node_name **nodes; /* array by number */
	size_t n_nodes, cap_nodes;
	struct ops_failure *failures;
	size_t n_failures, cap_failures, n_left_out;
	bool has_gpus; /* nodes are only compared while their GPUs work */
	struct ops_span span;
	struct ops_windows windows;
	struct ops_window now;     /* window of the last samples */
	struct ops_windows latest; /* list that has only `now` */
	struct ops_study *study;
	const struct ops_precursors *found; /* points into `study` */
	int64_t begin_ns;
};

/* Read all data and compare the nodes.  Release by ops_inquiry_free(). */
int ops_read_inquiry(const struct ops_config *c, struct ops_inquiry **ret,
		     struct error *err) MUST_CHECK;
void ops_inquiry_free(struct ops_inquiry *q);
DEFINE_AUTO(ops_inquiry)

/* Read the last OPS_STAY samples of a metric, or of the GPUs' utilisation. */
int ops_read_now(struct ops_inquiry *q, const struct ops_signal *s,
		 int64_t now_s, struct ops_panel *p,
		 struct error *err) MUST_CHECK;
int ops_read_now_gpus(struct ops_inquiry *q, int64_t now_s, struct ops_panel *p,
		      struct error *err) MUST_CHECK;

/* Results as text and as JSON. */
void ops_print_precursors(FILE *out, const struct ops_inquiry *q);
json_t *ops_precursors_json(const struct ops_inquiry *q);

#endif
