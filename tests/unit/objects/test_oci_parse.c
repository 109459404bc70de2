// SPDX-License-Identifier: Apache-2.0
/* Manifests, indexes and configs: all of it comes from strangers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "objects/oci_json.h"
#include "oci_fixture.h"

TestSuite(oci_parse, .timeout = 120);

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define DESC(hex, size) \
	"{\"mediaType\":\"t/t\",\"digest\":\"sha256:" hex "\",\"size\":" size \
	"}"

Test(oci_parse, a_manifest_is_taken_apart)
{
	static const char json[] =
		"{\"schemaVersion\":2,\"artifactType\":\"a/b\",\"config\":" DESC(A64, "2") ",\"layers\":[" DESC(
			B64,
			"7") ",{"
			     "\"mediaType\":\"l\",\"digest\":\"sha256:" A64
			     "\",\"size\":0,\"annotations\":{\"k\":\"v\"}}],\"subject\":" DESC(
				     B64,
				     "9") ",\"annotations\":{\"x\":\"y\"}}";
	struct error err = ERROR_INIT;
	AUTO_FREE char *v = NULL, *w = NULL;
	struct oci_image m;

	cr_assert_eq(oci_image_parse(json, strlen(json), &m, &err), 0, "%s",
		     err.msg);
	cr_expect_str_eq(m.artifact_type, "a/b");
	cr_expect_eq(m.n_layers, 2);
	cr_expect_eq(m.layers[0].size, 7);
	cr_expect_str_eq(m.layers[1].media_type, "l");
	cr_expect(m.has_subject);
	v = oci_annotation(m.layers[1].annotations, "k");
	w = oci_annotation(m.annotations, "x");
	cr_expect_str_eq(v, "v");
	cr_expect_str_eq(w, "y");
	cr_expect_null(oci_annotation(m.annotations, "none"));
	oci_image_fini(&m);
}

/* "{}", and its SHA-256. */
#define EMPTY_HEX \
	"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define WITH_DATA(size, data) \
	"{\"schemaVersion\":2,\"config\":{\"mediaType\":\"t/t\",\"digest\":" \
	"\"sha256:" EMPTY_HEX "\",\"size\":" size ",\"data\":" data \
	"},\"layers\":[]}"

Test(oci_parse, a_config_in_the_manifest_is_taken_when_it_is_the_one)
{
	static const struct {
		const char *json;
		const char *data;
	} cases[] = {
		{ WITH_DATA("2", "\"e30=\""), "{}" },
		{ WITH_DATA("3", "\"e30=\""), NULL }, /* another size */
		{ WITH_DATA("2", "\"e10=\""), NULL }, /* other bytes */
		{ WITH_DATA("2", "\"e30!\""), NULL }, /* no base 64 */
		{ WITH_DATA("2", "7"), NULL },
		{ WITH_DATA("2", "\"\""), NULL },
		{ WITH_DATA("1000000", "\"e30=\""), NULL }, /* too much */
	};
	struct error err = ERROR_INIT;
	struct oci_image m;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *want = cases[i].data;

		cr_assert_eq(oci_image_parse(cases[i].json,
					     strlen(cases[i].json), &m, &err),
			     0, "%zu: %s", i, err.msg);
		cr_expect_eq(m.config_data.len, want ? strlen(want) : 0,
			     "case %zu", i);
		if (want && m.config_data.data)
			cr_expect_str_eq(m.config_data.data, want);
		oci_image_fini(&m);
	}
}

#define MANIFEST(rest) "{\"schemaVersion\":2" rest "}"
#define CONFIG ",\"config\":" DESC(A64, "2")

Test(oci_parse, manifests_that_lie_are_refused)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"schemaVersion\":1}",
		MANIFEST(""),
		MANIFEST(CONFIG),
		MANIFEST(CONFIG ",\"layers\":{}"),
		MANIFEST(CONFIG ",\"layers\":[1]"),
		MANIFEST(CONFIG ",\"layers\":[" DESC(B64, "-1") "]"),
		MANIFEST(CONFIG ",\"layers\":[" DESC(B64, "1.5") "]"),
		MANIFEST(CONFIG ",\"layers\":[" DESC(B64, "\"1\"") "]"),
		MANIFEST(CONFIG
			 ",\"layers\":[" DESC(B64, "9223372036854775807") "]"),
		MANIFEST(CONFIG
			 ",\"layers\":[" DESC(B64, "99999999999999999999") "]"),
		MANIFEST(CONFIG ",\"layers\":[" DESC("AA", "1") "]"),
		MANIFEST(CONFIG ",\"layers\":[],\"layers\":[]"),
		MANIFEST(CONFIG ",\"layers\":[],\"manifests\":[]"),
		MANIFEST(CONFIG ",\"layers\":[],\"subject\":{}"),
		MANIFEST(CONFIG ",\"layers\":[],\"annotations\":[]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct oci_image m;

		cr_expect(oci_image_parse(bad[i], strlen(bad[i]), &m, &err) < 0,
			  "%zu: '%s'", i, bad[i]);
		cr_expect(*err.msg);
	}
}

Test(oci_parse, deep_or_wide_json_is_refused_before_it_costs_memory)
{
	const size_t len = 4u << 20;
	AUTO_FREE char *json = malloc(len);
	struct error err = ERROR_INIT;
	json_t *j;

	cr_assert_not_null(json);
	memset(json, '[', len);
	cr_expect_eq(bounded_json_load(json, len, "it", &j, &err), -EINVAL);
	cr_expect(strstr(err.msg, "deeper"), "%s", err.msg);
	for (size_t i = 0; i + 3 <= len; i += 3)
		memcpy(json + i, "[],", 3);
	cr_expect_eq(bounded_json_load_array(json, len, "it", &j, &err),
		     -EINVAL);
	cr_expect(strstr(err.msg, "values"), "%s", err.msg);
}

Test(oci_parse, brackets_in_strings_are_only_text)
{
	static const char json[] =
		"{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		"[[[[[[\\\"[\"}";
	struct error err = ERROR_INIT;
	json_t *j = NULL;

	cr_expect_eq(bounded_json_load(json, strlen(json), "it", &j, &err), 0,
		     "%s", err.msg);
	json_decref(j);
}

#define ENTRY(hex, arch, variant) \
	"{\"digest\":\"sha256:" hex \
	"\",\"size\":1,\"mediaType\":\"t\",\"platform\":{\"os\":\"linux\"," \
	"\"architecture\":\"" arch "\"" variant "}}"

Test(oci_parse, an_index_gives_the_manifest_of_a_platform)
{
	static const char json[] = "{\"schemaVersion\":2,\"manifests\":[" ENTRY(
		A64, "amd64", "") "," ENTRY(B64, "arm64",
					    ",\"variant\":\"v8\"") "]}";
	AUTO_BUF others = BUF_INIT;
	char text[DIGEST_STR_MAX];
	struct error err = ERROR_INIT;
	struct oci_choices c;

	cr_assert_eq(oci_index_choices(json, strlen(json), "linux/arm64", &c,
				       &others, &err),
		     0, "%s", err.msg);
	cr_assert_eq(c.n, 1);
	digest_format(&c.list[0].digest, text);
	cr_expect_str_eq(text, "sha256:" B64);
	cr_expect(c.list[0].matches && !c.list[0].is_index);
	cr_expect_str_eq(others.data, "linux/amd64");
	buf_reset(&others);
	cr_assert_eq(oci_index_choices(json, strlen(json), "linux/s390x", &c,
				       &others, &err),
		     0);
	cr_expect_eq(c.n, 0);
	cr_expect_str_eq(others.data, "linux/amd64, linux/arm64/v8");
}

Test(oci_parse, layers_that_are_erofs_images_are_another_platform)
{
	static const char json[] = "{\"schemaVersion\":2,\"manifests\":[" ENTRY(
		B64, "amd64",
		",\"os.features\":[\"x\",\"erofs\"]") "," ENTRY(A64, "amd64",
								",\"os.features\":[\"x\"]") "]}";
	AUTO_BUF others = BUF_INIT;
	char text[DIGEST_STR_MAX];
	struct error err = ERROR_INIT;
	struct oci_choices c;

	cr_assert_eq(oci_index_choices(json, strlen(json), "linux/amd64", &c,
				       &others, &err),
		     0, "%s", err.msg);
	cr_assert_eq(c.n, 1);
	digest_format(&c.list[0].digest, text);
	cr_expect_str_eq(text, "sha256:" A64);
	cr_expect_str_eq(others.data, "linux(+erofs)/amd64");
}

Test(oci_parse, what_names_no_platform_comes_behind_what_names_it)
{
	static const char json[] =
		"{\"schemaVersion\":2,\"manifests\":["
		"{\"digest\":\"sha256:" B64 "\",\"size\":1,\"mediaType\":"
		"\"application/vnd.oci.image.index.v1+json\"},"
		"{\"digest\":\"sha256:" B64 "\",\"size\":1,\"mediaType\":"
		"\"t\",\"artifactType\":\"a\"},"
		"{\"digest\":\"sha256:" B64 "\",\"size\":1,\"mediaType\":"
		"\"t\",\"platform\":{\"os\":\"unknown\"}}," ENTRY(A64, "amd64",
								  "") "]}";
	AUTO_BUF others = BUF_INIT;
	struct error err = ERROR_INIT;
	struct oci_choices c;

	cr_assert_eq(oci_index_choices(json, strlen(json), "linux/amd64", &c,
				       &others, &err),
		     0, "%s", err.msg);
	cr_assert_eq(c.n, 2);
	cr_expect(c.list[0].matches && !c.list[0].is_index);
	cr_expect(!c.list[1].matches && c.list[1].is_index);
}

Test(oci_parse, a_manifest_may_not_call_itself_what_it_is_not)
{
	struct error err = ERROR_INIT;
	char type[128];

#define LOAD(json, declared) \
	oci_json_media_type(json, strlen(json), declared, type, sizeof(type), \
			    &err)
	cr_expect_eq(LOAD("{\"mediaType\":\"a/b\"}", "c/d"), -EBADMSG);
	cr_expect_eq(LOAD("{\"mediaType\":\"a/b\"}", "application/json"), 0);
	cr_expect_str_eq(type, "a/b");
	cr_expect_eq(LOAD("{\"manifests\":[]}", NULL), 0);
	cr_expect_str_eq(type, INDEX_TYPE);
	cr_expect_eq(LOAD("{\"layers\":[]}", ""), 0);
	cr_expect_str_eq(type, IMAGE_TYPE);
}

Test(oci_parse, chain_ids_are_those_of_the_specification)
{
	struct digest ids[2], chain, want;
	char text[2 * DIGEST_STR_MAX];

	cr_assert_eq(digest_of("a", 1, &ids[0]), 0);
	cr_assert_eq(digest_of("b", 1, &ids[1]), 0);
	cr_assert_eq(oci_chain_id(ids, 1, &chain), 0);
	cr_expect(digest_equal(&chain, &ids[0]));
	digest_format(&ids[0], text);
	text[71] = ' ';
	digest_format(&ids[1], text + 72);
	cr_assert_eq(digest_of(text, strlen(text), &want), 0);
	cr_assert_eq(oci_chain_id(ids, 2, &chain), 0);
	cr_expect(digest_equal(&chain, &want));
}

/* Each from the one before: from the first on for each, it is half an hour. */
Test(oci_parse, chain_ids_of_65536_layers_are_had_at_once)
{
	const size_t n = 65536, some[] = { 1, 2, 3, 1000 };
	AUTO_FREE struct digest *ids = calloc(n, sizeof(*ids));
	AUTO_FREE struct digest *chains = calloc(n, sizeof(*chains));
	struct digest want;

	cr_assert(ids && chains);
	for (size_t i = 0; i < n; i++)
		memcpy(ids[i].b, &i, sizeof(i));
	cr_assert_eq(oci_chain_ids(ids, n, chains), 0);
	for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
		cr_assert_eq(oci_chain_id(ids, some[i], &want), 0);
		cr_expect(digest_equal(&chains[some[i] - 1], &want));
	}
}

Test(oci_parse, a_config_says_what_its_image_runs_on)
{
	static const char plain[] =
		"{\"os\":\"linux\",\"architecture\":\"arm64\"}";
	static const char v7[] = "{\"os\":\"linux\",\"architecture\":\"arm\","
				 "\"variant\":\"v7\"}";
	struct error err = ERROR_INIT;

	cr_expect_eq(oci_config_check_platform(plain, strlen(plain),
					       "linux/arm64", NULL),
		     0);
	cr_expect_eq(oci_config_check_platform(plain, strlen(plain),
					       "linux/arm64/v8", NULL),
		     0);
	cr_expect_eq(oci_config_check_platform(v7, strlen(v7), "linux/arm",
					       NULL),
		     0);
	cr_expect_eq(oci_config_check_platform(v7, strlen(v7), "linux/arm/v6",
					       &err),
		     -ENOENT);
	cr_expect_str_eq(err.msg, "it is an image for linux/arm/v7, not for "
				  "linux/arm/v6");
	cr_expect_eq(oci_config_check_platform("{}", 2, "linux/arm", NULL),
		     -ENOENT);
}
