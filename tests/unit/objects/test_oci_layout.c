// SPDX-License-Identifier: Apache-2.0
/* Layout folders as image stores. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "common/fs.h"
#include "oci_fixture.h"

static char dir[64];
static struct oci_store *store;
static struct error err;

static struct oci_store *open_layout(bool create)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	struct oci_ref ref = { .transport = OCI_TRANSPORT_LAYOUT, .repo = dir };
	struct oci_store *s = NULL;

	return oci_store_open(&ref, &cfg, create, &s, &err) == 0 ? s : NULL;
}

static void setup(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/bootseer-layout.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	store = open_layout(true);
	cr_assert_not_null(store, "%s", err.msg);
}

static void teardown(void)
{
	oci_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}

TestSuite(oci_layout, .init = setup, .fini = teardown, .timeout = 120);

static struct digest put(struct oci_store *s, const char *tag,
			 const struct digest *subject, const char *salt)
{
	struct error e = ERROR_INIT;
	AUTO_FREE char *text = NULL;
	struct digest config, d;

	cr_assert_eq(digest_of(salt, strlen(salt), &config), 0);
	text = fixture_manifest(&config, subject, subject ? "a/t" : NULL);
	cr_assert_eq(digest_of(text, strlen(text), &d), 0);
	cr_assert_eq(oci_put_manifest(s, tag, IMAGE_TYPE, text, strlen(text),
				      &e),
		     0, "%s", e.msg);
	return d;
}

static void expect_manifest(const char *ref, const struct digest *want)
{
	struct oci_manifest m;

	cr_assert_eq(oci_get_manifest(store, ref, &m, &err), 0, "%s", err.msg);
	cr_expect(digest_equal(&m.digest, want));
	oci_manifest_fini(&m);
}

Test(oci_layout, the_only_image_needs_no_name_beside_its_artifact)
{
	struct digest image = put(store, "v1", NULL, "1");

	put(store, NULL, &image, "2");
	expect_manifest(NULL, &image);
	expect_manifest("v1", &image);
}

Test(oci_layout, a_tag_moves_to_the_newer_image)
{
	struct digest two;
	struct oci_manifest m;

	put(store, "v1", NULL, "1");
	two = put(store, "v1", NULL, "2");
	expect_manifest("v1", &two);
	put(store, "v2", NULL, "3");
	cr_expect_eq(oci_get_manifest(store, NULL, &m, &err), -ENOENT);
	cr_expect(strstr(err.msg, dir), "%s", err.msg);
}

Test(oci_layout, an_index_stands_for_its_manifests)
{
	struct digest one = put(store, NULL, NULL, "1"), index;
	char name[DIGEST_STR_MAX];
	AUTO_BUF text = BUF_INIT;

	put(store, NULL, NULL, "2");
	digest_format(&one, name);
	cr_assert_eq(buf_printf(&text,
				"{\"schemaVersion\":2,\"manifests\":[{"
				"\"digest\":\"%s\",\"size\":1}",
				name),
		     0);
	one = put(store, NULL, NULL, "2");
	digest_format(&one, name);
	cr_assert_eq(buf_printf(&text, ",{\"digest\":\"%s\"}]}", name), 0);
	cr_assert_eq(digest_of(text.data, text.len, &index), 0);
	cr_assert_eq(oci_put_manifest(store, NULL, INDEX_TYPE, text.data,
				      text.len, &err),
		     0, "%s", err.msg);
	expect_manifest(NULL, &index);
	expect_manifest(name, &one);
}

Test(oci_layout, a_digest_that_is_not_the_manifest_s_is_refused)
{
	char name[DIGEST_STR_MAX];
	struct digest d = { .b = { 1 } };

	digest_format(&d, name);
	cr_expect_eq(oci_put_manifest(store, name, IMAGE_TYPE, "{}", 2, &err),
		     -EINVAL);
}

Test(oci_layout, referrers_are_found_by_subject_and_go_with_removal)
{
	struct digest image = put(store, "v1", NULL, "1");
	struct digest a = put(store, NULL, &image, "2");
	struct digest *found = NULL;
	size_t n = 0;

	cr_assert_eq(oci_list_referrers(store, &image, "a/t", &found, &n, &err),
		     0);
	cr_assert_eq(n, 1);
	cr_expect(digest_equal(&found[0], &a));
	free(found);
	cr_assert_eq(oci_remove_manifest(store, &a, &err), 0, "%s", err.msg);
	cr_assert_eq(oci_list_referrers(store, &image, NULL, &found, &n, &err),
		     0);
	cr_expect_eq(n, 0);
	free(found);
	cr_expect_eq(oci_remove_manifest(store, &a, &err), -ENOENT);
}

Test(oci_layout, a_damaged_blob_is_not_served_and_a_wrong_one_not_taken)
{
	char path[256], name[DIGEST_STR_MAX];
	struct digest image = put(store, "v1", NULL, "1");
	AUTO_CLOSE int fd = -1;
	struct oci_manifest m;
	FILE *f;

	digest_format(&image, name);
	snprintf(path, sizeof(path), "%s/blobs/sha256/%s", dir, name + 7);
	fd = open(path, O_RDONLY);
	cr_expect_eq(oci_put_blob(store, &(struct digest){ .b = { 1 } }, 10, fd,
				  NULL, &err),
		     -EBADMSG);
	f = fopen(path, "r+");
	cr_assert_not_null(f);
	fputc(' ', f);
	fclose(f);
	cr_expect(oci_get_manifest(store, "v1", &m, &err) < 0);
}

static void *put_many(void *arg)
{
	struct oci_store *own = open_layout(false);

	for (int i = 0; own && i < 20; i++) {
		char tag[16];

		snprintf(tag, sizeof(tag), "%s-%d", (const char *)arg, i);
		put(own, tag, NULL, tag);
	}
	oci_store_free(own);
	return NULL;
}

Test(oci_layout, writers_at_the_same_time_lose_nothing)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	pthread_t threads[4];
	char **tags;
	size_t n = 0;

	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, put_many,
					    (void *)(uintptr_t)names[i]),
			     0);
	for (size_t i = 0; i < 4; i++)
		(void)pthread_join(threads[i], NULL);
	cr_assert_eq(oci_list_tags(store, 1000, &tags, &n, &err), 0);
	cr_expect_eq(n, 80);
	while (n)
		free(tags[--n]);
	free(tags);
}

Test(oci_layout, a_folder_that_is_none_is_refused)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/oci-layout", dir);
	cr_assert_eq(unlink(path), 0);
	cr_expect_null(open_layout(false));
	cr_expect(strstr(err.msg, "oci-layout"), "%s", err.msg);
}
