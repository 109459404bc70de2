// SPDX-License-Identifier: Apache-2.0
/* `image prefetch --nodes` and `env prefetch --nodes`: send orders to nodes through
 * bootseer-registry. */
#ifndef BOOTSEER_CLI_PREHEAT_H
#define BOOTSEER_CLI_PREHEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct json_t;

struct preheat_options {
	char *service, *token_file, *ca_file;
	const char *ref, *what;   /* "hot", "all", "env" */
	const struct json_t *env; /* the snapshot, if `what` is "env";
	                           * borrowed */
	char *const *nodes;       /* each is "NAME[,NAME...]", or "all" */
	int64_t wait_ns;          /* wait for all nodes this long; 0: not at
	                           * all */
};

/* Is the order for all nodes? */
bool preheat_is_all(char *const *nodes);

/* Send the order; if waiting, show the progress.  -EIO names the nodes that failed, -ETIMEDOUT the
 * nodes that have not finished. */
int preheat_order(const struct preheat_options *o,
		  struct error *err) MUST_CHECK;

#endif
