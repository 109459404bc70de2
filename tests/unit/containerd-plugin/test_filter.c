// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "containerd-plugin/filter.h"

TestSuite(filter, .timeout = 120);

/* Does the one filter match a snapshot with these? */
static int matches(const char *text)
{
	struct labels labels = LABELS_INIT;
	AUTO(filter) f = NULL;
	int rc;

	cr_assert_eq(labels_set(&labels, "l", "1", NULL), 0);
	cr_assert_eq(labels_set(&labels, "containerd.io/snapshot.ref",
				"sha256:ab", NULL),
		     0);
	cr_assert_eq(labels_set(&labels, "quote", "a\"b,c", NULL), 0);
	rc = filter_parse(&text, 1, &f, NULL);
	if (rc == 0)
		rc = filter_matches(f, &(struct filter_subject){
					       .name = "n/1/x",
					       .parent = "p",
					       .kind = "active",
					       .labels = &labels });
	labels_fini(&labels);
	return rc;
}

Test(filter, fields_are_compared)
{
	cr_expect_eq(matches("name==n/1/x"), 1);
	cr_expect_eq(matches("name==other"), 0);
	cr_expect_eq(matches("name!=other"), 1);
	cr_expect_eq(matches("parent==p"), 1);
	cr_expect_eq(matches("parent==\"\""), 0);
	cr_expect_eq(matches("parent!=\"\""), 1);
	cr_expect_eq(matches("kind==active"), 1);
	cr_expect_eq(matches("kind==view"), 0);
	cr_expect_eq(matches("name"), 1);
	cr_expect_eq(matches("unknown"), 0);
	cr_expect_eq(matches("unknown==x"), 0);
	cr_expect_eq(matches("unknown!=x"), 1);
	cr_expect_eq(matches(""), 1);
}

Test(filter, labels_are_compared_by_quoted_names)
{
	cr_expect_eq(matches("labels.l"), 1);
	cr_expect_eq(matches("labels.m"), 0);
	cr_expect_eq(matches("labels.l==1"), 1);
	cr_expect_eq(matches("labels.l==2"), 0);
	cr_expect_eq(matches("labels.\"containerd.io/snapshot.ref\"=="
			     "sha256:ab"),
		     1);
	cr_expect_eq(matches("labels.\"containerd.io/snapshot.ref\"==sha256:ab,"
			     "parent==\"p\""),
		     1);
	cr_expect_eq(matches("labels.quote==\"a\\\"b,c\""), 1);
	cr_expect_eq(matches("labels.quote==\"a\\x22\\u0062\\054c\""), 1);
}

Test(filter, selectors_are_joined_by_and)
{
	cr_expect_eq(matches("name==n/1/x,kind==active"), 1);
	cr_expect_eq(matches("name==n/1/x,kind==view"), 0);
	cr_expect_eq(matches("name==n/1/x , labels.l"), 1);
}

Test(filter, patterns_match_parts)
{
	cr_expect_eq(matches("name~=^n/\\d/"), 1);
	cr_expect_eq(matches("name~=/^x/"), 0);
	cr_expect_eq(matches("name~=|^n.1|"), 1);
	cr_expect_eq(matches("labels.quote~=\"b,c$\""), 1);
}

Test(filter, a_costly_pattern_gives_up)
{
	const char *text = "name~=(a+)+(a+)+(a+)+$";
	char name[200];
	struct labels labels = LABELS_INIT;
	AUTO(filter) f = NULL;

	memset(name, 'a', sizeof(name) - 2);
	name[sizeof(name) - 2] = 'b';
	name[sizeof(name) - 1] = '\0';
	cr_assert_eq(filter_parse(&text, 1, &f, NULL), 0);
	cr_expect_not(filter_matches(f, &(struct filter_subject){
						.name = name,
						.parent = "",
						.kind = "view",
						.labels = &labels }));
}

Test(filter, one_of_several_must_match)
{
	static const char *const texts[] = { "name==a", "name==b" };
	struct labels labels = LABELS_INIT;
	struct filter_subject s = {
		.name = "b", .parent = "", .kind = "view", .labels = &labels
	};
	AUTO(filter) f = NULL;
	AUTO(filter) all = NULL;

	cr_assert_eq(filter_parse(texts, 2, &f, NULL), 0);
	cr_expect(filter_matches(f, &s));
	s.name = "c";
	cr_expect_not(filter_matches(f, &s));
	cr_assert_eq(filter_parse(NULL, 0, &all, NULL), 0);
	cr_expect(filter_matches(all, &s));
}

Test(filter, bad_filters_are_refused)
{
	static const char *const bad[] = {
		"==",
		"name=",
		"name=x",
		"name==",
		"name==a b",
		"name==a,",
		",name",
		"name.",
		"\"name",
		"name==\"x",
		"name~=(",
		"name==\"\\q\"",
		"name==\"\\x4\"",
		"name==\"\\000\"",
		"name==\"\\777\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(matches(bad[i]), -EINVAL, "%s", bad[i]);
}
