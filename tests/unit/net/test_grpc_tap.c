// SPDX-License-Identifier: Apache-2.0
/* Bytes that nghttp2 sends as a client, in pieces of any size. */
#include <criterion/criterion.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "net/grpc_tap.h"
#include "net/grpc_wire.h"

TestSuite(grpc_tap, .timeout = 60);

#define METHOD "/runtime.v1.ImageService/PullImage"

/* Requests that were seen, one after the other, with '|' behind each. */
struct tap_client {
	nghttp2_session *session;
	struct buf seen;
	struct grpc_tap *tap;
};

/* The body of a call. */
struct tap_body {
	const char *data;
	size_t len;
	bool keeps_open;
};

static void on_request(void *arg, const void *message, size_t len)
{
	struct tap_client *c = arg;

	cr_assert_eq(buf_append(&c->seen, message, len), 0);
	cr_assert_eq(buf_puts(&c->seen, "|"), 0);
}

static void start(struct tap_client *c)
{
	nghttp2_session_callbacks *cb;

	*c = (struct tap_client){ .session = NULL };
	cr_assert_eq(nghttp2_session_callbacks_new(&cb), 0);
	cr_assert_eq(nghttp2_session_client_new(&c->session, cb, c), 0);
	nghttp2_session_callbacks_del(cb);
	cr_assert_eq(nghttp2_submit_settings(c->session, 0, NULL, 0), 0);
	cr_assert_eq(grpc_tap_new(METHOD, on_request, c, &c->tap, NULL), 0);
}

static void stop(struct tap_client *c)
{
	nghttp2_session_del(c->session);
	grpc_tap_free(c->tap);
	buf_fini(&c->seen);
}

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *to,
			 size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *arg)
{
	struct tap_body *b = source->ptr;
	size_t n = b->len < size ? b->len : size;

	(void)s;
	(void)id;
	(void)arg;
	memcpy(to, b->data, n);
	b->data += n;
	b->len -= n;
	if (n == 0 && b->keeps_open)
		return NGHTTP2_ERR_DEFERRED;
	if (b->len == 0 && !b->keeps_open)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* `body` stays until it was sent. */
static int32_t submit(struct tap_client *c, const char *path,
		      struct tap_body *body)
{
#define NV(n, v) \
	{ \
		(uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), \
			strlen(n), strlen(v), NGHTTP2_NV_FLAG_NONE \
	}
	const nghttp2_nv nv[] = {
		NV(":method", "POST"),
		NV(":scheme", "http"),
		NV(":path", path),
		NV(":authority", "localhost"),
		NV("content-type", "application/grpc"),
		NV("te", "trailers"),
	};
	nghttp2_data_provider p = { .source.ptr = body,
				    .read_callback = read_body };
	int32_t id = nghttp2_submit_request(c->session, NULL, nv,
					    ARRAY_SIZE(nv), &p, NULL);

	cr_assert_gt(id, 0);
	return id;
}

/* All that is to be sent, into the tap, `step` bytes at a time. */
static int send_all(struct tap_client *c, size_t step)
{
	const uint8_t *data;
	ssize_t n;
	int rc = 0;

	while ((n = nghttp2_session_mem_send(c->session, &data)) > 0) {
		while (n > 0 && rc == 0) {
			size_t len = (size_t)n < step ? (size_t)n : step;
			uint8_t *copy = malloc(len);

			memcpy(copy, data, len);
			rc = grpc_tap_feed(c->tap, copy, len, NULL);
			free(copy);
			data += len;
			n -= (ssize_t)len;
		}
	}
	return rc;
}

static char *frame(const char *text, size_t len, struct tap_body *ret)
{
	char *data = malloc(len + GRPC_PREFIX_SIZE);

	grpc_prefix_write((uint8_t *)data, (uint32_t)len);
	memcpy(data + GRPC_PREFIX_SIZE, text, len);
	*ret = (struct tap_body){ .data = data, .len = len + GRPC_PREFIX_SIZE };
	return data;
}

Test(grpc_tap, sees_each_request_of_its_method_and_no_other)
{
	static const size_t steps[] = { 1, 7, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct tap_body b[4];
		struct tap_client c;
		char *data[4];

		start(&c);
		data[0] = frame("one", 3, &b[0]);
		data[1] = frame("list", 4, &b[1]);
		data[2] = frame("two", 3, &b[2]);
		data[3] = frame("", 0, &b[3]);
		(void)submit(&c, METHOD, &b[0]);
		(void)submit(&c, "/runtime.v1.ImageService/ListImages", &b[1]);
		(void)submit(&c, METHOD, &b[2]);
		cr_assert_eq(send_all(&c, steps[i]), 0);
		/* Headers of the second come from the table of the first. */
		(void)submit(&c, METHOD, &b[3]);
		cr_assert_eq(send_all(&c, steps[i]), 0);
		cr_expect_str_eq(c.seen.data, "one|two||");
		for (size_t k = 0; k < 4; k++)
			free(data[k]);
		stop(&c);
	}
}

Test(grpc_tap, sees_a_message_of_several_frames_and_none_that_is_too_long)
{
	size_t len = 60000, too_long = GRPC_TAP_MESSAGE_MAX + 1;
	char *text = malloc(too_long);
	struct tap_body b[2];
	struct tap_client c;
	char *data[2];

	memset(text, 'x', too_long);
	start(&c);
	data[0] = frame(text, len, &b[0]);
	data[1] = frame(text, too_long, &b[1]);
	(void)submit(&c, METHOD, &b[0]);
	cr_assert_eq(send_all(&c, 1000), 0);
	cr_expect_eq(c.seen.len, len + 1);
	(void)submit(&c, METHOD, &b[1]);
	cr_assert_eq(send_all(&c, 1000), 0);
	cr_expect_eq(c.seen.len, len + 1);
	free(data[0]);
	free(data[1]);
	free(text);
	stop(&c);
}

Test(grpc_tap, forgets_a_call_that_is_reset)
{
	struct tap_body b[GRPC_TAP_STREAMS + 1];
	char *data[GRPC_TAP_STREAMS + 1];
	struct tap_client c;

	/* Each call sends its headers and some bytes, and is then given up. */
	start(&c);
	for (size_t k = 0; k <= GRPC_TAP_STREAMS; k++) {
		static const uint8_t rst[] = { 0, 0, 0, 8 };
		int32_t id;
		uint8_t head[9] = { 0, 0, 4, 3, 0 };

		data[k] = frame("abc", 3, &b[k]);
		b[k].len--;
		id = submit(&c, METHOD, &b[k]);
		/* Its end says that it was cut short. */
		cr_assert_eq(send_all(&c, 5), 0);
		head[7] = (uint8_t)(id >> 8);
		head[8] = (uint8_t)id;
		cr_assert_eq(grpc_tap_feed(c.tap, head, 9, NULL), 0);
		cr_assert_eq(grpc_tap_feed(c.tap, rst, 4, NULL), 0);
	}
	cr_expect_eq(c.seen.len, 0);
	for (size_t k = 0; k <= GRPC_TAP_STREAMS; k++)
		free(data[k]);
	stop(&c);
}

Test(grpc_tap, takes_padding_and_priority_off)
{
	/* HEADERS with both, :path from its plain form; DATA with padding. */
	static const char path[] = METHOD;
	struct tap_client c;
	AUTO_BUF b = BUF_INIT;
	size_t len = strlen(path);
	uint8_t block[64] = { 0x04, (uint8_t)len };

	start(&c);
	memcpy(block + 2, path, len);
	cr_assert_eq(buf_append(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24), 0);
	cr_assert_eq(buf_append(&b,
				(uint8_t[]){
					0, 0, (uint8_t)(1 + 5 + len + 2 + 3), 1,
					0x2c, 0, 0, 0, 1, 3, 0, 0, 0, 0, 9 },
				15),
		     0);
	cr_assert_eq(buf_append(&b, block, len + 2), 0);
	cr_assert_eq(buf_append(&b, "\0\0\0", 3), 0);
	cr_assert_eq(buf_append(&b,
				(uint8_t[]){ 0, 0, 1 + 7 + 2, 0, 9, 0, 0, 0, 1,
					     2, 0, 0, 0, 0, 2, 'h', 'i', 0, 0 },
				19),
		     0);
	cr_assert_eq(grpc_tap_feed(c.tap, (const uint8_t *)b.data, b.len, NULL),
		     0);
	cr_expect_str_eq(c.seen.data, "hi|");
	stop(&c);
}

Test(grpc_tap, a_message_is_whole_before_its_stream_ends)
{
	struct tap_body b;
	struct tap_client c;
	char *data;

	start(&c);
	data = frame("now", 3, &b);
	b.keeps_open = true;
	(void)submit(&c, METHOD, &b);
	cr_assert_eq(send_all(&c, 4), 0);
	cr_expect_str_eq(c.seen.data, "now|");
	free(data);
	stop(&c);
}

Test(grpc_tap, what_is_no_http_2_is_refused)
{
	static const uint8_t http1[] = "GET / HTTP/1.1\r\n";
	static const uint8_t no_stream[] =
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\1\1\4\0\0\0\0\x82";
	struct tap_client c;

	start(&c);
	cr_expect_eq(grpc_tap_feed(c.tap, http1, sizeof(http1) - 1, NULL),
		     -EPROTO);
	stop(&c);
	start(&c);
	cr_expect_eq(grpc_tap_feed(c.tap, no_stream, sizeof(no_stream) - 1,
				   NULL),
		     -EBADMSG);
	stop(&c);
}
