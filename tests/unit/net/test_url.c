// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "net/url.h"

TestSuite(url, .timeout = 120);

Test(url, parts_are_those_that_curl_connects_to)
{
	struct url u;

	cr_assert_eq(url_parse("HTTPS://a:b@Host.example/p/q?x=1&y#f", &u), 0);
	cr_expect_str_eq(u.scheme, "https");
	cr_expect_eq(strcasecmp(u.host, "host.example"), 0);
	cr_expect_str_eq(u.port, "443");
	cr_expect_str_eq(u.path, "/p/q");
	cr_expect_str_eq(u.query, "x=1&y");
	cr_expect(u.has_user && u.has_fragment);
	url_fini(&u);
	cr_assert_eq(url_parse("http://[::1]:80", &u), 0);
	cr_expect_str_eq(u.host, "[::1]");
	cr_expect_str_eq(u.path, "/");
	cr_expect_null(u.query);
	cr_expect_not(u.has_user || u.has_fragment);
	url_fini(&u);
}

Test(url, what_is_no_whole_url_is_none)
{
	static const char *const no[] = {
		"",
		"host",
		"host:80",
		"http://",
		"http:// a",
		"http://a:99999",
		"http://[::1",
		"//host/x",
		"gibberish://a",
	};

	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		cr_expect_not(url_is_http(no[i]), "%s", no[i]);
		cr_expect_not(url_is_origin(no[i]), "%s", no[i]);
		cr_expect_not(url_is_secret(no[i]), "%s", no[i]);
		cr_expect_not(url_is_loopback(no[i]), "%s", no[i]);
		cr_expect_not(url_is_same_origin(no[i], no[i]), "%s", no[i]);
	}
	cr_expect_not(url_is_http("ftp://a"));
}

Test(url, an_origin_is_scheme_host_and_port_only)
{
	cr_expect(url_is_origin("https://a.example:1"));
	cr_expect(url_is_origin("http://a.example/"));
	cr_expect_not(url_is_origin("http://a.example/x"));
	cr_expect_not(url_is_origin("http://a.example?x"));
	cr_expect_not(url_is_origin("http://a.example/#x"));
	cr_expect_not(url_is_origin("http://me@a.example"));
	cr_expect(url_is_same_origin("https://A.example/x",
				     "https://a.example:443"));
	cr_expect_not(
		url_is_same_origin("https://a.example", "http://a.example"));
	cr_expect_not(
		url_is_same_origin("https://a.example", "https://a.example:1"));
	cr_expect_not(url_is_same_origin("https://a.example/",
					 "https://a.example@evil.example/"));
	cr_expect_not(url_is_same_origin("https://a.example",
					 "https://a.example.evil"));
}

Test(url, this_machine_is_known_by_its_addresses_and_name_only)
{
	static const char *const yes[] = {
		"http://127.0.0.1:9730", "http://127.9.9.9/x",
		"http://[::1]:1",        "http://[0:0:0:0:0:0:0:1]",
		"http://localhost",      "HTTP://LOCALHOST:1",
		"http://0x7f000001/", /* curl connects to 127.0.0.1 */
	};
	static const char *const no[] = {
		"http://10.0.0.1:9730",     "http://127.0.0.1.example:1",
		"http://127.0.0.1@evil:1",  "http://localhost.example",
		"http://[::2]:1",           "http://evil#@127.0.0.1",
		"http://evil?@127.0.0.1",   "http://evil/@127.0.0.1",
		"http://localhost%2eevil/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		cr_expect(url_is_loopback(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		cr_expect_not(url_is_loopback(no[i]), "%s", no[i]);
}
