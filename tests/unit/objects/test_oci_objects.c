// SPDX-License-Identifier: Apache-2.0
/* Blobs and manifests that are objects of a store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "objects/oci.h"
#include "objects/store.h"

static char dir[64];
static struct object_store *objects;
static struct oci_store *blobs;
static struct error err;

static void setup(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	AUTO_FREE char *url = NULL;

	(void)snprintf(dir, sizeof(dir), "/var/tmp/bootseer-blobs.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_geq(asprintf(&url, "file://%s", dir), 0);
	cr_assert_eq(object_store_open(url, &cfg, &objects, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(oci_objects_new(objects, "a/b", NULL, &blobs, &err), 0);
}

static void teardown(void)
{
	oci_store_free(blobs);
	object_store_free(objects);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}

TestSuite(oci_objects, .init = setup, .fini = teardown, .timeout = 60);

Test(oci_objects, has_what_was_put_under_its_digest)
{
	static const char text[] = "what a blob holds";
	AUTO_BUF got = BUF_INIT;
	char name[128], hex[DIGEST_STR_MAX];
	struct object_stat st;
	struct digest d;
	bool is_there;

	cr_assert_eq(digest_of(text, sizeof(text), &d), 0);
	cr_assert_eq(oci_has_blob(blobs, &d, &is_there, &err), 0);
	cr_expect(!is_there);
	cr_assert_eq(oci_put_bytes(blobs, text, sizeof(text), &d, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(oci_has_blob(blobs, &d, &is_there, &err), 0);
	cr_expect(is_there);
	cr_assert_eq(oci_get_blob(blobs, &d, sizeof(text), 100, &got, &err), 0,
		     "%s", err.msg);
	cr_expect_str_eq(got.data, text);
	digest_format(&d, hex);
	(void)snprintf(name, sizeof(name), "a/b/%s", hex + strlen("sha256:"));
	cr_expect_eq(object_stat(objects, name, &st, &err), 0, "%s", err.msg);
}

Test(oci_objects, reads_what_others_have_and_puts_its_own)
{
	AUTO(oci_store) both = NULL;
	AUTO_BUF got = BUF_INIT;
	struct digest theirs, d;
	char name[128], hex[DIGEST_STR_MAX];
	struct object_stat st;
	bool is_there;

	cr_assert_eq(oci_put_bytes(blobs, "theirs", 6, &theirs, &err), 0);
	cr_assert_eq(oci_objects_new(objects, "c", "a/b", &both, &err), 0);
	cr_assert_eq(oci_has_blob(both, &theirs, &is_there, &err), 0);
	cr_expect(is_there);
	cr_assert_eq(oci_get_blob(both, &theirs, 6, 100, &got, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(memcmp(got.data, "theirs", 6), 0);
	cr_assert_eq(oci_put_bytes(both, "theirs", 6, &d, &err), 0);
	digest_format(&d, hex);
	(void)snprintf(name, sizeof(name), "c/%s", hex + strlen("sha256:"));
	cr_expect_eq(object_stat(objects, name, &st, &err), 0, "%s", err.msg);
	cr_assert_eq(digest_of("none", 4, &d), 0);
	cr_assert_eq(oci_has_blob(both, &d, &is_there, &err), 0);
	cr_expect(!is_there);
	cr_expect_eq(oci_get_blob(both, &d, 4, 100, &got, &err), -ENOENT);
}

Test(oci_objects, gives_no_blob_of_another_size)
{
	struct digest d;
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(oci_put_bytes(blobs, "abc", 3, &d, &err), 0);
	cr_expect_eq(oci_get_blob(blobs, &d, 4, 100, &got, &err), -EBADMSG);
	cr_expect_eq(got.len, 0);
}

Test(oci_objects, keeps_manifests_by_digest_and_gives_no_changed_one)
{
	static const char body[] = "{\"schemaVersion\":2}";
	char ref[DIGEST_STR_MAX], name[128];
	struct oci_manifest m = { .body = BUF_INIT };
	struct digest d;

	cr_assert_eq(digest_of(body, strlen(body), &d), 0);
	digest_format(&d, ref);
	cr_assert_eq(oci_put_manifest(blobs, ref, "x", body, strlen(body),
				      &err),
		     0, "%s", err.msg);
	cr_assert_eq(oci_get_manifest(blobs, ref, &m, &err), 0, "%s", err.msg);
	cr_expect_eq(m.body.len, strlen(body));
	oci_manifest_fini(&m);
	(void)snprintf(name, sizeof(name), "a/b/%s", ref + strlen("sha256:"));
	cr_assert_eq(object_put(objects, name, "{}", 2, NULL, NULL, &err), 0);
	cr_expect_eq(oci_get_manifest(blobs, ref, &m, &err), -EBADMSG);
	cr_expect_eq(oci_get_manifest(blobs, "latest", &m, &err), -ENOTSUP);
}

static bool yes(void *arg)
{
	unsigned int *n = arg;

	return ++*n == 3;
}

Test(oci_objects, who_waits_for_a_lease_can_be_told_that_it_is_over)
{
	unsigned int n = 0;
	struct object_lease_options opts = { .owner = "first", .ttl_ms = 3000 };
	struct object_lease *first = NULL, *second = NULL;

	cr_assert_eq(object_lease_take(objects, "lease", &opts, &first, &err),
		     0, "%s", err.msg);
	opts.deadline_ns = INT64_MAX;
	opts.is_over = yes;
	opts.arg = &n;
	cr_expect_eq(object_lease_take(objects, "lease", &opts, &second, &err),
		     -ECANCELED);
	cr_expect_eq(n, 3);
	cr_expect_eq(object_lease_drop(first, &err), 0);
}
