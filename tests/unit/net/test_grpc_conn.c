// SPDX-License-Identifier: Apache-2.0
/* A connection and nghttp2 as its client, in memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "net/grpc_conn.h"

TestSuite(grpc_conn, .timeout = 120);

/* ---- the client ---- */

struct stream {
	int32_t id;
	char http_status[8], grpc_status[8], text[256];
	struct buf data;
	bool closed;
	uint32_t code; /* of the close */
	const uint8_t *body;
	size_t body_len;
	bool keep_open; /* the request does not end */
};

struct pair {
	struct grpc_conn_ops ops;
	struct grpc_conn *server;
	nghttp2_session *client;
	bool woken, failed;
	int64_t now, deadline;

	/* What the service does with a call. */
	void (*serve)(struct grpc_call *c, struct pair *p);
	struct grpc_call *held;
	int n_messages; /* that are still to be sent */
	size_t n_started;
};

static int on_header(nghttp2_session *s, const nghttp2_frame *frame,
		     const uint8_t *name, size_t name_len, const uint8_t *value,
		     size_t len, uint8_t flags, void *arg)
{
	struct stream *st =
		nghttp2_session_get_stream_user_data(s, frame->hd.stream_id);
	char *to = NULL;
	size_t size = 8;

	if (name_len == 7 && memcmp(name, ":status", 7) == 0)
		to = st->http_status;
	else if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		to = st->grpc_status;
	else if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0) {
		to = st->text;
		size = sizeof(st->text);
	}
	if (to)
		snprintf(to, size, "%.*s", (int)len, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id,
		   const uint8_t *data, size_t len, void *arg)
{
	struct stream *st = nghttp2_session_get_stream_user_data(s, id);

	cr_assert_eq(buf_append(&st->data, data, len), 0);
	return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
	struct stream *st = nghttp2_session_get_stream_user_data(s, id);

	st->closed = true;
	st->code = code;
	return 0;
}

static ssize_t on_read(nghttp2_session *s, int32_t id, uint8_t *buf, size_t len,
		       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct stream *st = source->ptr;
	size_t n = st->body_len < len ? st->body_len : len;

	memcpy(buf, st->body, n);
	st->body += n;
	st->body_len -= n;
	if (st->body_len == 0 && st->keep_open && n == 0)
		return NGHTTP2_ERR_DEFERRED;
	if (st->body_len == 0 && !st->keep_open)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static nghttp2_nv nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .value = (uint8_t *)(uintptr_t)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value) };
}

static void request(struct pair *p, struct stream *st, const char *path,
		    const char *timeout_text)
{
	nghttp2_data_provider data = { .source.ptr = st,
				       .read_callback = on_read };
	nghttp2_nv headers[] = {
		nv(":method", "POST"),
		nv(":scheme", "http"),
		nv(":path", path),
		/* Not what HTTP allows, but what kubelets sent. */
		nv(":authority", "/var/lib/kubelet/plugins/x.sock"),
		nv("content-type", "application/grpc"),
		nv("te", "trailers"),
		nv("grpc-timeout", timeout_text ? timeout_text : ""),
	};

	if (!st->body) {
		st->body = (const uint8_t *)"\0\0\0\0\2hi";
		st->body_len = 7;
	}
	st->id = nghttp2_submit_request(p->client, NULL, headers,
					timeout_text ? 7 : 6, &data, st);
	cr_assert_gt(st->id, 0);
}

/* Carry bytes both ways until neither has any. */
static void exchange(struct pair *p)
{
	bool moved = true;

	while (moved && !p->failed) {
		struct error err = ERROR_INIT;
		const uint8_t *data;
		AUTO_BUF out = BUF_INIT;
		ssize_t n;

		moved = false;
		while ((n = nghttp2_session_mem_send(p->client, &data)) > 0) {
			moved = true;
			if (grpc_conn_receive(p->server, data, (size_t)n,
					      &err) < 0) {
				p->failed = true;
				return;
			}
		}
		cr_assert_eq(grpc_conn_send(p->server, &out, 65536, &err), 0,
			     "%s", err.msg);
		if (out.len) {
			moved = true;
			cr_assert_eq(nghttp2_session_mem_recv(p->client,
							      (uint8_t *)
								      out.data,
							      out.len),
				     (ssize_t)out.len);
		}
	}
}

/* ---- the service ---- */

static void start(struct grpc_call *c, void *arg)
{
	struct pair *p = arg;

	p->n_started++;
	p->serve(c, p);
}

static void echo(struct grpc_call *c, struct pair *p)
{
	size_t len;
	const uint8_t *data = grpc_call_request(c, &len);

	cr_expect_eq(grpc_call_send(c, data, len), 0);
	grpc_call_finish(c, GRPC_STATUS_OK, NULL);
}

static void refuse(struct grpc_call *c, struct pair *p)
{
	grpc_call_finish(c, GRPC_STATUS_NOT_FOUND, "no such thing: 100%\n");
}

static void hold(struct grpc_call *c, struct pair *p)
{
	p->held = c;
}

static void send_next(struct grpc_call *c, void *arg)
{
	struct pair *p = arg;
	char message[1000];

	if (grpc_call_is_cancelled(c) || p->n_messages == 0) {
		p->held = NULL;
		grpc_call_finish(c, GRPC_STATUS_OK, NULL);
		return;
	}
	memset(message, 'a' + p->n_messages-- % 26, sizeof(message));
	cr_expect_eq(grpc_call_send(c, message, sizeof(message)), 0);
	grpc_call_when_drained(c, send_next, p);
}

static void list(struct grpc_call *c, struct pair *p)
{
	p->held = c;
	send_next(c, p);
}

static struct pair *the_pair; /* the clock has no argument */

static int64_t test_clock(void)
{
	return the_pair->now;
}

static void on_wake(void *owner)
{
	((struct pair *)owner)->woken = true;
}

static void on_deadline(void *owner, int64_t ns)
{
	((struct pair *)owner)->deadline = ns;
}

static const struct grpc_method methods[] = {
	{ "/test/Call", start },
	{ NULL, NULL },
};

static void pair_init(struct pair *p,
		      void (*serve)(struct grpc_call *, struct pair *))
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *opt;

	*p = (struct pair){ .serve = serve,
			    .ops = { .methods = methods,
				     .arg = p,
				     .wake = on_wake,
				     .deadline = on_deadline,
				     .clock = test_clock } };
	the_pair = p;
	cr_assert_eq(grpc_conn_new(&p->ops, p, &p->server, NULL), 0);
	cr_assert_eq(nghttp2_session_callbacks_new(&cb), 0);
	cr_assert_eq(nghttp2_option_new(&opt), 0);
	nghttp2_option_set_no_http_messaging(opt, 1);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	cr_assert_eq(nghttp2_session_client_new2(&p->client, cb, p, opt), 0);
	cr_assert_eq(nghttp2_submit_settings(p->client, 0, NULL, 0), 0);
	nghttp2_option_del(opt);
	nghttp2_session_callbacks_del(cb);
}

static void pair_fini(struct pair *p)
{
	grpc_conn_free(p->server);
	nghttp2_session_del(p->client);
}

/* ---- tests ---- */

Test(grpc_conn, a_call_is_answered)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, echo);
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	cr_expect_str_eq(st.http_status, "200");
	cr_expect_str_eq(st.grpc_status, "0");
	cr_assert_eq(st.data.len, 7);
	cr_expect_eq(memcmp(st.data.data, "\0\0\0\0\2hi", 7), 0);
	cr_expect(st.closed);
	cr_expect_eq(st.code, NGHTTP2_NO_ERROR);
	buf_fini(&st.data);
	pair_fini(&p);
}

Test(grpc_conn, an_error_has_its_status_and_text)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, refuse);
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	cr_expect_str_eq(st.http_status, "200");
	cr_expect_str_eq(st.grpc_status, "5");
	cr_expect_str_eq(st.text, "no such thing: 100%25%0A");
	cr_expect_eq(st.data.len, 0);
	pair_fini(&p);
}

Test(grpc_conn, an_unknown_method_is_unimplemented)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, echo);
	request(&p, &st, "/test/Other", NULL);
	exchange(&p);
	cr_expect_str_eq(st.grpc_status, "12");
	cr_expect_eq(p.n_started, 0);
	pair_fini(&p);
}

Test(grpc_conn, a_request_that_is_too_long_is_refused_before_its_end)
{
	struct stream st = { .body = (const uint8_t *)"\0\x7f\0\0\0abc",
			     .body_len = 8,
			     .keep_open = true };
	struct pair p;

	pair_init(&p, echo);
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	cr_expect_str_eq(st.grpc_status, "8");
	cr_expect(st.closed);
	cr_expect_not(p.failed);
	pair_fini(&p);
}

Test(grpc_conn, an_answer_may_come_late)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, hold);
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	cr_assert_not_null(p.held);
	cr_expect_not(st.closed);
	p.woken = false;
	cr_expect_eq(grpc_call_send(p.held, "x", 1), 0);
	grpc_call_finish(p.held, GRPC_STATUS_OK, NULL);
	cr_expect(p.woken);
	exchange(&p);
	cr_expect_str_eq(st.grpc_status, "0");
	cr_expect_eq(st.data.len, 6);
	buf_fini(&st.data);
	pair_fini(&p);
}

Test(grpc_conn, a_deadline_answers_for_the_service)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, hold);
	request(&p, &st, "/test/Call", "100m");
	exchange(&p);
	cr_expect_eq(p.deadline, 100000000);
	cr_expect_eq(grpc_call_deadline(p.held), 100000000);
	p.now = 99999999;
	cr_expect_eq(grpc_conn_expire(p.server), 1);
	p.now = 100000000;
	cr_expect_eq(grpc_conn_expire(p.server), -1);
	exchange(&p);
	cr_expect_str_eq(st.grpc_status, "4");
	cr_expect(grpc_call_is_cancelled(p.held));
	cr_expect_eq(grpc_call_send(p.held, "x", 1), 0);
	grpc_call_finish(p.held, GRPC_STATUS_OK, NULL);
	exchange(&p);
	cr_expect_eq(st.data.len, 0);
	pair_fini(&p);
}

Test(grpc_conn, a_stream_is_sent_as_the_client_takes_it)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, list);
	p.n_messages = 500; /* more than the client's window */
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	cr_expect_str_eq(st.grpc_status, "0");
	cr_expect_eq(st.data.len, 500 * 1005);
	cr_expect_null(p.held);
	buf_fini(&st.data);
	pair_fini(&p);
}

Test(grpc_conn, a_stream_whose_client_is_gone_ends)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, list);
	p.n_messages = 1000000;
	/* Nobody reads: the window is used up. */
	cr_assert_eq(nghttp2_submit_settings(
			     p.client, 0,
			     &(nghttp2_settings_entry){
				     NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
				     3000 },
			     1),
		     0);
	request(&p, &st, "/test/Call", NULL);
	for (int i = 0; i < 2; i++) {
		const uint8_t *data;
		AUTO_BUF out = BUF_INIT;
		ssize_t n;

		while ((n = nghttp2_session_mem_send(p.client, &data)) > 0)
			cr_assert_eq(grpc_conn_receive(p.server, data,
						       (size_t)n, NULL),
				     0);
		cr_assert_eq(grpc_conn_send(p.server, &out, 1 << 20, NULL), 0);
		cr_expect_lt(out.len, 10000);
	}
	cr_assert_not_null(p.held);
	grpc_conn_free(p.server);
	p.server = NULL;
	cr_expect_null(p.held); /* told, and finished */
	pair_fini(&p);
}

Test(grpc_conn, a_call_outlives_its_connection)
{
	struct stream st = { .id = 0 };
	struct pair p;

	pair_init(&p, hold);
	request(&p, &st, "/test/Call", NULL);
	exchange(&p);
	grpc_conn_free(p.server);
	p.server = NULL;
	cr_expect(grpc_call_is_cancelled(p.held));
	cr_expect_eq(grpc_call_send(p.held, "x", 1), 0);
	grpc_call_finish(p.held, GRPC_STATUS_OK, NULL);
	pair_fini(&p);
}

Test(grpc_conn, thousands_of_cancelled_calls_do_no_harm)
{
	struct stream last = { .id = 0 };
	struct pair p;

	pair_init(&p, hold);
	exchange(&p);
	for (int i = 0; i < 3000; i++) {
		struct stream st = { .id = 0 };

		request(&p, &st, "/test/Call", NULL);
		exchange(&p);
		cr_assert_eq(nghttp2_submit_rst_stream(p.client, 0, st.id,
						       NGHTTP2_CANCEL),
			     0);
		exchange(&p);
		cr_assert_not(p.failed);
		cr_assert(grpc_call_is_cancelled(p.held));
		grpc_call_finish(p.held, GRPC_STATUS_OK, NULL);
	}
	p.serve = echo;
	request(&p, &last, "/test/Call", NULL);
	exchange(&p);
	cr_expect_str_eq(last.grpc_status, "0");
	buf_fini(&last.data);
	pair_fini(&p);
}

/* Calls beyond those that may be under way, of a client that has not seen yet how many
 * these are: each is refused by a frame. */
static void send_refused(struct pair *p, uint32_t *id, int n)
{
	for (int i = 0; i < n; i++, *id += 2) {
		/* HEADERS of one byte, ":method: POST", and no end of the request. */
		uint8_t frame[] = { 0, 0, 1, 1, 4, 0, 0, 0, 0, 0x83 };

		frame[6] = (uint8_t)(*id >> 16);
		frame[7] = (uint8_t)(*id >> 8);
		frame[8] = (uint8_t)*id;
		cr_assert_eq(grpc_conn_receive(p->server, frame, sizeof(frame),
					       NULL),
			     0);
	}
}

Test(grpc_conn, who_takes_no_answers_is_read_no_further)
{
	AUTO_BUF out = BUF_INIT;
	const uint8_t *data;
	uint32_t id = 1;
	struct pair p;
	ssize_t n;

	pair_init(&p, hold);
	while ((n = nghttp2_session_mem_send(p.client, &data)) > 0)
		cr_assert_eq(grpc_conn_receive(p.server, data, (size_t)n, NULL),
			     0);
	send_refused(&p, &id, GRPC_STREAMS_MAX + 100);
	cr_expect_not(grpc_conn_is_behind(p.server));
	send_refused(&p, &id, 10000);
	cr_expect(grpc_conn_is_behind(p.server));
	cr_assert_eq(grpc_conn_send(p.server, &out, 1 << 20, NULL), 0);
	cr_expect_geq(out.len, 10100 * 13); /* RST_STREAM */
	cr_expect_not(grpc_conn_is_behind(p.server));
	pair_fini(&p);
}

Test(grpc_conn, what_is_not_http2_closes_the_connection)
{
	struct pair p;

	pair_init(&p, echo);
	cr_expect_lt(grpc_conn_receive(p.server,
				       (const uint8_t
						*)"GET / HTTP/1.1\r\n\r\n",
				       18, NULL),
		     0);
	pair_fini(&p);
}
