// SPDX-License-Identifier: Apache-2.0
/* Reads configuration files of other programs, in YAML or JSON. */
#ifndef BOOTSEER_OBJECTS_YAML_JSON_H
#define BOOTSEER_OBJECTS_YAML_JSON_H

#include <jansson.h>

#include "common/error.h"

#define YAML_VALUES_MAX 16384
#define YAML_DEPTH_MAX 16

/* Parse the first document of a text, which must be an object; the caller owns the result. YAML
 * scalars become strings. -EINVAL. */
int yaml_json_load(const void *text, size_t len, json_t **ret,
		   struct error *err) MUST_CHECK;

#endif
