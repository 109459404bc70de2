// SPDX-License-Identifier: Apache-2.0
/*
 * Parses heads of requests. Stricter than RFC 9112 requires where leniency has allowed request
 * smuggling: no folded headers, no space before a colon, one Content-Length, no transfer
 * codings.
 */
#include "net/httpd_head.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

static const char *const methods[] = {
	[HTTPD_GET] = "GET", [HTTPD_HEAD] = "HEAD",     [HTTPD_POST] = "POST",
	[HTTPD_PUT] = "PUT", [HTTPD_DELETE] = "DELETE",
};

static const struct {
	int status;
	const char *text, *code;
} statuses[] = {
	{ HTTPD_OK, "OK", "ok" },
	{ HTTPD_ACCEPTED, "Accepted", "accepted" },
	{ HTTPD_PARTIAL, "Partial Content", "partial" },
	{ HTTPD_NOT_MODIFIED, "Not Modified", "not_modified" },
	{ HTTPD_BAD_REQUEST, "Bad Request", "bad_request" },
	{ HTTPD_UNAUTHORIZED, "Unauthorized", "unauthorized" },
	{ HTTPD_FORBIDDEN, "Forbidden", "forbidden" },
	{ HTTPD_NOT_FOUND, "Not Found", "not_found" },
	{ HTTPD_METHOD_NOT_ALLOWED, "Method Not Allowed",
	  "method_not_allowed" },
	{ HTTPD_TIMEOUT, "Request Timeout", "timeout" },
	{ HTTPD_LENGTH_REQUIRED, "Length Required", "length_required" },
	{ HTTPD_TOO_LARGE, "Content Too Large", "too_large" },
	{ HTTPD_RANGE, "Range Not Satisfiable", "range" },
	{ HTTPD_TOO_MANY, "Too Many Requests", "too_many" },
	{ HTTPD_HEADERS_TOO_LARGE, "Request Header Fields Too Large",
	  "headers_too_large" },
	{ HTTPD_INTERNAL, "Internal Server Error", "internal" },
	{ HTTPD_NOT_IMPLEMENTED, "Not Implemented", "not_implemented" },
	{ HTTPD_UNAVAILABLE, "Service Unavailable", "unavailable" },
	{ HTTPD_VERSION, "HTTP Version Not Supported", "not_implemented" },
};

static size_t index_of_status(int status)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(statuses) && statuses[i].status != status)
		i++;
	return i;
}

const char *httpd_status_text(int status)
{
	size_t i = index_of_status(status);

	return i < ARRAY_SIZE(statuses) ? statuses[i].text : "Unknown";
}

const char *httpd_status_code(int status)
{
	size_t i = index_of_status(status);

	return i < ARRAY_SIZE(statuses) ? statuses[i].code : "internal";
}

const char *httpd_method_name(enum httpd_method m)
{
	return m < HTTPD_METHOD_OTHER ? methods[m] : "other";
}

/* Is it a token (RFC 9110, 5.6.2)? */
static bool is_token(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++) {
		if (!isalnum((unsigned char)*s) &&
		    !strchr("!#$%&'*+-.^_`|~", *s))
			return false;
	}
	return true;
}

static int httpd_head_refuse(struct error *err, int status, const char *why)
{
	error_set(err, EINVAL, "%s", why);
	return status;
}

static int parse_version(const char *version, struct httpd_head *ret,
			 struct error *err)
{
	if (strcmp(version, "HTTP/1.1") == 0)
		ret->keep_alive = true;
	else if (strcmp(version, "HTTP/1.0") != 0)
		return strncmp(version, "HTTP/", 5) == 0
			       ? httpd_head_refuse(err, HTTPD_VERSION,
						   "HTTP/1.1 is spoken here")
			       : httpd_head_refuse(err, HTTPD_BAD_REQUEST,
						   "that is not HTTP");
	return 0;
}

/* Parse "METHOD SP TARGET SP VERSION". */
static int parse_request_line(char *line, struct httpd_head *ret,
			      struct error *err)
{
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;
	char *question;

	if (!version)
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "that is not HTTP");
	*target++ = '\0';
	*version++ = '\0';
	if (!is_token(line) || target[0] != '/')
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "bad request line");
	for (const char *p = target; *p; p++) {
		if (*p <= ' ' || *p >= 0x7f)
			return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
						 "bad character in the target");
	}
	ret->method = HTTPD_GET;
	while (ret->method < HTTPD_METHOD_OTHER &&
	       strcmp(line, methods[ret->method]) != 0)
		ret->method++;
	question = strchr(target, '?');
	ret->path = target;
	ret->query = question ? question + 1 : version - 1;
	if (question)
		*question = '\0';
	return parse_version(version, ret, err);
}

static int parse_length(const char *value, struct httpd_head *ret,
			struct error *err)
{
	uint64_t n = 0;

	if (ret->has_length || !*value || strlen(value) > 18)
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "bad Content-Length");
	for (; *value; value++) {
		if (!isdigit((unsigned char)*value))
			return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
						 "bad Content-Length");
		n = n * 10 + (uint64_t)(*value - '0');
	}
	ret->has_length = true;
	ret->content_length = n;
	return 0;
}

/* Is `word` in the comma-separated list? */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (*list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, " \t,");
		if (n == len && strncasecmp(list, word, n) == 0)
			return true;
		list += n;
	}
	return false;
}

/* Note the headers that decide how the request is read. */
static int note_header(const struct httpd_field *f, struct httpd_head *ret,
		       struct error *err)
{
	if (strcasecmp(f->name, "Content-Length") == 0)
		return parse_length(f->value, ret, err);
	if (strcasecmp(f->name, "Transfer-Encoding") == 0)
		return httpd_head_refuse(err, HTTPD_LENGTH_REQUIRED,
					 "a body needs Content-Length here");
	if (strcasecmp(f->name, "Connection") == 0) {
		if (has_word(f->value, "close"))
			ret->keep_alive = false;
	} else if (strcasecmp(f->name, "Expect") == 0) {
		ret->expect_continue = has_word(f->value, "100-continue");
	}
	return 0;
}

static int parse_header(char *line, struct httpd_head *ret, struct error *err)
{
	char *colon = strchr(line, ':'), *value, *end;
	struct httpd_field *f;

	if (!colon)
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "header without a colon");
	if (ret->n_headers == HTTPD_HEADERS_MAX)
		return httpd_head_refuse(err, HTTPD_HEADERS_TOO_LARGE,
					 "too many headers");
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	if (!is_token(line))
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "bad name of a header");
	for (const char *p = value; *p; p++) {
		if ((unsigned char)*p < ' ' && *p != '\t')
			return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
						 "bad character in a header");
	}
	f = &ret->headers[ret->n_headers++];
	f->name = line;
	f->value = value;
	return note_header(f, ret, err);
}

int httpd_head_parse(char *text, size_t len, struct httpd_head *ret,
		     struct error *err)
{
	bool first = true;
	int status;

	memset(ret, 0, sizeof(*ret));
	if (strlen(text) != len)
		return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
					 "NUL in the head");
	for (;;) {
		char *end = strstr(text, "\r\n");

		if (!end)
			return httpd_head_refuse(err, HTTPD_BAD_REQUEST,
						 "the head has no end");
		*end = '\0';
		if (end == text && !first)
			return 0;
		status = first ? parse_request_line(text, ret, err)
			       : parse_header(text, ret, err);
		if (status)
			return status;
		first = false;
		text = end + 2;
	}
}

const char *httpd_head_get(const struct httpd_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_headers; i++) {
		if (strcasecmp(h->headers[i].name, name) == 0)
			return h->headers[i].value;
	}
	return NULL;
}

/* ------------------------------------------------------------------ targets --- */

static int hex_value(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

int httpd_decode(char *text)
{
	char *out = text;

	for (; *text; text++) {
		int high, low;

		if (*text != '%') {
			*out++ = *text;
			continue;
		}
		high = hex_value(text[1]);
		low = high < 0 ? -1 : hex_value(text[2]);
		if (low < 0 || high + low == 0)
			return -EINVAL;
		*out++ = (char)(high * 16 + low);
		text += 2;
	}
	*out = '\0';
	return 0;
}

int httpd_query_parse(char *query, struct httpd_field ret[HTTPD_PARAMS_MAX],
		      size_t *ret_n, struct error *err)
{
	char *name, *value;
	size_t n = 0, i;

	while (query && *query) {
		name = strsep(&query, "&");
		if (!*name)
			continue;
		value = strchr(name, '=');
		if (value)
			*value++ = '\0';
		else
			value = name + strlen(name);
		if (httpd_decode(name) < 0 || httpd_decode(value) < 0)
			return error_set(err, EINVAL,
					 "the query is not well-formed");
		for (i = 0; i < n && strcmp(ret[i].name, name) != 0;)
			i++;
		if (i < n)
			return error_set(err, EINVAL,
					 "parameter '%s' is given twice", name);
		if (n == HTTPD_PARAMS_MAX)
			return error_set(err, E2BIG, "too many parameters");
		ret[n].name = name;
		ret[n++].value = value;
	}
	*ret_n = n;
	return 0;
}
