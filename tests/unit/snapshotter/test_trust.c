// SPDX-License-Identifier: Apache-2.0
/* Signatures, keys and patterns, without a store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "snapshotter/trust.h"

/* Keys of RFC 8032, 7.1, TEST 1: the secret key and its public half. */
static const char private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
	"-----END PRIVATE KEY-----\n";
#define PUBLIC \
	"-----BEGIN PUBLIC KEY-----\n" \
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n" \
	"-----END PUBLIC KEY-----\n"
/* Another public key: TEST 2. */
#define OTHER \
	"-----BEGIN PUBLIC KEY-----\n" \
	"MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n" \
	"-----END PUBLIC KEY-----\n"
/* A key for ECDSA P-256, the kind of cosign.pub. */
#define P256 \
	"-----BEGIN PUBLIC KEY-----\n" \
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEI6rDpWqHfJUIapN8g0/m38Pe0DGi\n" \
	"3ZIFlCIDQKlW5P6Iusa/1Z8DHGqoYS2Jcq0ZOW+JfGvGVYpKLpaJut0L9g==\n" \
	"-----END PUBLIC KEY-----\n"
#define BOTH_USES "uses: sign verify\n"

static struct error err;
static const struct digest none;
static struct digest artifact, image;
static char dir[64];

static void setup(void)
{
	memset(artifact.b, 0xab, sizeof(artifact.b));
	memset(image.b, 0xcd, sizeof(image.b));
	strcpy(dir, "/tmp/test_trust.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
}

static void teardown(void)
{
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

TestSuite(trust, .init = setup, .fini = teardown, .timeout = 30);

static struct trust_statement example(void)
{
	struct trust_statement s = { .artifact = artifact,
				     .subject = image,
				     .claim = TRUST_CLAIM_SIGNED,
				     .repository = "reg.example:5000/team/*",
				     .not_before_s = 1000,
				     .not_after_s = 2000 };

	return s;
}

static struct trust_query question(void)
{
	struct trust_query q = { .artifact = &artifact,
				 .subject = &image,
				 .repository = "reg.example:5000/team/app",
				 .claim = TRUST_CLAIM_SIGNED };

	return q;
}

static void put_file(const char *name, const char *text, unsigned int mode,
		     char ret[128])
{
	(void)snprintf(ret, 128, "%s/%s", dir, name);
	cr_assert_eq(fs_replace_file(ret, text, strlen(text), 0600, &err), 0);
	cr_assert_eq(chmod(ret, mode), 0);
}

static struct sign_key *private_key(void)
{
	struct sign_key *k;
	char path[128];

	put_file("key", private_pem, 0600, path);
	cr_assert_eq(sign_key_load(path, &k, &err), 0, "%s", err.msg);
	return k;
}

static struct trust_keys *keys(const char *text)
{
	struct trust_keys *k;

	cr_assert_eq(trust_keys_parse(text, strlen(text), &k, &err), 0, "%s",
		     err.msg);
	return k;
}

static size_t sign(uint8_t ret[TRUST_SIGNATURE_MAX],
		   const struct trust_statement *s)
{
	AUTO(sign_key) k = private_key();
	size_t len;

	cr_assert_eq(trust_sign(k, s, ret, &len, &err), 0, "%s", err.msg);
	return len;
}

/* Sign `s`, and return the result of trust_check() for `q` at time 1500. */
static int check(const char *list, const struct trust_statement *s,
		 const struct trust_query *q)
{
	AUTO(trust_keys) k = keys(list);
	uint8_t data[TRUST_SIGNATURE_MAX];
	struct trust_result r;
	size_t len = sign(data, s);

	return trust_check(k, q, data, len, 1500, NULL, &r, &err);
}

/* ----------------------------------------------------------------- statements --- */

Test(trust, is_written_as_it_always_was)
{
	AUTO_BUF golden = BUF_INIT;
	struct trust_statement s = example(), d;
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len = sign(data, &s);

	cr_assert_eq(fs_read_file(GOLDEN_DIR "/signature-1", 4096, &golden,
				  &err),
		     0, "%s", err.msg);
	cr_expect_eq(golden.len, len);
	cr_expect_arr_eq(data, golden.data, len);
	cr_assert_eq(trust_decode(golden.data, golden.len, &d, &err), 0);
	cr_expect_str_eq(d.repository, "reg.example:5000/team/*");
	cr_expect(digest_equal(&d.artifact, &artifact));
	cr_expect(digest_equal(&d.subject, &image));
	cr_expect_eq(d.not_before_s, 1000);
	cr_expect_eq(d.not_after_s, 2000);
	cr_expect_eq(d.claim, TRUST_CLAIM_SIGNED);
}

Test(trust, is_believed_for_its_artifact_image_repository_and_time_only)
{
	AUTO(trust_keys) k = keys("name: release\n" PUBLIC);
	struct trust_statement s = example();
	struct trust_query q = question(), other = q;
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len = sign(data, &s);
	struct trust_result r;

	cr_assert_eq(trust_check(k, &q, data, len, 1000, NULL, &r, &err), 0,
		     "%s", err.msg);
	cr_expect_str_eq(r.key_name, "release");
	cr_expect_eq(r.not_after_s, 2000);
	cr_expect_eq(r.claim, TRUST_CLAIM_SIGNED);
	cr_expect_not(r.is_cosign);
	cr_expect_eq(trust_check(k, &q, data, len, 999, NULL, &r, &err),
		     -EKEYREJECTED);
	cr_expect_eq(trust_check(k, &q, data, len, 2000, NULL, &r, &err),
		     -EKEYEXPIRED);
	cr_expect(strstr(err.msg, "1970-01-01T00:33:20Z"), "%s", err.msg);
	other.artifact = &image;
	cr_expect_eq(trust_check(k, &other, data, len, 1500, NULL, &r, &err),
		     -EKEYREJECTED);
	cr_expect(strstr(err.msg, "another artifact"), "%s", err.msg);
	other = q;
	other.subject = &none;
	cr_expect_eq(trust_check(k, &other, data, len, 1500, NULL, &r, &err),
		     -EKEYREJECTED);
	cr_expect(strstr(err.msg, "another image"), "%s", err.msg);
	other = q;
	other.repository = "reg.example:5000/other/app";
	cr_expect_eq(trust_check(k, &other, data, len, 1500, NULL, &r, &err),
		     -EKEYREJECTED);
	cr_expect(strstr(err.msg, "reg.example:5000/other/app"), "%s", err.msg);
}

Test(trust, does_not_believe_one_changed_bit)
{
	AUTO(trust_keys) k = keys(BOTH_USES PUBLIC);
	struct trust_statement s = example();
	struct trust_query q = question();
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len = sign(data, &s);
	struct trust_result r;

	for (size_t bit = 0; bit < len * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_lt(trust_check(k, &q, data, len, 1500, NULL, &r,
					 NULL),
			     0, "bit %zu", bit);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t n = 0; n < len; n++)
		cr_assert_eq(trust_check(k, &q, data, n, 1500, NULL, &r, NULL),
			     -EBADMSG, "%zu bytes", n);
	cr_expect_eq(trust_check(k, &q, data, len, 1500, NULL, &r, &err), 0);
}

Test(trust, does_not_believe_strangers)
{
	struct trust_statement s = example();
	struct trust_query q = question();

	cr_expect_eq(check(OTHER, &s, &q), -ENOKEY);
	cr_expect_eq(check(P256, &s, &q), -ENOKEY);
	cr_expect_eq(check(P256 OTHER PUBLIC, &s, &q), 0, "%s", err.msg);
}

Test(trust, gives_a_claim_only_to_keys_that_may_make_it)
{
	struct trust_statement s = example();
	struct trust_query q = question();

	q.claim = TRUST_CLAIM_VERIFIED;
	cr_expect_eq(check(BOTH_USES PUBLIC, &s, &q), -EPERM);
	cr_expect(strstr(err.msg, "image verify"), "%s", err.msg);
	s.claim = TRUST_CLAIM_VERIFIED;
	cr_expect_eq(check(BOTH_USES PUBLIC, &s, &q), 0, "%s", err.msg);
	cr_expect_eq(check("uses: verify\n" PUBLIC, &s, &q), 0);
	/* A key without "uses" may sign, but not verify. */
	cr_expect_eq(check(PUBLIC, &s, &q), -EPERM);
	q.claim = TRUST_CLAIM_SIGNED;
	cr_expect_eq(check("uses: verify\n" PUBLIC, &s, &q), 0);
	s.claim = TRUST_CLAIM_SIGNED;
	cr_expect_eq(check("uses: verify\n" PUBLIC, &s, &q), -EPERM);
}

Test(trust, ends_with_its_key)
{
	struct trust_statement s = example();
	struct trust_query q = question();

	cr_expect_eq(check("not-after: 1970-01-01T00:25:00Z\n" PUBLIC, &s, &q),
		     -EKEYEXPIRED);
	cr_expect_eq(check("not-after: 1970-01-01T00:25:01Z\n" PUBLIC, &s, &q),
		     0, "%s", err.msg);
	s.not_after_s = 0;
	cr_expect_eq(check("not-after: 1970-01-02\n" PUBLIC, &s, &q), 0);
}

static bool has_revoked(void *arg, const struct digest *key)
{
	return digest_equal(arg, key);
}

Test(trust, does_not_believe_a_revoked_key)
{
	AUTO(trust_keys) k = keys(PUBLIC);
	AUTO(sign_key) own = private_key();
	struct trust_statement s = example();
	struct trust_query q = question();
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len = sign(data, &s);
	struct digest gone = *sign_key_id(own);
	struct trust_revoked revoked = { has_revoked, &gone };
	struct trust_result r;

	cr_expect_eq(trust_check(k, &q, data, len, 1500, &revoked, &r, &err),
		     -EKEYREVOKED);
	gone = none;
	cr_expect_eq(trust_check(k, &q, data, len, 1500, &revoked, &r, &err),
		     0);
}

Test(trust, is_no_signature_of_another_kind)
{
	AUTO(trust_keys) k = keys(PUBLIC);
	AUTO(sign_key) own = private_key();
	struct trust_statement s = example();
	struct trust_query q = question();
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len = sign(data, &s);
	struct trust_result r;

	/* The same key signs the same bytes, but without the domain of statements. */
	cr_assert_eq(sign_key_sign(own, data, len - SIGN_KEY_SIGNATURE,
				   data + len - SIGN_KEY_SIGNATURE, &err),
		     0);
	cr_expect_eq(trust_check(k, &q, data, len, 1500, NULL, &r, &err),
		     -EBADMSG);
}

Test(trust, refuses_to_sign_nonsense)
{
	AUTO(sign_key) k = private_key();
	struct trust_statement s = example();
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len;

	strcpy(s.repository, "*");
	cr_expect_eq(trust_sign(k, &s, data, &len, &err), -EINVAL);
	s = example();
	s.not_after_s = 1000;
	cr_expect_eq(trust_sign(k, &s, data, &len, &err), -EINVAL);
	s = example();
	s.claim = 0;
	cr_expect_eq(trust_sign(k, &s, data, &len, &err), -EINVAL);
}

/* --------------------------------------------------------------- repositories --- */

static const char *name_of(const char *ref)
{
	static char name[TRUST_PATTERN_MAX + 1];
	struct oci_ref r;

	cr_assert_eq(oci_ref_parse(ref, &r, &err), 0, "%s", err.msg);
	if (trust_repository(&r, name, &err) < 0)
		strcpy(name, "none");
	oci_ref_fini(&r);
	return name;
}

Test(trust, names_a_repository_in_one_way)
{
	cr_expect_str_eq(name_of("docker://Reg.Example:5000/a/b:1"),
			 "reg.example:5000/a/b");
	cr_expect_str_eq(name_of("reg.example/a@sha256:"
				 "00000000000000000000000000000000"
				 "00000000000000000000000000000000"),
			 "reg.example/a");
	cr_expect_str_eq(name_of("docker.io/app"), "docker.io/library/app");
	cr_expect_str_eq(name_of("index.docker.io/team/app"),
			 "docker.io/team/app");
	cr_expect_str_eq(name_of("registry-1.docker.io/library/app:x"),
			 "docker.io/library/app");
	cr_expect_str_eq(name_of("oci:dir:tag"), "none");
}

Test(trust, matches_a_pattern_at_whole_names_only)
{
	static const struct {
		const char *pattern, *repository;
		bool matches;
	} rows[] = {
		{ "reg/a", "reg/a", true },
		{ "reg/a", "reg/ab", false },
		{ "reg/a", "reg/a/b", false },
		{ "reg/a/*", "reg/a/b", true },
		{ "reg/a/*", "reg/a/b/c", true },
		{ "reg/a/*", "reg/a", false },
		{ "reg/a/*", "reg/ab", false },
		{ "reg/a/*", "reg/ab/c", false },
		{ "reg/*", "reg/a", true },
		{ "reg/*", "reg:5000/a", false },
		{ "reg:5000/*", "reg:5000/a", true },
		{ "reg:5000/*", "reg:50000/a", false },
		{ "reg:500/*", "reg:5000/a", false },
		{ "docker.io/library/*", "docker.io/library/app", true },
		{ "docker.io/library/*", "docker.io/team/app", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_eq(trust_pattern_check(rows[i].pattern, &err), 0,
			     "%s: %s", rows[i].pattern, err.msg);
		cr_expect_eq(trust_pattern_matches(rows[i].pattern,
						   rows[i].repository),
			     rows[i].matches, "%s %s", rows[i].pattern,
			     rows[i].repository);
	}
}

Test(trust, refuses_other_patterns)
{
	static const char *const bad[] = {
		"",
		"*",
		"/*",
		"reg",
		"reg/",
		"reg/a*",
		"reg/*/b",
		"reg/a/",
		"reg/**",
		"reg/a/**",
		"*/a",
		"Reg/a",
		"reg/A",
		"reg/a:1",
		"docker.io/app",
		"reg/a b",
		"reg/../a",
		"reg//a",
		"docker://reg/a",
		"oci:reg/a",
		"reg/a/*/*",
		"index.docker.io/*",
		"reg/a@sha256:00",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(trust_pattern_check(bad[i], &err), -EINVAL, "%s",
			     bad[i]);
	cr_expect_eq(trust_pattern_check("docker.io/app", &err), -EINVAL);
	cr_expect(strstr(err.msg, "docker.io/library/app"), "%s", err.msg);
}

/* ----------------------------------------------------------------------- keys --- */

Test(trust, reads_a_list_of_keys)
{
	AUTO(trust_keys)
	k = keys("# the old one\n"
		 "name: release 1\n"
		 "not-after: 2027-01-31\n" PUBLIC "\n"
		 "name:  release 2 \r\n"
		 "uses: sign verify\r\n" OTHER P256);

	cr_assert_eq(k->n, 3);
	cr_expect_str_eq(k->v[0].name, "release 1");
	cr_expect_eq(k->v[0].uses, TRUST_USE_SIGN);
	cr_expect_eq(k->v[0].not_after_s, 1801353600);
	cr_expect_str_eq(k->v[1].name, "release 2");
	cr_expect_eq(k->v[1].uses, TRUST_USE_SIGN | TRUST_USE_VERIFY);
	cr_expect_eq(k->v[1].not_after_s, 0);
	cr_expect_str_eq(k->v[2].name, "");
	cr_expect_eq(verify_key_kind(k->v[2].key), VERIFY_KEY_P256);
}

Test(trust, passes_over_an_entry_that_was_appended_twice)
{
	static const char text[] = "name: a\n" PUBLIC "name: a\n" PUBLIC;
	struct trust_keys *k;

	cr_assert_eq(trust_keys_parse(text, strlen(text), &k, NULL), 0);
	cr_expect_eq(k->n, 1);
	trust_keys_free(k);
}

Test(trust, refuses_lists_that_can_be_misread)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "no public key" },
		{ "words\n", "line 1" },
		{ "# nothing\n", "no public key" },
		{ "name: a\n", "no key behind" },
		{ PUBLIC "uses: verify\n", "no key behind" },
		{ "uses: admin\n" PUBLIC, "'uses'" },
		{ "uses:\n" PUBLIC, "no value" },
		{ "not-after: soon\n" PUBLIC, "YYYY-MM-DD" },
		{ "not-after: 2027-01-31x\n" PUBLIC, "YYYY-MM-DD" },
		{ "expires: 2027-01-31\n" PUBLIC, "line 1" },
		{ PUBLIC "\nuses: verify\n" PUBLIC, "twice" },
		{ "-----BEGIN PUBLIC KEY-----\nMCow\n", "no end" },
		{ "-----BEGIN CERTIFICATE-----\n", "no public key" },
	};
	struct trust_keys *k;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_lt(trust_keys_parse(rows[i].text,
					      strlen(rows[i].text), &k, &err),
			     0, "%s", rows[i].text);
		cr_expect(strstr(err.msg, rows[i].says), "%s", err.msg);
	}
	cr_expect_eq(trust_keys_parse(private_pem, strlen(private_pem), &k,
				      &err),
		     -EINVAL);
	cr_expect(strstr(err.msg, "private"), "%s", err.msg);
}

Test(trust, loads_a_file_or_a_folder_that_not_everybody_writes)
{
	AUTO(trust_keys) file = NULL;
	AUTO(trust_keys) folder = NULL;
	struct trust_keys *none_there;
	char path[128];

	put_file("b.pub", PUBLIC, 0644, path);
	cr_assert_eq(trust_keys_load(path, &file, &err), 0, "%s", err.msg);
	cr_expect_eq(file->n, 1);
	cr_assert_eq(chmod(path, 0666), 0);
	cr_expect_eq(trust_keys_load(path, &none_there, &err), -EACCES);
	cr_expect_eq(trust_keys_load(dir, &none_there, &err), -EACCES);
	cr_assert_eq(chmod(path, 0644), 0);
	put_file("a.pem", OTHER, 0644, path);
	put_file("notes.txt", "words", 0644, path);
	cr_assert_eq(trust_keys_load(dir, &folder, &err), 0, "%s", err.msg);
	cr_expect_eq(folder->n, 2);
	cr_expect_eq(trust_keys_load("/nowhere", &none_there, &err), -ENOENT);
}

Test(trust, makes_keys_and_their_entries)
{
	AUTO(sign_key) made = NULL;
	AUTO(sign_key) loaded = NULL;
	AUTO(trust_keys) list = NULL;
	AUTO_BUF private = BUF_INIT;
	AUTO_BUF public = BUF_INIT;
	struct sign_key *none_there;
	char path[128];

	cr_assert_eq(sign_key_new(&made, &err), 0, "%s", err.msg);
	cr_assert_eq(sign_key_format(made, &private, &err), 0);
	cr_assert_eq(trust_key_format(made, "me@here", TRUST_USE_SIGN, 1500,
				      &public, &err),
		     0, "%s", err.msg);
	put_file("new", private.data, 0640, path);
	cr_expect_eq(sign_key_load(path, &none_there, &err), -EACCES);
	cr_expect(strstr(err.msg, "chmod 600"), "%s", err.msg);
	put_file("new", private.data, 0400, path);
	cr_assert_eq(sign_key_load(path, &loaded, &err), 0, "%s", err.msg);
	list = keys(public.data);
	cr_assert_eq(list->n, 1);
	cr_expect_str_eq(list->v[0].name, "me@here");
	cr_expect_eq(list->v[0].not_after_s, 1500);
	cr_expect(digest_equal(verify_key_id(list->v[0].key),
			       sign_key_id(loaded)));
}

/* --------------------------------------------------------------------- cosign --- */

#define PAYLOAD(reference, type) \
	"{\"critical\":{\"identity\":{\"docker-reference\":\"" reference \
	"\"},\"image\":{\"docker-manifest-digest\":\"sha256:" \
	"abababababababababababababababab" \
	"abababababababababababababababab\"},\"type\":\"" type \
	"\"},\"optional\":null}"
#define COSIGN_IMAGE "cosign container image signature"

/* The signature was made by `openssl dgst -sha256 -sign`. */
static const char payload[] =
	PAYLOAD("reg.example:5000/team/app", COSIGN_IMAGE);
static const char payload_sig[] =
	"MEYCIQDHzOk3+Y7PrEEOqASvHPj3DfXzQ+kv+CNr3W1+RfO6BgIhAPYWspqyttzW3z1j"
	"GFLUDTGSfY5zQ0cnSw9CSCWNHBCU";
static const char hub_payload[] =
	PAYLOAD("index.docker.io/library/app", COSIGN_IMAGE);
static const char hub_sig[] =
	"MEQCIHDL9/QxNAioNVDXH3vi7gthFC05Oq3dJOZQl9r+LWRrAiBzDOPWVsk6vjvIt9hd"
	"OAR2hQLLYV+JZo2leatvOcFGlg==";
static const char odd_payload[] =
	PAYLOAD("reg.example:5000/team/app", "something else");
static const char odd_sig[] =
	"MEQCIGMLSiJnCQoIJpbU/q6Kek2UblJoRuLJ70GGLCKx7adnAiAsiHOd1Bdg2kqheMen"
	"ZMaOjKxZSaiJ9nZrDitoezjzxg==";

static int check_cosign(const char *list, const char *text, const char *sig,
			const struct trust_query *q)
{
	AUTO(trust_keys) k = keys(list);
	AUTO_BUF raw = BUF_INIT;
	AUTO_BUF whole = BUF_INIT;
	struct trust_result r;
	int rc;

	cr_assert_eq(base64_decode(sig, strlen(sig), &raw), 0);
	cr_assert_eq(trust_wrap_cosign(text, strlen(text), raw.data, raw.len,
				       &whole, &err),
		     0);
	cr_expect(trust_is_cosign(whole.data, whole.len));
	rc = trust_check(k, q, whole.data, whole.len, 1500, NULL, &r, &err);
	if (rc == 0)
		cr_expect(r.is_cosign);
	return rc;
}

Test(trust, takes_what_cosign_signed_for_the_same_artifact_and_repository)
{
	struct trust_query q = question(), other = q;

	cr_expect_eq(check_cosign(OTHER P256, payload, payload_sig, &q), 0,
		     "%s", err.msg);
	cr_expect_eq(check_cosign(OTHER, payload, payload_sig, &q), -ENOKEY);
	cr_expect_eq(check_cosign(P256, hub_payload, payload_sig, &q), -ENOKEY,
		     "another payload");
	other.artifact = &image;
	cr_expect_eq(check_cosign(P256, payload, payload_sig, &other),
		     -EKEYREJECTED);
	other = q;
	other.repository = "reg.example:5000/team/app2";
	cr_expect_eq(check_cosign(P256, payload, payload_sig, &other),
		     -EKEYREJECTED);
	cr_expect_eq(check_cosign(P256, hub_payload, hub_sig, &q),
		     -EKEYREJECTED);
	other.repository = "docker.io/library/app";
	cr_expect_eq(check_cosign(P256, hub_payload, hub_sig, &other), 0, "%s",
		     err.msg);
	cr_expect_eq(check_cosign(P256, odd_payload, odd_sig, &q),
		     -EKEYREJECTED);
	/* cosign makes no claim about layers, whatever its key may be used for. */
	other = q;
	other.claim = TRUST_CLAIM_VERIFIED;
	cr_expect_eq(check_cosign(BOTH_USES P256, payload, payload_sig, &other),
		     -EPERM);
	cr_expect_eq(check_cosign("uses: verify\n" P256, payload, payload_sig,
				  &q),
		     -EPERM);
}

/* Signed with cosign 2.6.1: cosign sign --key --tlog-upload=false. */
Test(trust, takes_what_cosign_itself_made)
{
	static const char text[] =
		"{\"critical\":{\"identity\":{\"docker-reference\":"
		"\"127.0.0.1:5971/team/app\"},\"image\":{"
		"\"docker-manifest-digest\":\"sha256:"
		"846c8e04c658278b0737fee8d9982f6f"
		"e597bbef8b418438c182ff1788a272a6\"},\"type\":"
		"\"cosign container image signature\"},\"optional\":null}";
	static const char list[] =
		"-----BEGIN PUBLIC KEY-----\n"
		"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEcAcq5QG4fqjICrL09BJ0VccDrNQK\n"
		"FhmuK/dnZOHGeFtCXBczItejedS69l9iHx+kfmz7mZqfhhtholGduQdzdA==\n"
		"-----END PUBLIC KEY-----\n";
	static const char sig[] =
		"MEUCIQCgaCg+mtnds5UN5DMC/9DqqeMKcYIKFHfCupUjk8bM0AIgfXxnrAs+"
		"srMkJGytTm1va6jBk2/3G/anQD1WhEUubWQ=";
	struct trust_query q = question();
	struct digest d;

	cr_assert_eq(digest_parse("sha256:846c8e04c658278b0737fee8d9982f6f"
				  "e597bbef8b418438c182ff1788a272a6",
				  &d, &err),
		     0);
	q.artifact = &d;
	q.repository = "127.0.0.1:5971/team/app";
	cr_expect_eq(check_cosign(list, text, sig, &q), 0, "%s", err.msg);
	q.repository = "127.0.0.1:5971/team/app2";
	cr_expect_eq(check_cosign(list, text, sig, &q), -EKEYREJECTED);
}
