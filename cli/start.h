// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands of bootseer start share. */
#ifndef BOOTSEER_CLI_START_H
#define BOOTSEER_CLI_START_H

#include "cli/pod.h"
#include "cli/service.h"
#include "common/duration.h"

struct start_config {
	struct service_where where;
	bool json;
	uint64_t limit;
	struct pod_options pod;          /* option of start show */
	char *format;                    /* option of start export */
	int64_t interval_ns, timeout_ns; /* options of start watch */
};

#define START_LIMIT_OPTION(default_, text) \
	{ \
		.key = "limit", .letter = 'n', .type = OPTION_INTEGER, \
		.def = default_, .min = "1", .max = "1000", \
		.offset = offsetof(struct start_config, limit), .help = text \
	}
#define START_JSON_OPTION \
	{ \
		.key = "json", .type = OPTION_BOOL, \
		.offset = offsetof(struct start_config, json), \
		.help = "Print the service's answer: JSON." \
	}

/* Check that the arguments, if any, are numbers of starts or jobs, and that a service was given. */
int start_check(const void *config, char **args, struct error *err) MUST_CHECK;

/* GET `path` with the limit, and with `job` unless that is NULL. */
int start_ask(struct service_client *c, const char *path, uint64_t limit,
	      const char *job, json_t **ret, struct error *err) MUST_CHECK;

/* Find a start's number: `what` itself, or the newest start of the job `what`. */
int start_find_id(struct service_client *c, const char *what, long long *ret,
		  struct error *err) MUST_CHECK;

/* Get a start (`what`: a number or a job) or a `part` of it ("", "/..."), and print it: as JSON if
 * `c` says so, else by `print`. */
int start_show(const struct start_config *c, const char *what, const char *part,
	       void (*print)(const json_t *reply),
	       struct error *err) MUST_CHECK;

double start_number(const json_t *o, const char *key);
/* Print what failed in a start and what it waits for, if anything. */
void start_print_now(const json_t *s);
bool start_is_hot_update(const json_t *s);

#endif
