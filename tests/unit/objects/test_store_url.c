// SPDX-License-Identifier: Apache-2.0
/* URLs of stores: what is in them, and what is none. */
#include "common/registry_host.h"
#include "objects/store/store_url.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "objects/store.h"

TestSuite(store_url, .timeout = 60);

Test(store_url, has_a_folder_behind_one_slash_or_three)
{
	static const char *const rows[] = { "file:///srv/a%20b/?io=threads",
					    "file:/srv/a%20b/?io=threads",
					    "file:/srv/a%20b?io=threads" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = ERROR_INIT;
		struct store_url u;

		cr_expect(registry_host_is_store(rows[i]), "%s", rows[i]);
		cr_assert_eq(store_url_parse(rows[i], &u, &err), 0, "%s",
			     err.msg);
		cr_expect_str_eq(u.scheme, "file");
		cr_expect_str_eq(u.authority, "");
		cr_expect_str_eq(u.path, "srv/a b");
		cr_assert(store_url_take(&u, "io"));
		cr_expect_str_eq(store_url_take(&u, "io"), "threads");
		cr_expect_eq(store_url_check(&u, &err), 0, "%s", err.msg);
		store_url_fini(&u);
	}
}

Test(store_url, wants_two_slashes_before_a_host)
{
	static const char *const rows[] = { "s3:/bucket/prefix",
					    "hdfs:/host:9870/dir",
					    "docker:/host/repo" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = ERROR_INIT;
		struct store_url u;

		cr_expect_not(registry_host_is_store(rows[i]), "%s", rows[i]);
		cr_expect_eq(store_url_parse(rows[i], &u, &err), -EINVAL);
		cr_expect(strstr(err.msg, "want file:///DIR"), "%s", err.msg);
	}
}

Test(store_url, is_no_path_and_no_name)
{
	static const char *const rows[] = { "/srv/file:/x", "file:srv", "srv",
					    "file", "" };
	struct error err = ERROR_INIT;
	struct store_url u;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_not(registry_host_is_store(rows[i]), "%s", rows[i]);
		cr_expect_eq(store_url_parse(rows[i], &u, &err), -EINVAL);
	}
}

Test(store_url, says_how_many_requests_there_are_at_a_time)
{
	static const char *const bad[] = { "",   "0",  "65",
					   "8x", "-1", "99999999999999999999" };
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	struct object_store *s;

	cr_assert_eq(object_store_open("hdfs://a:1/x?parallel=7", &cfg, &s,
				       &err),
		     0, "%s", err.msg);
	cr_expect_eq(object_store_caps(s).parallel, 7);
	object_store_free(s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char url[64];

		(void)snprintf(url, sizeof(url), "hdfs://a:1/x?parallel=%s",
			       bad[i]);
		cr_expect_eq(object_store_open(url, &cfg, &s, &err), -EINVAL,
			     "'%s'", bad[i]);
		cr_expect(strstr(err.msg, "want 1 to 64"), "%s", err.msg);
	}
}
