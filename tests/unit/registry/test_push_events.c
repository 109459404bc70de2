// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "registry/push_events.h"

#define D \
	"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TYPE "application/vnd.oci.image.manifest.v1+json"

TestSuite(push_events, .timeout = 60);

static struct push_events sums;
static struct error err;
static char seen[4096];

static int note_push(void *arg, const struct push_event *e)
{
	size_t n = strlen(seen);

	(void)arg;
	cr_expect_str_eq(e->digest, D);
	(void)snprintf(seen + n, sizeof(seen) - n, "%s:%s ", e->repository,
		       e->tag);
	return 0;
}

static int parse_pushes(const char *body)
{
	seen[0] = '\0';
	return push_events_parse(body, strlen(body), note_push, NULL, &sums,
				 &err);
}

/* Make a notification of distribution with one event. */
static const char *make_event(const char *action, const char *type,
			      const char *repository, const char *tag)
{
	static char body[2048];

	(void)snprintf(body, sizeof(body),
		       "{\"events\":[{\"action\":\"%s\",\"target\":{"
		       "\"mediaType\":\"%s\",\"repository\":\"%s\","
		       "\"digest\":\"" D "\",\"tag\":\"%s\"},\"request\":{"
		       "\"host\":\"evil.example\"}}]}",
		       action, type, repository, tag);
	return body;
}

Test(push_events, of_distribution_are_pushes_of_tagged_manifests)
{
	cr_expect_eq(parse_pushes(make_event("push", TYPE, "team/app", "v1")),
		     0);
	cr_expect_str_eq(seen, "team/app:v1 ");
	cr_expect_eq(parse_pushes(
			     make_event("push",
					"application/vnd.docker.distribution."
					"manifest.list.v2+json",
					"app", "v1")),
		     0);
	cr_expect_str_eq(seen, "app:v1 ");
	cr_expect_eq(parse_pushes(make_event("pull", TYPE, "team/app", "v1")),
		     0);
	cr_expect_eq(sums.n_pushes, 0u);
	cr_expect_eq(sums.n_others, 1u);
	cr_expect_eq(parse_pushes(make_event("push", "application/octet-stream",
					     "app", "v1")),
		     0);
	cr_expect_eq(sums.n_pushes, 0u);
}

Test(push_events, of_harbor_are_taken_in_both_of_its_forms)
{
	cr_expect_eq(parse_pushes("{\"type\":\"PUSH_ARTIFACT\",\"event_data\":{"
				  "\"resources\":[{\"digest\":\"" D
				  "\",\"tag\":\"v1\"}],\"repository\":{"
				  "\"repo_full_name\":\"team/app\"}}}"),
		     0);
	cr_expect_str_eq(seen, "team/app:v1 ");
	cr_expect_eq(parse_pushes("{\"specversion\":\"1.0\",\"type\":"
				  "\"harbor.artifact.pushed\",\"data\":{"
				  "\"resources\":[{\"digest\":\"" D
				  "\",\"tag\":\"v2\"}],\"repository\":{"
				  "\"repo_full_name\":\"team/app\"}}}"),
		     0);
	cr_expect_str_eq(seen, "team/app:v2 ");
	cr_expect_eq(
		parse_pushes(
			"{\"type\":\"DELETE_ARTIFACT\",\"event_data\":{}}"),
		0, "what else happened there is no error");
	cr_expect_eq(sums.n_others, 1u);
}

/* Our own pushes are ignored: otherwise each conversion would cause another. */
Test(push_events, of_what_belongs_to_an_image_are_none)
{
	static const char *const tags[] = {
		"",
		"sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"sha256-aaaa.sig",
		"bootseer-trace-0123",
		D, /* Harbor's "tag" for an artifact without a tag */
	};

	for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++) {
		cr_expect_eq(parse_pushes(
				     make_event("push", TYPE, "app", tags[i])),
			     0);
		cr_expect_eq(sums.n_pushes, 0u, "%s", tags[i]);
	}
}

Test(push_events, that_name_other_paths_are_none)
{
	static const char *const names[] = {
		"",       "/app",  "app/", "a//b",      "../app",
		"a/../b", "App",   "a?b",  "a b",       "a@b",
		"a:1/b",  "a%2fb", "a/.b", "[::1]/app", "evil.example/\\u0000x",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)!parse_pushes(make_event("push", TYPE, names[i], "v1"));
		cr_expect_eq(sums.n_pushes, 0u, "%s", names[i]);
	}
}

Test(push_events, are_bounded_and_refused_when_they_are_none)
{
	static char body[1 << 16];
	size_t n = (size_t)snprintf(body, sizeof(body), "{\"events\":[");

	for (int i = 0; i < PUSH_EVENTS_MAX + 3; i++)
		n += (size_t)snprintf(body + n, sizeof(body) - n,
				      "%s{\"action\":\"push\",\"target\":{"
				      "\"mediaType\":\"" TYPE "\","
				      "\"repository\":\"r\",\"digest\":\"" D
				      "\",\"tag\":\"t%d\"}}",
				      i ? "," : "", i);
	(void)snprintf(body + n, sizeof(body) - n, "]}");
	cr_expect_eq(parse_pushes(body), 0, "%s", err.msg);
	cr_expect_eq(sums.n_pushes, (size_t)PUSH_EVENTS_MAX);
	cr_expect_eq(sums.n_dropped, 3u);
	cr_expect_eq(parse_pushes("{}"), -EINVAL);
	cr_expect_eq(parse_pushes("[]"), -EINVAL);
	cr_expect_eq(parse_pushes(""), -EINVAL);
	cr_expect_eq(parse_pushes("{\"events\":[1,null,{\"target\":[]}]}"), 0);
	cr_expect_eq(sums.n_others, 3u);
}

Test(push_events, have_the_form_of_the_longest_prefix)
{
	char all[] = "reg.example=index", team[] = "reg.example/team=referrer";
	char off[] = "reg.example/team/off=off", other[] = "other:5000/a=index";
	char *rules[] = { all, team, off, other, NULL };

	cr_expect_eq(convert_rules_check(rules, &err), 0, "%s", err.msg);
	cr_expect_str_eq(convert_rules_find(rules, "reg.example/app"), "index");
	cr_expect_str_eq(convert_rules_find(rules, "reg.example/team/app"),
			 "referrer");
	cr_expect_str_eq(convert_rules_find(rules, "reg.example/teams/app"),
			 "index");
	cr_expect_null(convert_rules_find(rules, "reg.example/team/off/x"));
	cr_expect_null(convert_rules_find(rules, "reg.example.evil/app"));
	cr_expect_null(convert_rules_find(rules, "other:5000/b"));
	cr_expect(convert_rules_have_host(rules, "other:5000"));
	cr_expect_not(convert_rules_have_host(rules, "other"));
	cr_expect_not(convert_rules_have_host(rules, "reg.example.evil"));
	cr_expect_not(convert_rules_have_host(NULL, "reg.example"));
}

Test(push_events, have_no_rules_for_all_registries)
{
	static const char *const wrong[] = {
		"*=index",
		"=index",
		"reg.example",
		"reg.example=flat",
		"reg.example/=index",
		"https://reg.example=index",
		"Reg.example=index",
		"reg.example//a=index",
		"/a=index",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char rule[64];
		char *rules[] = { rule, NULL };

		(void)snprintf(rule, sizeof(rule), "%s", wrong[i]);
		cr_expect_eq(convert_rules_check(rules, &err), -EINVAL, "%s",
			     rule);
	}
}
