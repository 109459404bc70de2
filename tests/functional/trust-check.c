// SPDX-License-Identifier: Apache-2.0
/*
 * trust-check REF KEYS signed|verified REPOSITORY|- [REVOKED]: what a node asks
 * before it uses what was stored of an image.  Prints claim and key; exit status 1
 * says why not on stderr.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "image/artifact/artifact.h"
#include "snapshotter/trust.h"

static bool has_revoked(void *arg, const struct digest *key)
{
	return digest_equal(arg, key);
}

static int find(struct oci_store *store, const struct oci_ref *ref,
		struct artifact *ret, struct error *err)
{
	struct digest image;
	int rc = oci_resolve(store, ref, NULL, &image, err);

	return rc < 0 ? rc : artifact_find(store, &image, ret, err);
}

static int check(char **argv, struct error *err)
{
	struct oci_config cfg = OCI_CONFIG_INIT;
	AUTO(oci_store) store = NULL;
	AUTO(trust_keys) keys = NULL;
	char repository[TRUST_PATTERN_MAX + 1], text[DIGEST_STR_MAX];
	struct digest gone;
	struct trust_revoked revoked = { has_revoked, &gone };
	struct trust_query q = { .repository = argv[4],
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;
	struct artifact a;
	struct oci_ref ref;
	int rc = oci_ref_parse(argv[1], &ref, err);

	if (rc < 0)
		return rc;
	cfg.plain_http = true;
	rc = trust_keys_load(argv[2], &keys, err);
	if (rc == 0)
		rc = oci_store_open(&ref, &cfg, false, &store, err);
	if (rc == 0)
		rc = find(store, &ref, &a, err);
	if (rc < 0)
		return rc;
	if (strcmp(argv[3], "verified") == 0)
		q.claim = TRUST_CLAIM_VERIFIED;
	if (strcmp(argv[4], "-") == 0) {
		rc = trust_repository(&ref, repository, err);
		q.repository = repository;
	}
	if (rc == 0 && argv[5])
		rc = digest_parse(argv[5], &gone, err);
	q.artifact = &a.digest;
	q.subject = &a.image;
	if (rc == 0)
		rc = trust_find(store, keys, &q, (int64_t)time(NULL),
				argv[5] ? &revoked : NULL, &r, NULL, err);
	if (rc == 0) {
		digest_format(&r.key, text);
		printf("%s %s%s\n", trust_claim_name(r.claim), text,
		       r.is_cosign ? " cosign" : "");
	}
	artifact_fini(&a);
	oci_ref_fini(&ref);
	return rc;
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;

	if (argc < 5) {
		fprintf(stderr, "usage: trust-check REF KEYS CLAIM REPOSITORY "
				"[REVOKED]\n");
		return 2;
	}
	if (check(argv, &err) == 0)
		return 0;
	fprintf(stderr, "%s\n", err.msg);
	return 1;
}
