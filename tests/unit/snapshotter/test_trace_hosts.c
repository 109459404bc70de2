// SPDX-License-Identifier: Apache-2.0
/* The table of registries that are asked for traces. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "snapshotter/node/traces/trace_hosts.h"

#define MINUTE (60 * NS_PER_S)

static struct trace_hosts hosts;
static int64_t now;

static void set_up(void)
{
	memset(&hosts, 0, sizeof(hosts));
	now = MINUTE;
}

TestSuite(trace_hosts, .timeout = 60, .init = set_up);

static bool search(const char *host, bool late)
{
	struct trace_host *v;

	if (!trace_hosts_begin(&hosts, host, now, &v))
		return false;
	trace_hosts_end(v, late, now);
	return true;
}

static bool is_known(const char *host)
{
	return trace_hosts_know(&hosts, host, now);
}

Test(trace_hosts, who_answers_for_ten_minutes_is_known)
{
	cr_assert(search("a:1", false));
	now += 10 * MINUTE - 1;
	cr_assert(search("a:1", false));
	cr_expect_not(is_known("a:1"));
	now++;
	cr_expect(is_known("a:1"));
	cr_expect_not(is_known("a:2"));
}

Test(trace_hosts, who_was_given_up_is_left_alone_and_not_known_any_more)
{
	struct trace_host *before;

	cr_assert(search("a:1", false));
	now += 10 * MINUTE;
	cr_assert(trace_hosts_begin(&hosts, "a:1", now, &before));
	cr_assert(search("a:1", true));
	cr_expect_not(is_known("a:1"));
	cr_expect_not(search("a:1", false));
	cr_expect(search("b:1", false));
	now += MINUTE;
	cr_expect(search("a:1", false));
	trace_hosts_end(before, false, now);
	now += 10 * MINUTE - 1;
	cr_expect_not(is_known("a:1"));
	now++;
	cr_expect(is_known("a:1"));
}

Test(trace_hosts, no_flood_of_names_makes_a_known_one_forgotten)
{
	char name[TRACE_HOST_NAME_MAX + 10];

	cr_assert(search("good:1", false));
	now += 10 * MINUTE;
	for (unsigned int k = 0; k < 5 * TRACE_HOSTS_MAX; k++) {
		(void)snprintf(name, sizeof(name), "host-%u:1", k);
		cr_assert(search(name, false));
		now++;
	}
	cr_expect(is_known("good:1"));
	/* The last hosts are known too, so another host is asked but gets no entry. */
	now += 10 * MINUTE;
	cr_expect(is_known(name));
	for (unsigned int k = 0; k < 2; k++)
		cr_expect(search("new:1", true));
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_expect(search(name, false));
	cr_expect_not(is_known(name));
}

Test(trace_hosts, who_has_a_search_under_way_keeps_its_place)
{
	struct trace_host *of_a, *of_b;
	char name[40];

	cr_assert(trace_hosts_begin(&hosts, "a:1", now, &of_a));
	for (unsigned int k = 0; k < 2 * TRACE_HOSTS_MAX; k++) {
		(void)snprintf(name, sizeof(name), "host-%u:1", k);
		cr_assert(trace_hosts_begin(&hosts, name, ++now, &of_b));
		cr_expect_neq(of_b, of_a);
	}
	cr_expect_null(of_b, "all places are taken");
	trace_hosts_end(of_a, true, now);
	cr_expect_not(search("a:1", false));
}
