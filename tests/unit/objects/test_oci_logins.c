// SPDX-License-Identifier: Apache-2.0
/* Logins of pods, and the kubelet's credential provider plugins. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "objects/oci_hosts.h"
#include "objects/oci_providers.h"
#include "objects/oci_registry_auth.h"
#include "logins_fixture.h"
#include "oci_fixture.h"

TestSuite(oci_logins, .timeout = 120);

static int show(struct oci_logins *l, const char *repo, const char *by,
		const char *password, int64_t at)
{
	const struct oci_login login = { .host = "h:1",
					 .repo = repo,
					 .shown_by = by,
					 .user = "u",
					 .password = password };

	return oci_logins_show(l, &login, at, NULL);
}

Test(oci_logins, are_for_their_repository_alone)
{
	static const char *const others[] = { "team",      "team/app2",
					      "Team/app",  "team/app/",
					      "team//app", "" };
	struct oci_logins *l = new_logins();
	uint64_t id;

	cr_assert_eq(show(l, "team/app", "ns", "p", 1), 1);
	cr_assert_eq(show(l, "team/app", "ns", "p", 2), 0, "it is there");
	expect_next(l, "team/app", "p");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect_next(l, others[i], NULL);
	cr_expect_null(next_password(l, "h:2", "team/app", &id));
	cr_expect_null(next_password(l, "h", "team/app", &id));
	oci_logins_free(l);
}

Test(oci_logins, that_worked_go_first_and_refused_ones_not_at_all)
{
	struct oci_logins *l = new_logins();
	uint64_t good, bad;

	(void)!show(l, "r", "a", "good", 1);
	free(next_password(l, "h:1", "r", &good));
	oci_logins_note(l, good, true);
	(void)!show(l, "r", "b", "wrong", 2);
	expect_next(l, "r", "good");
	oci_logins_note(l, good, false);
	expect_next(l, "r", "wrong");
	free(next_password(l, "h:1", "r", &bad));
	oci_logins_note(l, bad, false);
	expect_next(l, "r", NULL);
	/* A login that is shown again is thought to be good. */
	(void)!show(l, "r", "a", "good", 3);
	expect_next(l, "r", "good");
	oci_logins_free(l);
}

Test(oci_logins, of_a_namespace_that_shows_many_displace_its_own_only)
{
	struct oci_logins *l = new_logins();
	char text[32];

	(void)!show(l, "r", "quiet", "p", 1);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(text, sizeof(text), "wrong%d", i);
		cr_assert_eq(show(l, "r", "loud", text, 2 + i), 1);
	}
	for (int i = 0; i < 2 * OCI_LOGINS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "repo%d", i);
		cr_assert_eq(show(l, text, "loud", "p", 1000 + i), 1);
	}
	/* All of the other's are refused, one after the other. */
	for (int i = 0; i < OCI_LOGINS_EACH; i++) {
		uint64_t id;
		AUTO_FREE char *got = next_password(l, "h:1", "r", &id);

		if (got && strncmp(got, "wrong", 5) == 0)
			oci_logins_note(l, id, false);
	}
	expect_next(l, "r", "p");
	oci_logins_free(l);
}

Test(oci_logins, that_are_new_are_news_for_their_repository_alone)
{
	struct oci_logins *l = new_logins();
	unsigned int before;
	uint64_t id;

	cr_expect_eq(oci_logins_news(NULL, "h:1", "r"), 0);
	(void)!show(l, "r", "a", "p", 1);
	before = oci_logins_news(l, "h:1", "r");
	(void)!show(l, "other", "b", "p", 2);
	(void)!show(l, "r", "a", "p", 3);
	cr_expect_eq(oci_logins_news(l, "h:1", "r"), before);
	(void)!show(l, "r", "b", "p", 4);
	cr_expect_neq(oci_logins_news(l, "h:1", "r"), before);
	before = oci_logins_news(l, "h:1", "r");
	free(next_password(l, "h:1", "r", &id));
	oci_logins_note(l, id, false);
	(void)!show(l, "r", "b", "p", 5);
	cr_expect_neq(oci_logins_news(l, "h:1", "r"), before,
		      "what was refused is shown again");
	oci_logins_free(l);
}

Test(oci_logins, of_many_namespaces_do_not_displace_what_has_worked)
{
	struct oci_logins *l = new_logins();
	char by[32];
	uint64_t id;

	(void)!show(l, "r", "quiet", "good", 1);
	free(next_password(l, "h:1", "r", &id));
	oci_logins_note(l, id, true);
	for (int i = 0; i < 4 * OCI_LOGINS_EACH; i++) {
		(void)snprintf(by, sizeof(by), "loud%d", i);
		cr_assert_eq(show(l, "r", by, "wrong", 2 + i), 1);
	}
	expect_next(l, "r", "good");
	oci_logins_free(l);
}

Test(oci_logins, that_are_none_are_refused)
{
	AUTO_FREE char *long_one = calloc(1, OCI_LOGIN_TEXT_MAX + 1);
	struct oci_logins *l = new_logins();
	const struct oci_login none = {
		.host = "h", .repo = "r", .shown_by = "n", .user = "u"
	};

	memset(long_one, 'x', OCI_LOGIN_TEXT_MAX);
	cr_expect_eq(oci_logins_show(l, &none, 1, NULL), -EINVAL);
	cr_expect_eq(show(l, "r", "n", long_one, 1), -EINVAL);
	expect_next(l, "r", NULL);
	oci_logins_free(l);
}

/* The longest password, but for some bytes, that is kept: of bytes that JSON writes as six. */
static char *largest_password(void)
{
	struct oci_logins *l = new_logins();
	size_t len = OCI_LOGIN_TEXT_MAX;
	char *text = calloc(1, len + 1);

	cr_assert_not_null(text);
	memset(text, 1, len);
	while (len > 0 && show(l, "repo000", "n", text, 1) < 0)
		text[--len] = '\0';
	oci_logins_free(l);
	return text;
}

Test(oci_logins, are_counted_as_they_are_written)
{
	static const char bytes[] = { 1, '"', '\\' };
	AUTO_FREE char *text = calloc(1, OCI_LOGIN_TEXT_MAX);
	struct oci_logins *l = new_logins();

	for (size_t i = 0; i < sizeof(bytes); i++) {
		memset(text, bytes[i], OCI_LOGIN_TEXT_MAX - 64);
		cr_expect_eq(show(l, "r", "n", text, 1), -EINVAL);
	}
	memset(text, 'x', OCI_LOGIN_TEXT_MAX - 64);
	cr_expect_eq(show(l, "r", "n", text, 1), 1);
	oci_logins_free(l);
}

Test(oci_logins, of_a_full_table_are_read_again)
{
	struct oci_logins *l = new_logins(), *again = new_logins();
	AUTO_FREE char *largest = largest_password();
	AUTO_BUF text = BUF_INIT;
	char repo[32];

	for (int i = 0; i < OCI_LOGINS_MAX; i++) {
		(void)snprintf(repo, sizeof(repo), "repo%d", i);
		cr_assert_eq(show(l, repo, "n", largest, 1), 1);
	}
	cr_assert_eq(oci_logins_encode(l, &text, NULL), 0);
	/* The most that kept_logins.c reads. */
	cr_expect_lt(text.len, 16u << 20);
	cr_assert_eq(oci_logins_decode(again, text.data, text.len, NULL), 0);
	for (int i = 0; i < OCI_LOGINS_MAX; i++) {
		(void)snprintf(repo, sizeof(repo), "repo%d", i);
		expect_next(again, repo, largest);
	}
	oci_logins_free(l);
	oci_logins_free(again);
}

Test(oci_logins, come_back_from_their_file)
{
	const struct oci_login token = { .host = "h:1",
					 .repo = "t",
					 .shown_by = "",
					 .identity_token = "refresh" };
	struct oci_logins *l = new_logins(), *again = new_logins();
	struct credentials c = { .user = NULL };
	AUTO_BUF text = BUF_INIT;
	uint64_t id;

	(void)!show(l, "r", "a", "p\"\\\n", 5);
	cr_assert_eq(oci_logins_show(l, &token, 6, NULL), 1);
	(void)!show(l, "refused", "a", "p", 7);
	free(next_password(l, "h:1", "refused", &id));
	oci_logins_note(l, id, false);
	cr_assert_eq(oci_logins_encode(l, &text, NULL), 0);
	cr_assert_eq(oci_logins_decode(again, text.data, text.len, NULL), 0);
	expect_next(again, "r", "p\"\\\n");
	expect_next(again, "refused", NULL);
	cr_assert_eq(oci_logins_find(again, "h:1", "t", &c, &id), 0);
	cr_expect_str_eq(c.identity_token, "refresh");
	credentials_fini(&c);
	oci_logins_free(l);
	oci_logins_free(again);
}

Test(oci_logins, that_nobody_wants_are_forgotten_after_a_while)
{
	const struct oci_logins_wanted r = { .host = "h:1", .repo = "r" };
	struct oci_logins *l = new_logins();

	(void)!show(l, "r", "a", "p", 10);
	(void)!show(l, "old", "a", "p", 10);
	(void)!show(l, "new", "a", "p", 20);
	cr_expect_eq(oci_logins_forget(l, 15, &r, 1), 1);
	expect_next(l, "r", "p");
	expect_next(l, "old", NULL);
	expect_next(l, "new", "p");
	oci_logins_free(l);
}

/* ----------------------------------------------------------------- pull secrets --- */

/* "auth" is u:PASSWORD, in base 64. */
#define CONFIG_P1 "{\"auths\":{\"h:1\":{\"auth\":\"dTpwMQ==\"}}}"
#define CONFIG_P2 "{\"auths\":{\"https://h:1/v2/\":{\"auth\":\"dTpwMg==\"}}}"

static struct oci_pull_secret secret_of(const char *repo, const char *by,
					const char *config, int64_t since_s)
{
	return (struct oci_pull_secret){ .host = "h:1",
					 .repo = repo,
					 .shown_by = by,
					 .config = config,
					 .since_s = since_s };
}

static size_t replace_secrets(struct oci_logins *l,
			      const struct oci_pull_secret *list, size_t n)
{
	size_t left_out;

	return oci_logins_replace_secrets(l, list, n, 1, &left_out);
}

static size_t have_secret(struct oci_logins *l, const char *repo,
			  const char *config, int64_t since_s)
{
	struct oci_pull_secret s = secret_of(repo, "ns", config, since_s);

	return replace_secrets(l, &s, 1);
}

Test(oci_logins, of_secrets_are_for_images_of_their_pods_and_go_with_them)
{
	const struct oci_pull_secret both[] = {
		secret_of("team/app", "ns", CONFIG_P1, 1),
		secret_of("team/model", "ns", CONFIG_P1, 1),
	};
	struct oci_logins *l = new_logins();
	uint64_t id;

	cr_expect_eq(replace_secrets(l, both, 2), 2);
	expect_next(l, "team/app", "p1");
	expect_next(l, "team/model", "p1");
	expect_next(l, "team/other", NULL);
	cr_expect_null(next_password(l, "h:2", "team/app", &id));
	/* The secret has another password now, and no pod has the image team/model. */
	cr_expect_eq(have_secret(l, "team/app", CONFIG_P2, 1), 1);
	expect_next(l, "team/app", "p2");
	expect_next(l, "team/model", NULL);
	free(next_password(l, "h:1", "team/app", &id));
	cr_expect(oci_logins_has(l, id));
	cr_expect_eq(replace_secrets(l, NULL, 0), 0);
	expect_next(l, "team/app", NULL);
	cr_expect(!oci_logins_has(l, id));
	oci_logins_free(l);
}

Test(oci_logins, of_a_secret_that_was_refused_are_tried_for_a_newer_pod)
{
	struct oci_logins *l = new_logins();
	unsigned int news;
	uint64_t id;

	(void)have_secret(l, "r", CONFIG_P1, 10);
	free(next_password(l, "h:1", "r", &id));
	oci_logins_note(l, id, false);
	news = oci_logins_news(l, "h:1", "r");
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(have_secret(l, "r", CONFIG_P1, 10), 1);
		expect_next(l, "r", NULL);
	}
	cr_expect_eq(oci_logins_news(l, "h:1", "r"), news);
	(void)have_secret(l, "r", CONFIG_P1, 11);
	expect_next(l, "r", "p1");
	cr_expect_gt(oci_logins_news(l, "h:1", "r"), news);
	oci_logins_free(l);
}

Test(oci_logins, of_secrets_are_in_no_file_unless_a_pull_showed_them)
{
	const struct oci_login shown = { .host = "h:1",
					 .repo = "r",
					 .shown_by = "ns",
					 .user = "u",
					 .password = "p1" };
	struct oci_logins *l = new_logins();
	AUTO_BUF secret_alone = BUF_INIT;
	AUTO_BUF both = BUF_INIT;

	(void)have_secret(l, "r", CONFIG_P1, 1);
	cr_assert_eq(oci_logins_encode(l, &secret_alone, NULL), 0);
	cr_expect_null(strstr(secret_alone.data, "p1"));
	cr_expect_eq(oci_logins_show(l, &shown, 1, NULL), 1, "for the file");
	cr_expect_eq(oci_logins_show(l, &shown, 1, NULL), 0);
	/* The secret takes away nothing that a pull showed. */
	cr_expect_eq(have_secret(l, "r", CONFIG_P1, 1), 1);
	cr_expect_eq(replace_secrets(l, NULL, 0), 0);
	expect_next(l, "r", "p1");
	cr_assert_eq(oci_logins_encode(l, &both, NULL), 0);
	cr_expect_not_null(strstr(both.data, "p1"));
	oci_logins_free(l);
}

Test(oci_logins, of_a_secret_that_has_none_are_none_and_run_no_program)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"auths\":{}}",
		"{\"auths\":{\"h:2\":{\"auth\":\"dTpwMQ==\"}}}",
		"{\"auths\":{\"h:1/other\":{\"auth\":\"dTpwMQ==\"}}}",
		"{\"auths\":{\"h:1\":{\"auth\":\"dQ==\"}}}",
		"{\"auths\":{\"h:1\":{\"auth\":7}}}",
		"{\"auths\":{\"h:1\":\"dTpwMQ==\"}}",
		"{\"credHelpers\":{\"h:1\":\"evil\"}}",
		"{\"credsStore\":\"evil\"}",
		("{\"auths\":{\"h:1\":{\"auth\":\"dTpwMQ==\"}},"
		 "\"credHelpers\":{\"h:1\":\"evil\"}}"),
	};
	struct oci_logins *l = new_logins();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct oci_pull_secret list[] = {
			secret_of("r", "evil", bad[i], 1),
			secret_of("good", "ns", CONFIG_P1, 1),
		};

		cr_expect_eq(replace_secrets(l, list, 2), 1, "%s", bad[i]);
		expect_next(l, "r", NULL);
		expect_next(l, "good", "p1");
	}
	oci_logins_free(l);
}

Test(oci_logins, of_secrets_have_docker_s_old_name_for_its_registry)
{
	struct oci_pull_secret s =
		secret_of("library/nginx", "ns",
			  "{\"auths\":{\"https://index.docker.io/v1/\":"
			  "{\"username\":\"u\",\"password\":\"p\"}}}",
			  1);
	struct oci_logins *l = new_logins();
	AUTO_FREE char *got = NULL;
	uint64_t id;

	s.host = "docker.io";
	cr_expect_eq(replace_secrets(l, &s, 1), 1);
	got = next_password(l, "docker.io", "library/nginx", &id);
	cr_assert_not_null(got);
	cr_expect_str_eq(got, "p");
	oci_logins_free(l);
}

/* ------------------------------------------------------------------ providers --- */

Test(oci_providers, patterns_fit_as_the_kubelet_has_it)
{
	static const struct {
		const char *pattern, *host, *repo;
		bool fits;
	} want[] = {
		{ "*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.eu-1.amazonaws.com",
		  "a", true },
		{ "*.dkr.ecr.*.amazonaws.com", "x.1.dkr.ecr.eu.amazonaws.com",
		  "a", false },
		{ "*.dkr.ecr.*.amazonaws.com",
		  "1.dkr.ecr.eu.amazonaws.com.evil.example", "a", false },
		{ "*.azurecr.io", "azurecr.io", "a", false },
		{ "*.azurecr.io", "evil-azurecr.io", "a", false },
		{ "k*s.io", "k8s.io", "a", true },
		{ "gcr.io", "gcr.io", "p/x", true },
		{ "gcr.io/p", "gcr.io", "p/x", true },
		{ "gcr.io/p", "gcr.io", "q/x", false },
		{ "host:5000", "host:5000", "x", true },
		{ "host:5000", "host", "x", false },
		{ "host", "host:5000", "x", false },
		{ "https://host/", "host", "x", true },
		{ "", "host", "x", false },
		{ "*", "host", "x", true },
		{ "*", "host.example", "x", false },
		{ "..", "a.b", "x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		cr_expect_eq(provider_pattern_fits(want[i].pattern,
						   want[i].host,
						   want[i].repo) > 0,
			     want[i].fits, "%s: %s/%s", want[i].pattern,
			     want[i].host, want[i].repo);
}

Test(oci_providers, durations_are_go_s)
{
	cr_expect_eq(provider_duration_parse("0s"), 0);
	cr_expect_eq(provider_duration_parse("12h0m0s"), 43200 * NS_PER_S);
	cr_expect_eq(provider_duration_parse("1.5h"), 5400 * NS_PER_S);
	cr_expect_eq(provider_duration_parse("250ms"), NS_PER_S / 4);
	cr_expect_eq(provider_duration_parse(""), -1);
	cr_expect_eq(provider_duration_parse("12"), -1);
	cr_expect_eq(provider_duration_parse("h"), -1);
	cr_expect_eq(provider_duration_parse("-1h"), -1);
	cr_expect_eq(provider_duration_parse("99999999h"), -1);
}

static int parse_answer(const char *text, struct provider_answer *a,
			struct error *err)
{
	*a = (struct provider_answer){ .auth = NULL };
	return provider_answer_parse(text, strlen(text), a, err);
}

Test(oci_providers, answers_give_the_login_of_the_longest_pattern)
{
	static const char text[] =
		"{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"v\","
		"\"cacheKeyType\":\"Image\",\"cacheDuration\":\"5m\",\"auth\":{"
		"\"*.example\":{\"username\":\"a\",\"password\":\"1\"},"
		"\"r.example/team\":{\"username\":\"b\",\"password\":\"2\"}}}";
	struct provider_answer a;
	struct credentials c;

	cr_assert_eq(parse_answer(text, &a, NULL), 0);
	cr_expect_eq(a.use, PROVIDER_USE_IMAGE);
	cr_expect_eq(a.kept_ns, 300 * NS_PER_S);
	cr_assert_eq(provider_answer_pick(a.auth, "r.example", "team/x", &c,
					  NULL),
		     0);
	cr_expect_str_eq(c.password, "2");
	credentials_fini(&c);
	cr_assert_eq(provider_answer_pick(a.auth, "r.example", "y", &c, NULL),
		     0);
	cr_expect_str_eq(c.user, "a");
	credentials_fini(&c);
	cr_expect_eq(provider_answer_pick(a.auth, "r.other", "y", &c, NULL),
		     -ENOENT);
	json_decref(a.auth);
}

Test(oci_providers, an_answer_that_is_none_is_refused_and_not_quoted)
{
	static const char *const bad[] = {
		"\"hunter2\"",
		"{\"auth\": {\"x\": {\"password\": \"hunter2\" \"}",
		"{\"kind\":\"hunter2\"}",
		"{\"kind\":\"CredentialProviderResponse\",\"auth\":{}}",
		"{\"kind\":\"CredentialProviderResponse\","
		"\"cacheKeyType\":\"hunter2\"}",
		"{\"kind\":\"CredentialProviderResponse\","
		"\"cacheKeyType\":\"Image\",\"cacheDuration\":\"hunter2\"}",
		"{\"kind\":\"CredentialProviderResponse\","
		"\"cacheKeyType\":\"Image\",\"auth\":\"hunter2\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct provider_answer a;

		cr_expect_eq(parse_answer(bad[i], &a, &err), -EINVAL, "%s",
			     bad[i]);
		cr_expect_null(strstr(err.msg, "hunter2"), "%s", err.msg);
	}
}

static int parse_config(const char *text, struct error *err)
{
	json_t *list = NULL;
	int rc = provider_config_parse(text, strlen(text), &list, err);

	json_decref(list);
	return rc;
}

#define YAML_HEAD \
	"apiVersion: kubelet.config.k8s.io/v1\n" \
	"kind: CredentialProviderConfig\nproviders:\n"
#define YAML_REST \
	"  defaultCacheDuration: 1h\n  matchImages: ['*.x']\n" \
	"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"

Test(oci_providers, configurations_are_yaml_or_json)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(parse_config(YAML_HEAD "- name: ecr\n" YAML_REST, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(
		parse_config(
			"{\"kind\":\"CredentialProviderConfig\","
			"\"providers\":[{\"name\":\"a\",\"matchImages\":[],"
			"\"defaultCacheDuration\":\"0s\",\"apiVersion\":"
			"\"credentialprovider.kubelet.k8s.io/v1beta1\"}]}",
			&err),
		0, "%s", err.msg);
	cr_expect_eq(parse_config(YAML_HEAD "- name: ../ecr\n" YAML_REST, NULL),
		     -EINVAL);
	cr_expect_eq(parse_config(YAML_HEAD "- name: ..\n" YAML_REST, NULL),
		     -EINVAL);
	cr_expect_eq(parse_config("kind: KubeletConfiguration\n", NULL),
		     -EINVAL);
	cr_expect_eq(parse_config("a: [", NULL), -EINVAL);
	cr_expect_eq(parse_config("", NULL), -EINVAL);
}

Test(oci_providers, a_configuration_of_aliases_costs_no_memory)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_puts(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"), 0);
	for (int i = 1; i < 12; i++)
		cr_assert_eq(buf_printf(&text,
					"a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,"
					"*a%d,*a%d,*a%d]\n",
					i, i, i - 1, i - 1, i - 1, i - 1, i - 1,
					i - 1, i - 1, i - 1),
			     0);
	cr_expect_eq(parse_config(text.data, NULL), -EINVAL);
}

/* ------------------------------------------------------- at the fake registry --- */

static struct registry_fixture fix;
static char *places;
static char *content;
static struct digest blob;

static void write_file(const char *name, const char *text, mode_t mode)
{
	AUTO_FREE char *path = fs_join(fix.dir, name);

	cr_assert_eq(fs_replace_file(path, text, strlen(text), mode, NULL), 0);
}

/* A plugin that knows a password, and says in "asked" that it was asked. */
static void have_plugin(const char *password)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(
		buf_printf(&text,
			   "#!/bin/sh\ncat >>%s/asked\n"
			   "echo '{\"kind\":\"CredentialProviderResponse\","
			   "\"cacheKeyType\":\"Registry\",\"auth\":"
			   "{\"127.0.0.1:%u\":{\"username\":\"user\","
			   "\"password\":\"%s\"}}}'\n",
			   fix.dir, fix.port, password),
		0);
	write_file("give", text.data, 0755);
}

static size_t times_asked(void)
{
	AUTO_FREE char *path = fs_join(fix.dir, "asked");
	AUTO_BUF text = BUF_INIT;
	size_t n = 0;

	(void)!fs_read_file(path, 65536, &text, NULL);
	for (const char *p = text.data; p && (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

static void setup(void)
{
	AUTO_BUF config = BUF_INIT;

	fixture_start(&fix);
	write_file("empty.json", "{}", 0600);
	cr_assert_eq(buf_printf(&config,
				YAML_HEAD
				"- name: give\n"
				"  defaultCacheDuration: 1h\n"
				"  matchImages: ['other', '127.0.*.1:%u']\n"
				"  apiVersion: "
				"credentialprovider.kubelet.k8s.io/v1\n",
				fix.port),
		     0);
	write_file("config.yaml", config.data, 0644);
	content = fixture_blob(&fix, 5000, 1, &blob);
	have_plugin("secret");
	cr_assert_geq(asprintf(&places, "%s/config.yaml:%s", fix.dir, fix.dir),
		      0);
}

static void teardown(void)
{
	struct oci_logins *l = fix.cfg.logins;

	fixture_stop(&fix);
	oci_logins_free(l);
	free(content);
	free(places);
}

TestSuite(oci_login_places, .init = setup, .fini = teardown, .timeout = 120);

static void use_logins(const char *providers)
{
	AUTO_FREE char *empty = fs_join(fix.dir, "empty.json");

	cr_assert_eq(oci_logins_new(providers, &fix.cfg.logins, NULL), 0);
	fix.cfg.auth_file = empty;
	fixture_reopen(&fix);
	fix.cfg.auth_file = NULL;
}

static void pod_shows(const char *by, const char *password)
{
	char host[32];
	struct oci_login login = { .host = host,
				   .repo = "test/image",
				   .shown_by = by,
				   .user = "user",
				   .password = password };

	(void)snprintf(host, sizeof(host), "127.0.0.1:%u", fix.port);
	cr_assert_geq(oci_logins_show(fix.cfg.logins, &login, 1, NULL), 0);
}

static int ask(struct error *err)
{
	AUTO_BUF got = BUF_INIT;

	return oci_get_blob(fix.store, &blob, 5000, 5000, &got, err);
}

Test(oci_login_places, a_pod_s_login_is_used_where_the_operator_has_none)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	fixture_fault(&fix, "basic=1");
	cr_expect_eq(ask(&err), -EACCES);
	pod_shows("ns", "secret");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
}

Test(oci_login_places, wrong_ones_are_each_tried_once_until_one_is_right)
{
	struct error err = ERROR_INIT;
	size_t before;

	use_logins(NULL);
	fixture_fault(&fix, "basic=1");
	pod_shows("a", "secret");
	pod_shows("evil", "wrong1");
	pod_shows("evil", "wrong2");
	pod_shows("worse", "wrong3");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	before = fixture_count(&fix, "/blobs/", NULL);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/blobs/", NULL), before + 1);
	/* A login that was refused once is not tried for a new connection either. */
	fixture_reopen(&fix);
	before = fixture_count(&fix, "/blobs/", NULL);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/blobs/", NULL), before + 2);
}

Test(oci_login_places, a_secret_s_login_is_sent_no_more_once_the_secret_is_gone)
{
	struct error err = ERROR_INIT;
	char host[32];
	struct oci_pull_secret s = {
		.host = host,
		.repo = "test/image",
		.shown_by = "ns",
	};
	AUTO_FREE char *config = NULL;

	use_logins(NULL);
	fixture_fault(&fix, "basic=1");
	(void)snprintf(host, sizeof(host), "127.0.0.1:%u", fix.port);
	cr_assert_geq(asprintf(&config,
			       "{\"auths\":{\"%s\":{\"username\":\"user\","
			       "\"password\":\"secret\"}}}",
			       host),
		      0);
	s.config = config;
	cr_assert_eq(replace_secrets(fix.cfg.logins, &s, 1), 1);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_assert_eq(replace_secrets(fix.cfg.logins, NULL, 0), 0);
	cr_expect_eq(ask(&err), -EACCES);
	cr_assert_eq(replace_secrets(fix.cfg.logins, &s, 1), 1);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
}

Test(oci_login_places, a_token_service_refuses_them_one_by_one_too)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	fixture_fault(&fix, "bearer=1&login=1");
	pod_shows("a", "secret");
	pod_shows("evil", "wrong");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
}

/* As Docker Hub answers a user that is locked out. */
Test(oci_login_places, a_login_that_is_locked_out_does_not_stop_the_others)
{
	struct error err = ERROR_INIT;
	size_t before;

	use_logins(NULL);
	fixture_fault(&fix, "bearer=1&login=1&locked=429");
	pod_shows("a", "secret");
	pod_shows("evil", "wrong1");
	pod_shows("evil", "wrong2");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/token", " 429 "), 2);
	/* Nor is it asked about at each new connection. */
	fixture_reopen(&fix);
	before = fixture_count(&fix, "/token", NULL);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/token", NULL), before + 1);
}

Test(oci_login_places, a_login_that_is_locked_out_leaves_what_is_for_everybody)
{
	static const int statuses[] = { 429, 503 };
	struct error err = ERROR_INIT;
	char faults[64];

	use_logins(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		(void)snprintf(faults, sizeof(faults), "bearer=1&locked=%d",
			       statuses[i]);
		fixture_fault(&fix, faults);
		pod_shows("evil", i ? "wrong2" : "wrong1");
		fixture_reopen(&fix);
		cr_expect_eq(ask(&err), 0, "%s", err.msg);
	}
}

/* The only login that is good is tried again after a failure, behind all others. */
Test(oci_login_places, a_token_service_that_was_down_refuses_nobody_for_good)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	pod_shows("a", "secret");
	fixture_fault(&fix, "bearer=1&login=1&status=503&match=/token&times=2");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/token", " 503 "), 2);
}

static int resolve(struct error *err)
{
	struct oci_manifest m;
	int rc = oci_get_manifest(fix.store, "v1", &m, err);

	if (rc == 0)
		oci_manifest_fini(&m);
	return rc;
}

static bool is_paused(struct oci_hosts *hosts)
{
	char name[OCI_HOST_ROOM];

	(void)snprintf(name, sizeof(name), "http://127.0.0.1:%u", fix.port);
	return oci_hosts_check(hosts, name, clock_now_ns(), NULL) < 0;
}

/* The limit may be that of the account: other repositories are asked for all the same. */
Test(oci_login_places, a_pod_s_login_that_is_throttled_pauses_no_registry)
{
	struct oci_hosts *hosts = oci_hosts_new();

	cr_assert_not_null(hosts);
	fix.cfg.hosts = hosts;
	use_logins(NULL);
	fixture_fault(&fix, "basic=1");
	pod_shows("a", "secret");
	cr_expect_eq(resolve(NULL), -ENOENT, "the login is good");
	fixture_fault(&fix, "status=429&retry_after=3600");
	cr_expect_eq(resolve(NULL), -EBUSY);
	cr_expect_not(is_paused(hosts));
	/* Without a login the limit is this node's. */
	fixture_reopen(&fix);
	cr_expect_eq(resolve(NULL), -EBUSY);
	cr_expect(is_paused(hosts));
	oci_store_free(steal_ptr(&fix.store));
	oci_hosts_free(hosts);
}

Test(oci_login_places, a_refusal_by_403_is_one)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	fixture_fault(&fix, "basic=1&refusal=403");
	pod_shows("a", "secret");
	pod_shows("evil", "wrong");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
}

Test(oci_login_places, a_plugin_is_asked_when_no_pod_s_login_is_good)
{
	struct error err = ERROR_INIT;

	use_logins(places);
	fixture_fault(&fix, "basic=1");
	pod_shows("a", "old");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(times_asked(), 1);
	fixture_reopen(&fix);
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(times_asked(), 1, "its answer is kept");
}

Test(oci_login_places, a_plugin_is_not_asked_for_what_a_pod_s_login_does)
{
	struct error err = ERROR_INIT;

	use_logins(places);
	fixture_fault(&fix, "bearer=1&login=1&token_uses=2");
	pod_shows("a", "secret");
	for (int i = 0; i < 6; i++)
		cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(times_asked(), 0, "tokens end, the login is good");
}

Test(oci_login_places, a_kept_answer_that_is_refused_is_asked_for_anew)
{
	struct error err = ERROR_INIT;

	have_plugin("old");
	use_logins(places);
	fixture_fault(&fix, "basic=1");
	cr_expect_eq(ask(&err), -EACCES);
	cr_expect_eq(times_asked(), 1);
	have_plugin("secret");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
	cr_expect_eq(times_asked(), 2);
}

Test(oci_login_places, without_any_the_failure_says_what_is_missing)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	fixture_fault(&fix, "basic=1");
	cr_expect_eq(ask(&err), -EACCES);
	cr_expect(strstr(err.msg, "no credentials"), "%s", err.msg);
	pod_shows("ns", "hunter2");
	cr_expect_eq(ask(&err), -EACCES);
	cr_expect_null(strstr(err.msg, "hunter2"), "%s", err.msg);
}

Test(oci_login_places, images_for_everybody_need_none)
{
	struct error err = ERROR_INIT;

	use_logins(NULL);
	fixture_fault(&fix, "bearer=1");
	pod_shows("evil", "wrong");
	cr_expect_eq(ask(&err), 0, "%s", err.msg);
}
