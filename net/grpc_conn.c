// SPDX-License-Identifier: Apache-2.0
/*
 * gRPC over an nghttp2 session; docs/formats/grpc.md says what is accepted, and why the
 * session's own checks of HTTP are off.
 *
 * A call is used by its stream and, from `start` to grpc_call_finish(), by its service;
 * whichever ends last frees it.
 */
#include "net/grpc_conn.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

/* Root's own clients may cancel many calls at once, so the protection against floods of
 * resets is practically off. */
#define RESET_BURST 1000000
#define HEADER_MAX 4096 /* longest value of a header that is read */
/* Frames that may wait to be sent. A correct peer causes fewer; nghttp2 limits answers to
 * PING and SETTINGS, but not those to refused requests. */
#define BEHIND_FRAMES (8 * GRPC_STREAMS_MAX)

struct grpc_call {
	struct grpc_conn *conn;        /* NULL: the stream is gone */
	struct grpc_call *prev, *next; /* the connection's list */
	int32_t stream_id;
	bool with_service;
	bool finished;  /* the reply is complete, though not all sent */
	bool responded; /* the headers were submitted */
	bool expired;
	bool is_post, is_grpc; /* of the request's headers */

	const struct grpc_method *method;
	struct grpc_message request;
	int64_t deadline; /* 0: none */

	struct buf out; /* messages with their prefixes */
	size_t out_off;
	void (*drained)(struct grpc_call *c, void *arg);
	void *drained_arg;
	enum grpc_status status;
	char *text;
};

struct grpc_conn {
	nghttp2_session *session;
	const struct grpc_conn_ops *ops;
	void *owner;
	struct grpc_call *calls;
	bool in_session; /* nghttp2 is calling us */
};

/* ---- calls ---- */

static void call_free(struct grpc_call *c)
{
	grpc_message_fini(&c->request);
	buf_fini(&c->out);
	free(c->text);
	free(c);
}

static void run_drained_callback(struct grpc_call *c)
{
	void (*fn)(struct grpc_call *, void *) = c->drained;

	c->drained = NULL;
	if (fn)
		fn(c, c->drained_arg);
}

static void call_detach(struct grpc_call *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		c->conn->calls = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->conn = NULL;
	if (!c->with_service) {
		call_free(c);
		return;
	}
	buf_fini(&c->out);
	c->out_off = 0;
	run_drained_callback(c);
}

static void grpc_conn_wake(struct grpc_conn *conn)
{
	if (!conn->in_session)
		conn->ops->wake(conn->owner);
}

static nghttp2_nv grpc_conn_header(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .value = (uint8_t *)(uintptr_t)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value) };
}

/* Make the headers grpc-status and, if there is a text, grpc-message. Returns their number. */
static size_t make_status_headers(struct grpc_call *c, char number[12],
				  struct buf *text, nghttp2_nv out[2])
{
	snprintf(number, 12, "%d", (int)c->status);
	out[0] = grpc_conn_header("grpc-status", number);
	if (!c->text || grpc_percent_encode(c->text, text) < 0 || !text->len)
		return 1;
	out[1] = grpc_conn_header("grpc-message", text->data);
	return 2;
}

static int submit_trailer(struct grpc_call *c)
{
	AUTO_BUF text = BUF_INIT;
	char number[12];
	nghttp2_nv nv[2];
	size_t n = make_status_headers(c, number, &text, nv);

	return nghttp2_submit_trailer(c->conn->session, c->stream_id, nv, n);
}

/* Move waiting bytes to nghttp2's buffer. */
static size_t call_take_bytes(struct grpc_call *c, uint8_t *out, size_t len)
{
	size_t n = c->out.len - c->out_off;

	if (n > len)
		n = len;
	if (n > 0)
		memcpy(out, c->out.data + c->out_off, n);
	c->out_off += n;
	if (c->out_off == c->out.len) {
		buf_reset(&c->out);
		c->out_off = 0;
	}
	return n;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream_id,
		       uint8_t *out, size_t len, uint32_t *flags,
		       nghttp2_data_source *source, void *arg)
{
	struct grpc_call *c = source->ptr;
	size_t n = call_take_bytes(c, out, len);

	if (n == 0 && !c->finished) {
		/* The drained callback may send more, or finish the call. */
		run_drained_callback(c);
		n = call_take_bytes(c, out, len);
	}
	if (c->finished && c->out.len == 0) {
		*flags |=
			NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_trailer(c) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		return (ssize_t)n;
	}
	return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

/* Submit the headers of a reply with messages, or of one that is only an error. */
static int grpc_conn_respond(struct grpc_call *c)
{
	nghttp2_data_provider data = { .source.ptr = c,
				       .read_callback = on_read };
	AUTO_BUF text = BUF_INIT;
	char number[12];
	nghttp2_nv nv[4] = {
		grpc_conn_header(":status", "200"),
		grpc_conn_header("content-type", "application/grpc"),
	};
	size_t n = 2;

	c->responded = true;
	if (c->finished && c->out.len == 0)
		n += make_status_headers(c, number, &text, nv + 2);
	return nghttp2_submit_response(c->conn->session, c->stream_id, nv, n,
				       n == 2 ? &data : NULL);
}

/* Memory is short: end the stream without an answer. */
static void grpc_conn_reset(struct grpc_call *c)
{
	(void)nghttp2_submit_rst_stream(c->conn->session, NGHTTP2_FLAG_NONE,
					c->stream_id, NGHTTP2_INTERNAL_ERROR);
}

static void grpc_conn_push(struct grpc_call *c)
{
	int rc;

	if (!c->responded)
		rc = grpc_conn_respond(c);
	else
		rc = nghttp2_session_resume_data(c->conn->session,
						 c->stream_id);
	/* Invalid argument: the stream's data was not deferred, so there is nothing to
	 * resume. */
	if (rc != 0 && rc != NGHTTP2_ERR_INVALID_ARGUMENT)
		grpc_conn_reset(c);
	grpc_conn_wake(c->conn);
}

const uint8_t *grpc_call_request(const struct grpc_call *c, size_t *ret_len)
{
	*ret_len = c->request.body.len;
	return (const uint8_t *)c->request.body.data;
}

int64_t grpc_call_deadline(const struct grpc_call *c)
{
	return c->deadline;
}

bool grpc_call_is_cancelled(const struct grpc_call *c)
{
	return !c->conn || c->expired;
}

int grpc_call_send(struct grpc_call *c, const void *data, size_t len)
{
	uint8_t prefix[GRPC_PREFIX_SIZE];

	if (grpc_call_is_cancelled(c))
		return 0;
	if (len > UINT32_MAX)
		return -EMSGSIZE;
	grpc_prefix_write(prefix, (uint32_t)len);
	if (buf_reserve(&c->out, len + sizeof(prefix)) < 0 ||
	    buf_append(&c->out, prefix, sizeof(prefix)) < 0 ||
	    buf_append(&c->out, data, len) < 0)
		return -ENOMEM;
	grpc_conn_push(c);
	return 0;
}

void grpc_call_when_drained(struct grpc_call *c,
			    void (*fn)(struct grpc_call *c, void *arg),
			    void *arg)
{
	if (grpc_call_is_cancelled(c) || c->out_off == c->out.len) {
		fn(c, arg);
		return;
	}
	c->drained = fn;
	c->drained_arg = arg;
}

static void set_status(struct grpc_call *c, enum grpc_status status,
		       const char *text)
{
	c->finished = true;
	c->status = status;
	c->text = text ? strdup(text) : NULL;
	grpc_conn_push(c);
}

void grpc_call_finish(struct grpc_call *c, enum grpc_status status,
		      const char *text)
{
	c->with_service = false;
	if (!c->conn)
		call_free(c);
	else if (!c->finished)
		set_status(c, status, text);
}

/* ---- requests ---- */

static bool grpc_conn_equal(const char *name, const uint8_t *data, size_t len)
{
	return strlen(name) == len && memcmp(name, data, len) == 0;
}

static int on_begin_headers(nghttp2_session *session,
			    const nghttp2_frame *frame, void *arg)
{
	struct grpc_conn *conn = arg;
	struct grpc_call *c;

	if (frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c->conn = conn;
	c->stream_id = frame->hd.stream_id;
	c->next = conn->calls;
	if (c->next)
		c->next->prev = c;
	conn->calls = c;
	nghttp2_session_set_stream_user_data(session, c->stream_id, c);
	return 0;
}

static const struct grpc_method *find_method(const struct grpc_conn *conn,
					     const uint8_t *path, size_t len)
{
	for (const struct grpc_method *m = conn->ops->methods; m->path; m++)
		if (grpc_conn_equal(m->path, path, len))
			return m;
	return NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
		     const uint8_t *name, size_t name_len, const uint8_t *value,
		     size_t len, uint8_t flags, void *arg)
{
	static const char type[] = "application/grpc";
	struct grpc_conn *conn = arg;
	struct grpc_call *c =
		nghttp2_session_get_stream_user_data(session,
						     frame->hd.stream_id);
	int64_t timeout;

	if (!c || len > HEADER_MAX)
		return 0;
	if (grpc_conn_equal(":path", name, name_len))
		c->method = find_method(conn, value, len);
	else if (grpc_conn_equal(":method", name, name_len))
		c->is_post = grpc_conn_equal("POST", value, len);
	else if (grpc_conn_equal("content-type", name, name_len))
		/* "+proto" or parameters may follow. */
		c->is_grpc =
			len >= strlen(type) &&
			memcmp(value, type, strlen(type)) == 0 &&
			(len == strlen(type) || value[strlen(type)] == '+' ||
			 value[strlen(type)] == ';');
	else if (grpc_conn_equal("grpc-timeout", name, name_len) &&
		 grpc_timeout_parse((const char *)value, len, &timeout) == 0)
		c->deadline = conn->ops->clock() + timeout;
	return 0;
}

static void grpc_conn_refuse(struct grpc_call *c, enum grpc_status status,
			     const char *text)
{
	if (!c->finished)
		set_status(c, status, text);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
		   const uint8_t *data, size_t len, void *arg)
{
	struct grpc_call *c =
		nghttp2_session_get_stream_user_data(session, stream_id);
	struct error err = ERROR_INIT;
	int rc;

	if (!c || c->finished)
		return 0;
	rc = grpc_message_feed(&c->request, data, len, GRPC_REQUEST_MAX, &err);
	if (rc < 0)
		grpc_conn_refuse(c, grpc_status_of_errno(-rc), err.msg);
	return 0;
}

static void start_call(struct grpc_conn *conn, struct grpc_call *c)
{
	struct error err = ERROR_INIT;
	int64_t left;

	if (c->finished)
		return;
	if (!c->is_post || !c->is_grpc) {
		grpc_conn_refuse(c, GRPC_STATUS_INVALID_ARGUMENT,
				 "this is not gRPC");
		return;
	}
	if (!c->method) {
		grpc_conn_refuse(c, GRPC_STATUS_UNIMPLEMENTED,
				 "unknown method");
		return;
	}
	if (grpc_message_check_end(&c->request, &err) < 0) {
		grpc_conn_refuse(c, GRPC_STATUS_INVALID_ARGUMENT, err.msg);
		return;
	}
	if (c->deadline) {
		left = c->deadline - conn->ops->clock();
		if (left <= 0) {
			grpc_conn_refuse(c, GRPC_STATUS_DEADLINE_EXCEEDED,
					 "the deadline is over");
			return;
		}
		if (conn->ops->deadline)
			conn->ops->deadline(conn->owner, left);
	}
	c->with_service = true;
	c->method->start(c, conn->ops->arg);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame,
		    void *arg)
{
	struct grpc_conn *conn = arg;
	struct grpc_call *c;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (c && !c->with_service)
		start_call(conn, c);
	return 0;
}

/* The reply ended before the request did: have the peer stop sending. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame,
			 void *arg)
{
	if (frame->hd.type == NGHTTP2_HEADERS &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    !nghttp2_session_get_stream_remote_close(session,
						     frame->hd.stream_id))
		(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
						frame->hd.stream_id,
						NGHTTP2_NO_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id,
			   uint32_t code, void *arg)
{
	struct grpc_call *c =
		nghttp2_session_get_stream_user_data(session, stream_id);

	if (c)
		call_detach(c);
	return 0;
}

/* ---- the connection ---- */

static int new_session(struct grpc_conn *conn)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX },
	};
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int rc = -ENOMEM;

	if (nghttp2_session_callbacks_new(&cb) != 0 ||
	    nghttp2_option_new(&opt) != 0)
		goto out;
	nghttp2_option_set_no_http_messaging(opt, 1);
	nghttp2_option_set_stream_reset_rate_limit(opt, RESET_BURST,
						   RESET_BURST);
	nghttp2_session_callbacks_set_on_begin_headers_callback(
		cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb,
							       on_stream_close);
	if (nghttp2_session_server_new2(&conn->session, cb, conn, opt) == 0 &&
	    nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
				    ARRAY_SIZE(settings)) == 0)
		rc = 0;
out:
	nghttp2_option_del(opt);
	nghttp2_session_callbacks_del(cb);
	return rc;
}

int grpc_conn_new(const struct grpc_conn_ops *ops, void *owner,
		  struct grpc_conn **ret, struct error *err)
{
	struct grpc_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return error_nomem(err);
	conn->ops = ops;
	conn->owner = owner;
	if (new_session(conn) < 0) {
		grpc_conn_free(conn);
		return error_nomem(err);
	}
	*ret = conn;
	return 0;
}

void grpc_conn_free(struct grpc_conn *conn)
{
	if (!conn)
		return;
	/* nghttp2 does not report open streams when a session ends, so detach their calls
	 * here. */
	while (conn->calls)
		call_detach(conn->calls);
	nghttp2_session_del(conn->session);
	free(conn);
}

int grpc_conn_receive(struct grpc_conn *conn, const uint8_t *data, size_t len,
		      struct error *err)
{
	ssize_t n;

	conn->in_session = true;
	n = nghttp2_session_mem_recv(conn->session, data, len);
	conn->in_session = false;
	if (n < 0)
		return error_set(err, n == NGHTTP2_ERR_NOMEM ? ENOMEM : EPROTO,
				 "HTTP/2: %s", nghttp2_strerror((int)n));
	return 0;
}

int grpc_conn_send(struct grpc_conn *conn, struct buf *out, size_t max,
		   struct error *err)
{
	const uint8_t *data;
	ssize_t n = 0;
	int rc = 0;

	conn->in_session = true;
	while (rc == 0 && out->len < max) {
		n = nghttp2_session_mem_send(conn->session, &data);
		if (n <= 0)
			break;
		rc = buf_append(out, data, (size_t)n);
	}
	conn->in_session = false;
	if (n < 0)
		return error_set(err, n == NGHTTP2_ERR_NOMEM ? ENOMEM : EPROTO,
				 "HTTP/2: %s", nghttp2_strerror((int)n));
	return rc < 0 ? error_nomem(err) : 0;
}

bool grpc_conn_is_alive(struct grpc_conn *conn)
{
	return nghttp2_session_want_read(conn->session) ||
	       nghttp2_session_want_write(conn->session);
}

bool grpc_conn_is_behind(const struct grpc_conn *conn)
{
	return nghttp2_session_get_outbound_queue_size(conn->session) >=
	       BEHIND_FRAMES;
}

void grpc_conn_drain(struct grpc_conn *conn)
{
	(void)nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(
					    conn->session),
				    NGHTTP2_NO_ERROR, NULL, 0);
	grpc_conn_wake(conn);
}

int64_t grpc_conn_expire(struct grpc_conn *conn)
{
	int64_t now = conn->ops->clock(), next = -1;

	for (struct grpc_call *c = conn->calls, *after; c; c = after) {
		after = c->next;
		if (!c->deadline || c->finished)
			continue;
		if (c->deadline > now) {
			if (next < 0 || c->deadline - now < next)
				next = c->deadline - now;
			continue;
		}
		c->expired = true;
		set_status(c, GRPC_STATUS_DEADLINE_EXCEEDED,
			   "the deadline is over; the work goes on");
		run_drained_callback(c);
	}
	return next;
}
