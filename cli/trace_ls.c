// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "cli/command.h"
#include "cli/trace.h"

struct trace_ls_config {
	struct trace_where where;
	bool json, repository;
};

static const struct option_spec options[] = {
	{ .key = "repository",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct trace_ls_config, repository),
	  .help = "Of all images of the repository." },
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct trace_ls_config, json),
	  .help = "Print JSON." },
	TRACE_WORKLOAD_OPTION("Of this start only."),
	TRACE_WHERE_OPTIONS,
	{ .key = NULL },
};

static int print_json(const struct trace_info *infos, size_t n,
		      struct error *err)
{
	json_t *list = json_array();
	AUTO_FREE char *text = NULL;
	char image[DIGEST_STR_MAX];
	int bad = list ? 0 : -1;

	for (size_t i = 0; bad == 0 && i < n; i++) {
		const struct trace_info *t = &infos[i];

		digest_format(&t->image, image);
		bad = json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b}",
				  "image", image, "repo", t->repo, "workload",
				  t->workload, "created_at",
				  (json_int_t)t->created_at, "window_ms",
				  (json_int_t)t->window_ms, "ready_ms",
				  (json_int_t)t->ready_ms, "runs",
				  (json_int_t)t->runs, "truncated",
				  (int)t->truncated));
	}
	if (bad == 0)
		text = json_dumps(list, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	json_decref(list);
	if (!text)
		return error_nomem(err);
	puts(text);
	return 0;
}

static void print_table(const struct trace_info *infos, size_t n)
{
	char image[DIGEST_STR_MAX], at[TRACE_TIME_MAX];
	int width = (int)strlen("WORKLOAD");

	for (size_t i = 0; i < n; i++)
		if ((int)strlen(infos[i].workload) > width)
			width = (int)strlen(infos[i].workload);
	printf("%-*s  %6s  %-20s  %9s  %s\n", width, "WORKLOAD", "RUNS",
	       "NEWEST", "READY", "IMAGE");
	for (size_t i = 0; i < n; i++) {
		const struct trace_info *t = &infos[i];

		digest_format(&t->image, image);
		trace_format_time(t->created_at, at);
		printf("%-*s  %6" PRIu32 "  %-20s  ", width, t->workload,
		       t->runs, at);
		if (t->ready_ms)
			printf("%7.2f s", t->ready_ms / 1000.0);
		else
			printf("%9s", "-");
		printf("  %.19s\n", image);
	}
}

static int run_trace_ls(const void *config, char **args, struct error *err)
{
	const struct trace_ls_config *c = config;
	AUTO_FREE struct trace_info *infos = NULL;
	AUTO(trace_place) p = NULL;
	size_t n = 0;
	int rc = trace_place_new(&c->where, args[0], &p, err);

	if (rc < 0)
		return rc;
	if (c->repository)
		p->query.image = (struct digest){ .b = { 0 } };
	rc = trace_store_list(p->store, &p->query, &infos, &n, err);
	if (rc == 0 && c->json)
		rc = print_json(infos, n, err);
	else if (rc == 0)
		print_table(infos, n);
	while (n)
		trace_info_fini(&infos[--n]);
	return rc;
}

const struct command trace_ls_command = {
	.brief = "List the traces of an image",
	.program = {
		.name = "bootseer trace ls",
		.usage = "[OPTIONS] [REF]",
		.summary = "List the traces of the image REF; with --local and "
			   "without REF all that this node keeps. RUNS is of how "
			   "many recorded starts a trace was merged, NEWEST "
			   "when the last of them was, READY how long they "
			   "took to be ready (the median).",
		.options = options,
		.max_args = 1,
	},
	.config_size = sizeof(struct trace_ls_config),
	.check = trace_check_first,
	.run = run_trace_ls,
};
