// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fs.h"
#include "net/control.h"
#include "net/control_client.h"

TestSuite(control, .timeout = 120);

static int parse(const char *line)
{
	struct control_request r;
	struct error err = ERROR_INIT;
	int rc = control_request_parse(line, strlen(line), &r, &err);

	if (rc == 0)
		control_request_fini(&r);
	else
		cr_expect(err.msg[0] && err.code == -rc);
	return rc;
}

Test(control, takes_a_request_with_and_without_parameters)
{
	struct control_request r;
	const char *line = "{\"bootseer\":1,\"method\":\"a.b\",\"params\":{"
			   "\"x\":1}}";

	cr_assert_eq(control_request_parse(line, strlen(line), &r, NULL), 0);
	cr_expect_str_eq(r.method, "a.b");
	cr_expect_eq(json_integer_value(json_object_get(r.params, "x")), 1);
	control_request_fini(&r);

	line = "{\"method\":\"m\",\"bootseer\":1}";
	cr_assert_eq(control_request_parse(line, strlen(line), &r, NULL), 0);
	cr_expect(json_is_object(r.params));
	control_request_fini(&r);
}

Test(control, refuses_what_is_no_request)
{
	cr_expect_eq(parse(""), -EINVAL);
	cr_expect_eq(parse("[]"), -EINVAL);
	cr_expect_eq(parse("{}"), -EINVAL);
	cr_expect_eq(parse("{\"bootseer\":\"1\",\"method\":\"m\"}"), -EINVAL);
	cr_expect_eq(parse("{\"bootseer\":1}"), -EINVAL);
	cr_expect_eq(parse("{\"bootseer\":1,\"method\":7}"), -EINVAL);
	cr_expect_eq(parse("{\"bootseer\":1,\"method\":\"m\",\"params\":[]}"),
		     -EINVAL);
	cr_expect_eq(parse("{\"bootseer\":1,\"method\":\"m\"} x"), -EINVAL);
}

Test(control, refuses_unknown_keys_and_keys_given_twice)
{
	cr_expect_eq(parse("{\"bootseer\":1,\"method\":\"m\",\"y\":1}"),
		     -EINVAL);
	cr_expect_eq(
		parse("{\"bootseer\":1,\"method\":\"m\",\"method\":\"n\"}"),
		-EINVAL);
}

Test(control, refuses_another_version)
{
	cr_expect_eq(parse("{\"bootseer\":2,\"method\":\"m\"}"),
		     -EPROTONOSUPPORT);
}

Test(control, bounds_depth_and_length)
{
	static char deep[8192], line[CONTROL_REQUEST_MAX + 1];

	memset(deep, '[', sizeof(deep) - 1);
	cr_expect_eq(parse(deep), -EINVAL);
	memset(line, ' ', sizeof(line) - 1);
	cr_expect_eq(parse(line), -EMSGSIZE);
}

Test(control, reads_back_what_it_wrote)
{
	AUTO_JSON *params = json_pack("{s:s}", "k", "v\n\xc3\xa9");
	AUTO_BUF line = BUF_INIT;
	struct control_request r;

	cr_assert_eq(control_request_format("m", params, &line, NULL), 0);
	cr_assert_eq(line.data[line.len - 1], '\n');
	cr_expect_eq(memchr(line.data, '\n', line.len),
		     line.data + line.len - 1, "one line only");
	cr_assert_eq(control_request_parse(line.data, line.len - 1, &r, NULL),
		     0);
	cr_expect(json_equal(r.params, params));
	control_request_fini(&r);
}

Test(control, carries_a_result)
{
	AUTO_JSON *result = json_pack("{s:i}", "n", 3);
	AUTO_JSON *back = NULL;
	AUTO_BUF line = BUF_INIT;

	cr_assert_eq(control_reply_format(result, &line, NULL), 0);
	cr_assert_eq(control_reply_parse(line.data, line.len - 1, &back, NULL),
		     0);
	cr_expect(json_equal(result, back));
}

Test(control, carries_an_error_as_its_number_and_message)
{
	struct error why = ERROR_INIT, err = ERROR_INIT;
	AUTO_BUF line = BUF_INIT;
	json_t *back = NULL;

	error_set(&why, ENOSPC, "image x: disk full");
	cr_assert_eq(control_error_format(&why, &line, NULL), 0);
	cr_expect_eq(control_reply_parse(line.data, line.len - 1, &back, &err),
		     -ENOSPC);
	cr_expect_str_eq(err.msg, "image x: disk full");
}

Test(control, carries_a_message_that_is_no_utf8)
{
	struct error why = ERROR_INIT, err = ERROR_INIT;
	AUTO_BUF line = BUF_INIT;
	json_t *back = NULL;

	error_set(&why, EIO, "file '\xff\xfe' x");
	cr_assert_eq(control_error_format(&why, &line, NULL), 0);
	cr_expect_eq(control_reply_parse(line.data, line.len - 1, &back, &err),
		     -EIO);
	cr_expect_str_eq(err.msg, "file '?\?' x");
}

Test(control, does_not_trust_the_reply)
{
	json_t *back = NULL;
	const char *const bad[] = {
		"{\"bootseer\":1}",
		"{\"bootseer\":1,\"result\":3}",
		"{\"bootseer\":1,\"error\":{}}",
		"null",
	};
	const char *negative =
		"{\"bootseer\":1,\"error\":{\"errno\":-5,\"message\":\"m\"}}";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_lt(control_reply_parse(bad[i], strlen(bad[i]), &back,
						 NULL),
			     0);
	cr_expect_eq(control_reply_parse(negative, strlen(negative), &back,
					 NULL),
		     -EIO);
}

Test(control, a_call_has_its_method_in_the_path)
{
	AUTO_JSON *params = json_pack("{s:s}", "k", "v\n\xc3\xa9");
	struct control_request r;
	AUTO_BUF text = BUF_INIT;
	const char *body;

	cr_assert_eq(control_call_format("a.b", params, &text, NULL), 0);
	cr_expect_eq(strncmp(text.data, "POST /v1/a.b HTTP/1.1\r\n", 23), 0);
	body = strstr(text.data, "\r\n\r\n") + 4;
	cr_assert_eq(control_call_parse("/v1/a.b", body, strlen(body), &r,
					NULL),
		     0);
	cr_expect_str_eq(r.method, "a.b");
	cr_expect(json_equal(r.params, params));
	control_request_fini(&r);
	cr_assert_eq(control_call_parse("/v1/m", NULL, 0, &r, NULL), 0);
	cr_expect_eq(json_object_size(r.params), 0);
	control_request_fini(&r);
}

Test(control, refuses_what_is_no_call)
{
	struct control_request r;

	cr_expect_eq(control_call_parse("/v2/m", "{}", 2, &r, NULL),
		     -EPROTONOSUPPORT);
	cr_expect_eq(control_call_parse("/v1/m", "[]", 2, &r, NULL), -EINVAL);
	cr_expect_eq(control_call_parse("/v1/m", "{", 1, &r, NULL), -EINVAL);
	cr_expect_eq(control_call_parse("/v1/m", "{\"a\":1,\"a\":2}", 13, &r,
					NULL),
		     -EINVAL);
}

Test(control, an_answer_is_whole_when_its_last_byte_is_there)
{
	static const char text[] =
		"HTTP/1.1 404 Not Found\r\nX: content-length: 9"
		"\r\nContent-Length:  3\r\n\r\nabc";
	struct control_answer a;

	for (size_t n = 1; n < sizeof(text) - 1; n++)
		cr_expect_eq(control_answer_parse(text, n, &a, NULL), 0, "%zu",
			     n);
	cr_assert_eq(control_answer_parse(text, sizeof(text) - 1, &a, NULL), 1);
	cr_expect_eq(a.status, 404);
	cr_expect_eq(a.body_len, 3);
	cr_expect_eq(strncmp(text + a.head_len, "abc", 3), 0);
}

Test(control, does_not_trust_an_answer)
{
	static char endless[CONTROL_HEAD_MAX + 2] = "HTTP/1.1 200 OK\r\n";
	static const char *const bad[] = {
		"{\"bootseer\":1}\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 x\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
	};
	struct control_answer a;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(control_answer_parse(bad[i], strlen(bad[i]), &a,
						  NULL),
			     -EPROTO, "%s", bad[i]);
	memset(endless + strlen(endless), 'x',
	       sizeof(endless) - 1 - strlen(endless));
	cr_expect_eq(control_answer_parse(endless, sizeof(endless) - 1, &a,
					  NULL),
		     -EPROTO);
}

/* A server that was stopped has clients in its queue that gave up long ago. */
Test(control, waits_no_longer_to_be_connected_than_for_an_answer)
{
	char dir[] = "/tmp/bootseer-control.XXXXXX";
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct control_client_config cfg = { .path = addr.sun_path,
					     .server = "bootseerd",
					     .timeout_ms = 100 };
	struct control_client *c[8] = { NULL };
	struct error err = ERROR_INIT;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc = 0;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", dir);
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(fd, 2), 0);
	for (size_t i = 0; i < ARRAY_SIZE(c) && rc == 0; i++)
		rc = control_client_open(&cfg, &c[i], &err);
	cr_expect_eq(rc, -ETIMEDOUT);
	cr_expect_str_eq(err.msg, "no answer from bootseerd within 100 ms");
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		control_client_close(c[i]);
	close(fd);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
