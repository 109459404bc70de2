// SPDX-License-Identifier: Apache-2.0
/* What is remembered of hosts, by a clock of the test's own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "objects/oci_hosts.h"

#define S NS_PER_S
#define HOST "https://h:5000"

static struct oci_hosts *hosts;
static struct error away;

static void setup(void)
{
	hosts = oci_hosts_new();
	cr_assert_not_null(hosts);
	away = (struct error)ERROR_INIT;
	(void)error_set(&away, ETIMEDOUT, "no connection");
}

static void teardown(void)
{
	oci_hosts_free(hosts);
}

TestSuite(oci_hosts, .init = setup, .fini = teardown, .timeout = 60);

static int check(const char *host, int64_t now)
{
	return oci_hosts_check(hosts, host, now, NULL);
}

Test(oci_hosts, one_that_is_away_is_asked_by_one_after_growing_pauses)
{
	const int64_t pauses[] = { 30, 60, 120, 240, 300, 300 };
	int64_t now = 0;

	cr_expect_eq(check(HOST, now), 0);
	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		/* Requests that were under way together count once. */
		oci_hosts_note_away(hosts, HOST, &away, now);
		oci_hosts_note_away(hosts, HOST, &away, now + 1);
		cr_expect_eq(check(HOST, now + pauses[i] * S - 1), -ETIMEDOUT);
		cr_expect_eq(check("https://other", now), 0);
		now += pauses[i] * S;
		cr_expect_eq(check(HOST, now), 0);
		cr_expect_eq(check(HOST, now), -ETIMEDOUT);
	}
	oci_hosts_answered(hosts, HOST);
	cr_expect_eq(check(HOST, now), 0);
}

Test(oci_hosts, one_that_refuses_is_asked_once_until_it_answers)
{
	oci_hosts_note_refusing(hosts, HOST, &away, 0);
	cr_expect_eq(check(HOST, 1), 1);
	cr_expect_eq(check(HOST, 2), 1);
	oci_hosts_answered(hosts, HOST);
	cr_expect_eq(check(HOST, 3), 0);
	oci_hosts_note_refusing(hosts, HOST, &away, 4);
	oci_hosts_note_away(hosts, HOST, &away, 5);
	cr_expect_eq(check(HOST, 6), -ETIMEDOUT, "it is silent by now");
}

Test(oci_hosts, one_that_asks_for_hours_is_left_alone_for_one)
{
	struct error err = ERROR_INIT;

	oci_hosts_note_throttled(hosts, HOST, 6 * 3600 * S, 0);
	cr_expect_eq(oci_hosts_check(hosts, HOST, 3600 * S - 1, &err), -EBUSY);
	cr_expect(strstr(err.msg, "login"), "%s", err.msg);
	/* Blobs, which are not counted, say nothing of that. */
	oci_hosts_answered(hosts, HOST);
	cr_expect_eq(check(HOST, 3600 * S - 1), -EBUSY);
	cr_expect_eq(check(HOST, 3600 * S), 0);
}

Test(oci_hosts, all_are_asked_again_when_the_operator_says_so)
{
	char host[OCI_HOST_ROOM];
	struct error why;
	int64_t left;

	oci_hosts_note_away(hosts, HOST, &away, 0);
	oci_hosts_note_throttled(hosts, "https://b", 10 * S, 0);
	cr_assert(oci_hosts_get(hosts, 0, S, host, &left, &why));
	cr_expect_str_eq(host, HOST);
	cr_expect_eq(left, 29 * S);
	cr_expect_str_eq(why.msg, "no connection");
	cr_assert(oci_hosts_get(hosts, 1, S, host, &left, &why));
	cr_expect_str_eq(host, "https://b");
	cr_expect_not(oci_hosts_get(hosts, 2, S, host, &left, &why));
	oci_hosts_forget(hosts);
	cr_expect_not(oci_hosts_get(hosts, 0, S, host, &left, &why));
	cr_expect_eq(check(HOST, 0), 0);
}

Test(oci_hosts, many_names_take_no_more_room)
{
	char name[OCI_HOST_ROOM + 8];

	for (int i = 0; i < 3 * OCI_HOSTS_MAX; i++) {
		snprintf(name, sizeof(name), "https://h%d", i);
		oci_hosts_note_away(hosts, name, &away, 0);
		cr_expect_eq(check(name, 1), -ETIMEDOUT);
	}
	cr_expect_eq(check("https://h0", 1), 0);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	oci_hosts_note_away(hosts, name, &away, 0);
	cr_expect_eq(check(name, 1), 0);
}

Test(oci_hosts, logins_are_counted_by_host)
{
	cr_expect_eq(oci_hosts_logins(hosts, HOST), 0);
	oci_hosts_note_login(hosts, HOST);
	cr_expect_eq(oci_hosts_logins(hosts, HOST), 1);
	cr_expect_eq(oci_hosts_logins(hosts, "https://b"), 0);
}
