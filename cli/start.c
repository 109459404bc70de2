// SPDX-License-Identifier: Apache-2.0
/* bootseer start ls, show: where the time of jobs' starts went. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/progress.h"
#include "cli/command.h"
#include "cli/node_ask.h"
#include "cli/service.h"
#include "cli/stage.h"
#include "cli/start.h"
#include "cli/start_gantt.h"

#define COLUMNS_DEFAULT 80
#define NAME_WIDTH 28

static const struct option_spec ls_options[] = {
	START_LIMIT_OPTION("100", "At most so many starts."),
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static const struct option_spec show_options[] = {
	START_LIMIT_OPTION("20", "At most so many nodes, the slowest first."),
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static void print_time(const json_t *o)
{
	time_t s = (time_t)(reply_number(o, "begin_ms") / 1000);
	char text[32] = "-";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "%F %TZ", &tm);
	fputs(text, stdout);
}

/* ----------------------------------------------------------------------- ls --- */

static void print_line(const json_t *s)
{
	printf("%6lld  ", reply_number(s, "id"));
	start_print_text(reply_text(s, "job"), NAME_WIDTH, 128, stdout);
	printf("  %3lld  ", reply_number(s, "attempt"));
	print_time(s);
	printf("  %9.1f s  %-5s  %7lld\n", start_number(s, "duration_s"),
	       reply_flag(s, "ready") ? "yes" : "no",
	       reply_number(s, "events"));
}

static void print_starts(const json_t *reply)
{
	const json_t *s;
	size_t k;

	printf("%6s  %-*s  %3s  %-20s  %11s  %-5s  %7s\n", "ID", NAME_WIDTH,
	       "JOB", "TRY", "BEGIN", "DURATION", "READY", "EVENTS");
	json_array_foreach(json_object_get(reply, "starts"), k, s)
	{
		print_line(s);
	}
}

static int run_ls(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;
	AUTO(service_client) client = NULL;
	AUTO_JSON *reply = NULL;
	int rc = service_open(&c->where, &client, err);

	if (rc == 0)
		rc = start_ask(client, "/v1/starts", c->limit, args[0], &reply,
			       err);
	if (rc == 0)
		reply_show(reply, c->json, print_starts);
	return rc;
}

const struct command start_ls_command = {
	.brief = "List the starts of jobs that the service knows",
	.program = {
		.name = "bootseer start ls",
		.usage = "[OPTIONS] [JOB]",
		.summary = "List starts, of JOB or of all jobs, newest first. "
			   "READY says whether training began; DURATION is "
			   "until then, or until the last event.",
		.options = ls_options,
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 0,
		.max_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_ls,
};

/* --------------------------------------------------------------------- show --- */

static void print_head(const json_t *s)
{
	const json_t *n = json_object_get(s, "node_level");
	char nodes[PROGRESS_COUNT_MAX];

	fputs("job ", stdout);
	start_print_text(reply_text(s, "job"), 0, 128, stdout);
	printf(", attempt %lld, start %lld of ", reply_number(s, "attempt"),
	       reply_number(s, "id"));
	print_time(s);
	printf("\n%.1f s %s\n", start_number(s, "duration_s"),
	       reply_flag(s, "ready") ? "until training began"
				      : "so far: training has not begun");
	progress_format_count((uint64_t)reply_number(s, "nodes_all"), "node",
			      nodes);
	printf("%s: median %.1f s, slowest %.1f s, Max/Median %.2f\n", nodes,
	       start_number(n, "median_s"), start_number(n, "max_s"),
	       start_number(n, "max_median"));
}

static void print_stages(const json_t *start)
{
	const json_t *s;
	size_t k;

	printf("%-20s %6s %9s %9s %9s %5s %9s %5s %5s %5s\n", "STAGE", "NODES",
	       "MEDIAN", "P95", "MAX", "M/M", "JOB", "AGAIN", "OPEN", "SLOW");
	json_array_foreach(json_object_get(start, "stages"), k, s)
	{
		const json_t *n = json_object_get(s, "node");

		start_print_text(reply_text(s, "stage"), 20, 64, stdout);
		printf(" %6lld %7.1f s %7.1f s %7.1f s %5.2f %7.1f s %5lld "
		       "%5lld %5lld\n",
		       reply_number(n, "nodes"), start_number(n, "median_s"),
		       start_number(n, "p95_s"), start_number(n, "max_s"),
		       start_number(n, "max_median"), start_number(s, "job_s"),
		       reply_number(s, "retries"), reply_number(s, "open"),
		       reply_number(s, "stragglers"));
	}
}

static void print_cause(const json_t *o)
{
	if (!json_object_get(o, "cause"))
		return;
	fputs("      ", stdout);
	start_print_text(reply_text(o, "cause"), 0, 32, stdout);
	fputs(": ", stdout);
	start_print_text(reply_text(o, "why"), 0, 255, stdout);
	fputs("\n", stdout);
}

static void print_lost(const json_t *start)
{
	const json_t *l = json_object_get(start, "lost");

	printf("%.2f node-hours until then, of which %.2f waiting for others",
	       start_number(l, "node_s") / 3600,
	       start_number(l, "wait_s") / 3600);
	if (start_number(l, "gpu_s") > 0)
		printf("; %.2f GPU-hours", start_number(l, "gpu_s") / 3600);
	if (start_number(l, "job_share") > 0)
		printf("; %.1f %% of the job's time",
		       100 * start_number(l, "job_share"));
	printf("\n\n");
}

/* Lines of an array whose elements have node, stage and duration. */
static void print_list(const json_t *start, const char *key, const char *title,
		       const char *other, const char *text)
{
	const json_t *list = json_object_get(start, key), *o;
	size_t k;

	if (!json_array_size(list))
		return;
	printf("\n%s\n", title);
	json_array_foreach(list, k, o)
	{
		fputs("  ", stdout);
		start_print_text(reply_text(o, "node"), NAME_WIDTH, 255,
				 stdout);
		fputs(" ", stdout);
		start_print_text(reply_text(o, "stage"), 20, 64, stdout);
		printf(" %8.1f s, %.1f s %s\n", start_number(o, "duration_s"),
		       start_number(o, other), text);
		print_cause(o);
	}
}

static int columns(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col
		       ? w.ws_col
		       : COLUMNS_DEFAULT;
}

static void print_start(const json_t *s)
{
	print_head(s);
	print_lost(s);
	print_stages(s);
	print_list(s, "stragglers", "Stragglers", "excess_s",
		   "more than the median");
	print_list(s, "critical_path", "Critical path", "gap_s",
		   "after the one before");
	printf("\nNodes, the slowest first\n");
	start_gantt(s, columns(), stdout);
}

int start_show(const struct start_config *c, const char *what, const char *part,
	       void (*print)(const json_t *reply), struct error *err)
{
	AUTO(service_client) client = NULL;
	AUTO_JSON *reply = NULL;
	char path[64];
	long long id = 0;
	int rc = service_open(&c->where, &client, err);

	if (rc == 0)
		rc = start_find_id(client, what, &id, err);
	(void)snprintf(path, sizeof(path), "/v1/starts/%lld%s", id, part);
	if (rc == 0)
		rc = start_ask(client, path, c->limit, NULL, &reply, err);
	if (rc == 0)
		reply_show(reply, c->json, print);
	return rc;
}

static int run_show(const void *config, char **args, struct error *err)
{
	return start_show(config, args[0], "", print_start, err);
}

const struct command start_show_command = {
	.brief = "Show where the time of a job's start went",
	.program = {
		.name = "bootseer start show",
		.usage = "[OPTIONS] ID|JOB",
		.summary = "Show the start ID, or the newest one of JOB: its "
			   "stages over all nodes, stragglers, the critical "
			   "path, and the slowest nodes as bars. M/M is "
			   "Max/Median, JOB from the first begin to the last "
			   "end on any node, AGAIN how often a stage began "
			   "again, OPEN how often it has no end.",
		.options = show_options,
		.examples = "bootseer start show --service "
			    "https://boot.example j1\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_show,
};
