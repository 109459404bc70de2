// SPDX-License-Identifier: Apache-2.0
/* Registries for which reads wait: each is logged once when the wait begins, and once when it
 * ends, however many reads and images wait. */
#ifndef BOOTSEER_NODE_OUTAGES_H
#define BOOTSEER_NODE_OUTAGES_H

#include "objects/oci.h"
#include "snapshotter/node/images/back_offs.h"

struct outages;

struct outages *outages_new(void) MUST_CHECK; /* NULL: no memory */
void outages_free(struct outages *o);

/* For oci_config.watch; borrowed, valid until outages_free(). */
struct oci_watch *outages_watch(struct outages *o);

/* Times that all requests have waited; borrowed, valid until outages_free(). */
struct back_offs *outages_back_offs(struct outages *o);

/* Get the k-th registry (from 0) for which reads wait: its name in `host`, why, and for how
 * long.  False: there is none. */
#define OUTAGE_HOST_MAX 256
bool outages_get(struct outages *o, size_t k, char host[OUTAGE_HOST_MAX],
		 int64_t *ret_ns, struct error *ret_why);

/* Get the k-th repository whose login worked before and is refused now. */
#define OUTAGE_PLACE_MAX 512
bool outages_get_login(struct outages *o, size_t k,
		       char place[OUTAGE_PLACE_MAX], int64_t *ret_ns,
		       struct error *ret_why);

#endif
