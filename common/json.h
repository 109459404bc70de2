// SPDX-License-Identifier: Apache-2.0
/* A reference to a JSON value that its scope gives back. */
#ifndef BOOTSEER_COMMON_JSON_H
#define BOOTSEER_COMMON_JSON_H

#include <jansson.h>

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}

/* Must be initialised; steal_ptr() hands the reference on. */
#define AUTO_JSON __attribute__((cleanup(cleanup_json))) json_t

/* A text of a stranger: bytes that are no UTF-8 as \xNN, since JSON can say no others.  NULL:
 * no memory. */
json_t *json_bytes(const char *text);

/* "sha256:..." */
struct digest;
json_t *json_digest(const struct digest *d);

#endif
