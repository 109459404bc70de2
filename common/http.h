// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP requests, blocking, with kept connections (libcurl).  Bodies stream.
 */
#ifndef BOOTSEER_COMMON_HTTP_H
#define BOOTSEER_COMMON_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

struct http_config {
	const char *ca_file; /* PEM; NULL: the system's; copied */
	bool allow_plain;    /* http:// URLs, also as targets of redirects */
	uint32_t connect_timeout_ms;
	uint32_t stall_timeout_ms; /* no byte for so long: -ETIMEDOUT */
};

/* A set of connections; any number of threads may use it at once. */
struct http;

int http_new(const struct http_config *cfg, struct http **ret,
	     struct error *err) MUST_CHECK;
void http_free(struct http *h); /* with no request under way */
DEFINE_AUTO(http)

/* Takes the body of a 2xx answer as it arrives; an error ends the transfer and
 * is what http_do() returns. */
struct http_sink {
	int (*put)(struct http_sink *sink, const void *data, size_t len,
		   struct error *err);
};

struct http_request {
	const char *method; /* "GET" */
	const char *url;
	const char *const
		*headers; /* "Name: value", NULL-terminated; or NULL */
	/* What is sent: bytes, or `body_len` bytes of a file.  A request with
	 * a body is not redirected. */
	const void *body;
	int body_fd; /* used when body is NULL and body_len is not 0 */
	uint64_t body_off;
	uint64_t body_len;
	struct http_sink *sink; /* NULL: the body goes to response->body */
};

#define HTTP_HEADER_MAX 4096
#define HTTP_BODY_MAX (8u << 20) /* of answers without a sink */

struct http_response {
	long status;
	struct buf body; /* answers without a sink, and those that are not 2xx
	                  * (the first bytes, for messages) */
	struct buf headers; /* "name: value\n", names in lower case */
};
#define HTTP_RESPONSE_INIT \
	{ \
		.status = 0 \
	}
void http_response_fini(struct http_response *r);

/* Value of a header (lower-case name), or NULL; caller owns. */
char *http_header(const struct http_response *r, const char *name) MUST_CHECK;

/*
 * Do it.  0 whatever the status is, once a whole answer came.
 *   -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -EPROTO (TLS), -EIO (cut off in
 *   the middle), -EFBIG (body without a sink too long), or the sink's.
 */
int http_do(struct http *h, const struct http_request *req,
	    struct http_response *resp, struct error *err) MUST_CHECK;

#endif
