// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/trace.h"

static const struct option_spec options[] = {
	TRACE_WORKLOAD_OPTION("Which of the node's traces; with FILE, the key "
			      "to keep it under instead of its own."),
	TRACE_WHERE_OPTIONS,
	{ .key = NULL },
};

/* The trace to push: from the file, or the one recorded on this node. */
static int load_trace(const struct trace_where *w, struct trace_place *p,
		      const char *file, struct trace **ret, struct error *err)
{
	AUTO(trace_store) local = NULL;
	struct trace_found found;
	int rc;

	if (file) {
		rc = trace_read(file, ret, err);
		if (rc == 0 && w->workload)
			rc = trace_rename(*ret, w->workload, err);
		return rc;
	}
	p->query.exact = true;
	p->where = "on this node";
	rc = trace_open_local(w, &local, err);
	if (rc == 0)
		rc = trace_get_for(p, local, &found, err);
	if (rc == 0)
		*ret = found.trace;
	return rc;
}

static int check_image(const struct trace_place *p, const struct trace *t,
		       struct error *err)
{
	char is[DIGEST_STR_MAX], want[DIGEST_STR_MAX];

	if (digest_equal(&t->info.image, &p->query.image))
		return 0;
	digest_format(&t->info.image, is);
	digest_format(&p->query.image, want);
	return error_set(err, EINVAL,
			 "the trace is of image %s, '%s' is %s: push it to "
			 "its own image, later ones inherit it",
			 is, p->ref, want);
}

/* A trace without a repository gets the repository that it is pushed to. */
static int name_repo(const struct trace_place *p, struct trace *t,
		     struct error *err)
{
	char *repo;

	if (*t->info.repo || !p->repo)
		return 0;
	repo = strdup(p->repo);
	if (!repo)
		return error_nomem(err);
	free(t->info.repo);
	t->info.repo = repo;
	return 0;
}

static int check_trace_push(const void *config, char **args, struct error *err)
{
	const struct trace_where *w = config;

	if (w->local && !args[1])
		return error_set(err, EINVAL,
				 "--local pushes to this node: name a FILE");
	return trace_where_check(w, args[0], err);
}

static int run_trace_push(const void *config, char **args, struct error *err)
{
	const struct trace_where *w = config;
	AUTO(trace_place) p = NULL;
	AUTO(trace) t = NULL;
	int rc = trace_place_new(w, args[0], &p, err);

	if (rc == 0)
		rc = load_trace(w, p, args[1], &t, err);
	if (rc == 0)
		rc = check_image(p, t, err);
	if (rc == 0)
		rc = name_repo(p, t, err);
	if (rc == 0)
		rc = trace_store_put(p->store, t, err);
	if (rc == 0)
		printf("%s: pushed a trace of workload %s, entries: %zu\n",
		       args[0], t->info.workload, t->n);
	return rc;
}

const struct command trace_push_command = {
	.brief = "Keep a trace beside its image, or at the trace service",
	.program = {
		.name = "bootseer trace push",
		.usage = "[OPTIONS] REF [FILE]",
		.summary = "Keep the trace in FILE, or the one that this node "
			   "recorded, beside the image REF; it is merged with "
			   "what is there. FILE - is standard input.",
		.options = options,
		.examples = "bootseer trace push docker://reg.example/app:1\n"
			    "bootseer trace push --service "
			    "https://traces.example docker://reg.example/app:1 "
			    "start.trace\n",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
		.max_args = 2,
	},
	.config_size = sizeof(struct trace_where),
	.check = check_trace_push,
	.run = run_trace_push,
};
