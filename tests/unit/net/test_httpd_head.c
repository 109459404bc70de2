// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "net/httpd_head.h"

TestSuite(httpd_head, .timeout = 120);

static struct httpd_head h;
static char text[8192];

static int parse(const char *head)
{
	snprintf(text, sizeof(text), "%s", head);
	return httpd_head_parse(text, strlen(text), &h, NULL);
}

Test(httpd_head, is_taken_apart)
{
	cr_assert_eq(parse("POST /a/b%20c?x=1&y HTTP/1.1\r\nHost: h\r\n"
			   "content-length:  12 \r\nX-Y: a: b\r\n\r\n"),
		     0);
	cr_expect_eq(h.method, HTTPD_POST);
	cr_expect_str_eq(h.path, "/a/b%20c");
	cr_expect_str_eq(h.query, "x=1&y");
	cr_expect_eq(h.content_length, 12);
	cr_expect(h.keep_alive && h.has_length && !h.expect_continue);
	cr_expect_str_eq(httpd_head_get(&h, "x-y"), "a: b");
	cr_expect_null(httpd_head_get(&h, "x"));
}

Test(httpd_head, ends_a_connection_that_wants_it)
{
	cr_expect_eq(parse("GET / HTTP/1.0\r\n\r\n"), 0);
	cr_expect(!h.keep_alive);
	cr_expect_eq(parse("GET / HTTP/1.1\r\n"
			   "Connection: x, Close\r\n\r\n"),
		     0);
	cr_expect(!h.keep_alive);
	cr_expect_str_eq(h.query, "");
}

Test(httpd_head, refuses_what_could_be_read_in_two_ways)
{
	static const struct {
		const char *head;
		int status;
	} cases[] = {
		{ "GET /\r\n\r\n", 400 },
		{ "GET x HTTP/1.1\r\n\r\n", 400 },
		{ "GET /\t HTTP/1.1\r\n\r\n", 400 },
		{ "GET / HTTP/2.0\r\n\r\n", 505 },
		{ "G\x01T / HTTP/1.1\r\n\r\n", 400 },
		{ "\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA : b\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n", 400 },
		{ "POST / HTTP/1.1\r\nContent-Length: 1\r\n"
		  "Content-Length: 1\r\n\r\n",
		  400 },
		{ "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nContent-Length: "
		  "99999999999999999999\r\n\r\n",
		  400 },
		{ "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  411 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(parse(cases[i].head), cases[i].status, "%s",
			     cases[i].head);
}

Test(httpd_head, refuses_a_hundred_headers)
{
	char head[2048] = "GET / HTTP/1.1\r\n";

	for (int i = 0; i < 100; i++)
		strcat(head, "a: b\r\n");
	cr_expect_eq(parse(strcat(head, "\r\n")), 431);
}

Test(httpd_query, decodes_names_and_values)
{
	struct httpd_field f[HTTPD_PARAMS_MAX];
	char query[] = "a=%41%2f&b&&c%3d=x+y";
	size_t n = 0;

	cr_assert_eq(httpd_query_parse(query, f, &n, NULL), 0);
	cr_assert_eq(n, 3);
	cr_expect_str_eq(f[0].value, "A/");
	cr_expect_str_eq(f[1].value, "");
	cr_expect_str_eq(f[2].name, "c=");
	cr_expect_str_eq(f[2].value, "x+y");
}

Test(httpd_query, refuses_what_is_malformed_or_too_much)
{
	static const char *const bad[] = { "a=%4", "a=%zz",   "a=%00",
					   "%",    "a=1&a=2", "%61=1&a=2" };
	struct httpd_field f[HTTPD_PARAMS_MAX];
	char query[256];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(query, sizeof(query), "%s", bad[i]);
		cr_expect_eq(httpd_query_parse(query, f, &n, NULL), -EINVAL,
			     "%s", bad[i]);
	}
	snprintf(query, sizeof(query), "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q");
	cr_expect_eq(httpd_query_parse(query, f, &n, NULL), -E2BIG);
}
