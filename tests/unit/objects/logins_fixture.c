// SPDX-License-Identifier: Apache-2.0
#include "logins_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

struct oci_logins *new_logins(void)
{
	struct oci_logins *l;

	cr_assert_eq(oci_logins_new(NULL, &l, NULL), 0);
	return l;
}

char *next_password(struct oci_logins *l, const char *host, const char *repo,
		    uint64_t *ret_id)
{
	struct credentials c = { .user = NULL };
	char *password;

	if (oci_logins_find(l, host, repo, &c, ret_id) < 0)
		return NULL;
	password = steal_ptr(&c.password);
	credentials_fini(&c);
	return password;
}

void expect_next(struct oci_logins *l, const char *repo, const char *want)
{
	uint64_t id;
	AUTO_FREE char *got = next_password(l, "h:1", repo, &id);

	if (want)
		cr_expect(got && strcmp(got, want) == 0, "%s: '%s', not '%s'",
			  repo, got ? got : "", want);
	else
		cr_expect_null(got);
}
