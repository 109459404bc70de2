// SPDX-License-Identifier: Apache-2.0
/* Rules that decide which artifacts a node uses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "snapshotter/node/trust/policy.h"

TestSuite(policy, .timeout = 10);

static int parse(struct policy *ret, const char *a, const char *b,
		 struct error *err)
{
	char *list[] = { (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL };

	return policy_parse(list, ret, err);
}

/* The mode that the rules `a` and `b` (may be NULL) give a repository; -1: no rule. */
static int mode_of(const char *a, const char *b, const char *repository)
{
	const struct policy_rule *r;
	struct policy p;
	int mode;

	cr_assert_eq(parse(&p, a, b, NULL), 0);
	r = policy_find(&p, repository);
	mode = r ? (int)r->mode : -1;
	policy_fini(&p);
	return mode;
}

static void expect_refused(const char *a, const char *b, const char *word)
{
	struct error err = ERROR_INIT;
	struct policy p;

	cr_expect_eq(parse(&p, a, b, &err), -EINVAL, "%s", a);
	cr_expect(strstr(err.msg, word), "%s: %s", a, err.msg);
}

Test(policy, without_rules_everything_wants_a_signature)
{
	const struct policy_rule *r;
	struct policy p;

	cr_assert_eq(policy_parse(NULL, &p, NULL), 0);
	r = policy_find(&p, "h/a");
	cr_assert(r);
	cr_expect_eq(r->mode, POLICY_SIGN);
	cr_expect_str_eq(r->prefix, "");
	cr_expect_null(r->keys);
	policy_fini(&p);
}

Test(policy, with_rules_the_default_one_is_gone)
{
	cr_expect_eq(mode_of("h/a=off", NULL, "h/b"), -1);
}

Test(policy, the_longest_prefix_counts)
{
	cr_expect_eq(mode_of("*=sign", "h:5000/a=registry", "h:5000/a/b"),
		     POLICY_REGISTRY);
	cr_expect_eq(mode_of("h:5000/a/b=off", "h:5000=verified", "h:5000/a/b"),
		     POLICY_OFF);
	cr_expect_eq(mode_of("h:5000/a/b=off", "h:5000=verified", "h:5000/a/c"),
		     POLICY_VERIFIED);
}

Test(policy, a_prefix_ends_where_a_component_does)
{
	cr_expect_eq(mode_of("h/team=registry", NULL, "h/team-of-others"), -1);
	cr_expect_eq(mode_of("h/team=registry", NULL, "h/team"),
		     POLICY_REGISTRY);
	cr_expect_eq(mode_of("h=registry", NULL, "h.evil.example/x"), -1);
	cr_expect_eq(mode_of("h=registry", NULL, "h:5000/x"), -1);
}

Test(policy, a_host_may_be_written_in_several_ways)
{
	cr_expect_eq(mode_of("Reg.Example:443/a=off", "*=sign",
			     "reg.example/a/b"),
		     POLICY_OFF);
	cr_expect_eq(mode_of("reg.example/a=off", "*=sign",
			     "REG.example:443/a/b"),
		     POLICY_OFF);
	cr_expect_eq(mode_of("reg.example/a=off", "*=sign",
			     "reg.example:4430/a/b"),
		     POLICY_SIGN);
	cr_expect_eq(mode_of("index.docker.io/team=off", "*=sign",
			     "docker.io/team/app"),
		     POLICY_OFF);
}

Test(policy, keys_may_be_a_file_of_the_rule)
{
	const struct policy_rule *r;
	struct policy p;

	cr_assert_eq(parse(&p, "h/a=sign:/etc/team.pem", NULL, NULL), 0);
	r = policy_find(&p, "h/a");
	cr_assert(r);
	cr_expect_str_eq(r->keys, "/etc/team.pem");
	policy_fini(&p);
	expect_refused("h/a=sign:team.pem", NULL, "no absolute path");
	expect_refused("h/a=registry:/etc/team.pem", NULL,
		       "'registry' takes no file");
}

Test(policy, refuses_what_is_no_rule)
{
	expect_refused("h/a", NULL, "'=' is missing");
	expect_refused("h/a:sign", NULL, "'=' is missing");
	expect_refused("h/a=trusted", NULL,
		       "'trusted' is no mode: off, registry, sign or verified");
	expect_refused("h/a=", NULL, "'' is no mode");
	expect_refused("h/a=Sign", NULL, "'Sign' is no mode");
	expect_refused("=sign", NULL, "no prefix is before '='");
	expect_refused("/a=sign", NULL, "'/a' is no host");
	expect_refused("h/=sign", NULL, "'h/' is no host");
	expect_refused("h//a=sign", NULL, "'h//a' is no host");
	expect_refused("h/*=sign", NULL, "* stands alone");
	expect_refused("h/A=sign", NULL, "'h/A' is no host");
	expect_refused("https://h/a=sign", NULL, "leave 'https://' out");
	expect_refused("h/a=sign:", NULL, "the file of keys is missing");
	expect_refused("h/a=off:/x", NULL, "'off' takes no file");
	expect_refused("h/a=sign", "H/a=off", "two rules");
}

Test(policy, whoever_may_push_anywhere_is_not_believed)
{
	expect_refused("*=registry", NULL, "name the repositories");
}
