// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer image ready`: report that a start is complete.  In a container, to the socket that
 * bootseerd gives each container, where it knows the caller by its control group; outside, to
 * bootseerd's own socket, with the start's name.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/node_ask.h"
#include "common/clock.h"
#include "net/control_client.h"

#define READY_SOCKET "/run/bootseer/ready.sock"

struct ready_config {
	struct node_options node;
	char *user, *ready_socket;
	uint64_t start;
};

static const struct option_spec options[] = {
	{ .key = "start",
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct ready_config, start),
	  .arg = "NUMBER",
	  .help = "Outside of the container: the start's number." },
	{ .key = "user",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct ready_config, user),
	  .arg = "USER",
	  .help = "Outside of the container: who mounted the image, as 'node "
		  "status' shows it." },
	{ .key = "ready-socket",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct ready_config, ready_socket),
	  .def = READY_SOCKET,
	  .arg = "PATH",
	  .help = "In the container: where bootseerd listens." },
	NODE_OPTIONS(struct ready_config),
	{ .key = NULL },
};

static void print_ready(long long ms)
{
	printf("ready after %lld.%02lld s\n", ms / 1000, ms % 1000 / 10);
}

static int report_ready_inside(const struct ready_config *cfg,
			       struct error *err)
{
	const struct control_client_config server = {
		.path = cfg->ready_socket,
		.server = "bootseerd",
		.timeout_ms = (uint32_t)(cfg->node.timeout / NS_PER_MS),
	};
	struct control_client *c = NULL;
	AUTO_BUF text = BUF_INIT;
	struct error why = ERROR_INIT;
	long long ms;
	int rc = control_client_open(&server, &c, &why);

	if (rc < 0)
		return error_set(err, why.code,
				 "'%s': %s: mount it into the container (one "
				 "of 'image record' wants --ready-file or "
				 "--ready-line instead), or outside of it name "
				 "the --start or --user",
				 cfg->ready_socket, strerror(why.code));
	rc = control_client_read(c, "/v1/ready", true, &text, err);
	control_client_close(c);
	if (rc < 0)
		return rc;
	if (sscanf(text.data, "ok %lld", &ms) != 1)
		return error_set(err, EPROTO, "bootseerd gives no time");
	print_ready(ms);
	return 0;
}

/* ----------------------------------------------------------------------- outside --- */

static int report_ready_outside(const struct ready_config *cfg,
				struct error *err)
{
	AUTO_JSON *reply = NULL;
	json_t *params =
		cfg->user ? json_pack("{s:s}", "user", cfg->user)
			  : json_pack("{s:I}", "start", (json_int_t)cfg->start);
	int rc = node_ask(&cfg->node, "start.ready", params, &reply, err);

	if (rc == 0)
		print_ready(reply_number(reply, "ready_ms"));
	return rc;
}

static int check_image_ready(const void *config, char **args, struct error *err)
{
	const struct ready_config *cfg = config;

	(void)args;
	if (cfg->user && cfg->start)
		return error_set(err, EINVAL,
				 "--user and --start name the same thing: give "
				 "one of them");
	return 0;
}

static int run_image_ready(const void *config, char **args, struct error *err)
{
	const struct ready_config *cfg = config;

	(void)args;
	return cfg->user || cfg->start ? report_ready_outside(cfg, err)
				       : report_ready_inside(cfg, err);
}

const struct command image_ready_command = {
	.brief = "Say that a start is ready: its recording ends",
	.program = {
		.name = "bootseer image ready",
		.usage = "[OPTIONS]",
		.summary = "Say that a start is ready: its recording ends and "
			   "its time counts. To be run by the container "
			   "itself, with " READY_SOCKET " mounted into it, or "
			   "outside with the start's name.",
		.options = options,
		.examples = "  python3 serve.py & wait-for-port 80 && bootseer "
			    "image ready",
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct ready_config),
	.check = check_image_ready,
	.run = run_image_ready,
};
