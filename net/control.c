// SPDX-License-Identifier: Apache-2.0
/* Formats and parses calls and lines (docs/formats/control.md); no I/O. */
#include "net/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* For every parse: readers could disagree about a key that stands twice. */
#define PARSE_FLAGS JSON_REJECT_DUPLICATES

#define CALLS "/v1/"

static int parse_line(const char *line, size_t len, size_t max, json_t **ret,
		      struct error *err)
{
	json_error_t why;
	AUTO_JSON *root = NULL;
	json_t *version;

	if (len >= max)
		return error_set(err, EMSGSIZE, "line of over %zu bytes", max);
	root = json_loadb(line, len, PARSE_FLAGS, &why);
	if (!root)
		return error_set(err, EINVAL, "not JSON at column %d: %s",
				 why.column, why.text);
	version = json_object_get(root, "bootseer");
	if (!json_is_integer(version))
		return error_set(err, EINVAL,
				 "no object with the version as 'bootseer'");
	if (json_integer_value(version) != CONTROL_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "control protocol %lld, but this program "
				 "speaks %d: " CONTROL_ONE_RELEASE,
				 (long long)json_integer_value(version),
				 CONTROL_VERSION);
	*ret = steal_ptr(&root);
	return 0;
}

int control_request_parse(const char *line, size_t len,
			  struct control_request *ret, struct error *err)
{
	AUTO_JSON *root = NULL;
	json_error_t why;
	const char *method;
	json_t *params = NULL;
	int version, rc;

	rc = parse_line(line, len, CONTROL_REQUEST_MAX, &root, err);
	if (rc < 0)
		return rc;
	if (json_unpack_ex(root, &why, JSON_STRICT, "{s:i, s:s, s?o}",
			   "bootseer", &version, "method", &method, "params",
			   &params) < 0)
		return error_set(err, EINVAL, "request: %s", why.text);
	if (!params) {
		params = json_object();
		if (!params || json_object_set_new(root, "params", params) < 0)
			return error_nomem(err);
	}
	if (!json_is_object(params))
		return error_set(err, EINVAL, "request: params is no object");
	*ret = (struct control_request){
		.root = steal_ptr(&root),
		.method = method,
		.params = params,
	};
	return 0;
}

void control_request_fini(struct control_request *r)
{
	json_decref(r->root);
	*r = (struct control_request){ .root = NULL };
}

int control_call_parse(const char *path, const char *body, size_t len,
		       struct control_request *ret, struct error *err)
{
	AUTO_JSON *params = NULL;
	json_error_t why;

	if (strncmp(path, CALLS, strlen(CALLS)) != 0)
		return error_set(err, EPROTONOSUPPORT,
				 "calls are below " CALLS
				 ": " CONTROL_ONE_RELEASE);
	params = len ? json_loadb(body, len, PARSE_FLAGS, &why) : json_object();
	if (!params && len)
		return error_set(err, EINVAL, "not JSON at column %d: %s",
				 why.column, why.text);
	if (!params)
		return error_nomem(err);
	if (!json_is_object(params))
		return error_set(err, EINVAL, "request: params is no object");
	ret->method = path + strlen(CALLS);
	ret->params = params;
	ret->root = steal_ptr(&params);
	return 0;
}

static int append_json(const char *data, size_t len, void *arg)
{
	return buf_append(arg, data, len) < 0 ? -1 : 0;
}

/* Append `root` (freed here) as one line of at most `max` bytes. */
static int format_line(json_t *root, size_t max, struct buf *ret,
		       struct error *err)
{
	AUTO_JSON *owned = root;
	AUTO_BUF line = { .limit = max };
	int rc;

	if (!owned)
		return error_nomem(err);
	if (json_dump_callback(owned, append_json, &line,
			       JSON_COMPACT | JSON_ENSURE_ASCII) < 0 ||
	    buf_puts(&line, "\n") < 0)
		return error_set(err, EMSGSIZE,
				 "message of over %zu bytes, or no memory",
				 max);
	rc = buf_append(ret, line.data, line.len);
	return rc < 0 ? error_set(err, -rc, "no room for a line") : 0;
}

int control_request_format(const char *method, json_t *params, struct buf *ret,
			   struct error *err)
{
	json_t *root = json_pack("{s:i, s:s}", "bootseer", CONTROL_VERSION,
				 "method", method);

	if (root && params && json_object_set(root, "params", params) < 0) {
		json_decref(root);
		root = NULL;
	}
	return format_line(root, CONTROL_REQUEST_MAX, ret, err);
}

int control_http_format(const char *path, const struct buf *body,
			struct buf *ret)
{
	int rc = buf_printf(ret, "%s %s HTTP/1.1\r\nHost: bootseer\r\n",
			    body ? "POST" : "GET", path);

	if (rc == 0 && body)
		rc = buf_printf(ret,
				"Content-Type: application/json\r\n"
				"Content-Length: %zu\r\n",
				body->len);
	if (rc == 0)
		rc = buf_puts(ret, "\r\n");
	return rc == 0 && body && body->len
		       ? buf_append(ret, body->data, body->len)
		       : rc;
}

int control_call_format(const char *method, json_t *params, struct buf *ret,
			struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF body = BUF_INIT;
	int rc = format_line(params ? json_incref(params) : json_object(),
			     CONTROL_REQUEST_MAX, &body, err);

	if (rc < 0)
		return rc;
	if (buf_printf(&path, CALLS "%s", method) < 0 ||
	    control_http_format(path.data, &body, ret) < 0)
		return error_nomem(err);
	return 0;
}

/* Parse `line` as a Content-Length header; false: it is another header. */
static bool parse_content_length(const char *line, const char *end,
				 uint64_t *ret)
{
	static const char name[] = "content-length:";
	size_t len = strlen(name);

	if ((size_t)(end - line) < len || strncasecmp(line, name, len) != 0)
		return false;
	*ret = strtoull(line + len, NULL, 10);
	return true;
}

int control_answer_parse(const char *text, size_t len,
			 struct control_answer *ret, struct error *err)
{
	static const char begin[] = "HTTP/1.";
	const char *end = memmem(text, len, "\r\n\r\n", 4), *line;
	uint64_t body_len = UINT64_MAX;

	if (strncmp(text, begin, len < strlen(begin) ? len : strlen(begin)) !=
		    0 ||
	    (!end && len > CONTROL_HEAD_MAX))
		return error_set(
			err, EPROTO,
			"the answer is not HTTP: " CONTROL_ONE_RELEASE);
	if (!end)
		return 0;
	for (line = text; line < end && body_len == UINT64_MAX;
	     line = (const char *)memmem(line, (size_t)(end + 2 - line), "\r\n",
					 2) +
		    2)
		(void)parse_content_length(line, end, &body_len);
	ret->status = (int)strtol(text + strcspn(text, " \r"), NULL, 10);
	if (ret->status < 100 || body_len > CONTROL_REPLY_MAX)
		return error_set(err, EPROTO,
				 "the answer has no status or length, or is "
				 "over %u bytes long",
				 CONTROL_REPLY_MAX);
	ret->head_len = (size_t)(end + 4 - text);
	ret->body_len = (size_t)body_len;
	return len - ret->head_len >= ret->body_len;
}

int control_reply_format(json_t *result, struct buf *ret, struct error *err)
{
	return format_line(json_pack("{s:i, s:O}", "bootseer", CONTROL_VERSION,
				     "result", result),
			   CONTROL_REPLY_MAX, ret, err);
}

int control_error_format(const struct error *why, struct buf *ret,
			 struct error *err)
{
	/* Messages may quote bytes that are not UTF-8; those become '?'. */
	char text[ERROR_MSG_MAX];
	size_t i;
	json_t *msg;

	for (i = 0; why->msg[i]; i++)
		text[i] = why->msg[i] & 0x80 ? '?' : why->msg[i];
	text[i] = '\0';
	msg = json_string(why->msg);
	if (!msg)
		msg = json_string(text);
	return format_line(json_pack("{s:i, s:{s:i, s:o}}", "bootseer",
				     CONTROL_VERSION, "error", "errno",
				     why->code, "message", msg),
			   CONTROL_REPLY_MAX, ret, err);
}

int control_reply_parse(const char *line, size_t len, json_t **ret,
			struct error *err)
{
	AUTO_JSON *root = NULL;
	json_t *result = NULL;
	json_error_t why;
	const char *message;
	int version, code, rc;

	rc = parse_line(line, len, CONTROL_REPLY_MAX, &root, err);
	if (rc < 0)
		return error_wrap(err, rc, "reply of bootseerd");
	if (json_unpack(root, "{s:i, s:{s:i, s:s}}", "bootseer", &version,
			"error", "errno", &code, "message", &message) == 0) {
		if (code <= 0 || code > 4095)
			code = EIO;
		return error_set(err, code, "%s", message);
	}
	if (json_unpack_ex(root, &why, 0, "{s:i, s:o}", "bootseer", &version,
			   "result", &result) < 0 ||
	    !json_is_object(result))
		return error_set(err, EPROTO,
				 "reply of bootseerd has neither "
				 "result nor error");
	*ret = json_incref(result);
	return 0;
}
