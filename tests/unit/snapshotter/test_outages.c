// SPDX-License-Identifier: Apache-2.0
/* When reads of a registry begin to wait, and when the outage is over. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "snapshotter/node/images/outages.h"

TestSuite(outages, .timeout = 60);

static struct outages *all;

static void waits(const char *host, const char *why)
{
	struct error err = ERROR_INIT;

	(void)error_set(&err, ETIMEDOUT, "%s", why);
	outages_watch(all)->waits(outages_watch(all), host, &err);
}

static void ended(const char *host, bool waited, bool is_good)
{
	outages_watch(all)->ended(outages_watch(all), host, waited, is_good);
}

static unsigned int count(void)
{
	char host[OUTAGE_HOST_MAX];
	struct error why;
	unsigned int n = 0;
	int64_t ns;

	while (outages_get(all, n, host, &ns, &why)) {
		cr_expect_geq(ns, 0);
		n++;
	}
	return n;
}

Test(outages, a_registry_is_away_until_nobody_waits_and_a_read_goes_well)
{
	char host[OUTAGE_HOST_MAX];
	struct error why;
	int64_t ns;

	all = outages_new();
	cr_assert(all);
	waits("a", "first");
	waits("a", "second");
	waits("b", "else");
	cr_expect_eq(count(), 2);
	cr_assert(outages_get(all, 0, host, &ns, &why));
	cr_expect_str_eq(host, "a");
	cr_expect_str_eq(why.msg, "second");
	/* If only the first of two reads succeeds, the other one still waits. */
	ended("a", true, true);
	cr_expect_eq(count(), 2);
	/* The second read fails in the end, so the registry is not known to work. */
	ended("a", true, false);
	cr_expect_eq(count(), 2);
	/* A read without a wait succeeds, which ends the outage. */
	ended("a", false, true);
	cr_expect_eq(count(), 1);
	cr_assert(outages_get(all, 0, host, &ns, &why));
	cr_expect_str_eq(host, "b");
	outages_free(all);
}

Test(outages, a_good_read_of_another_blob_does_not_end_the_wait)
{
	all = outages_new();
	cr_assert(all);
	ended("a", false, true); /* no read waits */
	waits("a", "one");
	ended("a", false, true);
	cr_expect_eq(count(), 1);
	ended("b", true, true);
	cr_expect_eq(count(), 1);
	ended("a", true, true);
	cr_expect_eq(count(), 0);
	outages_free(all);
}

Test(outages,
     registries_past_the_bound_are_not_told_of_and_places_are_free_again)
{
	char host[OUTAGE_HOST_MAX + 10];
	unsigned int n;

	all = outages_new();
	cr_assert(all);
	memset(host, 'x', sizeof(host));
	host[sizeof(host) - 1] = '\0';
	waits(host, "a name that is too long");
	cr_expect_eq(count(), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		(void)snprintf(host, sizeof(host), "h%u", i);
		waits(host, "away");
	}
	n = count();
	cr_expect_lt(n, 1000);
	ended("h999", true, true);
	cr_expect_eq(count(), n);
	ended("h3", true, true);
	cr_expect_eq(count(), n - 1);
	waits("h999", "away again");
	cr_expect_eq(count(), n);
	outages_free(all);
}

Test(outages, a_login_is_refused_until_one_works_for_its_repository)
{
	char place[OUTAGE_PLACE_MAX];
	struct error why = ERROR_INIT, got = ERROR_INIT;
	struct oci_watch *w;
	int64_t ns;

	all = outages_new();
	cr_assert(all);
	w = outages_watch(all);
	(void)error_set(&why, EACCES, "expired");
	w->login(w, "h:5000", "a", &why);
	w->login(w, "h:5000", "b", &why);
	w->login(w, "h:5000", "b", NULL);
	cr_assert(outages_get_login(all, 0, place, &ns, &got));
	cr_expect_str_eq(place, "h:5000/a");
	cr_expect_str_eq(got.msg, "expired");
	cr_expect_not(outages_get_login(all, 1, place, &ns, &got));
	w->login(w, "h:5000", "a", NULL);
	cr_expect_not(outages_get_login(all, 0, place, &ns, &got));
	outages_free(all);
}
