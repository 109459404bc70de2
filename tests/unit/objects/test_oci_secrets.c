// SPDX-License-Identifier: Apache-2.0
/* Logins by pull secrets: what has room for them, and that namespaces are told one by one. */
#include <criterion/criterion.h>
#include <string.h>

#include "logins_fixture.h"

TestSuite(oci_secrets, .timeout = 120);

/* "auth" is u:PASSWORD, in base 64. */
#define CONFIG_P1 "{\"auths\":{\"h:1\":{\"auth\":\"dTpwMQ==\"}}}"

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

struct many_secrets {
	char configs[11][96];
	struct oci_pull_secret list[11];
};

/* Eleven secrets of a namespace for one repository, each with a password of its own. */
static void list_secrets(struct many_secrets *ret, const char *by)
{
	for (int k = 0; k < 11; k++) {
		(void)snprintf(ret->configs[k], sizeof(ret->configs[k]),
			       "{\"auths\":{\"h:1\":{\"username\":\"u\","
			       "\"password\":\"%s%d\"}}}",
			       by, k);
		ret->list[k] = secret_of("r", by, ret->configs[k], 1);
	}
}

/* All that the repository has are tried and refused. */
static size_t refuse_all(struct oci_logins *l)
{
	AUTO_FREE char *got = NULL;
	size_t n = 0;
	uint64_t id;

	while ((got = next_password(l, "h:1", "r", &id))) {
		oci_logins_note(l, id, false);
		free(steal_ptr(&got));
		n++;
	}
	return n;
}

Test(oci_secrets, of_more_secrets_than_have_room_are_tried_once)
{
	struct oci_logins *l = new_logins();
	struct many_secrets team;
	unsigned int news;
	size_t left_out;

	list_secrets(&team, "team");
	cr_expect_eq(oci_logins_replace_secrets(l, team.list, 11, 1, &left_out),
		     OCI_LOGINS_EACH);
	cr_expect_eq(left_out, 11 - OCI_LOGINS_EACH);
	cr_expect_eq(refuse_all(l), OCI_LOGINS_EACH);
	news = oci_logins_news(l, "h:1", "r");
	for (int i = 0; i < 3; i++) {
		(void)oci_logins_replace_secrets(l, team.list, 11, 1,
						 &left_out);
		cr_expect_eq(left_out, 11 - OCI_LOGINS_EACH);
		cr_expect_eq(refuse_all(l), 0);
	}
	cr_expect_eq(oci_logins_news(l, "h:1", "r"), news);
	/* A secret that is gone makes room for another at once. */
	cr_expect_eq(oci_logins_replace_secrets(l, team.list + 1, 10, 1,
						&left_out),
		     OCI_LOGINS_EACH);
	cr_expect_eq(refuse_all(l), 1);
	oci_logins_free(l);
}

Test(oci_secrets, of_secrets_share_the_room_among_namespaces_and_stay)
{
	struct oci_pull_secret both[12];
	struct oci_logins *l = new_logins();
	struct many_secrets evil, team;
	size_t left_out;

	list_secrets(&evil, "evil");
	list_secrets(&team, "team");
	memcpy(both, evil.list, sizeof(evil.list));
	both[11] = team.list[0];
	(void)replace_secrets(l, both, 11);
	(void)refuse_all(l);
	(void)replace_secrets(l, both, 12);
	expect_next(l, "r", "team0");
	(void)refuse_all(l);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(oci_logins_replace_secrets(l, both, 12, 1,
							&left_out),
			     OCI_LOGINS_EACH);
		cr_expect_eq(left_out, 12 - OCI_LOGINS_EACH);
		cr_expect_eq(refuse_all(l), 0);
	}
	oci_logins_free(l);
}

Test(oci_secrets, of_a_namespace_stay_where_only_another_namespace_was_asked)
{
	const struct oci_pull_secret first[] = {
		secret_of("a", "team", CONFIG_P1, 1),
		secret_of("b", "evil", CONFIG_P1, 1),
		secret_of("c", "unlisted", CONFIG_P1, 1),
	};
	const struct oci_pull_secret then[] = {
		{ .shown_by = "team" },
		secret_of("d", "evil", CONFIG_P1, 1),
	};
	struct oci_logins *l = new_logins();

	cr_expect_eq(replace_secrets(l, first, 3), 3);
	cr_expect_eq(replace_secrets(l, then, 2), 2);
	expect_next(l, "a", "p1");
	expect_next(l, "b", NULL);
	expect_next(l, "c", NULL);
	expect_next(l, "d", "p1");
	oci_logins_free(l);
}

Test(oci_secrets, of_a_namespace_displace_first_what_is_gone_of_its_own)
{
	struct oci_pull_secret list[8], then[2] = { { .shown_by = "evil" } };
	struct oci_logins *l = new_logins();
	struct many_secrets evil, team;
	size_t left_out;

	list_secrets(&evil, "evil");
	list_secrets(&team, "team");
	memcpy(list, evil.list, 5 * sizeof(list[0]));
	memcpy(list + 5, team.list, 3 * sizeof(list[0]));
	(void)replace_secrets(l, list, 8);
	cr_expect_eq(refuse_all(l), 8);
	/* Another secret instead of three. */
	then[1] = team.list[3];
	cr_expect_eq(oci_logins_replace_secrets(l, then, 2, 1, &left_out), 6);
	cr_expect_eq(left_out, 0);
	cr_expect_eq(refuse_all(l), 1);
	/* None of the other namespace had to go, or it would be tried anew. */
	list[5] = (struct oci_pull_secret){ .shown_by = "team" };
	cr_expect_eq(replace_secrets(l, list, 6), 6);
	cr_expect_eq(refuse_all(l), 0);
	oci_logins_free(l);
}
