// SPDX-License-Identifier: Apache-2.0
/* hosts.toml: how it is read, and which hosts it names. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "objects/oci_mirrors.h"
#include "common/toml.h"

static json_t *parse(const char *text, struct error *err)
{
	json_t *j = NULL;

	return toml_parse(text, strlen(text), &j, err) < 0 ? NULL : j;
}

TestSuite(hosts_toml, .timeout = 60);

Test(hosts_toml, is_read_as_containerd_writes_it)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *want = json_loads(
		"{\"server\":\"https://a\",\"host\":{\"https://m:5\":{"
		"\"capabilities\":[\"pull\",\"resolve\"],\"skip_verify\":true,"
		"\"client\":[[\"c\",\"k\"],\"b\"],\"header\":{\"X\":[\"1\",\"2\"]}},"
		"\"n\":{\"ca\":\"a\\\"\xc3\xa9\\\\\",\"t\":null,\"x\":{\"y\":false,"
		"\"z\":{}}}}}",
		0, NULL);
	AUTO_JSON *have = parse(
		"# c\r\nserver = 'https://a' # d\n\n[host.\"https://m:5\"]\n"
		"  capabilities = [ \"pull\", # e\n\n\t\"resolve\", ]\n"
		"  skip_verify=true\n  client = [['c', 'k'], \"b\"]\n"
		"  [host . 'https://m:5' . header]\n    X = [\"1\", \"2\"]\n"
		"[host.n]\nca = \"a\\\"\\u00e9\\\\\"\nt = 1979-05-27T07:32:00Z\n"
		"x.y = false\nx.z = {}",
		&err);

	cr_assert_not_null(want);
	cr_assert_not_null(have, "%s", err.msg);
	cr_expect(json_equal(want, have));
}

Test(hosts_toml, what_is_no_toml_is_refused_with_its_line)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "a = 1\na = 2", "line 2: a key that was there before" },
		{ "[a]\n[a]", "line 2: a table that was there before" },
		{ "[[a]]", "an array of tables" },
		{ "a = \"\"\"x\"\"\"", "a string of several lines" },
		{ "a = \"x", "does not end" },
		{ "a = \"\\q\"", "an escape" },
		{ "a = \"\\u12\"", "cut off" },
		{ "a = \"\\ud800\"", "no character" },
		{ "a = [1", "does not end" },
		{ "a = {b = 1,}", "before '}'" },
		{ "a = {b = 1", "does not end" },
		{ "a = 1 b = 2", "more than one thing" },
		{ "a", "'=' was expected" },
		{ "= 1", "a key was expected" },
		{ "a = yes", "a value was expected" },
		{ "a = 1\n[a.b]", "used as one" },
		{ "a = \"\xff\"", "UTF-8" },
		{ "a = [[[[[[[[[1]]]]]]]]]", "in each other" },
		{ "a.b.c.d.e.f.g.h.i = 1", "too many names" },
		{ "[a", "']' was expected" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = ERROR_INIT;

		cr_expect_null(parse(bad[i].text, &err), "%s", bad[i].text);
		cr_expect_eq(err.code, EINVAL);
		cr_expect(strstr(err.msg, bad[i].why), "'%s': %s", bad[i].text,
			  err.msg);
	}
}

/* ------------------------------------------------------------- hosts.toml --- */

static int said(const char *text, struct oci_mirrors *m, struct error *err)
{
	return oci_mirrors_parse(text, strlen(text), "/dir", m, err);
}

Test(hosts_toml, hosts_are_in_order_and_the_registry_itself_is_last)
{
	struct error err = ERROR_INIT;
	struct oci_mirrors m;

	cr_assert_eq(
		said("server = 'https://up.example'\n"
		     "capabilities = ['pull']\n"
		     "[host.'http://b:5000']\n"
		     "capabilities = ['pull', 'resolve', 'push']\n"
		     "[host.'b:5000'.header]\nX-A = ['1', '2']\n"
		     "[host.'https://a/v2/proxy/']\noverride_path = true\n"
		     "skip_verify = true\nclient = [['c.pem', '/k.pem']]\n",
		     &m, &err),
		0, "%s", err.msg);
	cr_assert_eq(m.n, 4);
	cr_expect_str_eq(m.list[0].origin, "http://b:5000");
	cr_expect_str_eq(m.list[0].path, "/v2");
	cr_expect(m.list[0].pulls && m.list[0].resolves);
	cr_expect_str_eq(m.list[1].origin, "https://b:5000");
	cr_expect_str_eq(m.list[1].headers[0], "X-A: 1");
	cr_expect_str_eq(m.list[1].headers[1], "X-A: 2");
	cr_expect_str_eq(m.list[2].origin, "https://a");
	cr_expect_str_eq(m.list[2].path, "/v2/proxy");
	cr_expect(m.list[2].is_unverified);
	cr_expect_str_eq(m.list[2].cert_file, "/dir/c.pem");
	cr_expect_str_eq(m.list[2].key_file, "/k.pem");
	cr_expect_str_eq(m.list[3].origin, "https://up.example");
	cr_expect(m.list[3].pulls && !m.list[3].resolves);
	oci_mirrors_fini(&m);
}

Test(hosts_toml, paths_end_in_v2_unless_they_are_final)
{
	static const struct {
		const char *text, *path;
	} paths[] = {
		{ "[host.'https://a']", "/v2" },
		{ "[host.'https://a/']", "/v2" },
		{ "[host.'https://a/v2']", "/v2" },
		{ "[host.'https://a/x']", "/x/v2" },
		{ "[host.'https://a/x']\noverride_path = true", "/x" },
		{ "[host.'https://a']\noverride_path = true", "" },
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct error err = ERROR_INIT;
		struct oci_mirrors m;

		cr_assert_eq(said(paths[i].text, &m, &err), 0, "%s", err.msg);
		cr_expect_str_eq(m.list[0].path, paths[i].path);
		cr_expect_null(m.list[1].origin);
		oci_mirrors_fini(&m);
	}
}

Test(hosts_toml, keys_that_are_not_heeded_are_named)
{
	struct error err = ERROR_INIT;
	struct oci_mirrors m;

	cr_assert_eq(said("server = 'https://up'\n[host.'https://a']\n"
			  "dial_timeout = '1s'\nskip_verfy = true\n"
			  "client = [['a', 'b'], ['c', 'd']]\nserver = 'x'",
			  &m, &err),
		     0, "%s", err.msg);
	cr_expect_str_eq(m.ignored,
			 "'dial_timeout', 'skip_verfy', 'client: all "
			 "but the first', 'server'");
	oci_mirrors_fini(&m);
	cr_assert_eq(said("server = 'https://up'\nca = []", &m, &err), 0);
	cr_expect_str_eq(m.ignored, "");
	oci_mirrors_fini(&m);
}

Test(hosts_toml, what_it_cannot_mean_is_refused)
{
	static const char *const bad[] = {
		"[host.'https://a']\ncapabilities = ['fly']",
		"[host.'https://a b']",
		"[host.'https://u:p@a']",
		"[host.'https://a']\nca = 'none.pem'",
		"[host.'https://a']\nclient = [['one']]",
		"[host.'https://a'.header]\nX = \"a\\r\\nY: b\"",
		"[host.'https://a'.header]\n'X: y' = 'a'",
		"[host.'https://a']\nskip_verify = 'yes'",
		"[host.'https://a']\noverride_path = 1",
		"[host.'https://a']\ncapabilities = 'pull'",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = ERROR_INIT;
		struct oci_mirrors m;

		cr_expect_lt(said(bad[i], &m, &err), 0, "%s", bad[i]);
		cr_expect_eq(m.n, 0);
	}
}
