// SPDX-License-Identifier: Apache-2.0
/* The peer tracker of this replica; it is in memory and runs on the loop thread. */
#ifndef BOOTSEER_REGISTRY_SWARMS_H
#define BOOTSEER_REGISTRY_SWARMS_H

#include "p2p/tracker/tracker.h"
#include "registry/config.h"

struct swarms;
int swarms_new(const struct registry_config *cfg, struct swarms **ret,
	       struct error *err) MUST_CHECK;
void swarms_free(struct swarms *s);
void swarms_get_stats(struct swarms *s, struct tracker_stats *ret);

#endif
