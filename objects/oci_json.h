// SPDX-License-Identifier: Apache-2.0
/* Members of JSON from outside; private to this folder. */
#ifndef BOOTSEER_OBJECTS_OCI_JSON_H
#define BOOTSEER_OBJECTS_OCI_JSON_H

#include <jansson.h>

#include "common/bounded_json.h"
#include "common/digest.h"

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
