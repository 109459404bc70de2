// SPDX-License-Identifier: Apache-2.0
/* The table of routes as an OpenAPI 3.0 document. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "registry/route.h"

static const char *const places[] = {
	[PARAM_PATH] = "path",
	[PARAM_QUERY] = "query",
	[PARAM_HEADER] = "header",
};

static const char error_schema[] =
	"{\"type\":\"object\",\"required\":[\"error\"],\"properties\":"
	"{\"error\":{\"type\":\"object\",\"required\":[\"code\",\"message\"],"
	"\"properties\":{\"code\":{\"type\":\"string\"},"
	"\"message\":{\"type\":\"string\"}}}}}";

/* Takes the reference to `value`, as json functions that end in "_new" do. */
static int put_member(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value);
}

static json_t *make_content(const char *type, const char *schema)
{
	json_t *s = json_loads(schema, 0, NULL);

	return json_pack("{s:{s:o}}", type, "schema", s);
}

static json_t *error_answer(const char *help)
{
	return json_pack("{s:s,s:{s:{s:{s:s}}}}", "description", help,
			 "content", "application/json", "schema", "$ref",
			 "#/components/schemas/Error");
}

static json_t *make_params(const struct route *r)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ROUTE_PARAMS_MAX && r->params[i].name; i++) {
		const struct route_param *p = &r->params[i];
		json_t *schema = json_loads(p->kind->schema, 0, NULL);
		json_t *one =
			json_pack("{s:s,s:s,s:b,s:s,s:o}", "name", p->name,
				  "in", places[p->in], "required", p->required,
				  "description", p->help, "schema", schema);

		if (json_array_append_new(all, one) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static int add_answer(json_t *all, const struct route_answer *a)
{
	const char *schema = a->type && strcmp(a->type, "application/json")
				     ? "{\"type\":\"string\"}"
				     : "{\"type\":\"object\"}";
	char status[16];
	json_t *one;

	snprintf(status, sizeof(status), "%d", a->status);
	if (a->status >= HTTPD_BAD_REQUEST)
		return put_member(all, status, error_answer(a->help));
	one = json_pack("{s:s}", "description", a->help);
	if (a->type &&
	    put_member(one, "content", make_content(a->type, schema)) < 0) {
		json_decref(one);
		return -1;
	}
	return put_member(all, status, one);
}

static json_t *make_answers(const struct route *r)
{
	json_t *all = json_object();
	int rc = 0;

	if (r->method == HTTPD_POST || r->method == HTTPD_PUT) {
		rc |= put_member(all, "411",
				 error_answer("No Content-Length."));
		rc |= put_member(all, "413", error_answer("It is too large."));
	}
	for (size_t i = 0; i < ROUTE_ANSWERS_MAX && r->answers[i].status; i++)
		rc |= add_answer(all, &r->answers[i]);
	rc |= put_member(all, "400", error_answer("A parameter is wrong."));
	if (r->role != ROLE_NONE) {
		rc |= put_member(all, "401",
				 error_answer("No token, or unknown."));
		rc |= put_member(all, "403",
				 error_answer("The token may not."));
	}
	if (!r->on_loop)
		rc |= put_member(all, "503", error_answer("Try again later."));
	if (rc == 0)
		return all;
	json_decref(all);
	return NULL;
}

static const char *body_schema(const char *type)
{
	return strcmp(type, "application/json") == 0
		       ? "{\"type\":\"object\"}"
		       : "{\"type\":\"string\",\"format\":\"binary\"}";
}

static json_t *make_operation(const struct route *r)
{
	json_t *o = json_pack("{s:s,s:s,s:o,s:o}", "operationId", r->id,
			      "summary", r->summary, "parameters",
			      make_params(r), "responses", make_answers(r));
	int rc = o ? 0 : -1;

	if (rc == 0 && r->body)
		rc = put_member(o, "requestBody",
				json_pack("{s:b,s:o}", "required", 1, "content",
					  make_content(r->body,
						       body_schema(r->body))));
	if (rc == 0)
		rc = put_member(o, "security",
				r->role == ROLE_NONE
					? json_array()
					: json_pack("[{s:[]}]", "bearer"));
	if (rc == 0)
		return o;
	json_decref(o);
	return NULL;
}

static int add_route(json_t *paths, const struct route *r)
{
	char method[16] = "";
	json_t *at = json_object_get(paths, r->path);

	if (!at) {
		at = json_object();
		if (put_member(paths, r->path, at) < 0)
			return -1;
	}
	for (size_t i = 0; httpd_method_name(r->method)[i]; i++)
		method[i] = (char)(httpd_method_name(r->method)[i] | 0x20);
	return put_member(at, method, make_operation(r));
}

int openapi_make(const struct route *routes, size_t n, struct buf *ret,
		 struct error *err)
{
	json_t *paths = json_object(), *doc;
	char *text = NULL;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		rc |= add_route(paths, &routes[i]);
	doc = json_pack("{s:s,s:{s:s,s:s},s:o,s:{s:{s:o},s:{s:{s:s,s:s}}}}",
			"openapi", "3.0.3", "info", "title",
			"bootseer-registry", "version", "1", "paths", paths,
			"components", "schemas", "Error",
			json_loads(error_schema, 0, NULL), "securitySchemes",
			"bearer", "type", "http", "scheme", "bearer");
	if (rc == 0 && doc)
		text = json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(doc);
	rc = text ? buf_puts(ret, text) : -ENOMEM;
	free(text);
	return rc < 0 ? error_nomem(err) : 0;
}
