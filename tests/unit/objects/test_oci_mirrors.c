// SPDX-License-Identifier: Apache-2.0
/* hosts.toml: what it says, and which host is asked for what by it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "objects/oci_hosts.h"
#include "objects/oci_mirrors.h"
#include "objects/toml.h"
#include "oci_fixture.h"

TestSuite(toml, .timeout = 60);

static json_t *parse(const char *text, struct error *err)
{
	json_t *j = NULL;

	return toml_parse(text, strlen(text), &j, err) < 0 ? NULL : j;
}

Test(toml, is_read_as_containerd_writes_it)
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

Test(toml, what_is_none_is_refused_with_its_line)
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

TestSuite(oci_mirrors, .timeout = 60);

static int said(const char *text, struct oci_mirrors *m, struct error *err)
{
	return oci_mirrors_parse(text, strlen(text), "/dir", m, err);
}

Test(oci_mirrors, hosts_are_in_order_and_the_registry_itself_is_last)
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

Test(oci_mirrors, paths_end_in_v2_unless_they_are_final)
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

Test(oci_mirrors, what_it_cannot_mean_is_refused)
{
	static const char *const bad[] = {
		"[host.'https://a']\ncapabilities = ['fly']",
		"[host.'https://a b']",
		"[host.'https://u:p@a']",
		"[host.'https://a']\nca = 'none.pem'",
		"[host.'https://a']\nclient = [['one']]",
		"[host.'https://a'.header]\nX = \"a\\r\\nY: b\"",
		"[host.'https://a'.header]\n'X: y' = 'a'",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = ERROR_INIT;
		struct oci_mirrors m;

		cr_expect_lt(said(bad[i], &m, &err), 0, "%s", bad[i]);
		cr_expect_eq(m.n, 0);
	}
}

/* -------------------------------------------------- a registry and its mirror --- */

static struct registry_fixture fix, mirror;
static struct digest blob;
static char *content;

static void setup(void)
{
	fixture_start(&mirror);
	fixture_start(&fix);
	content = fixture_blob(&fix, 5000, 1, &blob);
	free(fixture_blob(&mirror, 5000, 1, &blob));
	fix.cfg.hosts_dirs = fix.dir;
	fix.cfg.hosts = oci_hosts_new();
}

static void teardown(void)
{
	oci_store_free(steal_ptr(&fix.store));
	oci_hosts_free(fix.cfg.hosts);
	free(content);
	fixture_stop(&fix);
	fixture_stop(&mirror);
}

TestSuite(oci_mirrored, .init = setup, .fini = teardown, .timeout = 120);

/* The registry's hosts.toml names the other one, with these lines. */
static void set_hosts(const char *folder, const char *lines)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/%s", fix.dir, folder), 0);
	cr_assert_eq(mkdir(path.data, 0700), 0);
	cr_assert_eq(buf_puts(&path, "/hosts.toml"), 0);
	cr_assert_eq(buf_printf(&text, "[host.'http://127.0.0.1:%u']\n%s\n",
				mirror.port, lines),
		     0);
	cr_assert_eq(fs_replace_file(path.data, text.data, text.len, 0600,
				     &err),
		     0);
	fixture_reopen(&fix);
}

static void use_mirror(const char *lines)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "127.0.0.1_%u_", fix.port);
	set_hosts(folder, lines);
}

static void expect_blob(void)
{
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;

	cr_expect_eq(oci_get_blob(fix.store, &blob, 5000, 5000, &got, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(got.len, 5000);
}

static void ask_tag(int rc)
{
	struct error err = ERROR_INIT;
	struct oci_manifest m = { .body = BUF_INIT };

	cr_expect_eq(oci_get_manifest(fix.store, "none", &m, &err), rc, "%s",
		     err.msg);
	oci_manifest_fini(&m);
}

Test(oci_mirrored, a_mirror_is_asked_first_and_told_for_whom)
{
	char ns[64];

	use_mirror("");
	expect_blob();
	snprintf(ns, sizeof(ns), "?ns=127.0.0.1:%u", fix.port);
	cr_expect_eq(fixture_count(&mirror, "/blobs/", ns), 1);
	cr_expect_eq(fixture_count(&fix, "/v2/", NULL), 0);
}

Test(oci_mirrored, hosts_without_a_folder_have_the_default_one)
{
	set_hosts("_default", "");
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/blobs/", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/v2/", NULL), 0);
}

Test(oci_mirrored, what_a_mirror_has_not_the_registry_gives)
{
	const char *const faults[] = { "status=404", "status=500", "status=429",
				       "status=403", "drop=1" };

	use_mirror("");
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		fixture_fault(&mirror, faults[i]);
		expect_blob();
		cr_expect_eq(fixture_count(&fix, "/blobs/", NULL), i + 1, "%s",
			     faults[i]);
		fixture_fault(&mirror, "status=0&drop=0");
	}
}

Test(oci_mirrored, a_mirror_that_is_down_is_left_alone)
{
	char host[OCI_HOST_ROOM];
	struct error why;
	int64_t left;

	use_mirror("");
	fixture_fault(&mirror, "down=1");
	expect_blob();
	fixture_fault(&mirror, "down=0");
	cr_expect(oci_hosts_get(fix.cfg.hosts, 0, clock_now_ns(), host, &left,
				&why));
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 0);
	cr_expect_eq(fixture_count(&fix, "/blobs/", NULL), 2);
	oci_hosts_forget(fix.cfg.hosts);
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 1);
}

Test(oci_mirrored, who_may_not_resolve_is_asked_for_no_tag_and_no_list)
{
	struct error err = ERROR_INIT;
	struct digest *list = NULL;
	size_t n;

	use_mirror("capabilities = ['pull']");
	ask_tag(-ENOENT);
	cr_expect_eq(oci_list_referrers(fix.store, &blob, NULL, &list, &n,
					&err),
		     0, "%s", err.msg);
	free(list);
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 0);
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 1);
}

/* A login of the registry goes to no mirror, nor a mirror's to whoever asks for a right. */
Test(oci_mirrored, a_mirror_is_shown_no_login_of_the_registry)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *right = NULL;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/config.json", fix.dir), 0);
	cr_assert_eq(buf_printf(&text,
				"{\"auths\":{\"127.0.0.1:%u\":{\"username\":"
				"\"user\",\"password\":\"secret\"}}}",
				fix.port),
		     0);
	cr_assert_eq(fs_replace_file(path.data, text.data, text.len, 0600,
				     &err),
		     0);
	fix.cfg.auth_file = path.data;
	use_mirror("");
	fixture_fault(&fix, "basic=1");
	fixture_fault(&mirror, "basic=1");
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "auth=yes", NULL), 0);
	cr_expect_eq(fixture_count(&fix, "auth=yes", "/blobs/"), 1);
	/* It is no manifest. */
	cr_expect_lt(oci_authorization(fix.store, &blob, NULL, &right, &err),
		     0);
	cr_expect_eq(fixture_count(&fix, "/manifests/", NULL), 1);
	cr_expect_eq(fixture_count(&mirror, "/manifests/", NULL), 0);
}

Test(oci_mirrored, a_file_that_cannot_be_read_is_as_none)
{
	use_mirror("capabilities = 'pull'\n[[x]]");
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 0);
}
