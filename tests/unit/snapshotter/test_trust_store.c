// SPDX-License-Identifier: Apache-2.0
/* Signatures in an OCI layout: storing, finding and skipping them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/base64.h"
#include "common/fs.h"
#include "objects/oci_store.h"
#include "snapshotter/trust.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define REPOSITORY "reg.example/app"

static char dir[64];
static struct oci_store *store;
static struct error err;
static const struct digest none;
/* A manifest that stands for an artifact: signatures need no more. */
static struct digest artifact;
static size_t artifact_len;

static void setup(void)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	static const char body[] = "{\"schemaVersion\":2}";
	struct oci_ref ref;
	char text[128];

	strcpy(dir, "/tmp/test_trust_store.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(text, sizeof(text), "oci:%s/layout", dir);
	cr_assert_eq(oci_ref_parse(text, &ref, &err), 0);
	cr_assert_eq(oci_store_open(&ref, &cfg, true, &store, &err), 0, "%s",
		     err.msg);
	oci_ref_fini(&ref);
	artifact_len = strlen(body);
	cr_assert_eq(digest_of(body, artifact_len, &artifact), 0);
}

static void teardown(void)
{
	oci_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

TestSuite(trust_store, .init = setup, .fini = teardown, .timeout = 30);

static struct sign_key *new_key(void)
{
	struct sign_key *k;

	cr_assert_eq(sign_key_new(&k, &err), 0, "%s", err.msg);
	return k;
}

/* Make a list with this key alone. */
static struct trust_keys *list_of(const struct sign_key *k)
{
	AUTO_BUF text = BUF_INIT;
	struct trust_keys *list;

	cr_assert_eq(trust_key_format(k, NULL, TRUST_USE_SIGN, 0, &text, &err),
		     0);
	cr_assert_eq(trust_keys_parse(text.data, text.len, &list, &err), 0);
	return list;
}

static void push(const struct sign_key *k, const char *repository,
		 int64_t not_after_s)
{
	struct trust_statement s = { .artifact = artifact,
				     .claim = TRUST_CLAIM_SIGNED,
				     .not_after_s = not_after_s };
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len;

	strcpy(s.repository, repository);
	cr_assert_eq(trust_sign(k, &s, data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(trust_push(store, &artifact, artifact_len, data, len, NULL,
				&err),
		     0, "%s", err.msg);
}

static int find(const struct sign_key *k, struct buf *ret_sig)
{
	AUTO(trust_keys) keys = list_of(k);
	struct trust_query q = { .artifact = &artifact,
				 .subject = &none,
				 .repository = REPOSITORY,
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;

	return trust_find(store, keys, &q, 1000, NULL, &r, ret_sig, &err);
}

Test(trust_store, finds_the_signature_that_is_good)
{
	AUTO(sign_key) a = new_key();
	AUTO(sign_key) b = new_key();
	AUTO_BUF sig = BUF_INIT;
	struct trust_statement s;

	cr_expect_eq(find(a, NULL), -ENODATA);
	cr_expect(strstr(err.msg, "nobody signed it"), "%s", err.msg);
	push(a, REPOSITORY, 0);
	cr_expect_eq(find(b, NULL), -ENOKEY);
	cr_expect(strstr(err.msg, "not of the trusted keys"), "%s", err.msg);
	push(b, "reg.example/other", 0);
	push(b, REPOSITORY, 900);
	cr_expect_eq(find(b, NULL), -EKEYEXPIRED, "%s", err.msg);
	cr_assert_eq(find(a, &sig), 0, "%s", err.msg);
	cr_assert_eq(trust_decode(sig.data, sig.len, &s, &err), 0);
	cr_expect(digest_equal(&s.key, sign_key_id(a)));
}

/* Push a manifest that claims to be a signature of the artifact. */
static void push_odd(const char *annotation)
{
	char body[1024], name[DIGEST_STR_MAX];
	struct digest empty;
	int len;

	cr_assert_eq(oci_put_bytes(store, "{}", 2, &empty, &err), 0);
	digest_format(&empty, name);
	len = snprintf(body, sizeof(body),
		       "{\"schemaVersion\":2,\"mediaType\":\"" MANIFEST_TYPE
		       "\",\"artifactType\":\"" TRUST_ARTIFACT_TYPE
		       "\",\"config\":{\"mediaType\":\"application/"
		       "vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":2},"
		       "\"layers\":[],",
		       name);
	digest_format(&artifact, name);
	len += snprintf(body + len, sizeof(body) - (size_t)len,
			"\"subject\":{\"mediaType\":\"" MANIFEST_TYPE
			"\",\"digest\":\"%s\",\"size\":%zu},"
			"\"annotations\":{\"" TRUST_ANNOTATION "\":\"%s\"}}",
			name, artifact_len, annotation);
	cr_assert_eq(oci_put_manifest(store, NULL, MANIFEST_TYPE, body,
				      (size_t)len, &err),
		     0, "%s", err.msg);
}

Test(trust_store, passes_over_what_is_no_signature)
{
	AUTO(sign_key) a = new_key();

	push(a, REPOSITORY, 0);
	push_odd("!");
	push_odd("");
	push_odd("QlNTRw==");
	cr_expect_eq(find(a, NULL), 0, "%s", err.msg);
}

/* A store like `store`, but with lists of referrers that the test makes up. */
static char *notes[4];
static unsigned int n_read;

static int noted_get_manifest(struct oci_store *s, const char *ref,
			      struct oci_manifest *ret, struct error *why)
{
	n_read++;
	return oci_get_manifest(store, ref, ret, why);
}

static int noted_list(struct oci_store *s, const struct oci_referrers_query *q,
		      struct oci_referrers *ret, struct error *why)
{
	struct oci_referrers r = { .n = 0 };
	int rc;

	cr_assert_str_eq(q->note, TRUST_ANNOTATION);
	rc = oci_list_referrers(store, q->subject, q->artifact_type, &r.digests,
				&r.n, why);
	cr_assert_eq(rc, 0);
	cr_assert_leq(r.n, ARRAY_SIZE(notes));
	r.notes = calloc(r.n + 1, sizeof(*r.notes));
	cr_assert(r.notes);
	for (size_t i = 0; i < r.n; i++)
		r.notes[i] = notes[i] ? strdup(notes[i]) : NULL;
	*ret = r;
	return 0;
}

static int find_noted(const struct sign_key *k, struct buf *ret_sig)
{
	static const struct oci_store_ops ops = {
		.name = "noted",
		.get_manifest = noted_get_manifest,
		.list_noted = noted_list,
	};
	struct oci_store noted = { .ops = &ops };
	AUTO(trust_keys) keys = list_of(k);
	struct trust_query q = { .artifact = &artifact,
				 .subject = &none,
				 .repository = REPOSITORY,
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;

	n_read = 0;
	return trust_find(&noted, keys, &q, 1000, NULL, &r, ret_sig, &err);
}

Test(trust_store, takes_a_signature_from_the_list_and_reads_nothing_more)
{
	AUTO(sign_key) a = new_key();
	AUTO_BUF sig = BUF_INIT;
	AUTO_BUF listed = BUF_INIT;
	AUTO_BUF text = BUF_INIT;

	push(a, REPOSITORY, 0);
	cr_assert_eq(find(a, &sig), 0, "%s", err.msg);
	cr_assert_eq(base64_encode(sig.data, sig.len, &text), 0);
	notes[0] = text.data;
	cr_assert_eq(find_noted(a, &listed), 0, "%s", err.msg);
	cr_expect_eq(n_read, 0);
	/* The node keeps the bytes of the signature. */
	cr_assert_eq(listed.len, sig.len);
	cr_expect_arr_eq(listed.data, sig.data, sig.len);
}

Test(trust_store, a_list_that_lies_hides_no_signature_and_makes_none)
{
	static char garbage[] = "!", empty[] = "", odd[] = "QlNTRw==";
	static char *const lies[] = { NULL, garbage, empty, odd };
	AUTO(sign_key) a = new_key();
	AUTO(sign_key) b = new_key();
	AUTO_BUF sig = BUF_INIT;
	AUTO_BUF text = BUF_INIT;

	push(a, REPOSITORY, 0);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		notes[0] = lies[i];
		cr_expect_eq(find_noted(a, NULL), 0, "%s", err.msg);
		cr_expect_eq(n_read, 1);
	}
	/* A valid signature by an unlisted key, and one with a flipped bit. */
	cr_assert_eq(find(a, &sig), 0, "%s", err.msg);
	sig.data[sig.len - 1] ^= 1;
	cr_assert_eq(base64_encode(sig.data, sig.len, &text), 0);
	notes[0] = text.data;
	cr_expect_eq(find_noted(a, NULL), 0, "%s", err.msg);
	cr_expect_eq(n_read, 1);
	cr_expect_eq(find_noted(b, NULL), -ENOKEY);
}

Test(trust_store, looks_at_so_many_and_no_more)
{
	AUTO(sign_key) a = new_key();
	struct trust_signatures all;

	push(a, "reg.example/first", 0);
	for (int i = 0; i < TRUST_SIGNATURES_MAX; i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "reg.example/a%d", i);
		push(a, text, 0);
	}
	cr_assert_eq(trust_fetch(store, &artifact, &all, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(all.n, TRUST_SIGNATURES_MAX);
	cr_expect(all.more);
	trust_signatures_fini(&all);
}

/* Signed by `openssl dgst -sha256 -sign`, over `cosign_payload`. */
static const char p256[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEI6rDpWqHfJUIapN8g0/m38Pe0DGi\n"
	"3ZIFlCIDQKlW5P6Iusa/1Z8DHGqoYS2Jcq0ZOW+JfGvGVYpKLpaJut0L9g==\n"
	"-----END PUBLIC KEY-----\n";
static const char cosign_payload[] =
	"{\"critical\":{\"identity\":{\"docker-reference\":\"" REPOSITORY
	"\"},\"image\":{\"docker-manifest-digest\":\"sha256:"
	"bafebd36189ad3688b7b3915ea55d461"
	"e0bfcfbdde11e54b0a123999fb6be50f\"},\"type\":"
	"\"cosign container image signature\"},\"optional\":null}";
static const char cosign_sig[] =
	"MEUCIQDzRbskpOBzybwHy08IQTDvAwwgGdmA2hDwaxyr9pcgKwIgUv18G8zn"
	"sJvT01Fgaq+dDYGpycJ2qrLSzklZLfZhdSw=";

/* Store a signature as cosign does. */
static void push_cosign(void)
{
	char body[2048], tag[128], name[DIGEST_STR_MAX];
	struct digest config, d;
	int len;

	cr_assert_eq(oci_put_bytes(store, "{}", 2, &config, &err), 0);
	cr_assert_eq(oci_put_bytes(store, cosign_payload,
				   strlen(cosign_payload), &d, &err),
		     0);
	digest_format(&config, name);
	len = snprintf(body, sizeof(body),
		       "{\"schemaVersion\":2,\"mediaType\":\"" MANIFEST_TYPE
		       "\",\"config\":{\"mediaType\":\"application/"
		       "vnd.oci.image.config.v1+json\",\"digest\":\"%s\","
		       "\"size\":2},",
		       name);
	digest_format(&d, name);
	len += snprintf(body + len, sizeof(body) - (size_t)len,
			"\"layers\":[{\"mediaType\":\"" TRUST_COSIGN_TYPE
			"\",\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
			"\"dev.cosignproject.cosign/signature\":\"%s\"}}]}",
			name, strlen(cosign_payload), cosign_sig);
	digest_format(&artifact, name);
	name[6] = '-';
	(void)snprintf(tag, sizeof(tag), "%s.sig", name);
	cr_assert_eq(oci_put_manifest(store, tag, MANIFEST_TYPE, body,
				      (size_t)len, &err),
		     0, "%s", err.msg);
}

Test(trust_store, finds_what_cosign_signed)
{
	AUTO(trust_keys) keys = NULL;
	AUTO_BUF sig = BUF_INIT;
	struct trust_query q = { .artifact = &artifact,
				 .subject = &none,
				 .repository = REPOSITORY,
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;

	push_cosign();
	cr_assert_eq(trust_keys_parse(p256, strlen(p256), &keys, &err), 0);
	cr_assert_eq(trust_find(store, keys, &q, 1000, NULL, &r, &sig, &err), 0,
		     "%s", err.msg);
	cr_expect(r.is_cosign);
	cr_expect(trust_is_cosign(sig.data, sig.len));
	q.claim = TRUST_CLAIM_VERIFIED;
	cr_expect_eq(trust_find(store, keys, &q, 1000, NULL, &r, &sig, &err),
		     -EPERM);
	cr_expect(strstr(err.msg, "'bootseer image verify' does"), "%s",
		  err.msg);
	cr_assert_eq(trust_remove(store, &artifact, &err), 0, "%s", err.msg);
	q.claim = TRUST_CLAIM_SIGNED;
	cr_expect_eq(trust_find(store, keys, &q, 1000, NULL, &r, &sig, &err),
		     -ENODATA);
}

Test(trust_store, forgets_what_is_removed)
{
	AUTO(sign_key) a = new_key();

	cr_assert_eq(trust_remove(store, &artifact, &err), 0, "%s", err.msg);
	push(a, REPOSITORY, 0);
	push(a, REPOSITORY, 5000);
	cr_assert_eq(find(a, NULL), 0, "%s", err.msg);
	cr_assert_eq(trust_remove(store, &artifact, &err), 0, "%s", err.msg);
	cr_expect_eq(find(a, NULL), -ENODATA);
}
