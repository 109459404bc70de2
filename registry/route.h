// SPDX-License-Identifier: Apache-2.0
/*
 * The routes of the service as one table, which is used to find and check requests and to describe
 * the API (OpenAPI). Pure.
 */
#ifndef BOOTSEER_REGISTRY_ROUTE_H
#define BOOTSEER_REGISTRY_ROUTE_H

#include "common/buf.h"
#include "net/httpd_head.h"
#include "registry/token.h"

#define ROUTE_PARAMS_MAX 8
#define ROUTE_ANSWERS_MAX 12

struct call;

enum param_in {
	PARAM_PATH,
	PARAM_QUERY,
	PARAM_HEADER,
};

/* The kind of a parameter's values. */
struct param_kind {
	const char *name;   /* for error messages: "a digest" */
	const char *schema; /* JSON schema */
	bool (*ok)(const char *value);
};
extern const struct param_kind param_digest, param_workload, param_repo,
	param_node, param_flag, param_limit, param_id, param_key, param_job,
	param_clock, param_image, param_label, param_format, param_by,
	param_class, param_days, param_capture, param_key_begin,
	param_authorization, param_host;

struct route_param {
	const char *name;
	enum param_in in;
	const struct param_kind *kind;
	bool required;
	const char *help;
};

struct route_answer {
	int status;
	const char *type; /* media type; NULL: no body */
	const char *help;
};

/* A route. openapi_make() adds the errors that every route can return. */
struct route {
	enum httpd_method method;
	const char *path; /* "/v1/traces/{digest}" */
	const char *id;   /* id of the operation in the OpenAPI document */
	const char *summary;
	enum role role;   /* ROLE_NONE: no token needed */
	const char *body; /* media type of the request; NULL: none */
	/* bytes of the request's body at most; 0: --trace-max */
	uint64_t body_max;
	/* `run` never blocks, so it runs on the loop thread */
	bool on_loop;
	bool is_asking; /* `run` calls a registry, which may be slow */
	int (*run)(struct call *c, struct error *err);
	struct route_param params[ROUTE_PARAMS_MAX];
	struct route_answer answers[ROUTE_ANSWERS_MAX];
};

/*
 * Find the route of a request. `path` is changed: its parts are decoded in place, and `values` (by
 * index of the route's params) point into it. Returns 0 or the HTTP status of the refusal: 404, or
 * 405 (then *ret is a route with the same path and another method).
 */
int route_find(const struct route *routes, size_t n, enum httpd_method method,
	       char *path, const struct route **ret,
	       const char *values[ROUTE_PARAMS_MAX]) MUST_CHECK;

/* Fill in the values from the query and the headers, and check all values. -EINVAL: the message
 * names the one that is missing, unknown or wrong. */
int route_params(const struct route *r, struct httpd_head *h,
		 const char *values[ROUTE_PARAMS_MAX],
		 struct error *err) MUST_CHECK;

/* The index of a parameter; the route must have it. */
size_t route_param(const struct route *r, const char *name);

/* Append the methods of all routes with the path of `like`, such as "GET, POST". */
int route_allow(const struct route *routes, size_t n, const struct route *like,
		struct buf *ret) MUST_CHECK;

/* Describe the table of routes as an OpenAPI document in JSON. */
int openapi_make(const struct route *routes, size_t n, struct buf *ret,
		 struct error *err) MUST_CHECK;

#endif
