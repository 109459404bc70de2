// SPDX-License-Identifier: Apache-2.0
/* A call as routes see it: its parameters, the caller's token or certificate, and the answer. */
#ifndef BOOTSEER_REGISTRY_CALL_H
#define BOOTSEER_REGISTRY_CALL_H

#include "registry/route.h"
#include "registry/service.h"

/* An HTTP request, from the moment its head was read until its answer is sent. */
struct call {
	struct owner_turn turn;
	struct service *service;
	struct httpd_request *req;
	const struct route *route;
	const char *values[ROUTE_PARAMS_MAX];
	struct token_set *set;
	const struct token *token; /* NULL: the service has no tokens */
	struct httpd_reply reply;
	int rc;
	int status; /* HTTP status of a failure; 0: derived from `rc` */
	int retry_after_s;
	/* the caller's token or certificate does not allow the call */
	bool is_refused;
	struct error err;
};

struct json_t;
/* The value of a parameter; "" when it was not given. */
const char *call_param(const struct call *c, const char *name);
/* The value of a numeric parameter; `otherwise` when it was not given. */
int call_number(const struct call *c, const char *name, int otherwise);
#define LIMIT_DEFAULT 100 /* rows of a list without "limit" */

/* The repository prefix that the caller's token is bound to, or "". */
const char *call_prefix(const struct call *c);
/* Refuse a repository that the token may not see. */
int call_check_repo(struct call *c, const char *repo,
		    struct error *err) MUST_CHECK;
/* Check that the caller may read and add traces of `repo`: HOST/REPOSITORY, or the URL of a store
 * of environments. The traces of such a store are for callers that may get its blocks from other
 * nodes. */
int call_check_trace_repo(struct call *c, const char *repo,
			  struct error *err) MUST_CHECK;
/* Which repositories' traces the caller may see together with those of `repo`: all below
 * call_prefix(). Traces of a store are seen alone: the prefix is `repo` itself. */
const char *call_trace_prefix(const struct call *c, const char *repo);
/* Refuse `node` if it is not a valid node name, or not that of the caller's token or
 * certificate. */
int call_check_node(struct call *c, const char *node,
		    struct error *err) MUST_CHECK;
/* Answer with the JSON value `o`; takes it. NULL stands for a failed allocation: -ENOMEM. */
int call_send_json(struct call *c, struct json_t *o,
		   struct error *err) MUST_CHECK;
/* The name of the call's token or, without one, of its certificate; "": neither was sent. */
const char *call_owner(const struct call *c);
/* Parse the request's body as JSON; the caller releases the result. */
int call_body_json(const struct call *c, struct json_t **ret,
		   struct error *err) MUST_CHECK;
/* Fail the call with this HTTP status and, if not NULL, this error code in the answer. */
int call_fail(struct call *c, int status, const char *code, struct error *err,
	      const char *fmt, ...) PRINTF(5, 6);
/* Fail the call because of the caller's token or certificate; counted as denied and logged. */
int call_refuse(struct call *c, int status, struct error *err, const char *fmt,
		...) PRINTF(4, 5);
int call_header(struct call *c, const char *name, const char *value) MUST_CHECK;
/* Add an ETag to the reply's body; when the client already has that body, answer 304 without a
 * body. */
int call_send_if_new(struct call *c, struct error *err) MUST_CHECK;

#endif
