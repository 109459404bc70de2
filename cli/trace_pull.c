// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/trace.h"

struct trace_pull_config {
	struct trace_where where;
	char *output;
	bool exact;
};

static const struct option_spec options[] = {
	{ .key = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .def = "-",
	  .offset = offsetof(struct trace_pull_config, output),
	  .help = "Where to write it; - is standard output." },
	{ .key = "exact",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct trace_pull_config, exact),
	  .help = "Not the trace of another image or workload, when there is "
		  "none of this one." },
	TRACE_WORKLOAD_OPTION("Which start; needed when the image has traces "
			      "of several, or none of its own."),
	TRACE_WHERE_OPTIONS,
	{ .key = NULL },
};

static int run_trace_pull(const void *config, char **args, struct error *err)
{
	const struct trace_pull_config *c = config;
	AUTO(trace_place) p = NULL;
	struct trace_found f;
	int rc = trace_place_new(&c->where, args[0], &p, err);

	if (rc < 0)
		return rc;
	p->query.exact = c->exact;
	rc = trace_get_for(p, p->store, &f, err);
	if (rc < 0)
		return rc;
	rc = trace_write(c->output, f.trace, err);
	if (rc == 0)
		trace_tell(&f, args[0]);
	trace_free(f.trace);
	return rc;
}

const struct command trace_pull_command = {
	.brief = "Get the trace of an image into a file",
	.program = {
		.name = "bootseer trace pull",
		.usage = "[OPTIONS] REF",
		.summary = "Get the trace of the image REF as a node would, "
			   "into a file.",
		.options = options,
		.examples = "bootseer trace pull -o start.trace "
			    "docker://reg.example/app:1\n",
		.min_args = 1,
	},
	.config_size = sizeof(struct trace_pull_config),
	.check = trace_check_first,
	.run = run_trace_pull,
};
