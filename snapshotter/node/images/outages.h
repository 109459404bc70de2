// SPDX-License-Identifier: Apache-2.0
/* Registries that reads wait for: each is told of in the log once when the wait
 * begins, and once when it is over, however many reads and images wait. */
#ifndef BOOTSEER_NODE_OUTAGES_H
#define BOOTSEER_NODE_OUTAGES_H

#include "objects/oci.h"
#include "snapshotter/node/images/back_offs.h"

struct outages;

struct outages *outages_new(void) MUST_CHECK; /* NULL: no memory */
void outages_free(struct outages *o);

/* For oci_config.watch; borrowed, valid until outages_free(). */
struct oci_watch *outages_watch(struct outages *o);

/* Time that all requests have waited; borrowed, valid until outages_free(). */
struct back_offs *outages_back_offs(struct outages *o);

/* A registry that is waited for: its name in `host`, why, and for how long.  False:
 * there is none.  `k` counts them from 0. */
#define OUTAGE_HOST_MAX 256
bool outages_get(struct outages *o, size_t k, char host[OUTAGE_HOST_MAX],
		 int64_t *ret_ns, struct error *ret_why);

/* The same of repositories whose login worked and is refused now. */
#define OUTAGE_PLACE_MAX 512
bool outages_get_login(struct outages *o, size_t k,
		       char place[OUTAGE_PLACE_MAX], int64_t *ret_ns,
		       struct error *ret_why);

#endif
