// SPDX-License-Identifier: Apache-2.0
#include "cli/node_ask.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "common/text.h"

int node_ask_on(struct node_client *c, const char *method, json_t *params,
		json_t **ret, struct error *err)
{
	AUTO_FREE char *text = params ? json_dumps(params, 0) : NULL;
	AUTO_FREE char *reply = NULL;
	int rc;

	json_decref(params);
	if (!text)
		return error_nomem(err);
	rc = node_call(c, method, text, &reply, err);
	if (rc < 0 || !ret)
		return rc;
	*ret = json_loads(reply, 0, NULL);
	return *ret ? 0 : error_nomem(err);
}

int node_ask(const struct node_options *o, const char *method, json_t *params,
	     json_t **ret, struct error *err)
{
	struct node_client *c = NULL;
	int rc = node_connect(o, &c, err);

	if (rc < 0)
		json_decref(params);
	else
		rc = node_ask_on(c, method, params, ret, err);
	node_client_close(c);
	return rc;
}

int node_show(const struct node_options *o, const char *method,
	      void (*print)(const json_t *reply), struct error *err)
{
	AUTO_JSON *reply = NULL;
	int rc = node_ask(o, method, json_object(), &reply, err);

	if (rc == 0)
		print(reply);
	return rc;
}

void reply_print(const json_t *j)
{
	AUTO_FREE char *text = json_dumps(j, JSON_INDENT(2));

	puts(text ? text : "{}");
}

void reply_show(const json_t *j, bool json, void (*print)(const json_t *reply))
{
	(json ? reply_print : print)(j);
}

const char *reply_raw(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "-";
}

const char *reply_text(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	/* Changed in place, which is allowed: the text gets no longer, and the reply is ours. */
	if (s)
		text_make_printable((char *)(uintptr_t)s);
	return s ? s : "-";
}

long long reply_number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

bool reply_flag(const json_t *j, const char *key)
{
	return json_is_true(json_object_get(j, key));
}

const char *reply_bytes(const json_t *j, const char *key,
			char out[PROGRESS_BYTES_MAX])
{
	progress_format_bytes((uint64_t)reply_number(j, key), out);
	return out;
}

const char *reply_count(const json_t *j, const char *key, const char *noun,
			char out[PROGRESS_COUNT_MAX])
{
	progress_format_count((uint64_t)reply_number(j, key), noun, out);
	return out;
}
