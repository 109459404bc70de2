// SPDX-License-Identifier: Apache-2.0
/* The server that metrics are asked of: a given one, or a Prometheus that is started on data. */
#ifndef BOOTSEER_CLI_OPS_SERVER_H
#define BOOTSEER_CLI_OPS_SERVER_H

#include "cli/ops.h"

struct ops_server {
	char url[64];
	char to[32];  /* where its data end, as --to has it */
	char *folder; /* that the Prometheus runs on; NULL: none runs */
	int stays;    /* as long as this is open */
	int said;     /* its log */
	int pid;
};

/*
 * Make `own` of a command's configuration: the same, but for data without a server, on which a
 * Prometheus is started, and of which `own` has the address then.  The data are not changed: blocks
 * of a TSDB are links to their files, exports are made blocks in $TMPDIR.  Release by
 * ops_server_free(), which ends that; so does the end of this process, but while promtool makes
 * blocks of an export: that goes on then, and the folder stays.
 *   -ENOENT  no such data, or no prometheus or promtool here
 *   -EINVAL  the data are none of these
 */
int ops_server_open(const struct ops_config *c, struct ops_config *own,
		    struct ops_server **ret, struct error *err) MUST_CHECK;
void ops_server_free(struct ops_server *s);
DEFINE_AUTO(ops_server)

#endif
