// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "registry/token.h"

/* SHA-256 of "secret". */
#define SECRET \
	"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

TestSuite(token, .timeout = 120);

static struct tokens t;

static int parse(const char *text, struct error *err)
{
	tokens_fini(&t);
	return tokens_parse(text, &t, err);
}

Test(token, file_is_read)
{
	cr_assert_eq(parse("# all\n\nci sha256:" SECRET
			   "\tread,write repo=h/team node=n1 # x\n",
			   NULL),
		     0);
	cr_assert_eq(t.n, 1);
	cr_expect_str_eq(t.v[0].name, "ci");
	cr_expect_eq(t.v[0].roles, ROLE_READ | ROLE_WRITE);
	cr_expect_str_eq(t.v[0].repo, "h/team");
	cr_expect_str_eq(t.v[0].node, "n1");
	tokens_fini(&t);
}

Test(token, speaks_for_the_node_that_it_names)
{
	struct token token = { .node = (char[]){ "n1" } };

	cr_expect(token_has_node(&token, "n1"));
	cr_expect_not(token_has_node(&token, "n2"));
	cr_expect_not(token_has_node(&token, "*"));
	token.node = (char[]){ TOKEN_ANY_NODE };
	cr_expect(token_has_node(&token, "n2"));
	token.node = NULL;
	cr_expect_not(token_has_node(&token, "n1"));
}

Test(token, has_the_stores_that_it_names_and_none_beside_or_below)
{
	cr_assert_eq(parse("a sha256:" SECRET " read,write node=*"
			   " stores=s3://bkt/env,hdfs://nn:8020/e\n"
			   "b sha256:" SECRET
			   " read,write node=* repo=s3://bkt\n",
			   NULL),
		     0);
	cr_expect(token_has_store(&t.v[0], "s3://bkt/env"));
	cr_expect(token_has_store(&t.v[0], "hdfs://nn:8020/e"));
	cr_expect_not(token_has_store(&t.v[0], "s3://bkt/env/a"));
	cr_expect_not(token_has_store(&t.v[0], "s3://bkt/en"));
	cr_expect_not(
		token_has_store(&t.v[0], "s3://bkt/env,hdfs://nn:8020/e"));
	cr_expect_not(token_has_store(&t.v[0], ""));
	/* The environments that a token may ask about are not the stores that its nodes may
	 * read. */
	cr_expect_not(token_has_store(&t.v[1], "s3://bkt"));
	cr_expect_not(token_has_store(&t.v[1], "s3://bkt/env"));
	tokens_fini(&t);
}

Test(token, slash_behind_a_prefix_says_nothing)
{
	cr_assert_eq(parse("a sha256:" SECRET " read repo=h/team/\n", NULL), 0);
	cr_expect_str_eq(t.v[0].repo, "h/team");
	tokens_fini(&t);
}

Test(token, file_that_is_wrong_names_the_line)
{
	static const char *const bad[] = {
		"a\n",
		"a sha256:" SECRET "\n",
		"a sha256:" SECRET " read stores=\n",
		"a sha256:" SECRET " read stores=s3://b/e,\n",
		"a sha256:" SECRET " read stores=s3://b/e/\n",
		"a sha256:" SECRET " read stores=s3://b/e?region=x\n",
		"a sha256:" SECRET " read stores=docker://r/e\n",
		"a sha256:" SECRET " read stores=r/e\n",
		"a sha256:" SECRET " read stores=s3://b stores=s3://c\n",
		"a sha256:12 read\n",
		"a sha256:" SECRET " reed\n",
		"a sha256:" SECRET " read,\n",
		"a sha256:" SECRET " read x=1\n",
		"a sha256:" SECRET " read repo=\n",
		"a sha256:" SECRET " read repo=//\n",
		"a sha256:" SECRET " read node=a node=b\n",
		"a sha256:" SECRET " read\na sha256:" SECRET " read\n",
	};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct error)ERROR_INIT;
		cr_expect_eq(parse(bad[i], &err), -EINVAL, "%s", bad[i]);
		cr_expect(strstr(err.msg, "line "), "%s", err.msg);
	}
}

Test(token, is_found_by_its_hash)
{
	cr_assert_eq(parse("a sha256:" SECRET " read\n", NULL), 0);
	cr_expect_not_null(tokens_find(&t, "Bearer secret"));
	cr_expect_not_null(tokens_find(&t, "bearer  secret"));
	cr_expect_null(tokens_find(&t, "Bearer secret "));
	cr_expect_null(tokens_find(&t, "Bearer "));
	cr_expect_null(tokens_find(&t, "Basic secret"));
	cr_expect_null(tokens_find(&t, "secret"));
	cr_expect_null(tokens_find(&t, NULL));
	tokens_fini(&t);
}

Test(token, prefix_ends_at_a_part_of_a_name)
{
	static char prefix[] = "h/team";
	struct token token = { .repo = prefix };

	cr_expect(token_has_repo(&token, "h/team"));
	cr_expect(token_has_repo(&token, "h/team/app"));
	cr_expect_not(token_has_repo(&token, "h/teams"));
	cr_expect_not(token_has_repo(&token, "h"));
	cr_expect_not(token_has_repo(&token, ""));
	token.repo = NULL;
	cr_expect(token_has_repo(&token, ""));
}
