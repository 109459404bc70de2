// SPDX-License-Identifier: Apache-2.0
/* bootseer start checkpoints: what a start loaded from checkpoints, and saved to them. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/progress.h"
#include "cli/command.h"
#include "cli/node_ask.h"
#include "cli/start.h"
#include "cli/start_gantt.h"

static const struct option_spec options[] = {
	START_LIMIT_OPTION("20", "At most so many nodes, the slowest first, "
				 "and times, the last ones."),
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

static void print_bytes(const json_t *o, const char *key, const char *after)
{
	char text[PROGRESS_BYTES_MAX];

	progress_format_bytes((uint64_t)reply_number(o, key), text);
	printf(" %10s%s", text, after);
}

/* Print which part of its running time a program waited. */
static void print_waited(const json_t *o)
{
	double run = start_number(o, "run_s");

	if (run > 0)
		printf(" %5.0f %%", 100 * start_number(o, "wait_s") / run);
	else
		printf(" %7s", "-");
}

static void print_whole(const json_t *c)
{
	const json_t *n = json_object_get(c, "node");
	const char *stage = reply_text(c, "stage");
	char nodes[PROGRESS_COUNT_MAX], times[PROGRESS_COUNT_MAX],
		bytes[PROGRESS_BYTES_MAX], rate[PROGRESS_BYTES_MAX];

	progress_format_count((uint64_t)reply_number(c, "nodes_all"), "node",
			      nodes);
	progress_format_count((uint64_t)reply_number(c, "rounds_all"), "time",
			      times);
	progress_format_bytes((uint64_t)reply_number(c, "bytes"), bytes);
	progress_format_bytes((uint64_t)reply_number(c, "rate"), rate);
	printf("\n%s: %s in %.1f s, %s/s, %s, %s",
	       strcmp(stage, "ckpt.load") == 0 ? "Loads" : "Saves", bytes,
	       start_number(c, "job_s"), rate, times, nodes);
	if (reply_number(c, "open"))
		printf(", %lld without an end", reply_number(c, "open"));
	printf("\nmedian node %.1f s, slowest %.1f s, Max/Median %.2f; "
	       "requests waited %.1f s for memory and threads, %.1f s for the "
	       "store, %.1f s for the network\n",
	       start_number(n, "median_s"), start_number(n, "max_s"),
	       start_number(n, "max_median"), start_number(c, "queue_s"),
	       start_number(c, "storage_s"), start_number(c, "network_s"));
}

static void print_nodes(const json_t *c)
{
	const json_t *o;
	size_t k;

	printf("  %-28s %10s %10s %12s %5s %7s %5s\n", "NODE", "TOOK", "BYTES",
	       "RATE", "TIMES", "WAITED", "OPEN");
	json_array_foreach(json_object_get(c, "nodes"), k, o)
	{
		fputs(reply_flag(o, "straggler") ? "! " : "  ", stdout);
		start_print_text(reply_text(o, "node"), 28, 255, stdout);
		printf(" %8.1f s", start_number(o, "duration_s"));
		print_bytes(o, "bytes", "");
		print_bytes(o, "rate", "/s");
		printf(" %5lld", reply_number(o, "runs"));
		print_waited(o);
		printf(" %5lld\n", reply_number(o, "open"));
	}
}

static void print_begin(const json_t *o)
{
	time_t s = (time_t)(reply_number(o, "begin_ms") / 1000);
	char text[32] = "-";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "%F %TZ", &tm);
	printf("  %-20s", text);
}

static void print_rounds(const json_t *c)
{
	const json_t *o;
	size_t k;

	printf("  %-20s %10s %10s %5s %6s %7s  %s\n", "BEGIN", "TOOK", "BYTES",
	       "NODES", "M/M", "WAITED", "SLOWEST");
	json_array_foreach(json_object_get(c, "rounds"), k, o)
	{
		print_begin(o);
		printf(" %8.1f s", start_number(o, "job_s"));
		print_bytes(o, "bytes", "");
		printf(" %5lld %6.2f", reply_number(o, "nodes"),
		       start_number(o, "max_median"));
		print_waited(o);
		printf("  ");
		start_print_text(reply_text(o, "slowest"), 0, 255, stdout);
		printf("\n");
	}
}

static void print_checkpoints(const json_t *s)
{
	const json_t *c;
	size_t k;

	fputs("job ", stdout);
	start_print_text(reply_text(s, "job"), 0, 128, stdout);
	printf(", attempt %lld, start %lld\n", reply_number(s, "attempt"),
	       reply_number(s, "id"));
	if (reply_number(s, "left_out"))
		printf("%lld events are left out: there are too many\n",
		       reply_number(s, "left_out"));
	if (!json_array_size(json_object_get(s, "checkpoints")))
		printf("it loaded and saved nothing that a mount told of "
		       "(bootseer ckpt mount, with BOOTSEER_JOB)\n");
	json_array_foreach(json_object_get(s, "checkpoints"), k, c)
	{
		print_whole(c);
		print_nodes(c);
		print_rounds(c);
	}
}

static int run_checkpoints(const void *config, char **args, struct error *err)
{
	return start_show(config, args[0], "/checkpoints", print_checkpoints,
			  err);
}

const struct command start_checkpoints_command = {
	.brief = "Show what a start loaded from checkpoints and saved",
	.program = {
		.name = "bootseer start checkpoints",
		.usage = "[OPTIONS] ID|JOB",
		.summary = "Show what the nodes of the start ID, or of the "
			   "newest one of JOB, loaded from checkpoints and "
			   "saved to them, also after training began: the "
			   "slowest nodes (! is a straggler), then each time. "
			   "WAITED is the share in which a program waited, M/M "
			   "is Max/Median, OPEN what has no end.",
		.options = options,
		.examples = "bootseer start checkpoints --service "
			    "https://boot.example j1\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_checkpoints,
};
