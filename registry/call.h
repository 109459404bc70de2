// SPDX-License-Identifier: Apache-2.0
/* A call as routes see it: its parameters, who it is that may call, and its answer. */
#ifndef BOOTSEER_REGISTRY_CALL_H
#define BOOTSEER_REGISTRY_CALL_H

#include "registry/route.h"
#include "registry/service.h"

/* A request, from its head to its answer. */
struct call {
	struct owner_turn turn;
	struct service *service;
	struct httpd_request *req;
	const struct route *route;
	const char *values[ROUTE_PARAMS_MAX];
	struct token_set *set;
	const struct token *token; /* NULL: there are none */
	struct httpd_reply reply;
	int rc;
	int status; /* of a failure; 0: by rc */
	int retry_after_s;
	bool is_refused; /* for its token or certificate */
	struct error err;
};

struct json_t;
/* The value of a parameter; "" when it was not given. */
const char *call_param(const struct call *c, const char *name);
/* The same of one whose kind is a number; `otherwise` when it was not given. */
int call_number(const struct call *c, const char *name, int otherwise);
#define LIMIT_DEFAULT 100 /* rows of a list without "limit" */

/* The repository prefix that it is bound to, or "". */
const char *call_prefix(const struct call *c);
/* Refuse a repository that the token may not see. */
int call_check_repo(struct call *c, const char *repo,
		    struct error *err) MUST_CHECK;
/* Check `repo`: HOST/REPOSITORY of traces, the URL of a store of environments. Refuse one
 * whose traces the token may neither see nor add to: of a store that is no registry's
 * they are those of who may have its blocks from other nodes. */
int call_check_trace_repo(struct call *c, const char *repo,
			  struct error *err) MUST_CHECK;
/* Prefix of repositories that are seen besides `repo`: call_prefix(); besides a store
 * nothing. */
const char *call_trace_prefix(const struct call *c, const char *repo);
/* Refuse a name that is none, or not that of the token or the certificate. */
int call_check_node(struct call *c, const char *node,
		    struct error *err) MUST_CHECK;
/* Answer with this; takes it (NULL: memory was short). */
int call_send_json(struct call *c, struct json_t *o,
		   struct error *err) MUST_CHECK;
/* The owner of the call's token or certificate; "": anybody. */
const char *call_owner(const struct call *c);
/* The body as JSON, the caller's. */
int call_body_json(const struct call *c, struct json_t **ret,
		   struct error *err) MUST_CHECK;
/* Fail with this status and, if not NULL, code. */
int call_fail(struct call *c, int status, const char *code, struct error *err,
	      const char *fmt, ...) PRINTF(5, 6);
/* The same for who it is that calls: counted, and told in the log. */
int call_refuse(struct call *c, int status, struct error *err, const char *fmt,
		...) PRINTF(4, 5);
int call_header(struct call *c, const char *name, const char *value) MUST_CHECK;
/* Give the body that is there an ETag; none, and 304, when the client has it. */
int call_send_if_new(struct call *c, struct error *err) MUST_CHECK;

#endif
