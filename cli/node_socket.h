// SPDX-License-Identifier: Apache-2.0
/* How commands connect to bootseerd. */
#ifndef BOOTSEER_CLI_NODE_SOCKET_H
#define BOOTSEER_CLI_NODE_SOCKET_H

#include <errno.h>
#include <stdlib.h>

#include "common/option.h"
#include "snapshotter/client.h"

/* First members of the configuration of such a command. */
struct node_options {
	char *socket;    /* NULL: $BOOTSEER_SOCKET, else the usual place */
	int64_t timeout; /* ns */
};

#define NODE_OPTIONS(config) \
	{ \
		.key = "socket", \
		.type = OPTION_STRING, \
		.offset = offsetof(config, node.socket), \
		.arg = "PATH", \
		.help = "Where bootseerd listens; else $BOOTSEER_SOCKET, " \
			"else " NODE_SOCKET_DEFAULT ".", \
	}, \
	{ \
		.key = "timeout", .type = OPTION_DURATION, \
		.offset = offsetof(config, node.timeout), .def = "10m", \
		.min = "100ms", .max = "24h", .arg = "TIME", \
		.help = "Longest wait for bootseerd's answer.", \
	}

/* If bootseerd is being restarted, wait this long for it. */
#define NODE_WAIT_MS 5000

static inline int node_connect(const struct node_options *o,
			       struct node_client **ret, struct error *err)
{
	const char *env = getenv("BOOTSEER_SOCKET");
	const char *path = o->socket ? o->socket
			   : env     ? env
				     : NODE_SOCKET_DEFAULT;
	uint32_t ms = (uint32_t)(o->timeout / 1000000);
	int rc;

	rc = node_client_open_within(path, ms,
				     ms < NODE_WAIT_MS ? ms : NODE_WAIT_MS, ret,
				     err);
	if (rc == -ENOENT || rc == -ECONNREFUSED)
		rc = error_set(err, -rc,
			       "bootseerd does not answer at '%s': "
			       "'systemctl start bootseerd'; if it listens "
			       "elsewhere, name --socket or $BOOTSEER_SOCKET",
			       path);
	return rc;
}

#endif
