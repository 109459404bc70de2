// SPDX-License-Identifier: Apache-2.0
#include "objects/oci_json.h"

#include <errno.h>
#include <string.h>

int oci_json_text(const json_t *obj, const char *key, char *out, size_t size,
		  struct error *err)
{
	const json_t *v = json_object_get(obj, key);

	out[0] = '\0';
	if (!v)
		return 0;
	if (!json_is_string(v) || json_string_length(v) >= size)
		return error_set(err, EINVAL, "'%s' is not a short text", key);
	memcpy(out, json_string_value(v), json_string_length(v) + 1);
	return 0;
}

int oci_json_digest(const json_t *obj, const char *key, struct digest *ret,
		    struct error *err)
{
	const char *text = json_string_value(json_object_get(obj, key));
	int rc;

	if (!text)
		return error_set(err, EINVAL, "'%s' is missing", key);
	rc = digest_parse(text, ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", key) : 0;
}

/* Types that servers give to what they do not know. */
static bool media_type_is_generic(const char *type)
{
	return !type || !*type || strcmp(type, "application/json") == 0 ||
	       strcmp(type, "application/octet-stream") == 0 ||
	       strncmp(type, "text/", 5) == 0;
}

int oci_json_media_type(const void *json, size_t len, const char *declared,
			char *out, size_t size, struct error *err)
{
	json_t *j;
	int rc = bounded_json_load(json, len, "manifest", &j, err);

	if (rc < 0)
		return rc;
	rc = oci_json_text(j, "mediaType", out, size, err);
	if (rc == 0 && !*out && media_type_is_generic(declared))
		declared = json_object_get(j, "manifests")
				   ? "application/vnd.oci.image.index.v1+json"
				   : "application/vnd.oci.image.manifest.v1+"
				     "json";
	json_decref(j);
	if (rc < 0)
		return error_wrap(err, rc, "manifest");
	if (!*out)
		(void)snprintf(out, size, "%s", declared);
	else if (!media_type_is_generic(declared) && strcmp(out, declared) != 0)
		return error_set(err, EBADMSG,
				 "manifest: it calls itself '%s', but was sent "
				 "as '%.100s'",
				 out, declared);
	return 0;
}
