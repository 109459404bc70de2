// SPDX-License-Identifier: Apache-2.0
/* bootseer start ls, show: where the time of jobs' starts is spent. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/duration.h"
#include "common/progress.h"
#include "cli/command.h"
#include "cli/node_ask.h"
#include "cli/service.h"
#include "cli/start.h"
#include "cli/start_gantt.h"

#define COLUMNS_DEFAULT 80
#define NAME_WIDTH 28
#define STRAGGLERS_MAX 20

static const struct option_spec ls_options[] = {
	START_LIMIT_OPTION("100", "At most so many starts."),
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static const struct option_spec show_options[] = {
	START_LIMIT_OPTION("20", "At most so many nodes, the slowest first."),
	POD_OPTIONS(struct start_config,
		    "Show the newest start of this pod's job. The pod is on "
		    "this node; containerd is asked, by ctr."),
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

static void print_message_of(const char *what, const json_t *o, const char *key,
			     const char *text)
{
	const json_t *said = json_object_get(o, key);

	if (!json_is_object(said) || !reply_text(said, text)[0])
		return;
	printf("%s ", what);
	start_print_text(reply_text(said, text), 0, 1024, stdout);
	printf("\n");
}

void start_print_now(const json_t *s)
{
	bool is_over = strcmp(reply_text(s, "state"), "stopped") == 0;

	print_message_of("failed:", s, "failed", "text");
	print_message_of("failed at first:", s, "failed", "mended");
	print_message_of(is_over ? "waited for" : "waiting for", s, "waiting",
			 "text");
}

bool start_is_hot_update(const json_t *s)
{
	return strcmp(reply_text(s, "class"), "hot_update") == 0;
}

/* ----------------------------------------------------------------------- ls --- */

static const char *state_of(const json_t *s)
{
	const char *failed =
		reply_text(json_object_get(s, "summary"), "failed");

	if (reply_flag(s, "ready"))
		return "trains";
	if (failed[0] && strcmp(failed, "-") != 0)
		return "failed";
	return strcmp(reply_text(s, "state"), "open") == 0 ? "starting"
							   : "stopped";
}

static void print_line(const json_t *s)
{
	const json_t *more = json_object_get(s, "summary");
	char took[DURATION_TEXT_MAX];

	start_duration(s, "duration_s", took);
	printf("%6lld  ", reply_number(s, "id"));
	start_print_text(reply_text(s, "job"), NAME_WIDTH, 128, stdout);
	printf("  %3lld  %-5s  ", reply_number(s, "attempt"),
	       start_is_hot_update(s) ? "hot" : "full");
	print_time(s);
	printf("  %11s  %-8s  %5lld", took, state_of(s),
	       reply_number(s, "nodes_all"));
	if (json_is_object(more))
		printf("  %5.2f  %4lld", start_number(more, "max_median"),
		       reply_number(more, "stragglers"));
	printf("\n");
	if (!reply_flag(s, "ready")) {
		if (strcmp(state_of(s), "failed") == 0) {
			printf("%8sfailed: ", "");
			start_print_text(reply_text(more, "failed"), 0, 1024,
					 stdout);
			printf("\n");
		}
		if (json_is_object(json_object_get(s, "waiting")))
			printf("%8s", "");
		start_print_now(s);
	}
}

static void print_starts(const json_t *reply)
{
	const json_t *s;
	size_t k;

	printf("%6s  %-*s  %3s  %-5s  %-20s  %11s  %-8s  %5s  %5s  %4s\n", "ID",
	       NAME_WIDTH, "JOB", "TRY", "CLASS", "BEGIN", "DURATION", "STATE",
	       "NODES", "M/M", "SLOW");
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
			   "CLASS says that a job's nodes and containers "
			   "stayed since an earlier try (hot update), or not. "
			   "STATE says whether the job trains, is starting, "
			   "has failed, or was not heard of for a day; "
			   "DURATION is until training began, or until now. "
			   "M/M is the slowest node by the median one, SLOW "
			   "how many nodes were. Of a start that does not "
			   "train a line says whom it waits for.",
		.options = ls_options,
		.see_also = "bootseer(1), bootseer-registry(8)",
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
	const char *state = reply_text(s, "state");
	char nodes[PROGRESS_COUNT_MAX], took[DURATION_TEXT_MAX],
		median[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	start_print_now(s);
	fputs("job ", stdout);
	start_print_text(reply_text(s, "job"), 0, 128, stdout);
	printf(", attempt %lld%s, start %lld of ", reply_number(s, "attempt"),
	       start_is_hot_update(s) ? " (hot update)" : "",
	       reply_number(s, "id"));
	print_time(s);
	start_duration(s, "duration_s", took);
	printf("\n%s %s\n", took,
	       reply_flag(s, "ready")       ? "until training began"
	       : strcmp(state, "open") == 0 ? "so far: training has not begun"
					    : "until its last event: training "
					      "has not begun");
	progress_format_count((uint64_t)reply_number(s, "nodes_all"), "node",
			      nodes);
	start_duration(n, "median_s", median);
	start_duration(n, "max_s", max);
	printf("%s: median %s, slowest %s, Max/Median %.2f\n", nodes, median,
	       max, start_number(n, "max_median"));
}

static void print_stages(const json_t *start)
{
	const json_t *s;
	size_t k;

	printf("%-20s %6s %9s %9s %9s %5s %9s %5s %4s %4s %4s\n", "STAGE",
	       "NODES", "MEDIAN", "P95", "MAX", "M/M", "JOB", "AGAIN", "OPEN",
	       "FAIL", "SLOW");
	json_array_foreach(json_object_get(start, "stages"), k, s)
	{
		const json_t *n = json_object_get(s, "node");
		char median[DURATION_TEXT_MAX], p95[DURATION_TEXT_MAX],
			max[DURATION_TEXT_MAX], job[DURATION_TEXT_MAX];

		start_duration(n, "median_s", median);
		start_duration(n, "p95_s", p95);
		start_duration(n, "max_s", max);
		start_duration(s, "job_s", job);
		start_print_text(reply_text(s, "stage"), 20, 64, stdout);
		printf(" %6lld %9s %9s %9s %5.2f %9s %5lld %4lld %4lld %4lld\n",
		       reply_number(n, "nodes"), median, p95, max,
		       start_number(n, "max_median"), job,
		       reply_number(s, "retries"), reply_number(s, "open"),
		       reply_number(s, "failed"),
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

static int compare_items_by_excess(const void *x, const void *y)
{
	double a = start_number(*(json_t *const *)x, "excess_s");
	double b = start_number(*(json_t *const *)y, "excess_s");

	return (a < b) - (a > b);
}

/* Print a line for a node and stage, with its duration and another duration (`other`, `text`). */
static void print_straggler_line(const json_t *o, const char *other,
				 const char *text)
{
	char took[DURATION_TEXT_MAX], more[DURATION_TEXT_MAX];

	start_duration(o, "duration_s", took);
	start_duration(o, other, more);
	fputs("  ", stdout);
	start_print_text(reply_text(o, "node"), NAME_WIDTH, 255, stdout);
	fputs(" ", stdout);
	start_print_text(reply_text(o, "stage"), 20, 64, stdout);
	printf(" %10s, %s %s\n", took, more, text);
	print_cause(o);
}

/* Print the stragglers that lost most time first. */
static void print_stragglers(const json_t *start)
{
	const json_t *list = json_object_get(start, "stragglers");
	size_t n = json_array_size(list);
	AUTO_FREE json_t **v = calloc(n + 1, sizeof(json_t *));

	if (!n || !v)
		return;
	printf("\nStragglers: %zu\n", n);
	for (size_t i = 0; i < n; i++)
		v[i] = json_array_get(list, i);
	qsort(v, n, sizeof(json_t *), compare_items_by_excess);
	for (size_t i = 0; i < n && i < STRAGGLERS_MAX; i++)
		print_straggler_line(v[i], "excess_s", "more than the median");
	if (n > STRAGGLERS_MAX)
		printf("  and %zu more: --json has all\n", n - STRAGGLERS_MAX);
}

static void print_path(const json_t *start)
{
	const json_t *list = json_object_get(start, "critical_path"), *o;
	size_t k;

	if (!json_array_size(list))
		return;
	printf("\nCritical path\n");
	json_array_foreach(list, k, o)
	{
		print_straggler_line(o, "gap_s", "after the one before");
	}
}

static int terminal_columns(void)
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
	print_stragglers(s);
	print_path(s);
	printf("\nNodes, the slowest first\n");
	start_gantt(s, terminal_columns(), stdout);
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
	const struct start_config *c = config;
	char job[STAGE_JOB_MAX + 1];
	AUTO_JSON *containers = NULL;
	int rc;

	if (!c->pod.pod)
		return start_show(c, args[0], "", print_start, err);
	rc = pod_containers(&c->pod, &containers, err);
	if (rc == 0)
		rc = pod_job_name(&c->pod, containers, job, err);
	return rc == 0 ? start_show(c, job, "", print_start, err) : rc;
}

static int check_show(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;
	int rc = pod_check(&c->pod, args, "a start", err);

	return rc == 0 ? start_check(config, args, err) : rc;
}

const struct command start_show_command = {
	.brief = "Show where the time of a job's start went",
	.program = {
		.name = "bootseer start show",
		.usage = "[OPTIONS] ID|JOB|--pod NAMESPACE/NAME",
		.summary = "Show the start ID, or the newest one of JOB: whom "
			   "it waits for, what failed first, its stages over "
			   "all nodes, stragglers, the critical "
			   "path, and the slowest nodes as bars. M/M is "
			   "Max/Median, JOB from the first begin to the last "
			   "end on any node, AGAIN how often a stage began "
			   "again, OPEN how often it has no end, FAIL how "
			   "often it ended with a status. A pod's job "
			   "is NAMESPACE/ and the BOOTSEER_JOB of a container "
			   "of it, or else the pod's name.",
		.options = show_options,
		.examples = "bootseer start show --service "
			    "https://boot.example j1\n"
			    "bootseer start show --service "
			    "https://boot.example --pod team-a/train-0\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.max_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = check_show,
	.run = run_show,
};
