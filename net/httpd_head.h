// SPDX-License-Identifier: Apache-2.0
/*
 * The head of an HTTP/1.1 request and the parts of its target (RFC 9112, RFC
 * 3986).  Pure: bytes in, fields out.
 */
#ifndef BOOTSEER_NET_HTTPD_HEAD_H
#define BOOTSEER_NET_HTTPD_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HTTPD_HEADERS_MAX 64u
#define HTTPD_PARAMS_MAX 16u

/* Status codes of answers, including the errors that the parsers return. */
enum httpd_status {
	HTTPD_OK = 200,
	HTTPD_ACCEPTED = 202,
	HTTPD_PARTIAL = 206,
	HTTPD_NOT_MODIFIED = 304,
	HTTPD_BAD_REQUEST = 400,
	HTTPD_UNAUTHORIZED = 401,
	HTTPD_FORBIDDEN = 403,
	HTTPD_NOT_FOUND = 404,
	HTTPD_METHOD_NOT_ALLOWED = 405,
	HTTPD_TIMEOUT = 408,
	HTTPD_LENGTH_REQUIRED = 411,
	HTTPD_TOO_LARGE = 413,
	HTTPD_RANGE = 416,
	HTTPD_TOO_MANY = 429,
	HTTPD_HEADERS_TOO_LARGE = 431,
	HTTPD_INTERNAL = 500,
	HTTPD_NOT_IMPLEMENTED = 501,
	HTTPD_UNAVAILABLE = 503,
	HTTPD_VERSION = 505,
};

/* The text of a status ("Not Found"), and its code in the API's errors ("not_found"). */
const char *httpd_status_text(int status);
const char *httpd_status_code(int status);

enum httpd_method {
	HTTPD_GET,
	HTTPD_HEAD,
	HTTPD_POST,
	HTTPD_PUT,
	HTTPD_DELETE,
	HTTPD_METHOD_OTHER,
};

const char *httpd_method_name(enum httpd_method m);

struct httpd_field {
	const char *name, *value;
};

/* A parsed head; its texts lie in the parsed bytes. */
struct httpd_head {
	enum httpd_method method;
	char *path;  /* starts with '/'; still percent-encoded */
	char *query; /* after '?'; "" without one */
	struct httpd_field headers[HTTPD_HEADERS_MAX];
	size_t n_headers;
	uint64_t content_length; /* 0 without one */
	bool has_length;
	bool keep_alive;
	bool expect_continue;
};

/*
 * Parse a head in place: `text` is from the request line to the empty line,
 * which is included, and is NUL-terminated after `len` bytes.  Returns 0 or the
 * HTTP status to refuse it with, and then says why in `err`.
 */
int httpd_head_parse(char *text, size_t len, struct httpd_head *ret,
		     struct error *err) MUST_CHECK;

/* The value of a header, whose name may be in any case, or NULL. */
const char *httpd_head_get(const struct httpd_head *h, const char *name);

/* Decode %XX in place; -EINVAL: not well-formed, or a NUL. */
int httpd_decode(char *text) MUST_CHECK;

/*
 * Split a query in place to decoded names and values.  -EINVAL: malformed, or a
 * name twice; -E2BIG: more than HTTPD_PARAMS_MAX.
 */
int httpd_query_parse(char *query, struct httpd_field ret[HTTPD_PARAMS_MAX],
		      size_t *ret_n, struct error *err) MUST_CHECK;

#endif
