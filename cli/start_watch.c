// SPDX-License-Identifier: Apache-2.0
/* bootseer start watch: show the progress of a running start. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "cli/command.h"
#include "cli/node_ask.h"
#include "cli/start.h"
#include "cli/start_gantt.h"

#define NS_PER_S INT64_C(1000000000)

static const struct option_spec watch_options[] = {
	{ .key = "interval",
	  .type = OPTION_DURATION,
	  .def = "2s",
	  .min = "100ms",
	  .max = "1h",
	  .offset = offsetof(struct start_config, interval_ns),
	  .help = "Ask so often." },
	{ .key = "timeout",
	  .type = OPTION_DURATION,
	  .def = "2h",
	  .min = "1s",
	  .max = "168h",
	  .offset = offsetof(struct start_config, timeout_ns),
	  .help = "Give up when training has not begun after so long." },
	START_JSON_OPTION,
	SERVICE_WHERE_OPTIONS(struct start_config),
	{ .key = NULL },
};

#define SILENT_NS (30 * NS_PER_S)

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void print_progress(const json_t *o)
{
	long long all = reply_number(o, "nodes_all");
	char took[DURATION_TEXT_MAX];
	const json_t *s;
	size_t k;

	start_duration(o, "duration_s", took);
	printf("%12s ", took);
	json_array_foreach(json_object_get(o, "stages"), k, s)
	{
		const json_t *n = json_object_get(s, "node");

		if (!reply_flag(s, "top"))
			continue;
		printf("  ");
		start_print_text(reply_text(s, "stage"), 0, 64, stdout);
		printf(" %lld/%lld", reply_number(n, "nodes"), all);
	}
	printf("\n");
	if (!reply_flag(o, "ready"))
		start_print_now(o);
}

static void print_end_of_start(const json_t *o)
{
	const json_t *s = json_array_get(json_object_get(o, "stragglers"), 0);

	char took[DURATION_TEXT_MAX];

	start_duration(o, "duration_s", took);
	printf("training began after %s\n", took);
	if (s) {
		printf("slow: ");
		start_print_text(reply_text(s, "node"), 0, 255, stdout);
		printf(" in ");
		start_print_text(reply_text(s, "stage"), 0, 64, stdout);
		printf(": ");
		start_print_text(reply_text(s, "why"), 0, 255, stdout);
		printf("\n");
	}
}

/* Number of events when the progress was last printed, and the time. */
struct watch_told {
	long long events;
	int64_t at_ns;
};

/* Print progress if events came since the last time, or after a long silence. */
static void print_watched_start(const struct start_config *c, json_t *o,
				struct watch_told *told)
{
	int64_t now = now_ns();

	if (reply_number(o, "events") == told->events &&
	    !reply_flag(o, "ready") && now - told->at_ns < SILENT_NS)
		return;
	*told = (struct watch_told){ reply_number(o, "events"), now };
	if (c->json) {
		/* Leave out the nodes: they are the largest part and not watched. */
		(void)json_object_del(o, "nodes");
		(void)json_dumpf(o, stdout, JSON_COMPACT);
		printf("\n");
	} else {
		print_progress(o);
		if (reply_flag(o, "ready"))
			print_end_of_start(o);
	}
	(void)fflush(stdout);
}

static int watch_start(const struct start_config *c,
		       struct service_client *client, long long id,
		       struct error *err)
{
	const struct timespec wait = { c->interval_ns / NS_PER_S,
				       c->interval_ns % NS_PER_S };
	int64_t until = now_ns() + c->timeout_ns;
	struct watch_told told = { .events = -1 };
	bool is_ready = false;
	char path[64];

	(void)snprintf(path, sizeof(path), "/v1/starts/%lld", id);
	while (!is_ready) {
		AUTO_JSON *reply = NULL;
		int rc = start_ask(client, path, 1, NULL, &reply, err);

		if (rc < 0)
			return rc;
		print_watched_start(c, reply, &told);
		is_ready = reply_flag(reply, "ready");
		if (!is_ready && now_ns() >= until)
			return error_set(err, ETIMEDOUT,
					 "training has not begun within "
					 "--timeout: see 'bootseer start show "
					 "%lld'",
					 id);
		if (!is_ready)
			(void)nanosleep(&wait, NULL);
	}
	return 0;
}

static int run_watch(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;
	AUTO(service_client) client = NULL;
	long long id = 0;
	int rc = service_open(&c->where, &client, err);

	if (rc == 0)
		rc = start_find_id(client, args[0], &id, err);
	return rc == 0 ? watch_start(c, client, id, err) : rc;
}

const struct command start_watch_command = {
	.brief = "Show how far a start is until training begins",
	.program = {
		.name = "bootseer start watch",
		.usage = "[OPTIONS] ID|JOB",
		.summary = "Follow the start ID, or the newest one of JOB: a "
			   "line when events came, with the nodes that have "
			   "ended each stage, and whom it waits for, each "
			   "30 s also when none came; with --json the analysis as one "
			   "line. Ends when training begins.",
		.options = watch_options,
		.examples = "bootseer start watch --service "
			    "https://boot.example j1\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct start_config),
	.check = start_check,
	.run = run_watch,
};
