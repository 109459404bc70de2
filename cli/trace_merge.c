// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/trace.h"

#define FILES_MAX 1000

struct merge_config {
	struct trace_where where; /* only its member `workload` is used */
	char *output;
};

static const struct option_spec options[] = {
	{ .key = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .def = "-",
	  .offset = offsetof(struct merge_config, output),
	  .help = "Where to write it; - is standard output." },
	TRACE_WORKLOAD_OPTION("The key of the result; needed when the files "
			      "have several."),
	{ .key = NULL },
};

static int check_trace(struct trace *t, const struct trace *first,
		       const char *workload, const char *file,
		       struct error *err)
{
	if (workload)
		return trace_rename(t, workload, err);
	if (strcmp(t->info.workload, first->info.workload) != 0)
		return error_set(err, EINVAL,
				 "%s is of workload '%s', those before of "
				 "'%s': if that is meant, say --workload",
				 file, t->info.workload, first->info.workload);
	return 0;
}

static int merge_traces(struct trace **t, size_t n,
			const struct merge_config *c, struct error *err)
{
	const struct trace *runs[FILES_MAX];
	AUTO(trace) merged = NULL;
	int rc;

	memcpy(runs, t, n * sizeof(*t));
	rc = trace_merge_recent(runs, n, &merged, err);
	return rc < 0 ? rc : trace_write(c->output, merged, err);
}

static int check_trace_merge(const void *config, char **args, struct error *err)
{
	size_t n = 0;

	(void)config;
	while (args[n])
		n++;
	return n > FILES_MAX
		       ? error_set(err, E2BIG, "more than %d files", FILES_MAX)
		       : 0;
}

static int run_trace_merge(const void *config, char **args, struct error *err)
{
	const struct merge_config *c = config;
	struct trace *t[FILES_MAX];
	size_t n = 0;
	int rc = 0;

	for (; rc == 0 && args[n]; n++) {
		rc = trace_read(args[n], &t[n], err);
		if (rc < 0)
			break;
		rc = check_trace(t[n], t[0], c->where.workload, args[n], err);
	}
	if (rc == 0)
		rc = merge_traces(t, n, c, err);
	while (n)
		trace_free(t[--n]);
	return rc;
}

const struct command trace_merge_command = {
	.brief = "Make one trace of several recordings",
	.program = {
		.name = "bootseer trace merge",
		.usage = "[OPTIONS] FILE...",
		.summary = "Make one trace of several recordings of an "
			   "image's start: each entry gets the share of the "
			   "runs that had it, newer ones weigh more.",
		.options = options,
		.examples = "bootseer trace merge -o all.trace one.trace "
			    "two.trace\n",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct merge_config),
	.check = check_trace_merge,
	.run = run_trace_merge,
};
