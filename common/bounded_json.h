// SPDX-License-Identifier: Apache-2.0
/* JSON from outside: what a text may cost in memory is bounded before it is parsed. */
#ifndef BOOTSEER_COMMON_BOUNDED_JSON_H
#define BOOTSEER_COMMON_BOUNDED_JSON_H

#include "common/error.h"
#include "common/json.h"

#define BOUNDED_JSON_DEPTH_MAX 32
/* A member or an element counts 1, an object 4: 25 MiB of memory at most.  A manifest of 4 MiB
 * stays below this, as the digest of each layer alone is 71 bytes. */
#define BOUNDED_JSON_VALUES_MAX (1u << 18)

/* Parse a JSON object, which the caller then owns; a key that occurs twice is refused.  -EINVAL:
 * the message calls the text `what`. */
int bounded_json_load(const void *json, size_t len, const char *what,
		      json_t **ret, struct error *err) MUST_CHECK;

/* bounded_json_load() with the bound `values_max` instead; each value costs 100 bytes at most. */
int bounded_json_load_large(const void *json, size_t len, size_t values_max,
			    const char *what, json_t **ret,
			    struct error *err) MUST_CHECK;

int bounded_json_load_array(const void *json, size_t len, const char *what,
			    json_t **ret, struct error *err) MUST_CHECK;

#endif
