// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/index.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/buf.h"

TestSuite(index, .timeout = 120);

#define EIGHT(c) c c c c c c c c
#define DIGEST(c) \
	"\"digest\":\"sha256:" EIGHT(c) EIGHT(c) EIGHT(c) EIGHT(c) EIGHT(c) \
		EIGHT(c) EIGHT(c) EIGHT(c) "\""

static int parse(const char *json, struct index_entry **ret, size_t *ret_n)
{
	struct error err;

	*ret = NULL;
	*ret_n = 0;
	return index_parse(json, strlen(json), ret, ret_n, &err);
}

Test(index, lists_images_with_their_platforms)
{
	AUTO_FREE struct index_entry *list;
	size_t n;

	cr_assert_eq(
		parse("{\"manifests\":["
		      "{" DIGEST(
			      "1") ",\"platform\":{\"os\":\"linux\","
				   "\"architecture\":\"arm64\",\"variant\":\"v8\"}},"
				   "{" DIGEST(
					   "2") "},"
						"{" DIGEST(
							"3") ",\"platform\":{\"os\":\"unknown\","
							     "\"architecture\":\"unknown\"}},"
							     "{" DIGEST(
								     "4") ",\"artifactType\":\"a/b\"}]}",
		      &list, &n),
		0);
	cr_assert_eq(n, 2);
	cr_expect_str_eq(list[0].platform, "linux/arm64/v8");
	cr_expect_eq(list[0].digest.b[0], 0x11);
	cr_expect_str_eq(list[1].platform, "");
	cr_expect_eq(list[1].digest.b[31], 0x22);
}

Test(index, refuses_what_is_none)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"manifests\":{}}",
		"{\"manifests\":[1]}",
		"{\"manifests\":[{}]}",
		"{\"manifests\":[{\"digest\":\"md5:1\"}]}",
		"{\"manifests\":[],\"manifests\":[]}",
		"{\"manifests\":[{" DIGEST(
			"1") ",\"platform\":{\"os\":\"l\","
			     "\"architecture\":\"a234567890123456789012345678901234567890"
			     "1234567890123456789012345678\"}}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FREE struct index_entry *list;
		size_t n;

		cr_expect_eq(parse(bad[i], &list, &n), -EINVAL, "%s", bad[i]);
	}
}

Test(index, bounds_the_list)
{
	AUTO_FREE struct index_entry *list;
	AUTO_BUF json = BUF_INIT;
	size_t n;

	cr_assert_eq(buf_puts(&json, "{\"manifests\":["), 0);
	for (size_t i = 0; i <= INDEX_ENTRIES_MAX; i++)
		cr_assert_eq(buf_printf(&json, "%s{" DIGEST("5") "}",
					i ? "," : ""),
			     0);
	cr_assert_eq(buf_puts(&json, "]}"), 0);
	cr_expect_eq(parse(json.data, &list, &n), -EINVAL);
}
