// SPDX-License-Identifier: Apache-2.0
/* Which host is asked for what, by hosts.toml; test_hosts_toml.c has how it is read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "objects/oci_hosts.h"
#include "oci_fixture.h"

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

TestSuite(oci_mirrors, .init = setup, .fini = teardown, .timeout = 120);

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

Test(oci_mirrors, a_mirror_is_asked_first_and_told_for_whom)
{
	char ns[64];

	use_mirror("");
	expect_blob();
	snprintf(ns, sizeof(ns), "?ns=127.0.0.1:%u", fix.port);
	cr_expect_eq(fixture_count(&mirror, "/blobs/", ns), 1);
	cr_expect_eq(fixture_count(&fix, "/v2/", NULL), 0);
}

Test(oci_mirrors, hosts_without_a_folder_have_the_default_one)
{
	set_hosts("_default", "");
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/blobs/", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/v2/", NULL), 0);
}

Test(oci_mirrors, what_a_mirror_has_not_the_registry_gives)
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

Test(oci_mirrors, a_mirror_that_is_down_is_left_alone)
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

Test(oci_mirrors, who_may_not_resolve_is_asked_for_no_tag_and_no_list)
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
Test(oci_mirrors, a_mirror_is_shown_no_login_of_the_registry)
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

Test(oci_mirrors, a_file_that_cannot_be_read_is_as_none)
{
	use_mirror("capabilities = 'pull'\n[[x]]");
	expect_blob();
	cr_expect_eq(fixture_count(&mirror, "/v2/", NULL), 0);
}
