// SPDX-License-Identifier: Apache-2.0
#include "blockstore/oci_json.h"

#include <errno.h>
#include <string.h>

/* A few bytes of JSON make a hundred bytes of tree, so values are counted by a
 * scan that allocates nothing.  It need not find errors: the parser does. */
static int check_bounds(const char *s, size_t len, const char *what,
			struct error *err)
{
	size_t depth = 0, values = 1;
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		if (quoted) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				quoted = false;
			continue;
		}
		if (s[i] == '"')
			quoted = true;
		else if (s[i] == '[' || s[i] == '{')
			depth++;
		else if ((s[i] == ']' || s[i] == '}') && depth)
			depth--;
		if (s[i] == ',' || s[i] == '[' || s[i] == ':')
			values++;
		if (depth > OCI_JSON_DEPTH_MAX)
			return error_set(err, EINVAL,
					 "%s is nested deeper than %d", what,
					 OCI_JSON_DEPTH_MAX);
		if (values > OCI_JSON_VALUES_MAX)
			return error_set(err, EINVAL,
					 "%s has more than %u values", what,
					 OCI_JSON_VALUES_MAX);
	}
	return 0;
}

static int load(const void *json, size_t len, const char *what, json_type type,
		json_t **ret, struct error *err)
{
	json_error_t where;
	json_t *j;
	int rc = check_bounds(json, len, what, err);

	if (rc < 0)
		return rc;
	j = json_loadb(json ? json : "", len, JSON_REJECT_DUPLICATES, &where);
	if (!j)
		return error_set(err, EINVAL, "%s is not JSON: line %d: %s",
				 what, where.line, where.text);
	if (json_typeof(j) != type) {
		json_decref(j);
		return error_set(err, EINVAL, "%s is not a JSON %s", what,
				 type == JSON_ARRAY ? "list" : "object");
	}
	*ret = j;
	return 0;
}

int oci_json_load(const void *json, size_t len, const char *what, json_t **ret,
		  struct error *err)
{
	return load(json, len, what, JSON_OBJECT, ret, err);
}

int oci_json_load_array(const void *json, size_t len, const char *what,
			json_t **ret, struct error *err)
{
	return load(json, len, what, JSON_ARRAY, ret, err);
}

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
static bool says_nothing(const char *type)
{
	return !type || !*type || strcmp(type, "application/json") == 0 ||
	       strcmp(type, "application/octet-stream") == 0 ||
	       strncmp(type, "text/", 5) == 0;
}

int oci_json_media_type(const void *json, size_t len, const char *declared,
			char *out, size_t size, struct error *err)
{
	json_t *j;
	int rc = oci_json_load(json, len, "manifest", &j, err);

	if (rc < 0)
		return rc;
	rc = oci_json_text(j, "mediaType", out, size, err);
	if (rc == 0 && !*out && says_nothing(declared))
		declared = json_object_get(j, "manifests")
				   ? "application/vnd.oci.image.index.v1+json"
				   : "application/vnd.oci.image.manifest.v1+"
				     "json";
	json_decref(j);
	if (rc < 0)
		return error_wrap(err, rc, "manifest");
	if (!*out)
		(void)snprintf(out, size, "%s", declared);
	else if (!says_nothing(declared) && strcmp(out, declared) != 0)
		return error_set(err, EBADMSG,
				 "manifest: it calls itself '%s', but was sent "
				 "as '%.100s'",
				 out, declared);
	return 0;
}
