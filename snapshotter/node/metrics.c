// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define METRICS_BYTES_MAX (1u << 20)
#define CONNECTION_TIMEOUT_S 30

struct metrics {
	struct evhttp *http;
	int (*text)(void *arg, struct buf *ret);
	void *arg;
	unsigned int port;
};

static void on_request(struct evhttp_request *req, void *arg)
{
	struct metrics *m = arg;
	AUTO_BUF text = { .limit = METRICS_BYTES_MAX };
	struct evbuffer *out = evhttp_request_get_output_buffer(req);

	if (m->text(m->arg, &text) < 0 ||
	    evbuffer_add(out, text.data, text.len) < 0) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
		return;
	}
	(void)evhttp_add_header(evhttp_request_get_output_headers(req),
				"Content-Type",
				"text/plain; version=0.0.4; charset=utf-8");
	evhttp_send_reply(req, HTTP_OK, NULL, NULL);
}

static int listen_at(struct metrics *m, const char *at, struct error *err)
{
	AUTO_FREE char *host = strdup(at);
	char *colon = host ? strrchr(host, ':') : NULL, *end;
	struct evhttp_bound_socket *b;
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	unsigned long port;
	const char *name;
	size_t n;

	if (!colon)
		return error_set(err, EINVAL, "'%s' is not ADDR:PORT", at);
	*colon = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (!colon[1] || *end || port > 65535)
		return error_set(err, EINVAL, "'%s' is not ADDR:PORT", at);
	name = host;
	n = strlen(host);
	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		name = host + 1;
	}
	b = evhttp_bind_socket_with_handle(m->http, name, (uint16_t)port);
	if (!b || getsockname(evhttp_bound_socket_get_fd(b),
			      (struct sockaddr *)&addr, &len) < 0)
		return error_listen(err, errno ? errno : EINVAL, at,
				    "--metrics");
	m->port = ntohs(addr.ss_family == AF_INET6
				? ((struct sockaddr_in6 *)&addr)->sin6_port
				: ((struct sockaddr_in *)&addr)->sin_port);
	return 0;
}

int metrics_new(struct loop *l, const char *at,
		int (*text)(void *arg, struct buf *ret), void *arg,
		struct metrics **ret, struct error *err)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return error_nomem(err);
	m->text = text;
	m->arg = arg;
	m->http = evhttp_new(loop_event_base(l));
	if (!m->http) {
		free(m);
		return error_nomem(err);
	}
	evhttp_set_timeout(m->http, CONNECTION_TIMEOUT_S);
	evhttp_set_max_headers_size(m->http, 8192);
	evhttp_set_max_body_size(m->http, 0);
	evhttp_set_allowed_methods(m->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	rc = listen_at(m, at, err);
	if (rc == 0 && evhttp_set_cb(m->http, "/metrics", on_request, m) < 0)
		rc = error_nomem(err);
	if (rc < 0) {
		metrics_free(m);
		return error_wrap(err, rc, "metrics");
	}
	*ret = m;
	return 0;
}

unsigned int metrics_port(const struct metrics *m)
{
	return m->port;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	evhttp_free(m->http);
	free(m);
}
