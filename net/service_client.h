// SPDX-License-Identifier: Apache-2.0
/*
 * A client of bootseer-registry (docs/formats/registry-api.md): makes single requests with the
 * token, and explains refusals. Any thread.
 */
#ifndef BOOTSEER_NET_SERVICE_CLIENT_H
#define BOOTSEER_NET_SERVICE_CLIENT_H

#include "net/http.h"

struct service_client;

#define SERVICE_SILENT_MS 3000

struct service_client_config {
	const char *url;        /* "https://host:port" */
	const char *token_file; /* bearer token, read for each request; NULL */
	const char *ca_file;    /* PEM; NULL: the system's */
	/* the token may be sent to another machine by http:// */
	bool plain_token;
	/* how users allow that, for messages; NULL: not possible */
	const char *plain_cure;
	/* The node's own certificate and key, PEM, for a service that asks for
	 * them; NULL: none. */
	const char *cert_file, *key_file;
	bool is_direct;      /* use no proxy, whatever http_proxy says */
	uint32_t timeout_ms; /* of one request in all */
	/* Called once for a request that has waited SERVICE_SILENT_MS for a byte. May be
	 * NULL. */
	void (*silent)(const char *url, uint32_t timeout_ms);
};

/* Make a client; contacts nobody. -EINVAL: not a valid address, or one of another machine
 * that would get the token without TLS. */
int service_client_new(const struct service_client_config *cfg,
		       struct service_client **ret,
		       struct error *err) MUST_CHECK;
void service_client_free(struct service_client *s); /* NULL is allowed */
DEFINE_AUTO(service_client)

/* The service's address, for messages; borrowed. */
const char *service_client_url(const struct service_client *s);

/* -EINVAL: the service does not accept this as the name of a node. */
int service_client_check_node(const char *node, struct error *err) MUST_CHECK;

/* Append "?name=value" or "&name=value", escaped, to a path; a value of NULL is
 * left out. */
int service_client_param(struct buf *path, const char *name,
			 const char *value) MUST_CHECK;

#define SERVICE_HEADERS_MAX 4

struct service_request {
	const char *method;
	const char *path; /* from "/v1/" on, with its parameters */
	const char *headers[SERVICE_HEADERS_MAX]; /* NULL ends them */
	const void *body;
	size_t body_len;
};

/* A successful answer; zeroed by the caller except for the body's limit. */
struct service_answer {
	struct http_response head;
	struct buf body;
};
void service_answer_fini(struct service_answer *a);

/*
 * Send a request. Refusals of the service are -EACCES, -EINVAL, -ENOENT, -EBUSY, -EFBIG, -EIO
 * and -ETIMEDOUT, with its text and advice; other failures as of http_do().
 */
int service_client_do(struct service_client *s, const struct service_request *r,
		      struct service_answer *ret, struct error *err) MUST_CHECK;

#endif
