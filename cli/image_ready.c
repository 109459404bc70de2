// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer image ready`: a start is over.  In a container it is said to a
 * socket that bootseerd gives to every container, which knows the caller by its
 * control group; outside of it, to bootseerd, with the start's name.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/node_ask.h"
#include "common/fs.h"

#define READY_SOCKET "/run/bootseer/ready.sock"
#define REPLY_MAX 1024u

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

/* ---------------------------------------------------------------- in a container --- */

static int connect_to(const char *path, int *ret, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG, "socket '%s': too long",
				 path);
	strcpy(addr.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return error_set(err, errno,
				 "'%s': %s: mount it into the container (one "
				 "of 'image record' wants --ready-file or "
				 "--ready-line instead), or outside of it name "
				 "the --start or --user",
				 path, strerror(errno));
	*ret = steal_fd(&fd);
	return 0;
}

/* Read a line, without its end. */
static int read_line(int fd, int timeout_ms, char *line, struct error *err)
{
	size_t n = 0;

	while (n < REPLY_MAX - 1 && !(n && line[n - 1] == '\n')) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (poll(&p, 1, timeout_ms) <= 0)
			return error_set(err, ETIMEDOUT,
					 "bootseerd does not answer");
		got = read(fd, line + n, REPLY_MAX - 1 - n);
		if (got < 0)
			return error_set(err, errno, "bootseerd: %s",
					 strerror(errno));
		if (got == 0)
			break;
		n += (size_t)got;
	}
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

static int say_inside(const struct ready_config *cfg, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	char line[REPLY_MAX];
	long long ms;
	int rc = connect_to(cfg->ready_socket, &fd, err);

	if (rc < 0)
		return rc;
	if (fs_write_full(fd, "ready\n", 6) < 0)
		return error_set(err, EIO, "bootseerd closed the connection");
	rc = read_line(fd, (int)(cfg->node.timeout / 1000000), line, err);
	if (rc < 0)
		return rc;
	if (sscanf(line, "ok %lld", &ms) != 1)
		return error_set(err, ENOENT, "bootseerd: %s",
				 *line ? line : "closed the connection");
	print_ready(ms);
	return 0;
}

/* ----------------------------------------------------------------------- outside --- */

static int say_outside(const struct ready_config *cfg, struct error *err)
{
	json_t *reply = NULL;
	json_t *params =
		cfg->user ? json_pack("{s:s}", "user", cfg->user)
			  : json_pack("{s:I}", "start", (json_int_t)cfg->start);
	int rc = node_ask(&cfg->node, "start.ready", params, &reply, err);

	if (rc == 0)
		print_ready(reply_number(reply, "ready_ms"));
	json_decref(reply);
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
	return cfg->user || cfg->start ? say_outside(cfg, err)
				       : say_inside(cfg, err);
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
