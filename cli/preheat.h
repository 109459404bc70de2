// SPDX-License-Identifier: Apache-2.0
/* `image prefetch --nodes` and `env prefetch --nodes`: orders to nodes, at bootseer-registry. */
#ifndef BOOTSEER_CLI_PREHEAT_H
#define BOOTSEER_CLI_PREHEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct json_t;

struct preheat_options {
	char *service, *token_file, *ca_file;
	const char *ref, *what;   /* "hot", "all", "env" */
	const struct json_t *env; /* of "env": the snapshot; borrowed */
	char *const *nodes;       /* each "NAME[,NAME...]", or "all" */
	int64_t wait_ns;          /* until all are over; 0: not */
};

/* Is it an order to all nodes? */
bool preheat_is_all(char *const *nodes);

/* Order, and with a wait show the progress.  -EIO names who failed, -ETIMEDOUT
 * who is not over. */
int preheat_order(const struct preheat_options *o,
		  struct error *err) MUST_CHECK;

#endif
