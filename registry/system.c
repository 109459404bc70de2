// SPDX-License-Identifier: Apache-2.0
/* Health, readiness, and what the service says of itself. */
#include <string.h>

#include "registry/metrics.h"
#include "registry/service.h"

#define JSON "application/json"

static int say(struct call *c, const char *type, const char *text, size_t len,
	       struct error *err)
{
	c->reply.type = type;
	if (buf_append(&c->reply.body, text, len) < 0)
		return error_nomem(err);
	return 0;
}

int system_health(struct call *c, struct error *err)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";

	return say(c, JSON, ok, strlen(ok), err);
}

int system_ready(struct call *c, struct error *err)
{
	static const char ready[] = "{\"status\":\"ready\"}\n";
	int rc = trace_db_ping(c->service->db, err);

	return rc < 0 ? rc : say(c, JSON, ready, strlen(ready), err);
}

int system_openapi(struct call *c, struct error *err)
{
	const struct buf *text = &c->service->openapi;

	return say(c, JSON, text->data, text->len, err);
}

int system_metrics(struct call *c, struct error *err)
{
	c->reply.type = "text/plain; version=0.0.4; charset=utf-8";
	if (metrics_format(c->service, &c->reply.body) < 0)
		return error_nomem(err);
	return 0;
}
