// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_REGISTRY_STARTS_JSON_H
#define BOOTSEER_REGISTRY_STARTS_JSON_H

#include <jansson.h>

#include "registry/stage_db.h"

/* What the list says of a start; NULL: memory is short. */
json_t *starts_job_json(const struct job_start *s);
/* Of times that nodes took; NULL: memory is short. */
json_t *starts_spread_json(const struct start_spread *s);

#endif
