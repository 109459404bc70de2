// SPDX-License-Identifier: Apache-2.0
#include "image/artifact/artifact.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/cleanup.h"

TestSuite(artifact, .timeout = 120);

#define MANIFEST "application/vnd.oci.image.manifest.v1+json"

static struct error err;

static struct digest digest(uint8_t fill)
{
	struct digest d;

	memset(d.b, fill, sizeof(d.b));
	return d;
}

static struct digest chain_ids[2];
static struct oci_descriptor packs[2];

/* An artifact with everything set. */
static struct artifact example(void)
{
	struct artifact a = {
		.image = digest(1),
		.chunking = "c1",
		.chain_ids = chain_ids,
		.n_chain_ids = 2,
		.meta_raw = digest(2),
		.map_raw = digest(3),
		.meta_size = 4096,
		.map_size = 100,
		.packs = packs,
		.n_packs = 2,
		.device_size = 1 << 20,
		.image_size = 12345,
		.n_inodes = 7,
	};

	chain_ids[0] = digest(4);
	chain_ids[1] = digest(5);
	packs[0].digest = digest(6);
	packs[0].size = 1000;
	packs[1].digest = digest(7);
	packs[1].size = UINT64_C(5000000000);
	a.meta.digest = digest(8);
	a.meta.size = 900;
	a.map.digest = digest(9);
	a.map.size = 90;
	return a;
}

static void format(const struct artifact *a, struct buf *manifest,
		   struct buf *config)
{
	cr_assert_eq(artifact_format_config(a, config, &err), 0);
	cr_assert_eq(artifact_format_manifest(a, config, 500, MANIFEST,
					      manifest, &err),
		     0);
}

static int parse(const struct buf *manifest, const struct buf *config,
		 struct artifact *ret)
{
	return artifact_parse(manifest->data, manifest->len, config->data,
			      config->len, ret, &err);
}

Test(artifact, says_after_parsing_what_was_formatted)
{
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	format(&a, &manifest, &config);
	cr_assert_eq(parse(&manifest, &config, &b), 0, "%s", err.msg);
	cr_expect(digest_equal(&b.image, &a.image));
	cr_expect_str_eq(b.chunking, "c1");
	cr_expect_eq(b.n_chain_ids, 2);
	cr_expect(digest_equal(&b.chain_ids[1], &a.chain_ids[1]));
	cr_expect(digest_equal(&b.meta.digest, &a.meta.digest));
	cr_expect(digest_equal(&b.map_raw, &a.map_raw));
	cr_expect_eq(b.map.size, 90);
	cr_expect_eq(b.meta_size, 4096);
	cr_expect_eq(b.n_packs, 2);
	cr_expect_eq(b.packs[1].size, UINT64_C(5000000000));
	cr_expect_eq(b.device_size, 1 << 20);
	cr_expect_eq(b.n_inodes, 7);
	cr_expect_eq(b.manifest_json.len, manifest.len);
	cr_expect_eq(b.config_json.len, config.len);
	artifact_fini(&b);
}

Test(artifact, says_what_parts_its_blobs_have)
{
	struct digest parts[2] = { digest(0xa1), digest(0xa2) };
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	a.meta.size = 300000;
	a.meta_parts = (struct parts){ parts, 2, PARTS_SIZE_MIN };
	format(&a, &manifest, &config);
	cr_assert_eq(parse(&manifest, &config, &b), 0, "%s", err.msg);
	cr_expect_eq(b.map_parts.n, 0);
	cr_assert_eq(b.meta_parts.n, 2);
	cr_expect_eq(b.meta_parts.size, PARTS_SIZE_MIN);
	cr_expect(digest_equal(&b.meta_parts.digests[1], &parts[1]));
	artifact_fini(&b);
}

Test(artifact, that_unpacks_to_more_than_its_numbers_allow_is_refused)
{
	static const struct {
		const char *why;
		uint64_t inodes, image, device, meta, meta_blob, map, map_blob;
		int rc;
	} cases[] = {
		/* As measured: docs/formats/artifact.md. */
		{ "files", 4018, 63849688, 69562368, 528384, 79988, 27816,
		  19245, 0 },
		{ "names", 200002, 0, 0, 16818176, 1043662, 64, 25, 0 },
		{ "many inodes", 1 << 20, 0, 0, 1 << 30, 80 << 20, 64, 25, 0 },
		{ "few inodes", 7, 0, 0, 1 << 30, 80 << 20, 64, 25, -EINVAL },
		{ "a bomb", 1 << 20, 0, 0, 1 << 30, 68000, 64, 25, -EINVAL },
		{ "a map's bomb", 7, 0, INT64_MAX, 4096, 900, 1 << 30, 32000,
		  -EINVAL },
		{ "a map of no device", 7, 0, 4096, 4096, 900, 4096, 900,
		  -EINVAL },
		{ "a blob of nothing", 7, 0, 0, 4096, INT64_MAX, 64, 25,
		  -EINVAL },
		{ "as many as can be", INT64_MAX, INT64_MAX, INT64_MAX, 1 << 30,
		  80 << 20, 64, 25, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct artifact a = example(), b;
		AUTO_BUF manifest = BUF_INIT;
		AUTO_BUF config = BUF_INIT;
		int rc;

		a.n_packs = 0;
		a.n_inodes = cases[i].inodes;
		a.image_size = cases[i].image;
		a.device_size = cases[i].device;
		a.meta_size = cases[i].meta;
		a.meta.size = cases[i].meta_blob;
		a.map_size = cases[i].map;
		a.map.size = cases[i].map_blob;
		format(&a, &manifest, &config);
		rc = parse(&manifest, &config, &b);
		cr_expect_eq(rc, cases[i].rc, "%s: %s", cases[i].why, err.msg);
		if (rc == 0)
			artifact_fini(&b);
	}
}

Test(artifact, whose_parts_are_not_the_blobs_is_refused)
{
	struct digest parts[2] = { digest(0xa1), digest(0xa2) };
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	a.map.size = 600000;
	a.map_parts = (struct parts){ parts, 2, PARTS_SIZE_MIN };
	format(&a, &manifest, &config);
	cr_expect_eq(parse(&manifest, &config, &b), -EINVAL);
	cr_expect(strstr(err.msg, "blockmap") && strstr(err.msg, "parts"), "%s",
		  err.msg);
}

Test(artifact, says_what_it_replaces)
{
	char long_text[40 * DIGEST_STR_MAX];
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	a.replaces = long_text;
	strcpy(long_text, "sha256:1 sha256:2");
	format(&a, &manifest, &config);
	cr_assert_eq(parse(&manifest, &config, &b), 0, "%s", err.msg);
	cr_expect_str_eq(b.replaces, "sha256:1 sha256:2");
	artifact_fini(&b);
	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	buf_reset(&manifest);
	buf_reset(&config);
	format(&a, &manifest, &config);
	cr_expect_eq(parse(&manifest, &config, &b), -EINVAL);
}

Test(artifact, of_a_flat_image_has_no_subject)
{
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	a.image = digest(0);
	format(&a, &manifest, &config);
	cr_expect_null(strstr(manifest.data, "subject"));
	cr_assert_eq(parse(&manifest, &config, &b), 0, "%s", err.msg);
	cr_expect(digest_equal(&b.image, &a.image));
	artifact_fini(&b);
}

/* A node asks for one text instead of two, unless the config is long. */
Test(artifact, carries_its_config_in_its_manifest)
{
	struct artifact a = example();
	AUTO_FREE struct digest *many = calloc(1000, sizeof(*many));
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	struct oci_image m;

	format(&a, &manifest, &config);
	cr_assert_eq(oci_image_parse(manifest.data, manifest.len, &m, &err), 0);
	cr_expect_eq(m.config.size, config.len);
	cr_assert_eq(m.config_data.len, config.len);
	cr_expect_arr_eq(m.config_data.data, config.data, config.len);
	oci_image_fini(&m);
	cr_assert(many);
	a.chain_ids = many;
	a.n_chain_ids = 1000;
	buf_reset(&manifest);
	buf_reset(&config);
	format(&a, &manifest, &config);
	cr_assert_eq(oci_image_parse(manifest.data, manifest.len, &m, &err), 0);
	cr_expect_eq(m.config.size, config.len);
	cr_expect_eq(m.config_data.len, 0);
	oci_image_fini(&m);
}

/* Replace `from` in the config, repair the digest, parse. */
static int parse_changed(const char *from, const char *to)
{
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	AUTO_BUF changed = BUF_INIT;
	const char *at;
	int rc;

	cr_assert_eq(artifact_format_config(&a, &config, &err), 0);
	at = strstr(config.data, from);
	cr_assert(at, "%s", from);
	cr_assert_eq(buf_append(&changed, config.data,
				(size_t)(at - config.data)),
		     0);
	cr_assert_eq(buf_puts(&changed, to), 0);
	cr_assert_eq(buf_puts(&changed, at + strlen(from)), 0);
	cr_assert_eq(artifact_format_manifest(&a, &changed, 500, MANIFEST,
					      &manifest, &err),
		     0);
	rc = parse(&manifest, &changed, &b);
	if (rc == 0)
		artifact_fini(&b);
	return rc;
}

static void put_zstd(struct oci_store *store, size_t size,
		     struct oci_descriptor *ret, struct digest *ret_raw,
		     uint64_t *ret_size)
{
	char *raw = malloc(size), *stored = malloc(ZSTD_compressBound(size));

	cr_assert(raw && stored);
	for (size_t i = 0; i < size; i++)
		raw[i] = (char)(i * i >> 7);
	ret->size =
		ZSTD_compress(stored, ZSTD_compressBound(size), raw, size, 3);
	*ret_size = size;
	cr_assert_eq(digest_of(raw, size, ret_raw), 0);
	cr_assert_eq(oci_put_bytes(store, stored, ret->size, &ret->digest,
				   &err),
		     0);
	free(stored);
	free(raw);
}

/* Sizes at which the buffer of the unpacker is just full. */
Test(artifact, unpacks_metadata_of_any_size)
{
	static const size_t sizes[] = { 4096, 131072, 262144, 266240 };
	char dir[] = "/tmp/artifact.XXXXXX";
	struct oci_config cfg = OCI_CONFIG_INIT;
	AUTO_FREE char *text = NULL, *meta = NULL, *map = NULL, *clean = NULL;
	struct oci_ref ref;
	AUTO(oci_store) store = NULL;

	cr_assert(mkdtemp(dir));
	cr_assert_gt(asprintf(&text, "oci:%s/layout", dir), 0);
	cr_assert_gt(asprintf(&meta, "%s/meta", dir), 0);
	cr_assert_gt(asprintf(&map, "%s/map", dir), 0);
	cr_assert_gt(asprintf(&clean, "rm -rf %s", dir), 0);
	cr_assert_eq(oci_ref_parse(text, &ref, &err), 0);
	cr_assert_eq(oci_store_open(&ref, &cfg, true, &store, &err), 0);
	oci_ref_fini(&ref);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct artifact a = { .format = 1 };

		put_zstd(store, sizes[i], &a.meta, &a.meta_raw, &a.meta_size);
		put_zstd(store, 100, &a.map, &a.map_raw, &a.map_size);
		cr_expect_eq(artifact_fetch(store, &a, NULL, meta, map, &err),
			     0, "%zu bytes: %s", sizes[i], err.msg);
	}
	cr_assert_eq(system(clean), 0);
}

Test(artifact, refuses_a_newer_format_by_name)
{
	cr_expect_eq(parse_changed("\"format\":1", "\"format\":3"), -ENOTSUP);
	cr_expect(strstr(err.msg, "format 3"));
}

Test(artifact, refuses_what_is_missing_or_absurd)
{
	static const char *const changes[][2] = {
		{ "\"format\"", "\"Format\"" },
		{ "\"chunking\":\"c1\"", "\"chunking\":5" },
		{ "\"chainIds\"", "\"x\"" },
		{ "\"metadata\"", "\"x\"" },
		{ "\"size\":4096", "\"size\":-1" },
		{ "\"size\":4096", "\"size\":9999999999" },
		{ "\"size\":100", "\"size\":1e3" },
		{ "\"deviceSize\":1048576", "\"deviceSize\":\"1\"" },
		{ "\"inodes\":7", "\"inodes\":18446744073709551615" },
		{ "sha256:0101", "sha256:0102" },
		{ "sha256:0404", "sha512:0404" },
		{ "{", "[" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		err.msg[0] = '\0';
		cr_expect_eq(parse_changed(changes[i][0], changes[i][1]),
			     -EINVAL, "%s", changes[i][1]);
		cr_expect(err.msg[0]);
	}
}

Test(artifact, refuses_a_config_that_the_manifest_does_not_name)
{
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;

	format(&a, &manifest, &config);
	cr_assert_eq(buf_puts(&config, " "), 0);
	cr_expect_eq(parse(&manifest, &config, &b), -EBADMSG);
}

/* Three bytes each, and 200 of memory. */
static void fill_with_objects(struct buf *config, size_t len)
{
	cr_assert_eq(buf_puts(config, "{\"x\":[{}"), 0);
	while (config->len < len)
		cr_assert_eq(buf_puts(config, ",{}"), 0);
	cr_assert_eq(buf_puts(config, "]}"), 0);
}

Test(artifact, refuses_a_config_that_costs_memory_before_it_does)
{
	static const struct {
		size_t len;
		int rc;
		const char *says;
	} cases[] = { { 900u << 10, -EINVAL, "values" },
		      { ARTIFACT_CONFIG_MAX, -EFBIG, "longer" } };
	struct artifact a = example(), b;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF manifest = BUF_INIT;
		AUTO_BUF config = BUF_INIT;
		AUTO_BUF costly = BUF_INIT;

		format(&a, &manifest, &config);
		fill_with_objects(&costly, cases[i].len);
		cr_expect_eq(parse(&manifest, &costly, &b), cases[i].rc);
		cr_expect(strstr(err.msg, cases[i].says), "%s", err.msg);
	}
}

Test(artifact, refuses_a_manifest_of_something_else)
{
	struct artifact a = example(), b;
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	char *at;

	format(&a, &manifest, &config);
	/* Its first blob is no metadata image. */
	at = strstr(manifest.data, ARTIFACT_META_TYPE);
	cr_assert(at);
	at[0] = 'X';
	cr_expect_eq(parse(&manifest, &config, &b), -EINVAL);
}

Test(artifact, is_formatted_as_in_version_1)
{
	static const char want[] =
		"{\"format\":1,\"chunking\":\"c1\",\"chainIds\":["
		"\"sha256:04040404";
	struct artifact a = example();
	AUTO_BUF config = BUF_INIT;

	cr_assert_eq(artifact_format_config(&a, &config, &err), 0);
	cr_expect_eq(strncmp(config.data, want, strlen(want)), 0);
}
