// SPDX-License-Identifier: Apache-2.0
/* Challenges, docker's config.json, helpers, and logins at the fake registry. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "objects/oci_hosts.h"
#include "objects/oci_registry_auth.h"
#include "oci_fixture.h"

TestSuite(oci_auth, .timeout = 120);

Test(oci_auth, a_bearer_challenge_is_taken_apart)
{
	struct error err = ERROR_INIT;
	struct challenge c;

	cr_assert_eq(
		challenge_parse("Basic realm=\"x, y\", Bearer "
				"realm=\"https://a/t?x=1\" , "
				"service=\"s \\\"q\\\"\",scope=repo:a:pull",
				&c, &err),
		0, "%s", err.msg);
	cr_expect(c.bearer);
	cr_expect_str_eq(c.realm, "https://a/t?x=1");
	cr_expect_str_eq(c.service, "s \"q\"");
	cr_expect_str_eq(c.scope, "repo:a:pull");
	challenge_fini(&c);
	cr_assert_eq(challenge_parse("BASIC realm=\"r\"", &c, &err), 0);
	cr_expect(c.basic && !c.bearer);
	challenge_fini(&c);
}

Test(oci_auth, unknown_or_broken_challenges_are_refused)
{
	static const char *const bad[] = {
		"",
		"Negotiate",
		"Bearer",
		"Bearer realm=\"unfinished",
		"Bearer service=\"s\"",
		"Digest realm=\"r\", nonce=\"n\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct challenge c;

		cr_expect(challenge_parse(bad[i], &c, &err) < 0, "'%s'",
			  bad[i]);
	}
}

static struct credentials parse(const char *json, const char *place,
				char **helper)
{
	struct error err = ERROR_INIT;
	struct credentials c;

	cr_assert_eq(credentials_parse(json, strlen(json), place, &c, helper,
				       &err),
		     0, "%s", err.msg);
	return c;
}

Test(oci_auth, the_most_exact_entry_of_a_config_wins)
{
	static const char json[] =
		"{\"auths\":{\"h:1/team\":{\"auth\":\"dDpw\"},"
		"\"h:1\":{\"auth\":\"dXNlcjpzZWNyZXQ=\"},"
		"\"https://index.docker.io/v1/\":{\"identitytoken\":\"i\"}}}";
	static const struct {
		const char *place, *user;
	} want[] = {
		{ "h:1/team/app", "t" },     { "h:1/teams", "user" },
		{ "h:1/x", "user" },         { "h:10/x", NULL },
		{ "other.example/x", NULL },
	};
	AUTO_FREE char *helper = NULL;
	struct credentials c;

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		c = parse(json, want[i].place, &helper);
		if (want[i].user)
			cr_expect_str_eq(c.user, want[i].user);
		else
			cr_expect_null(c.user);
		credentials_fini(&c);
	}
	c = parse(json, "index.docker.io/library/x", &helper);
	cr_expect_str_eq(c.identity_token, "i");
	credentials_fini(&c);
	cr_expect_null(helper);
}

Test(oci_auth, helpers_are_named_per_host_or_for_all)
{
	static const char json[] = "{\"credHelpers\":{\"h\":\"one\"},"
				   "\"credsStore\":\"all\"}";
	char *helper = NULL;
	struct credentials c = parse(json, "h/x", &helper);

	cr_expect_str_eq(helper, "one");
	free(helper);
	credentials_fini(&c);
	c = parse(json, "g/x", &helper);
	cr_expect_str_eq(helper, "all");
	free(helper);
	credentials_fini(&c);
}

Test(oci_auth, broken_configs_are_refused)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"auths\":{\"h\":{\"auth\":\"???\"}}}",
		"{\"auths\":{\"h\":{\"auth\":\"bm9jb2xvbg==\"}}}",
		"{\"credsStore\":\"../../bin/sh\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct credentials c;
		char *helper = NULL;

		cr_expect(credentials_parse(bad[i], strlen(bad[i]), "h/x", &c,
					    &helper, &err) < 0,
			  "'%s'", bad[i]);
		cr_expect_null(helper);
	}
}

/* ------------------------------------------------------ the fake registry --- */

static struct registry_fixture fix;
static struct digest blob;
static char *content;

static void setup(void)
{
	fixture_start(&fix);
	content = fixture_blob(&fix, 5000, 1, &blob);
}

static void teardown(void)
{
	free(content);
	fixture_stop(&fix);
}

TestSuite(oci_login, .init = setup, .fini = teardown, .timeout = 120);

static void write_config(const char *text)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/config.json", fix.dir), 0);
	cr_assert_eq(fs_replace_file(path.data, text, strlen(text), 0600, &err),
		     0);
}

static void write_auth(const char *member)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&text, "{\"auths\":{\"127.0.0.1:%u\":{%s}}}",
				fix.port, member),
		     0);
	write_config(text.data);
}

static int get(struct error *err)
{
	AUTO_BUF got = BUF_INIT;

	return oci_get_blob(fix.store, &blob, 5000, 5000, &got, err);
}

static void expect_get(void)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(get(&err), 0, "%s", err.msg);
}

static void expect_refusal(void)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(get(&err), -EACCES, "%s", err.msg);
	cr_expect(strstr(err.msg, "127.0.0.1"), "%s", err.msg);
}

Test(oci_login, anonymous_users_get_a_token)
{
	fixture_fault(&fix, "bearer=1");
	expect_get();
	expect_get();
	cr_expect_eq(fixture_count(&fix, "/token", NULL), 1);
	cr_expect_eq(fixture_count(&fix, " 401 ", NULL), 1);
}

Test(oci_login, basic_logins_need_the_right_password)
{
	fixture_fault(&fix, "basic=1");
	expect_refusal();
	write_auth("\"auth\":\"dXNlcjp3cm9uZw==\"");
	expect_refusal();
	write_auth("\"auth\":\"dXNlcjpzZWNyZXQ=\"");
	fixture_reopen(&fix);
	expect_get();
}

Test(oci_login, tokens_are_bought_with_a_password_or_a_refresh_token)
{
	fixture_fault(&fix, "bearer=1&login=1");
	expect_refusal();
	write_auth("\"auth\":\"dXNlcjpzZWNyZXQ=\"");
	expect_get();
	write_auth("\"identitytoken\":\"refresh\"");
	fixture_reopen(&fix);
	expect_get();
	cr_expect_eq(fixture_count(&fix, "POST /token", NULL), 1);
}

Test(oci_login, a_token_that_expires_is_renewed_unnoticed)
{
	fixture_fault(&fix, "bearer=1&token_uses=2");
	for (int i = 0; i < 7; i++)
		expect_get();
	cr_expect_eq(fixture_count(&fix, "/token", NULL), 4);
}

static void *get_in_thread(void *arg)
{
	(void)arg;
	expect_get();
	return NULL;
}

Test(oci_login, threads_that_are_refused_together_ask_for_one_token)
{
	pthread_t threads[8];

	fixture_fault(&fix, "bearer=1");
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, get_in_thread,
					    NULL),
			     0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		(void)pthread_join(threads[i], NULL);
	cr_expect_eq(fixture_count(&fix, "/token", NULL), 1);
}

Test(oci_login, a_token_service_that_is_down_for_a_moment_is_asked_again)
{
	fixture_fault(&fix, "bearer=1&status=503&times=1&match=/token");
	expect_get();
}

Test(oci_login, writing_gets_a_token_that_may_write)
{
	struct error err = ERROR_INIT;
	AUTO_CLOSE int fd = fixture_file(&fix, "hello", 5);
	struct digest d;

	fixture_fault(&fix, "bearer=1");
	expect_get();
	cr_assert_eq(digest_of("hello", 5, &d), 0);
	cr_expect_eq(oci_put_blob(fix.store, &d, 5, fd, NULL, &err), 0, "%s",
		     err.msg);
	expect_get();
}

/* ---------------------------------------------------------- hostile hosts --- */

static void expect_no_login_elsewhere(void)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(get(&err), -EACCES, "%s", err.msg);
	cr_expect(strstr(err.msg, "another host"), "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/storage/", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/storage/", "auth=yes"), 0);
	cr_expect_eq(fixture_count(&fix, "/steal", NULL), 0);
}

Test(oci_login, a_host_that_blobs_are_moved_to_gets_no_password)
{
	write_auth("\"auth\":\"dXNlcjpzZWNyZXQ=\"");
	fixture_fault(&fix, "basic=1&redirect=1&storage_login=1");
	expect_no_login_elsewhere();
}

Test(oci_login, a_host_that_blobs_are_moved_to_names_no_token_service)
{
	write_auth("\"auth\":\"dXNlcjpzZWNyZXQ=\"");
	fixture_fault(&fix, "redirect=1&storage_login=2");
	expect_no_login_elsewhere();
}

Test(oci_login, a_refresh_token_does_not_follow_its_service_elsewhere)
{
	write_auth("\"identitytoken\":\"refresh\"");
	fixture_fault(&fix, "bearer=1&token_moved=1");
	expect_refusal();
	cr_expect_eq(fixture_count(&fix, "POST /token", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/steal", NULL), 0);
}

Test(oci_login, a_password_does_not_follow_its_token_service_elsewhere)
{
	write_auth("\"auth\":\"dXNlcjpzZWNyZXQ=\"");
	fixture_fault(&fix, "bearer=1&login=1&token_moved=1");
	cr_expect_lt(get(NULL), 0);
	cr_expect_eq(fixture_count(&fix, "/token", "auth=yes"), 1);
	cr_expect_eq(fixture_count(&fix, "/steal", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/steal", "auth=yes"), 0);
}

Test(oci_login, a_token_service_without_tls_is_for_registries_without_it)
{
	struct http_config cfg = { .allow_plain = false };
	struct challenge c = { .bearer = true };
	char user[] = "user", password[] = "secret";
	struct credentials who = { .user = user, .password = password };
	struct error err = ERROR_INIT;
	struct http *https = NULL;
	AUTO_BUF realm = BUF_INIT;
	char *answer = NULL;

	cr_assert_eq(buf_printf(&realm, "http://127.0.0.1:%u/steal",
				fix.control),
		     0);
	c.realm = realm.data;
	cr_assert_eq(http_new(&cfg, &https, &err), 0);
	cr_expect_lt(challenge_answer(https, &c, &who,
				      &(struct challenge_wait){ .pace = NULL },
				      &answer, &err),
		     0);
	cr_expect_null(answer);
	cr_expect_eq(fixture_count(&fix, "/steal", NULL), 0);
	http_free(https);
}

static void make_helper(const char *script)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF search = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/docker-credential-fake", fix.dir),
		     0);
	cr_assert_eq(fs_replace_file(path.data, script, strlen(script), 0755,
				     &err),
		     0);
	cr_assert_eq(buf_printf(&search, "%s:%s", fix.dir, getenv("PATH")), 0);
	(void)setenv("PATH", search.data, 1);
	write_config("{\"credsStore\":\"fake\"}");
	fixture_fault(&fix, "basic=1");
}

Test(oci_login, helpers_give_passwords)
{
	make_helper("#!/bin/sh\nread -r host || :\ncase $host in 127.0.0.1:*) "
		    "echo '{\"Username\":\"user\",\"Secret\":\"secret\"}';;"
		    "*) exit 1;; esac\n");
	expect_get();
}

Test(oci_login, a_helper_without_the_host_means_anonymous)
{
	make_helper("#!/bin/sh\necho 'credentials not found in native "
		    "keychain'\nexit 1\n");
	fixture_fault(&fix, "basic=0&bearer=1");
	expect_get();
}

Test(oci_login, a_helper_that_does_not_end_is_killed)
{
	struct error err = ERROR_INIT;

	make_helper("#!/bin/sh\necho '{\"Username\":\"user\",\"Secret\":"
		    "\"secret\"}'\nexec tail -f /dev/null >&2\n");
	cr_expect_eq(get(&err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "does not end"), "%s", err.msg);
}

/* Is the process whose number is in that file there, and no zombie? */
static bool is_running(const char *name)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF pid = BUF_INIT;
	AUTO_BUF command = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/%s", fix.dir, name), 0);
	cr_assert_eq(fs_read_file(path.data, 64, &pid, NULL), 0);
	buf_reset(&path);
	cr_assert_eq(buf_printf(&path, "/proc/%ld/cmdline",
				strtol(pid.data, NULL, 10)),
		     0);
	return fs_read_file(path.data, 65536, &command, NULL) == 0 &&
	       command.len > 0;
}

Test(oci_login, a_helper_that_does_not_end_is_killed_with_its_children)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000000 };
	struct error err = ERROR_INIT;
	AUTO_BUF script = BUF_INIT;

	cr_assert_eq(buf_printf(&script,
				"#!/bin/sh\ntail -f /dev/null >&2 &\n"
				"echo $! >%s/child\n"
				"echo '{\"Username\":\"user\",\"Secret\":"
				"\"secret\"}'\nexec tail -f /dev/null >&2\n",
				fix.dir),
		     0);
	make_helper(script.data);
	cr_expect_eq(get(&err), -ETIMEDOUT);
	for (int i = 0; i < 1000 && is_running("child"); i++)
		(void)nanosleep(&moment, NULL);
	cr_expect_not(is_running("child"));
}

/* A shell would unblock them by itself. */
Test(oci_login, helpers_inherit_no_blocked_signals)
{
	AUTO_BUF script = BUF_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;
	sigset_t all;

	cr_assert_eq(
		buf_printf(&script,
			   "#!/usr/bin/awk -f\nBEGIN {\n"
			   "while ((getline line <\"/proc/self/status\") > 0)"
			   "\nif (line ~ /^SigBlk:/) print line >"
			   "\"%s/blocked\"\n"
			   "print \"{\\\"Username\\\":\\\"user\\\","
			   "\\\"Secret\\\":\\\"secret\\\"}\"\nexit\n}\n",
			   fix.dir),
		0);
	make_helper(script.data);
	(void)sigfillset(&all);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	expect_get();
	cr_assert_eq(buf_printf(&path, "%s/blocked", fix.dir), 0);
	cr_assert_eq(fs_read_file(path.data, 256, &text, NULL), 0);
	cr_expect(strstr(text.data, "\t0000000000000000\n"), "%s", text.data);
}

/* Goes on once, then stops. */
struct short_pace {
	struct pace base;
	unsigned int n_asked;
};

static enum pace_level short_level(struct pace *p)
{
	struct short_pace *s = container_of(p, struct short_pace, base);

	return s->n_asked++ ? PACE_STOP : PACE_GO;
}

Test(oci_login, a_helper_is_not_waited_for_when_nobody_wants_the_answer)
{
	struct short_pace pace = { .base.level = short_level };
	struct credentials who = { .user = NULL };
	struct error err = ERROR_INIT;
	AUTO_BUF config = BUF_INIT;

	make_helper("#!/bin/sh\nexec tail -f /dev/null\n");
	cr_assert_eq(buf_printf(&config, "%s/config.json", fix.dir), 0);
	cr_expect_eq(credentials_find(config.data, "host", "repo", &pace.base,
				      &who, &err),
		     -ECANCELED, "%s", err.msg);
	credentials_fini(&who);
}

Test(oci_login, a_helper_that_fails_is_named)
{
	struct error err = ERROR_INIT;

	make_helper("#!/bin/sh\necho 'the keyring is locked'\nexit 1\n");
	cr_expect_eq(get(&err), -EACCES);
	cr_expect(strstr(err.msg, "docker-credential-fake") &&
			  strstr(err.msg, "locked"),
		  "%s", err.msg);
}

/* ------------------------------------------------------------ what expires --- */

Test(oci_login, a_login_that_is_over_is_got_anew_whatever_the_status_is)
{
	const int statuses[] = { 401, 403, 400 };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		size_t before = fixture_count(&fix, "/token", NULL);
		char faults[64];

		snprintf(faults, sizeof(faults),
			 "bearer=1&token_uses=2&refusal=%d", statuses[i]);
		fixture_fault(&fix, faults);
		fixture_reopen(&fix);
		for (int k = 0; k < 7; k++)
			expect_get();
		cr_expect_eq(fixture_count(&fix, "/token", NULL) - before, 4,
			     "%d", statuses[i]);
	}
}

/* A helper that says what the file "secret" holds, and counts its calls in "asked". */
static void set_secret(const char *text)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/secret", fix.dir), 0);
	cr_assert_eq(fs_replace_file(path.data, text, strlen(text), 0600, &err),
		     0);
}

static size_t n_asked(void)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/asked", fix.dir), 0);
	cr_assert_eq(fs_read_file(path.data, 1u << 20, &text, &err), 0);
	return text.len;
}

static void make_changing_helper(void)
{
	AUTO_BUF script = BUF_INIT;

	cr_assert_eq(buf_printf(&script,
				"#!/bin/sh\nprintf x >> %s/asked\n"
				"printf '{\"Username\":\"user\",\"Secret\":"
				"\"%%s\"}' \"$(cat %s/secret)\"\n",
				fix.dir, fix.dir),
		     0);
	set_secret("secret");
	make_helper(script.data);
}

/* Counts what a node would say of it. */
struct login_watch {
	struct oci_watch base;
	unsigned int n_refused, n_works;
};

static void login_told(struct oci_watch *w, const char *host, const char *repo,
		       const struct error *why)
{
	struct login_watch *l = container_of(w, struct login_watch, base);

	(void)host;
	cr_expect_str_eq(repo, "test/image");
	l->n_refused += why != NULL;
	l->n_works += why == NULL;
}

static void no_wait(struct oci_watch *w, const char *host,
		    const struct error *why)
{
	(void)w;
	(void)host;
	(void)why;
}

static void no_end(struct oci_watch *w, const char *host, bool waited,
		   bool is_good)
{
	(void)w;
	(void)host;
	(void)waited;
	(void)is_good;
}

static void no_back_off(struct oci_watch *w, const char *host, bool throttled,
			bool is_over)
{
	(void)w;
	(void)host;
	(void)throttled;
	(void)is_over;
}

#define LOGIN_WATCH_INIT \
	{ \
		.base = { \
			.waits = no_wait, \
			.ended = no_end, \
			.backs_off = no_back_off, \
			.login = login_told \
		} \
	}

Test(oci_login, a_login_that_is_refused_for_good_is_asked_for_once)
{
	struct login_watch watch = LOGIN_WATCH_INIT;

	make_changing_helper();
	fix.cfg.watch = &watch.base;
	fixture_reopen(&fix);
	expect_get();
	cr_expect_eq(n_asked(), 1);
	fixture_fault(&fix, "status=403");
	for (int i = 0; i < 5; i++)
		expect_refusal();
	cr_expect_eq(n_asked(), 2);
	cr_expect_eq(watch.n_refused, 1);
	cr_expect_eq(watch.n_works, 0);
	fixture_fault(&fix, "status=0");
	expect_get();
	cr_expect_eq(watch.n_works, 1);
	oci_store_free(steal_ptr(&fix.store));
}

Test(oci_login, many_readers_of_a_login_that_is_over_ask_once)
{
	pthread_t threads[8];

	make_changing_helper();
	fixture_reopen(&fix);
	expect_get();
	fixture_fault(&fix, "basic=0&bearer=1&login=1&refusal=403");
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, get_in_thread,
					    NULL),
			     0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		(void)pthread_join(threads[i], NULL);
	cr_expect_leq(n_asked(), 3, "%zu", n_asked());
}

/* The registry is asked for a token at once then, not when its pause is over. */
Test(oci_login, a_login_that_another_repository_got_anew_ends_the_pause)
{
	struct oci_store *first, *second;

	fix.cfg.hosts = oci_hosts_new();
	cr_assert_not_null(fix.cfg.hosts);
	make_changing_helper();
	fixture_fault(&fix, "basic=0&bearer=1&login=1&refusal=403");
	fixture_reopen(&fix);
	expect_get(); /* token 1 */
	first = steal_ptr(&fix.store);
	fixture_reopen(&fix);
	expect_get(); /* token 2, which ends the first */
	second = fix.store;
	set_secret("old");
	fix.store = first;
	expect_refusal();
	cr_expect_eq(n_asked(), 3);
	set_secret("secret");
	expect_refusal(); /* asks nobody */
	cr_expect_eq(n_asked(), 3);
	fixture_fault(&fix, "token_uses=1");
	fix.store = second;
	expect_get();
	expect_get(); /* token 3 */
	fix.store = first;
	expect_get();
	cr_expect_eq(n_asked(), 5);
	oci_store_free(first);
	oci_store_free(second);
	fix.store = NULL;
	oci_hosts_free(fix.cfg.hosts);
}
