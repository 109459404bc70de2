// SPDX-License-Identifier: Apache-2.0
/* The search for an image's artifact, in a store that is a tenant's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "image/artifact/artifact.h"
#include "objects/oci_store.h"

#define LISTED 1000
#define D16 "0123456789abcdef"
#define D64 D16 D16 D16 D16

static const char image_body[] =
	"{\"schemaVersion\":2,"
	"\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
	"\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\","
	"\"digest\":\"sha256:" D64 "\",\"size\":2},\"layers\":[]}";

static atomic_uint n_manifests, n_judged;

static int no_manifest(struct oci_store *s, const char *ref,
		       struct oci_manifest *ret, struct error *err)
{
	atomic_fetch_add(&n_manifests, 1);
	return error_set(err, ENOENT, "%s is not there", ref);
}

static int no_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		   struct source **ret, struct error *err)
{
	return error_set(err, ENOENT, "no blob");
}

static int list_many(struct oci_store *s, const struct digest *d,
		     const char *artifact_type, struct digest **ret,
		     size_t *ret_n, struct error *err)
{
	*ret = calloc(LISTED, sizeof(**ret));
	*ret_n = LISTED;
	for (size_t k = 0; *ret && k < LISTED; k++)
		memcpy((*ret)[k].b, &k, sizeof(k));
	return *ret ? 0 : error_nomem(err);
}

static int refuse(struct artifact_judge *j, struct oci_store *store,
		  const struct digest *artifact, const struct digest *subject,
		  struct buf *evidence, struct error *err)
{
	atomic_fetch_add(&n_judged, 1);
	return error_set(err, EACCES, "nobody signed it");
}

Test(artifact_store, looks_at_so_many_that_are_refused_and_no_more,
     .timeout = 60)
{
	static const struct oci_store_ops ops = { .name = "tenant",
						  .get_manifest = no_manifest,
						  .open_blob = no_blob,
						  .list_referrers = list_many };
	struct artifact_judge judge = { .accept = refuse };
	struct oci_manifest image = { .body = BUF_INIT };
	struct oci_store store = { .ops = &ops };
	struct error err = ERROR_INIT;
	struct artifact a;

	cr_assert_eq(buf_puts(&image.body, image_body), 0);
	cr_expect_lt(artifact_find_of(&store, &image, &judge, NULL, &a, &err),
		     0);
	cr_expect_eq(atomic_load(&n_judged), ARTIFACTS_MAX);
	cr_expect_eq(atomic_load(&n_manifests), ARTIFACTS_MAX);
	oci_manifest_fini(&image);
}
