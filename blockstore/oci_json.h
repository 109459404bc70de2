// SPDX-License-Identifier: Apache-2.0
/* JSON from outside, within bounds; private to this folder. */
#ifndef BOOTSEER_BLOCKSTORE_OCI_JSON_H
#define BOOTSEER_BLOCKSTORE_OCI_JSON_H

#include <jansson.h>

#include "common/digest.h"

#define OCI_JSON_DEPTH_MAX 32
#define OCI_JSON_VALUES_MAX (1u << 19)

/* Parse an object; depth and count of values are bounded before anything is
 * allocated, a key that comes twice is refused.  -EINVAL names `what`. */
int oci_json_load(const void *json, size_t len, const char *what, json_t **ret,
		  struct error *err) MUST_CHECK;

int oci_json_load_array(const void *json, size_t len, const char *what,
			json_t **ret, struct error *err) MUST_CHECK;

/* Copy a string member; "" when it is absent. */
int oci_json_text(const json_t *obj, const char *key, char *out, size_t size,
		  struct error *err) MUST_CHECK;

/* A digest member that must be there. */
int oci_json_digest(const json_t *obj, const char *key, struct digest *ret,
		    struct error *err) MUST_CHECK;

/* The media type of a manifest or index: what it says itself, or (it may leave
 * that out) what its shape tells.  `declared`, when neither NULL nor a type for
 * anything, must agree. */
int oci_json_media_type(const void *json, size_t len, const char *declared,
			char *out, size_t size, struct error *err) MUST_CHECK;

#endif
