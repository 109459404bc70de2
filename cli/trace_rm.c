// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "cli/command.h"
#include "cli/trace.h"

struct trace_rm_config {
	struct trace_where where;
	bool all;
};

static const struct option_spec options[] = {
	{ .key = "all",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct trace_rm_config, all),
	  .help = "The traces of every workload." },
	TRACE_WORKLOAD_OPTION("The trace of this start."),
	TRACE_WHERE_OPTIONS,
	{ .key = NULL },
};

static int check_trace_rm(const void *config, char **args, struct error *err)
{
	const struct trace_rm_config *c = config;

	if (c->all == (c->where.workload != NULL))
		return error_set(err, EINVAL,
				 "say which with --workload, or --all");
	return trace_where_check(&c->where, args[0], err);
}

static int run_trace_rm(const void *config, char **args, struct error *err)
{
	const struct trace_rm_config *c = config;
	AUTO(trace_place) p = NULL;
	int rc = trace_place_new(&c->where, args[0], &p, err);

	if (rc == 0)
		rc = trace_store_remove(p->store, &p->query, err);
	if (rc == -ENOENT)
		rc = error_wrap(err, rc,
				"'%s' (what there is: 'bootseer trace ls')",
				args[0]);
	if (rc == 0)
		printf("%s: %s removed\n", args[0],
		       c->all ? "its traces are" : "the trace is");
	return rc;
}

const struct command trace_rm_command = {
	.brief = "Forget traces of an image",
	.program = {
		.name = "bootseer trace rm",
		.usage = "[OPTIONS] REF",
		.summary = "Forget traces of the image REF; the next start is "
			   "recorded anew.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct trace_rm_config),
	.check = check_trace_rm,
	.run = run_trace_rm,
};
