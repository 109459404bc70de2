// SPDX-License-Identifier: Apache-2.0
/* A reference to a JSON value that its scope gives back. */
#ifndef BOOTSEER_COMMON_JSON_H
#define BOOTSEER_COMMON_JSON_H

#include <jansson.h>
#include <stdint.h>

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}

/* Must be initialised; steal_ptr() hands the reference on. */
#define AUTO_JSON __attribute__((cleanup(cleanup_json))) json_t

/* A text of a stranger: bytes that are no UTF-8 as \xNN, since JSON can say no others.  NULL:
 * no memory. */
json_t *json_bytes(const char *text);

/* Member `key` of `o`, which may be NULL; "" where there is none, or one that is no text. */
const char *json_text_of(const json_t *o, const char *key);

/* "sha256:..." */
struct digest;
json_t *json_digest(const struct digest *d);
/* A descriptor of the OCI's: media type, digest and size. */
json_t *json_descriptor(const char *media_type, const struct digest *d,
			uint64_t size);

#endif
