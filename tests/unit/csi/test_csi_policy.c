// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "csi/policy.h"
#include "tests/unit/csi/csi_request.h"

TestSuite(csi_policy, .timeout = 120);

static struct volume_policy *make_policy(const char *rule)
{
	char *rules[] = { (char *)(uintptr_t)rule, NULL };
	struct error err = ERROR_INIT;
	struct volume_policy *p = NULL;

	cr_assert_eq(volume_policy_new(rules, &p, &err), 0, "%s", err.msg);
	return p;
}

/* Decide about a pod of namespace "a" by one rule; the caller frees `store`. */
static int decide(const char *rule, const char *const *words, char **store,
		  struct error *err)
{
	AUTO(volume_policy) p = make_policy(rule);
	struct volume_grant g = { .store = NULL };
	struct volume_request r;
	struct test_publish t;
	int rc;

	test_publish_init(&t, words);
	rc = volume_request_read(&t.p, &r, err);
	cr_assert_eq(rc, 0, "%s", err->msg);
	rc = volume_policy_decide(p, &r, &g, err);
	if (rc == 0 && store)
		*store = steal_ptr(&g.store);
	volume_grant_fini(&g);
	return rc;
}

Test(csi_policy, refuses_rules_that_say_nothing_or_too_much)
{
	static const char *const wrong[] = {
		"",
		"namespace=a",
		"namespace=a kind=image",
		"kind=image image=h/a",
		"namespace=a kind=disk image=h/a",
		"namespace=a kind=image store=s3://b",
		"namespace=a kind=ckpt image=h/a",
		"namespace=a kind=image image=https://h/a",
		"namespace=a kind=image image=h/a/",
		"namespace=a kind=image image=h/a:1",
		"namespace=a kind=image image=h/a memory=1G",
		"namespace=a kind=ckpt store=/srv",
		"namespace=a kind=ckpt store=s3://b access=all",
		"namespace=a kind=ckpt store=s3://b memory=1M",
		"namespace=a kind=ckpt store=s3://b total=1M",
		"namespace=a kind=ckpt store=s3://b total=128M",
		"namespace=a kind=ckpt store=s3://b total=2G memory=4G",
		"namespace=a kind=env store=s3://b total=1G",
		"namespace=a kind=ckpt store=s3://b memory=2000000T",
		"namespace=a kind=ckpt store=s3://b cache=kept",
		"namespace=a kind=ckpt store=s3://b cache=",
		"namespace=a kind=ckpt store=s3://b cache=/a cache=/b",
		"namespace=a kind=ckpt store=s3://b cache-size=1G",
		"namespace=a kind=ckpt store=s3://b cache=/a cache-size=1M",
		"namespace=a kind=env store=s3://b cache=/a",
		"namespace=a kind=ckpt store=s3://b uid=9-7",
		"namespace=a kind=ckpt store=s3://b uid=-7",
		"namespace=a kind=ckpt store=s3://b uid=4294967295",
		"namespace=a kind=ckpt store=s3://b credentials=all",
		"namespace=a kind=ckpt store=s3://b role=x credentials=node",
		"namespace=a kind=ckpt store=file:///srv role=x",
		"namespace=a kind=ckpt store=file:///srv credentials=secret",
		"namespace=a namespace=b kind=ckpt store=s3://b",
		"image=h/a namespace=a kind=image",
		"namespace=a kind=image image=h/a more",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char *rules[] = { (char *)(uintptr_t)wrong[i], NULL };
		struct error err = ERROR_INIT;
		struct volume_policy *p = NULL;

		cr_expect_eq(volume_policy_new(rules, &p, &err), -EINVAL, "%s",
			     wrong[i]);
		cr_expect_not_null(strstr(err.msg, "--allow"), "%s", err.msg);
		volume_policy_free(p);
	}
}

Test(csi_policy, gives_images_below_a_prefix_to_one_namespace)
{
	static const char rule[] = "namespace=a kind=image image=h:5000/team";
	static const struct {
		const char *image;
		int rc;
	} cases[] = {
		{ "h:5000/team:1", 0 },
		{ "h:5000/team/x@sha256:ff", 0 },
		{ "h:5000/team/x:1@sha256:ff", 0 },
		{ "h:5000/teammate:1", -EACCES },
		{ "h:5000/team/../other:1", -EACCES },
		{ "h:5000/team/./x:1", -EACCES },
		{ "h:5000/team//x:1", -EACCES },
		{ "h:5000/other:1", -EACCES },
		{ "h/team:1", -EACCES },
		{ "docker://h:5000/team", -EACCES },
		{ "evil@h:5000/team", -EACCES },
		{ "team", -EACCES },
	};
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(decide(rule,
				    WORDS("kind", "image", "image",
					  cases[i].image),
				    NULL, &err),
			     cases[i].rc, "%s", cases[i].image);
	cr_expect_eq(decide("namespace=b kind=image image=h:5000",
			    WORDS("kind", "image", "image", "h:5000/x:1"), NULL,
			    &err),
		     -EACCES);
	cr_expect_not_null(strstr(err.msg, "namespace=a kind=image "
					   "image=h:5000/x:1"));
	cr_expect_eq(decide("namespace=* kind=image image=h:5000",
			    WORDS("kind", "image", "image", "h:5000/x:1"), NULL,
			    &err),
		     0);
}

Test(csi_policy, gives_folders_below_a_store_with_the_options_of_the_rule)
{
	static const char rule[] =
		"namespace=a kind=ckpt "
		"store=s3://b/team?endpoint=http://h access=write";
	static const struct {
		const char *store, *url; /* NULL: refused */
	} cases[] = {
		{ "s3://b/team", "s3://b/team?endpoint=http://h" },
		{ "s3://b/team?endpoint=http://h",
		  "s3://b/team?endpoint=http://h" },
		{ "s3://b/team/run-7/x.y",
		  "s3://b/team/run-7/x.y?endpoint=http://h" },
		{ "s3://b/team?endpoint=http://evil", NULL },
		{ "s3://b/team/x?endpoint=http://evil", NULL },
		{ "s3://b/team/../other", NULL },
		{ "s3://b/team/x/..", NULL },
		{ "s3://b/team/%2e%2e/other", NULL },
		{ "s3://b/team/./x", NULL },
		{ "s3://b/team//x", NULL },
		{ "s3://b/team/", NULL },
		{ "s3://b/team/x#y", NULL },
		{ "s3://b/teammate", NULL },
		{ "s3://b", NULL },
		{ "S3://b/team", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *url = NULL;
		struct error err = ERROR_INIT;
		int rc = decide(rule,
				WORDS("kind", "ckpt", "store", cases[i].store),
				&url, &err);

		cr_expect_eq(rc, cases[i].url ? 0 : -EACCES, "%s",
			     cases[i].store);
		if (rc == 0)
			cr_expect_str_eq(url, cases[i].url);
	}
}

Test(csi_policy, gives_a_folder_of_a_file_system_whole_or_not_at_all)
{
	static const char rule[] =
		"namespace=a kind=ckpt store=file:///srv/a access=write";
	struct error err = ERROR_INIT;

	cr_expect_eq(decide(rule,
			    WORDS("kind", "ckpt", "store", "file:///srv/a"),
			    NULL, &err),
		     0);
	cr_expect_eq(decide(rule,
			    WORDS("kind", "ckpt", "store", "file:///srv/a/x"),
			    NULL, &err),
		     -EACCES);
	cr_expect_eq(decide("namespace=a kind=env store=s3://b/e",
			    WORDS("kind", "env", "store", "s3://b/e/x"), NULL,
			    &err),
		     -EACCES);
}

Test(csi_policy, bounds_rights_memory_and_ids)
{
	static const char rule[] = "namespace=a kind=ckpt store=s3://b "
				   "access=write memory=128M uid=7-9 gid=5";
	static const struct {
		/* NULL: the request is granted */
		const char *key, *value, *why;
	} cases[] = {
		{ "memory", "128Mi", NULL },
		{ "memory", "129Mi", "allows 64Mi to" },
		{ "memory", "1Mi", "allows 64Mi to" },
		{ "uid", "9", NULL },
		{ "uid", "0", "allows 7 to 9" },
		{ "uid", "10", "allows 7 to 9" },
		{ "gid", "5", NULL },
		{ "gid", "0", "gid 0: the node's rule allows 5" },
	};
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int rc = decide(rule,
				WORDS("kind", "ckpt", "store", "s3://b",
				      cases[i].key, cases[i].value),
				NULL, &err);

		cr_expect_eq(rc, cases[i].why ? -EACCES : 0, "%s=%s",
			     cases[i].key, cases[i].value);
		if (cases[i].why)
			cr_expect_not_null(strstr(err.msg, cases[i].why), "%s",
					   err.msg);
	}
	cr_expect_eq(decide("namespace=a kind=ckpt store=s3://b",
			    WORDS("kind", "ckpt", "store", "s3://b"), NULL,
			    &err),
		     -EACCES);
	cr_expect_not_null(strstr(err.msg, "access=write"), "%s", err.msg);
}

Test(csi_policy, asks_for_a_secret_unless_the_rule_says_another_login)
{
	static const struct {
		const char *rule, *store;
		enum volume_login login;
	} cases[] = {
		{ "namespace=a kind=ckpt store=s3://b access=write", "s3://b",
		  VOLUME_LOGIN_SECRET },
		{ "namespace=a kind=ckpt store=s3://b access=write role=r",
		  "s3://b", VOLUME_LOGIN_ROLE },
		{ "namespace=a kind=ckpt store=s3://b access=write "
		  "credentials=node",
		  "s3://b", VOLUME_LOGIN_NODE },
		{ "namespace=a kind=ckpt store=file:///x access=write",
		  "file:///x", VOLUME_LOGIN_NONE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(volume_policy) p = make_policy(cases[i].rule);
		struct volume_grant g = { .store = NULL };
		struct volume_request r;
		struct test_publish t;

		test_publish_init(&t, WORDS("kind", "ckpt", "store",
					    cases[i].store));
		cr_assert_eq(volume_request_read(&t.p, &r, NULL), 0);
		cr_assert_eq(volume_policy_decide(p, &r, &g, NULL), 0);
		cr_expect_eq(g.login, cases[i].login, "%s", cases[i].rule);
		cr_expect_eq(g.memory, 512 * MIB);
		volume_grant_fini(&g);
	}
}

Test(csi_policy, gives_a_namespace_four_times_the_memory_unless_the_rule_says)
{
	static const struct {
		const char *rule;
		uint64_t total;
	} cases[] = {
		{ "namespace=a kind=ckpt store=s3://b access=write", 2 * GIB },
		{ "namespace=a kind=ckpt store=s3://b access=write memory=4G",
		  16 * GIB },
		{ "namespace=a kind=ckpt store=s3://b access=write total=3G "
		  "memory=1G",
		  3 * GIB },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(volume_policy) p = make_policy(cases[i].rule);
		struct volume_grant g = { .store = NULL };
		struct volume_request r;
		struct test_publish t;

		test_publish_init(&t, WORDS("kind", "ckpt", "store", "s3://b"));
		cr_assert_eq(volume_request_read(&t.p, &r, NULL), 0);
		cr_assert_eq(volume_policy_decide(p, &r, &g, NULL), 0);
		cr_expect_eq(g.total, cases[i].total, "%s", cases[i].rule);
		volume_grant_fini(&g);
	}
}
