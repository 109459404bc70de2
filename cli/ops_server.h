// SPDX-License-Identifier: Apache-2.0
/* The metrics server to query: a given one, or a Prometheus started on saved data. */
#ifndef BOOTSEER_CLI_OPS_SERVER_H
#define BOOTSEER_CLI_OPS_SERVER_H

#include "cli/ops.h"

struct ops_server {
	char url[64];
	char to[32];  /* the end of its data, in the form of --to */
	char *folder; /* folder of a Prometheus of ours; NULL: none */
	int stays;    /* our Prometheus runs until this descriptor is closed */
	int said;     /* pipe of its log */
	int pid;
};

/*
 * Make `own` from the configuration `c`.  If `c` names saved data, start a Prometheus on them, and
 * set its address in `own`.  The data are not changed: a TSDB's blocks are linked, an export is
 * converted to blocks in $TMPDIR. Release by ops_server_free(), which ends Prometheus; so does the
 * end of this process, except that promtool finishes a conversion and then leaves the folder.
 *   -ENOENT  no such data, or prometheus or promtool is not installed
 *   -EINVAL  the data have another format
 */
int ops_server_open(const struct ops_config *c, struct ops_config *own,
		    struct ops_server **ret, struct error *err) MUST_CHECK;
void ops_server_free(struct ops_server *s);
DEFINE_AUTO(ops_server)

#endif
