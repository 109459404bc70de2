// SPDX-License-Identifier: Apache-2.0
/* JSON values: automatic release of references, small helpers. */
#ifndef BOOTSEER_COMMON_JSON_H
#define BOOTSEER_COMMON_JSON_H

#include <jansson.h>
#include <stdint.h>

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}

/* A reference that is released at the end of the scope.  Must be initialised; steal_ptr() hands it
 * on. */
#define AUTO_JSON __attribute__((cleanup(cleanup_json))) json_t

/* A JSON text of bytes from outside; bytes that are not UTF-8, which JSON cannot hold, become
 * \xNN. NULL: no memory. */
json_t *json_bytes(const char *text);

/* The text of member `key`; "" when `o` is NULL, or the member is missing or not a text. */
const char *json_text_of(const json_t *o, const char *key);

struct digest;
json_t *json_digest(const struct digest *d);
/* A descriptor of the OCI image-spec: media type, digest and size. */
json_t *json_descriptor(const char *media_type, const struct digest *d,
			uint64_t size);

#endif
