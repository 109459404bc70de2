// SPDX-License-Identifier: Apache-2.0
#include "common/bounded_json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Parsed JSON takes some 70 times its text in memory, so a scan that allocates nothing counts the
 * values before parsing.  The scan need not find errors: the parser does. */
static size_t bounded_json_weigh(char c)
{
	switch (c) {
	case '{':
		return 4;
	case '[':
		return 2;
	case ',':
	case ':':
		return 1;
	default:
		return 0;
	}
}

static int check_bounds(const char *s, size_t len, size_t values_max,
			const char *what, struct error *err)
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
		values += bounded_json_weigh(s[i]);
		if (depth > BOUNDED_JSON_DEPTH_MAX)
			return error_set(err, EINVAL,
					 "%s is nested deeper than %d", what,
					 BOUNDED_JSON_DEPTH_MAX);
		if (values > values_max)
			return error_set(err, EINVAL,
					 "%s has more than %zu values", what,
					 values_max);
	}
	return 0;
}

static int load_json(const void *json, size_t len, size_t values_max,
		     const char *what, json_type type, json_t **ret,
		     struct error *err)
{
	json_error_t where;
	json_t *j;
	int rc = check_bounds(json, len, values_max, what, err);

	if (rc < 0)
		return rc;
	j = json_loadb(json ? json : "", len, JSON_REJECT_DUPLICATES, &where);
	if (!j) {
		char *near = strstr(where.text, " near '");

		/* The parser's quotation is cut off, since the text may be a secret. */
		if (near)
			*near = '\0';
		return error_set(err, EINVAL, "%s is not JSON: line %d: %s",
				 what, where.line, where.text);
	}
	if (json_typeof(j) != type) {
		json_decref(j);
		return error_set(err, EINVAL, "%s is not a JSON %s", what,
				 type == JSON_ARRAY ? "list" : "object");
	}
	*ret = j;
	return 0;
}

int bounded_json_load(const void *json, size_t len, const char *what,
		      json_t **ret, struct error *err)
{
	return load_json(json, len, BOUNDED_JSON_VALUES_MAX, what, JSON_OBJECT,
			 ret, err);
}

int bounded_json_load_large(const void *json, size_t len, size_t values_max,
			    const char *what, json_t **ret, struct error *err)
{
	return load_json(json, len, values_max, what, JSON_OBJECT, ret, err);
}

int bounded_json_load_array(const void *json, size_t len, const char *what,
			    json_t **ret, struct error *err)
{
	return load_json(json, len, BOUNDED_JSON_VALUES_MAX, what, JSON_ARRAY,
			 ret, err);
}
