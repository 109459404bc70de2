// SPDX-License-Identifier: Apache-2.0
/*
 * The messages of the control socket, by HTTP, and the lines of `env socket`:
 * docs/formats/control.md. Formats and parses requests and answers; no I/O.
 */
#ifndef BOOTSEER_NET_CONTROL_H
#define BOOTSEER_NET_CONTROL_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

#define CONTROL_VERSION 1
#define CONTROL_REQUEST_MAX \
	(1u << 20) /* bytes of a body, or of a line, its end included */
#define CONTROL_REPLY_MAX (16u << 20)
#define CONTROL_HEAD_MAX 16384u /* bytes of an answer's head */

/* Advice for users when two programs of a node do not understand each other. */
#define CONTROL_ONE_RELEASE "the programs of one node must be of one release"

/* A parsed call of the control socket. */
struct control_request {
	/* owns `method` and `params`; except the method of control_call_parse() */
	json_t *root;
	const char *method; /* "image.mount" */
	json_t *params;     /* an object */
};

/* Parse a line without its end. -EINVAL, -EPROTONOSUPPORT (another version). */
int control_request_parse(const char *line, size_t len,
			  struct control_request *ret,
			  struct error *err) MUST_CHECK;
void control_request_fini(struct control_request *r);

/* Parse a call by HTTP; `path` must live as long as the request. -EPROTONOSUPPORT: the path
 * is of another version; -EINVAL. */
int control_call_parse(const char *path, const char *body, size_t len,
		       struct control_request *ret,
		       struct error *err) MUST_CHECK;
/* Append a request of HTTP: a GET of `path`, or a POST with `body`. */
int control_http_format(const char *path, const struct buf *body,
			struct buf *ret) MUST_CHECK;
/* Append the call; `params` may be NULL.  -EMSGSIZE: longer than CONTROL_REQUEST_MAX. */
int control_call_format(const char *method, json_t *params, struct buf *ret,
			struct error *err) MUST_CHECK;

/* An answer of HTTP. */
struct control_answer {
	int status;
	size_t head_len, body_len; /* bytes: the body follows the head */
};

/* Parse an answer: 1; 0: more bytes must come; -EPROTO: `text` does not begin with an answer
 * of a BootSeer program. */
int control_answer_parse(const char *text, size_t len,
			 struct control_answer *ret,
			 struct error *err) MUST_CHECK;

/* Append the line, its end included; `params` may be NULL.  -EMSGSIZE when it
 * is longer than CONTROL_REQUEST_MAX. */
int control_request_format(const char *method, json_t *params, struct buf *ret,
			   struct error *err) MUST_CHECK;

/* Append the line of a success (`result` an object) or of a failure. */
int control_reply_format(json_t *result, struct buf *ret,
			 struct error *err) MUST_CHECK;
int control_error_format(const struct error *why, struct buf *ret,
			 struct error *err) MUST_CHECK;

/* Parse a reply: returns the result, which the caller owns, or the error that the server
 * reported, as -errno and message. */
int control_reply_parse(const char *line, size_t len, json_t **ret,
			struct error *err) MUST_CHECK;

#endif
