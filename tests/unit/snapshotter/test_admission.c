// SPDX-License-Identifier: Apache-2.0
/* Which artifacts a node uses, by rules, keys and signatures; images are in an OCI layout. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/offer_file.h"
#include "snapshotter/node/trust/admission.h"
#include "snapshotter/node/trust/key_revocations.h"
#include "snapshotter/trust.h"

#define HOST "reg.example"
#define REPO "team/app"

static char dir[64], keys_path[128], other_path[128], revoked_path[128];
static char *rules[4];
static struct node_config cfg;
static struct oci_store *store;
static struct error err;
static const struct digest none;
static struct digest artifact;
static size_t artifact_len;

static void put(const char *path, const char *text)
{
	cr_assert_eq(fs_replace_file(path, text, strlen(text), 0644, &err), 0,
		     "%s", err.msg);
}

static void setup(void)
{
	const struct oci_config oc = OCI_CONFIG_INIT;
	static const char body[] = "{\"schemaVersion\":2}";
	struct oci_ref ref;
	char text[128];

	strcpy(dir, "/tmp/test_admission.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(keys_path, sizeof(keys_path), "%s/keys.pem", dir);
	(void)snprintf(other_path, sizeof(other_path), "%s/other.pem", dir);
	(void)snprintf(revoked_path, sizeof(revoked_path), "%s/revoked", dir);
	(void)snprintf(text, sizeof(text), "oci:%s/layout", dir);
	cr_assert_eq(oci_ref_parse(text, &ref, &err), 0);
	cr_assert_eq(oci_store_open(&ref, &oc, true, &store, &err), 0, "%s",
		     err.msg);
	oci_ref_fini(&ref);
	artifact_len = strlen(body);
	cr_assert_eq(digest_of(body, artifact_len, &artifact), 0);
	memset(rules, 0, sizeof(rules));
	cfg = (struct node_config){ .trust = rules, .trust_keys = keys_path };
}

static void teardown(void)
{
	oci_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

TestSuite(admission, .init = setup, .fini = teardown, .timeout = 60);

static struct sign_key *new_key(void)
{
	struct sign_key *k;

	cr_assert_eq(sign_key_new(&k, &err), 0, "%s", err.msg);
	return k;
}

static void list_key(const char *path, const struct sign_key *k,
		     unsigned int uses, int64_t not_after_s)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(trust_key_format(k, NULL, uses, not_after_s, &text, &err),
		     0, "%s", err.msg);
	put(path, text.data);
}

static void sign(const struct sign_key *k, const char *repository,
		 enum trust_claim claim, int64_t not_after_s)
{
	struct trust_statement s = { .artifact = artifact,
				     .claim = claim,
				     .not_after_s = not_after_s };
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len;

	strcpy(s.repository, repository);
	cr_assert_eq(trust_sign(k, &s, data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(trust_push(store, &artifact, artifact_len, data, len, NULL,
				&err),
		     0, "%s", err.msg);
}

/* A rule is borrowed and never written to, so the cast is safe. */
static void set_rule(size_t i, const char *rule)
{
	rules[i] = (char *)(uintptr_t)rule;
}

static struct admission *open_rules(const char *rule,
				    struct key_revocations *revoked)
{
	struct admission *a;

	set_rule(0, rule);
	cr_assert_eq(admission_open(&cfg, revoked, &a, &err), 0, "%s", err.msg);
	return a;
}

/* Judge the artifact; ADMISSION_REASONS: it may be used. */
static enum admission_reason judge(struct admission *a)
{
	enum admission_reason why = ADMISSION_UNKNOWN;
	const struct admission_query q = { .host = HOST,
					   .repo = REPO,
					   .artifact = &artifact,
					   .subject = &none,
					   .why = &why };
	AUTO_BUF evidence = BUF_INIT;
	int rc = admission_judge(a, &q, store, &evidence, &err);

	if (rc == 0)
		return ADMISSION_REASONS;
	cr_expect_eq(rc, -ADMISSION_REFUSED, "%d %s", rc, err.msg);
	cr_expect_eq(err.code, ADMISSION_REFUSED);
	return why;
}

static enum admission_reason judge_by(const char *rule)
{
	struct admission *a = open_rules(rule, NULL);
	enum admission_reason r = judge(a);

	admission_close(a);
	return r;
}

/* -------------------------------------------------------------------- rules --- */

Test(admission, a_rule_decides_before_any_signature)
{
	AUTO(sign_key) k = new_key();

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by("elsewhere.example=sign"), ADMISSION_NO_RULE);
	cr_expect_eq(judge_by(HOST "=off"), ADMISSION_OFF);
	cr_expect_eq(judge_by(HOST "/team=sign"), ADMISSION_REASONS);
	cr_expect_eq(judge_by(HOST "/tea=sign"), ADMISSION_NO_RULE);
	cr_expect_eq(judge_by(NULL), ADMISSION_REASONS);
}

Test(admission, registry_asks_for_no_signature_there_and_elsewhere_for_one)
{
	cr_expect_eq(judge_by(HOST "/team=registry"), ADMISSION_REASONS);
	cr_expect_eq(judge_by(HOST "/other=registry"), ADMISSION_NO_RULE);
}

Test(admission, the_longest_prefix_counts)
{
	AUTO(sign_key) k = new_key();

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	set_rule(1, HOST "/team=off");
	cr_expect_eq(judge_by(HOST "=registry"), ADMISSION_OFF);
	set_rule(1, HOST "/team=sign");
	cr_expect_eq(judge_by(HOST "=registry"), ADMISSION_UNSIGNED);
	set_rule(1, HOST "/team/app2=registry");
	cr_expect_eq(judge_by(HOST "=sign"), ADMISSION_UNSIGNED);
}

/* --------------------------------------------------------------- signatures --- */

Test(admission, each_refusal_has_its_reason_and_each_reason_a_cure)
{
	AUTO(sign_key) k = new_key();
	AUTO(sign_key) stranger = new_key();

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	cr_expect_eq(judge_by(NULL), ADMISSION_UNSIGNED);
	sign(stranger, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by(NULL), ADMISSION_UNKNOWN_KEY);
	cr_assert_eq(trust_remove(store, &artifact, &err), 0);
	sign(k, HOST "/other", TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by(NULL), ADMISSION_OF_OTHER);
	cr_assert_eq(trust_remove(store, &artifact, &err), 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 1000);
	cr_expect_eq(judge_by(NULL), ADMISSION_EXPIRED);
	cr_assert_eq(trust_remove(store, &artifact, &err), 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by(NULL), ADMISSION_REASONS);
	list_key(keys_path, k, TRUST_USE_SIGN, 1000);
	cr_expect_eq(judge_by(NULL), ADMISSION_EXPIRED);
	for (int r = 0; r < ADMISSION_REASONS; r++)
		cr_expect(admission_cure((enum admission_reason)r)[0] != '\0',
			  "%d", r);
}

Test(admission, verified_wants_a_comparison_by_a_key_that_may_say_so)
{
	AUTO(sign_key) k = new_key();

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by("*=verified"), ADMISSION_SAYS_TOO_LITTLE);
	sign(k, HOST "/" REPO, TRUST_CLAIM_VERIFIED, 0);
	cr_expect_eq(judge_by("*=verified"), ADMISSION_SAYS_TOO_LITTLE);
	list_key(keys_path, k, TRUST_USE_VERIFY, 0);
	cr_expect_eq(judge_by("*=verified"), ADMISSION_REASONS);
	cr_expect_eq(judge_by("*=sign"), ADMISSION_REASONS);
}

Test(admission, what_was_accepted_is_the_evidence)
{
	AUTO(sign_key) k = new_key();
	AUTO_BUF evidence = BUF_INIT;
	const struct admission_query q = { .host = HOST,
					   .repo = REPO,
					   .artifact = &artifact,
					   .subject = &none };
	struct trust_statement s;
	struct admission *a;

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	a = open_rules(NULL, NULL);
	cr_assert_eq(admission_judge(a, &q, store, &evidence, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(trust_decode(evidence.data, evidence.len, &s, &err), 0);
	cr_expect(digest_equal(&s.artifact, &artifact));
	admission_close(a);
}

/* --------------------------------------------------------------------- keys --- */

Test(admission, a_rule_with_keys_of_its_own_takes_no_others)
{
	AUTO(sign_key) k = new_key();
	AUTO(sign_key) own = new_key();
	char rule[256];

	(void)snprintf(rule, sizeof(rule), HOST "/team=sign:%s", other_path);
	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	list_key(other_path, own, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by(rule), ADMISSION_UNKNOWN_KEY);
	sign(own, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge_by(rule), ADMISSION_REASONS);
}

Test(admission, a_reload_takes_the_files_as_they_are)
{
	AUTO(sign_key) k = new_key();
	struct admission *a = open_rules(NULL, NULL);

	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_expect_eq(judge(a), ADMISSION_NO_KEYS);
	cr_expect_lt(admission_check(a, &err), 0);
	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	cr_expect_eq(judge(a), ADMISSION_NO_KEYS, "before the reload");
	admission_reload(a);
	cr_expect_eq(judge(a), ADMISSION_REASONS);
	cr_expect_eq(admission_check(a, &err), 0, "%s", err.msg);
	/* A file of keys that got damaged allows nothing any more. */
	put(keys_path, "nonsense\n");
	admission_reload(a);
	cr_expect_eq(judge(a), ADMISSION_NO_KEYS);
	cr_expect(strstr(err.msg, keys_path), "%s", err.msg);
	admission_close(a);
}

Test(admission, a_list_that_everybody_may_write_is_none)
{
	AUTO(sign_key) k = new_key();

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	cr_assert_eq(chmod(keys_path, 0666), 0);
	cr_expect_eq(judge_by(NULL), ADMISSION_NO_KEYS);
}

Test(admission, keys_that_are_all_over_are_told_before_a_start_needs_them)
{
	AUTO(sign_key) k = new_key();
	struct admission *a;

	list_key(keys_path, k, TRUST_USE_SIGN, 1000);
	a = open_rules(NULL, NULL);
	cr_expect_eq(admission_check(a, &err), -ENOKEY);
	cr_expect(strstr(err.msg, "neither over nor revoked"), "%s", err.msg);
	admission_close(a);
}

static struct key_revocations *open_revoked(void)
{
	const struct key_revocations_config rc = { .root = dir,
						   .file = revoked_path };
	struct key_revocations *t;

	cr_assert_eq(key_revocations_open(&rc, &t, &err), 0, "%s", err.msg);
	return t;
}

Test(admission, a_key_that_is_revoked_ends_what_it_allowed)
{
	AUTO(sign_key) k = new_key();
	char id[DIGEST_STR_MAX];
	struct key_revocations *t;
	struct admission *a;

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	put(revoked_path, "");
	t = open_revoked();
	a = open_rules(NULL, t);
	cr_expect_eq(judge(a), ADMISSION_REASONS);
	digest_format(sign_key_id(k), id);
	put(revoked_path, id);
	cr_assert_eq(key_revocations_reload(t, &err), 0, "%s", err.msg);
	cr_expect_eq(judge(a), ADMISSION_REVOKED);
	cr_expect_eq(admission_check(a, &err), -ENOKEY);
	admission_close(a);
	key_revocations_close(t);
}

Test(admission, a_damaged_list_of_revoked_keys_allows_none)
{
	AUTO(sign_key) k = new_key();
	char kept[128];
	struct key_revocations *t;
	struct admission *a;

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	sign(k, HOST "/" REPO, TRUST_CLAIM_SIGNED, 0);
	(void)snprintf(kept, sizeof(kept), "%s/" TRUST_REVOKED_NAME, dir);
	put(kept, "half a li");
	put(revoked_path, "");
	t = open_revoked();
	a = open_rules(NULL, t);
	cr_expect_eq(judge(a), ADMISSION_LIST_DAMAGED);
	admission_close(a);
	key_revocations_close(t);
}

/* ----------------------------------------------------------------- refusals --- */

static void note(struct admission *a, const char *image,
		 enum admission_reason reason)
{
	struct error why = ERROR_INIT;

	(void)error_set(&why, ADMISSION_REFUSED, "not trusted: %d",
			(int)reason);
	admission_note(a, image, reason, &why);
}

static const char *member(const json_t *list, size_t i, const char *key)
{
	return json_string_value(json_object_get(json_array_get(list, i), key));
}

Test(admission, refusals_are_told_newest_first_until_they_are_settled)
{
	struct admission *a = open_rules(NULL, NULL);
	AUTO_JSON *list = NULL;
	AUTO_JSON *after = NULL;
	AUTO_JSON *at_last = NULL;

	note(a, "h/a:1", ADMISSION_UNSIGNED);
	note(a, "h/b:1", ADMISSION_NO_RULE);
	note(a, "h/a:1", ADMISSION_EXPIRED);
	list = admission_refusals(a);
	cr_assert_eq(json_array_size(list), 2);
	cr_expect_str_eq(member(list, 0, "image"), "h/b:1");
	cr_expect_str_eq(member(list, 1, "image"), "h/a:1");
	cr_expect_str_eq(member(list, 1, "cure"),
			 admission_cure(ADMISSION_EXPIRED));
	admission_settle(a, "h/b:1");
	after = admission_refusals(a);
	cr_assert_eq(json_array_size(after), 1);
	cr_expect_str_eq(member(after, 0, "image"), "h/a:1");
	admission_reload(a);
	at_last = admission_refusals(a);
	cr_expect_eq(json_array_size(at_last), 0);
	admission_close(a);
}

Test(admission, so_many_refusals_are_kept_and_no_more)
{
	struct admission *a = open_rules(NULL, NULL);
	AUTO_JSON *list = NULL;
	char image[32];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(image, sizeof(image), "h/a:%d", i);
		note(a, image, ADMISSION_UNSIGNED);
	}
	list = admission_refusals(a);
	cr_expect_eq(json_array_size(list), 64);
	cr_expect_str_eq(member(list, 0, "image"), "h/a:999");
	cr_expect_str_eq(member(list, 63, "image"), "h/a:936");
	admission_close(a);
}

Test(admission, believes_an_offer_by_its_signature_alone)
{
	AUTO(sign_key) k = new_key();
	struct trust_statement s = { .artifact = artifact,
				     .claim = TRUST_CLAIM_SIGNED,
				     .repository = HOST "/" REPO };
	const struct admission_query q = { .host = HOST,
					   .repo = REPO,
					   .artifact = &artifact,
					   .subject = &none };
	static const struct {
		const char *rule;
		int rc;
	} all[] = { { "*=sign", 0 },
		    { "*=verified", -ADMISSION_REFUSED },
		    { HOST "=registry", -ADMISSION_REFUSED },
		    { HOST "=off", -ADMISSION_REFUSED } };
	uint8_t data[TRUST_SIGNATURE_MAX];
	AUTO_BUF sig = BUF_INIT;
	AUTO_BUF nothing = BUF_INIT;
	size_t len;

	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	cr_assert_eq(trust_sign(k, &s, data, &len, &err), 0, "%s", err.msg);
	cr_assert_eq(buf_append(&sig, data, len), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct admission *a = open_rules(all[i].rule, NULL);

		cr_expect_eq(admission_judge_offer(a, &q, &sig, &err),
			     all[i].rc, "%s", all[i].rule);
		cr_expect_eq(admission_judge_offer(a, &q, &nothing, &err),
			     -ADMISSION_REFUSED);
		admission_close(a);
	}
}

/* Write a file into the image's folder: its signature, or the mark of an index of the service. */
static void put_in_folder(const char *name, const void *data, size_t len)
{
	AUTO_FREE char *path = fs_join(dir, name);

	if (data)
		cr_assert_eq(fs_replace_file(path, data, len, 0600, &err), 0);
	else
		(void)unlink(path);
}

Test(admission, of_an_image_that_is_here_is_by_its_folder_and_the_rule)
{
	AUTO(sign_key) k = new_key();
	struct trust_statement s = { .artifact = artifact,
				     .claim = TRUST_CLAIM_SIGNED,
				     .repository = HOST "/" REPO };
	struct image i = { .dir = dir, .artifact = { .digest = artifact } };
	static char host[] = HOST, repo[] = REPO;
	static const struct {
		const char *rule;
		bool is_signed, is_offer;
		const char *scope; /* NULL: the image is refused */
	} all[] = { { "*=sign", true, false, "" },
		    { "*=sign", false, false, NULL },
		    { HOST "/" REPO "=sign", true, true, HOST "/" REPO },
		    { HOST "=registry", false, false, HOST },
		    { HOST "=registry", true, true, NULL },
		    { HOST "=off", true, false, NULL } };
	uint8_t data[TRUST_SIGNATURE_MAX];
	size_t len;

	i.state.host = host;
	i.state.repo = repo;
	list_key(keys_path, k, TRUST_USE_SIGN, 0);
	cr_assert_eq(trust_sign(k, &s, data, &len, &err), 0, "%s", err.msg);
	for (size_t n = 0; n < ARRAY_SIZE(all); n++) {
		struct admission *a = open_rules(all[n].rule, NULL);
		const char *scope = NULL;
		int rc;

		put_in_folder(EVIDENCE_FILE, all[n].is_signed ? data : NULL,
			      len);
		put_in_folder(OFFER_FILE, all[n].is_offer ? "x" : NULL, 1);
		rc = admission_recheck(a, &i, NULL, &scope, &err);
		cr_expect_eq(rc, all[n].scope ? 0 : -ADMISSION_REFUSED, "%s",
			     all[n].rule);
		if (rc == 0)
			cr_expect_str_eq(scope, all[n].scope);
		admission_close(a);
	}
}
