// SPDX-License-Identifier: Apache-2.0
/* JSON from outside: what a text may cost in memory is bounded before it is parsed. */
#ifndef BOOTSEER_COMMON_BOUNDED_JSON_H
#define BOOTSEER_COMMON_BOUNDED_JSON_H

#include "common/error.h"
#include "common/json.h"

#define BOUNDED_JSON_DEPTH_MAX 32
/* Members, elements and, as four each, objects: 25 MiB of memory at most.  A manifest
 * of 4 MiB has no more of them, for a layer's digest alone is 71 bytes. */
#define BOUNDED_JSON_VALUES_MAX (1u << 18)

/* Parse an object; a key that comes twice is refused.  -EINVAL names `what`.  The
 * caller owns it. */
int bounded_json_load(const void *json, size_t len, const char *what,
		      json_t **ret, struct error *err) MUST_CHECK;

/* The same of a text that may weigh `values_max` instead; each costs 100 bytes at most. */
int bounded_json_load_large(const void *json, size_t len, size_t values_max,
			    const char *what, json_t **ret,
			    struct error *err) MUST_CHECK;

int bounded_json_load_array(const void *json, size_t len, const char *what,
			    json_t **ret, struct error *err) MUST_CHECK;

#endif
