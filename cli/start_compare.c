// SPDX-License-Identifier: Apache-2.0
/* bootseer start compare, export: compare two starts; export a start for other programs. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/node_ask.h"
#include "cli/start.h"
#include "cli/start_gantt.h"

#define ANSWER_MAX (256u << 20)

static const struct option_spec compare_options[] = {
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static void print_whole(const json_t *o, const char *name)
{
	const json_t *s = json_object_get(o, name);

	printf("%s: job ", name);
	start_print_text(reply_text(s, "job"), 0, 128, stdout);
	printf(", attempt %lld%s, start %lld: %.1f s, %lld nodes, Max/Median "
	       "%.2f\n",
	       reply_number(s, "attempt"),
	       start_is_hot_update(s) ? " (hot update)" : "",
	       reply_number(s, "id"), start_number(s, "duration_s"),
	       reply_number(s, "nodes_all"),
	       start_number(json_object_get(s, "node_level"), "max_median"));
}

/* Print a stage's time; "-" if the start has no such stage. */
static void print_side(const json_t *s, const char *key)
{
	if (json_is_object(s))
		printf(" %8.1f s", start_number(s, key));
	else
		printf(" %10s", "-");
}

static void print_compare(const json_t *o)
{
	const json_t *s;
	size_t k;

	print_whole(o, "a");
	print_whole(o, "b");
	printf("b took %+.1f s\n\n%-20s %10s %10s %10s %10s %10s\n",
	       start_number(o, "change_s"), "STAGE", "JOB A", "JOB B", "CHANGE",
	       "MEDIAN A", "MEDIAN B");
	json_array_foreach(json_object_get(o, "stages"), k, s)
	{
		const json_t *a = json_object_get(s, "a"),
			     *b = json_object_get(s, "b");

		start_print_text(reply_text(s, "stage"), 20, 64, stdout);
		print_side(a, "job_s");
		print_side(b, "job_s");
		printf(" %+8.1f s", start_number(s, "change_s"));
		print_side(a, "median_s");
		print_side(b, "median_s");
		printf("\n");
	}
}

static int run_compare(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;
	AUTO(service_client) client = NULL;
	struct service_request r = { .method = "GET" };
	long long a = 0, b = 0;
	AUTO_JSON *reply = NULL;
	char path[128];
	int rc = service_open(&c->where, &client, err);

	if (rc == 0)
		rc = start_find_id(client, args[0], &a, err);
	if (rc == 0)
		rc = start_find_id(client, args[1], &b, err);
	(void)snprintf(path, sizeof(path), "/v1/starts/%lld/compare?with=%lld",
		       a, b);
	r.path = path;
	if (rc == 0)
		rc = service_ask(client, &r, &reply, err);
	if (rc == 0)
		reply_show(reply, c->json, print_compare);
	return rc;
}

const struct command start_compare_command = {
	.brief = "Show two starts side by side",
	.program = {
		.name = "bootseer start compare",
		.usage = "[OPTIONS] ID|JOB ID|JOB",
		.summary = "Show two starts, each by its number or as the "
			   "newest one of a job, stage by stage: JOB from the "
			   "first begin to the last end on any node, MEDIAN of "
			   "the nodes.",
		.options = compare_options,
		.examples = "bootseer start compare --service "
			    "https://boot.example 41 42\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 2,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_compare,
};

static const char *const formats[] = { "chrome", "otlp", "csv", NULL };

static const struct option_spec export_options[] = {
	{ .key = "format",
	  .type = OPTION_ENUM,
	  .arg = "FORM",
	  .def = "chrome",
	  .values = formats,
	  .offset = offsetof(struct start_config, format),
	  .help = "chrome, which Perfetto opens; otlp, for a collector's "
		  "/v1/traces; csv." },
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static int run_export(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;
	AUTO(service_client) client = NULL;
	AUTO_FINI(service_answer) answer = { .head = HTTP_RESPONSE_INIT,
					     .body = { .limit = ANSWER_MAX } };
	struct service_request r = { .method = "GET" };
	long long id = 0;
	char path[128];
	int rc = service_open(&c->where, &client, err);

	if (rc == 0)
		rc = start_find_id(client, args[0], &id, err);
	(void)snprintf(path, sizeof(path), "/v1/starts/%lld/export?format=%s",
		       id, c->format);
	r.path = path;
	if (rc == 0)
		rc = service_client_do(client, &r, &answer, err);
	if (rc == 0 && answer.body.len)
		(void)fwrite(answer.body.data, 1, answer.body.len, stdout);
	return rc;
}

const struct command start_export_command = {
	.brief = "Print a start for other programs",
	.program = {
		.name = "bootseer start export",
		.usage = "[OPTIONS] ID|JOB",
		.summary = "Print the start ID, or the newest one of JOB, in a "
			   "form that other programs read.",
		.options = export_options,
		.examples = "bootseer start export --format csv --service "
			    "https://boot.example j1\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_export,
};
