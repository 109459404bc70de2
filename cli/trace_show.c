// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/trace.h"
#include "common/progress.h"

struct trace_show_config {
	struct trace_where where;
	bool json;
	uint64_t limit;
};

static const struct option_spec options[] = {
	{ .key = "limit",
	  .letter = 'n',
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct trace_show_config, limit),
	  .help = "At most so many entries; default is all." },
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct trace_show_config, json),
	  .help = "Print JSON, the form that trace commands read too." },
	TRACE_WORKLOAD_OPTION("Which start; needed when the image has traces "
			      "of several."),
	TRACE_WHERE_OPTIONS,
	{ .key = NULL },
};

/* Is it the second byte of a two-byte control character? */
static bool is_second_control_byte(const char *path, const char *p)
{
	return p > path && (unsigned char)p[-1] == 0xc2 &&
	       (unsigned char)*p >= 0x80 && (unsigned char)*p <= 0x9f;
}

/* Print a path, escaped, as strangers choose names and could move the cursor. */
static void print_path(const char *path)
{
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f || *p == '\\' ||
		    is_second_control_byte(path, p))
			printf("\\x%02x", (unsigned char)*p);
		else
			putchar(*p);
}

static void print_head(const struct trace *t)
{
	char image[DIGEST_STR_MAX], at[TRACE_TIME_MAX],
		size[PROGRESS_BYTES_MAX];
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->n; i++)
		bytes += t->entries[i].len;
	digest_format(&t->info.image, image);
	trace_format_time(t->info.created_at, at);
	progress_format_bytes(bytes, size);
	printf("image     %s\n", image);
	printf("repo      %s\n", *t->info.repo ? t->info.repo : "-");
	printf("workload  %s\n", t->info.workload);
	printf("runs      %" PRIu32 ", the newest of %s\n", t->info.runs, at);
	printf("window    %.1f s%s\n", t->info.window_ms / 1000.0,
	       t->info.truncated ? ", cut off at a limit" : "");
	if (t->info.ready_ms)
		printf("ready     %.2f s\n", t->info.ready_ms / 1000.0);
	printf("entries   %zu, %s\n\n", t->n, size);
}

static void print_table(const struct trace *t, uint64_t limit)
{
	print_head(t);
	printf("%9s  %11s  %8s  %5s  %s\n", "TIME", "OFFSET", "BYTES", "RUNS",
	       "PATH");
	for (size_t i = 0; i < t->n && (!limit || i < limit); i++) {
		const struct trace_entry *e = &t->entries[i];

		printf("%7.3f s  %11" PRIu64 "  %8" PRIu32 "  %4u%%  ",
		       e->at_ms / 1000.0, e->off, e->len,
		       (e->confidence * 100u + TRACE_CERTAIN / 2) /
			       TRACE_CERTAIN);
		print_path(e->path);
		putchar('\n');
	}
}

static int print_json(struct trace *t, uint64_t limit, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (limit && limit < t->n)
		t->n = (size_t)limit;
	rc = trace_to_json(t, &text, err);
	if (rc == 0)
		fputs(text.data, stdout);
	return rc;
}

static bool is_trace_file_name(const char *what)
{
	/* No image's name begins like this. */
	return strcmp(what, "-") == 0 || *what == '/' || *what == '.' ||
	       access(what, F_OK) == 0;
}

static int check_trace_show(const void *config, char **args, struct error *err)
{
	return is_trace_file_name(args[0])
		       ? 0
		       : trace_check_first(config, args, err);
}

/* Read a file if one of that name exists, else the trace of an image. */
static int load_trace(const struct trace_where *w, const char *what,
		      struct trace **ret, struct error *err)
{
	AUTO(trace_place) p = NULL;
	struct trace_found f;
	int rc;

	if (is_trace_file_name(what))
		return trace_read(what, ret, err);
	rc = trace_place_new(w, what, &p, err);
	if (rc == 0)
		rc = trace_get_for(p, p->store, &f, err);
	if (rc < 0)
		return rc;
	if (f.match != TRACE_MATCH_OWN)
		trace_tell(&f, what);
	*ret = f.trace;
	return 0;
}

static int run_trace_show(const void *config, char **args, struct error *err)
{
	const struct trace_show_config *c = config;
	AUTO(trace) t = NULL;
	int rc = load_trace(&c->where, args[0], &t, err);

	if (rc < 0)
		return rc;
	if (c->json)
		return print_json(t, c->limit, err);
	print_table(t, c->limit);
	return 0;
}

const struct command trace_show_command = {
	.brief = "Show what a start reads, in order",
	.program = {
		.name = "bootseer trace show",
		.usage = "[OPTIONS] FILE|REF",
		.summary = "Show what a start reads, in order: the trace in "
			   "FILE, or the one of the image REF. FILE - is "
			   "standard input.",
		.options = options,
		.examples = "bootseer trace show -n 20 "
			    "docker://reg.example/app:1\n",
		.min_args = 1,
	},
	.config_size = sizeof(struct trace_show_config),
	.check = check_trace_show,
	.run = run_trace_show,
};
