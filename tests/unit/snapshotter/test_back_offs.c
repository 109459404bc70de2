// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "snapshotter/node/images/back_offs.h"

enum { BEGINS, IS_OVER };

Test(back_offs, are_times_in_which_some_request_waited)
{
	struct back_offs b;
	struct back_off_sums sums;

	back_offs_init(&b);
	back_offs_note(&b, "a", false, BEGINS, 10);
	back_offs_note(&b, "a", false, BEGINS, 20);
	back_offs_note(&b, "a", true, BEGINS, 25);
	back_offs_get(&b, "a", 30, &sums);
	cr_expect_eq(sums.n, 3);
	cr_expect_eq(sums.waited_ns, 20, "those under way count");
	cr_expect_eq(sums.throttled_ns, 5);
	back_offs_note(&b, "a", false, IS_OVER, 40);
	back_offs_note(&b, "a", false, IS_OVER, 50);
	back_offs_note(&b, "a", true, IS_OVER, 60);
	back_offs_get(&b, "a", 1000, &sums);
	cr_expect_eq(sums.waited_ns, 40);
	cr_expect_eq(sums.throttled_ns, 35);
	back_offs_get(&b, "b", 1000, &sums);
	cr_expect_eq(sums.n, 0);
	back_offs_get(&b, "", 1000, &sums);
	cr_expect_eq(sums.n, 0);
	back_offs_fini(&b);
}

Test(back_offs, of_more_hosts_than_there_are_places_are_left_out)
{
	struct back_offs b;
	struct back_off_sums sums;
	char host[BACK_OFFS_HOST_ROOM + 1];

	back_offs_init(&b);
	for (unsigned int i = 0; i <= BACK_OFFS_HOSTS_MAX; i++) {
		(void)snprintf(host, sizeof(host), "h%u", i);
		back_offs_note(&b, host, false, BEGINS, 0);
		back_offs_note(&b, host, false, IS_OVER, 7);
	}
	back_offs_get(&b, "h0", 10, &sums);
	cr_expect_eq(sums.waited_ns, 7);
	back_offs_get(&b, host, 10, &sums);
	cr_expect_eq(sums.n, 0);
	back_offs_fini(&b);
	back_offs_init(&b);
	memset(host, 'h', BACK_OFFS_HOST_ROOM);
	host[BACK_OFFS_HOST_ROOM] = '\0';
	back_offs_note(&b, host, false, BEGINS, 0);
	back_offs_get(&b, host, 10, &sums);
	cr_expect_eq(sums.n, 0, "no host has so long a name");
	back_offs_fini(&b);
}
