// SPDX-License-Identifier: Apache-2.0
/*
 * The lines of the control socket: docs/formats/control.md.  Both directions,
 * no I/O.
 */
#ifndef BOOTSEER_NET_CONTROL_H
#define BOOTSEER_NET_CONTROL_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"

#define CONTROL_VERSION 1
#define CONTROL_REQUEST_MAX (1u << 20) /* bytes of a line, its end included */
#define CONTROL_REPLY_MAX (16u << 20)

/* A parsed call of the control socket. */
struct control_request {
	json_t *root;       /* owns the two below */
	const char *method; /* "image.mount" */
	json_t *params;     /* an object */
};

/* A line without its end.  -EINVAL, -EPROTONOSUPPORT (another version). */
int control_request_parse(const char *line, size_t len,
			  struct control_request *ret,
			  struct error *err) MUST_CHECK;
void control_request_fini(struct control_request *r);

/* Append the line, its end included; `params` may be NULL.  -EMSGSIZE when it
 * is longer than CONTROL_REQUEST_MAX. */
int control_request_format(const char *method, json_t *params, struct buf *ret,
			   struct error *err) MUST_CHECK;

/* Append the line of a success (`result` an object) or of a failure. */
int control_reply_format(json_t *result, struct buf *ret,
			 struct error *err) MUST_CHECK;
int control_error_format(const struct error *why, struct buf *ret,
			 struct error *err) MUST_CHECK;

/* Parse a reply: the result, owned by the caller; or what the other side
 * reported, as -errno and message. */
int control_reply_parse(const char *line, size_t len, json_t **ret,
			struct error *err) MUST_CHECK;

#endif
