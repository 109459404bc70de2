// SPDX-License-Identifier: Apache-2.0
#include "net/metrics_server.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "net/httpd.h"
#include "net/pool.h"

#define METRICS_BYTES_MAX (1u << 20)
#define ANSWER_MEMORY (16u << 20)
#define CONNECTIONS_MAX 64
#define CONNECTION_TIMEOUT_NS (30 * NS_PER_S)

struct metrics {
	struct httpd *http;
	struct pool *pool; /* one thread: figures take a look at every block */
	int (*text)(void *arg, struct buf *ret);
	void *arg;
};

static uint64_t metrics_head(void *arg, struct httpd_request *r)
{
	enum httpd_method method = r->head.method;
	struct httpd_reply refusal = {
		.status = HTTPD_METHOD_NOT_ALLOWED,
	};

	(void)arg;
	if (strcmp(r->head.path, "/metrics") != 0)
		httpd_answer_error(r, HTTPD_NOT_FOUND,
				   "what there is, is /metrics");
	else if (method == HTTPD_GET || method == HTTPD_HEAD)
		return 0; /* without a body */
	else if (buf_printf(&refusal.headers, "Allow: GET, HEAD\r\n") < 0)
		httpd_answer_error(r, HTTPD_UNAVAILABLE, "out of memory");
	else
		httpd_answer(r, &refusal);
	return 0;
}

/* A request whose figures are summed up. */
struct metrics_call {
	struct work work;
	struct metrics *metrics;
	struct httpd_request *request;
	struct httpd_reply reply;
	int rc;
};

static void metrics_run(struct work *w)
{
	struct metrics_call *c = container_of(w, struct metrics_call, work);

	c->rc = c->metrics->text(c->metrics->arg, &c->reply.body);
}

static void metrics_done(struct work *w)
{
	struct metrics_call *c = container_of(w, struct metrics_call, work);

	if (c->rc == 0) {
		httpd_answer(c->request, &c->reply);
	} else {
		httpd_reply_fini(&c->reply);
		httpd_answer_error(c->request, HTTPD_INTERNAL,
				   "the figures are not known");
	}
	free(c);
}

static void metrics_request(void *arg, struct httpd_request *r)
{
	struct metrics *m = arg;
	struct metrics_call *c = calloc(1, sizeof(*c));

	if (c) {
		*c = (struct metrics_call){
			.work = { .run = metrics_run, .done = metrics_done },
			.metrics = m,
			.request = r,
			.reply = { .status = HTTPD_OK,
				   .type = "text/plain; version=0.0.4; "
					   "charset=utf-8",
				   .body.limit = METRICS_BYTES_MAX },
		};
		if (pool_submit(m->pool, &c->work) == 0)
			return;
	}
	free(c);
	httpd_answer_error(r, HTTPD_UNAVAILABLE,
			   "too many ask for the figures at once");
}

static void metrics_drop(void *arg, struct httpd_request *r)
{
	/* A request has nothing of its own. */
	(void)arg;
	(void)r;
}

static int metrics_error(void *arg, int status, const char *message,
			 struct buf *ret)
{
	(void)arg;
	(void)status;
	return buf_printf(ret, "%s\n", message);
}

static const struct httpd_handler handler = {
	.head = metrics_head,
	.request = metrics_request,
	.drop = metrics_drop,
	.error_type = "text/plain; charset=utf-8",
	.error = metrics_error,
};

int metrics_new(struct loop *l, const char *at,
		int (*text)(void *arg, struct buf *ret), void *arg,
		struct metrics **ret, struct error *err)
{
	struct metrics *m = calloc(1, sizeof(*m));
	const struct httpd_config cfg = {
		.loop = l,
		.name = "metrics",
		.option = "--metrics",
		.listen = at,
		.connections_max = CONNECTIONS_MAX,
		.answer_memory = ANSWER_MEMORY,
		.idle_ns = CONNECTION_TIMEOUT_NS,
		.request_ns = CONNECTION_TIMEOUT_NS,
		.handler = &handler,
		.arg = m,
	};
	int rc;

	if (!m)
		return error_nomem(err);
	m->text = text;
	m->arg = arg;
	rc = pool_new(l, 1, CONNECTIONS_MAX, &m->pool, err);
	if (rc == 0)
		rc = httpd_new(&cfg, &m->http, err);
	if (rc < 0) {
		pool_free(m->pool);
		free(m);
		return error_wrap(err, rc, "metrics");
	}
	*ret = m;
	return 0;
}

unsigned int metrics_port(const struct metrics *m)
{
	return httpd_port(m->http);
}

void metrics_stop(struct metrics *m)
{
	if (!m)
		return;
	httpd_abort(m->http);
	pool_free(steal_ptr(&m->pool));
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	httpd_free(m->http);
	free(m);
}
