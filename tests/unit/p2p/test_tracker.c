// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/tracker.h"

TestSuite(tracker, .timeout = 60);

#define MS ((int64_t)1000000)
#define SECOND (1000 * MS)
#define PIECES 1000u

/* One tracker, a clock, and room for a call and its answer. */
struct bench {
	struct tracker *t;
	int64_t now;
	uint32_t want[TRACKER_PIECES_MAX], bytes[TRACKER_PIECES_MAX];
	struct tracker_call c;
	struct tracker_answer a;
	char node[32], addr[32];
};

static struct bench b;

static void begin(const struct tracker_config *cfg)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(tracker_new(cfg, &b.t, &err), 0, "%s", err.msg);
	b.now = 5 * SECOND;
}

static void begin_default(void)
{
	begin(&tracker_config_default);
}

static void end(void)
{
	tracker_free(b.t);
	b.t = NULL;
}

/* The next call is of node `n`, in a zone, for image number `image`. */
static struct tracker_call *from(unsigned int n, const char *zone,
				 unsigned int image)
{
	(void)snprintf(b.node, sizeof(b.node), "n%u", n);
	(void)snprintf(b.addr, sizeof(b.addr), "10.0.0.%u:7000", n);
	b.c = (struct tracker_call){ .node = b.node,
				     .addr = b.addr,
				     .rack = "",
				     .zone = zone,
				     .region = "",
				     .n_pieces = PIECES,
				     .have = PIECES / 2,
				     .want = b.want,
				     .want_bytes = b.bytes };
	memset(b.c.image.b, (int)image, sizeof(b.c.image.b));
	return &b.c;
}

/* Wants pieces [first, first + n) of `bytes` each. */
static void wants(uint32_t first, uint32_t n, uint32_t bytes)
{
	for (uint32_t i = 0; i < n; i++) {
		b.want[i] = first + i;
		b.bytes[i] = bytes;
	}
	b.c.n_want = n;
}

static void hear(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(tracker_hear(b.t, &b.c, b.now, &b.a, &err), 0, "%s",
		     err.msg);
}

static bool is_granted(uint32_t piece)
{
	for (size_t i = 0; i < b.a.n_granted; i++)
		if (b.a.granted[i] == piece)
			return true;
	return false;
}

static void report(bool done, const uint32_t *pieces, size_t n)
{
	b.c.n_want = 0;
	if (done) {
		b.c.done = pieces;
		b.c.n_done = n;
	} else {
		b.c.failed = pieces;
		b.c.n_failed = n;
	}
	hear();
}

Test(tracker, first_askers_get_different_runs, .init = begin_default,
     .fini = end)
{
	bool seen[PIECES] = { false };

	/* All know each other first: then each gets its share. */
	for (unsigned int n = 0; n < 32; n++) {
		from(n, "z", 1);
		hear();
	}
	for (unsigned int n = 0; n < 7; n++) {
		from(n, "z", 1);
		wants(0, 256, 128 * KIB);
		hear();
		cr_assert_eq(b.a.n_granted, 2, "%zu", b.a.n_granted);
		cr_expect(b.a.is_full, "it has its share");
		for (size_t i = 0; i < b.a.n_granted; i++) {
			cr_expect(!seen[b.a.granted[i]]);
			seen[b.a.granted[i]] = true;
			if (i > 0)
				cr_expect_eq(b.a.granted[i],
					     b.a.granted[i - 1] + 1);
		}
	}
}

Test(tracker, demand_comes_before_bulk_and_beside_a_full_window,
     .init = begin_default, .fini = end)
{
	unsigned int given = 0;

	for (unsigned int n = 10; n < 20; n++) {
		from(n, "z", 1);
		wants(0, 256, 512 * KIB);
		hear();
		given += (unsigned int)b.a.n_granted;
	}
	cr_assert_eq(given, 3, "seven eighths of the first window");
	from(2, "z", 1);
	wants(100, 2, 512 * KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect_gt(b.a.retry_ns, 0);
	b.c.n_demand = 1;
	hear();
	cr_assert_eq(b.a.n_granted, 1);
	cr_expect_eq(b.a.granted[0], 100);
}

Test(tracker, one_holder_in_a_zone_and_demand_in_each, .init = begin_default,
     .fini = end)
{
	from(1, "a", 1);
	wants(7, 1, MIB);
	b.c.n_demand = 1;
	hear();
	cr_assert(is_granted(7));
	from(2, "a", 1);
	wants(7, 1, MIB);
	b.c.n_demand = 1;
	hear();
	cr_expect(!is_granted(7));
	from(3, "b", 1);
	wants(7, 1, MIB);
	hear();
	cr_expect(!is_granted(7), "bulk waits for the other zone's");
	b.c.n_demand = 1;
	hear();
	cr_expect(is_granted(7));
}

Test(tracker, a_dead_holder_blocks_a_piece_no_longer_than_its_lease,
     .init = begin_default, .fini = end)
{
	int64_t ttl;

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	cr_assert(is_granted(7));
	ttl = b.a.ttl_ns;
	cr_expect_geq(ttl, tracker_config_default.lease_min_ns);
	b.now += ttl - 1;
	from(2, "z", 1);
	wants(7, 1, MIB);
	hear();
	cr_expect(!is_granted(7));
	b.now += 1;
	hear();
	cr_expect(is_granted(7));
}

Test(tracker, what_was_read_is_not_leased_while_its_reader_is_there,
     .init = begin_default, .fini = end)
{
	static const uint32_t seven[] = { 7 };

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, seven, 1);

	from(2, "other", 1);
	wants(7, 1, MIB);
	b.c.wants_members = true;
	b.c.n_demand = 1;
	hear();
	cr_expect(!is_granted(7));
	cr_assert_geq(b.a.n_members, 1);
	cr_expect_str_eq(b.a.members[0].node, "n1");

	/* Demand believes it shorter than bulk. */
	b.now += tracker_config_default.demand_done_ns;
	b.c.n_demand = 0;
	hear();
	cr_expect(!is_granted(7));
	b.c.n_demand = 1;
	hear();
	cr_expect(is_granted(7));
}

Test(tracker, a_reader_that_leaves_or_lost_it_frees_the_piece,
     .init = begin_default, .fini = end)
{
	static const uint32_t some[] = { 7, 8 };

	from(1, "z", 1);
	wants(7, 2, KIB);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, some, 2);
	/* It asks itself for what it had. */
	from(1, "z", 1);
	wants(8, 1, MIB);
	hear();
	cr_expect(is_granted(8));
	from(2, "z", 1);
	wants(7, 2, MIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	from(1, "z", 1);
	b.c.leaving = true;
	hear();
	from(2, "z", 1);
	wants(7, 2, KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

static void reads_one(unsigned int node, uint32_t piece, int64_t ns)
{
	from(node, "z", 1);
	wants(piece, 1, 128 * KIB);
	hear();
	cr_assert(is_granted(piece));
	b.now += ns;
	from(node, "z", 1);
	report(true, &piece, 1);
}

/* The last pieces are not waited for as long as one slow node needs. */
Test(tracker, who_finds_nothing_else_gets_what_is_late, .init = begin_default,
     .fini = end)
{
	for (uint32_t k = 0; k < 30; k++)
		reads_one(2, 100 + k, 60 * MS);
	reads_one(1, 200, 900 * MS);
	from(1, "z", 1);
	wants(5, 1, MIB);
	hear();
	cr_assert(is_granted(5));
	cr_assert_gt(b.a.ttl_ns, 8 * SECOND, "%g s", (double)b.a.ttl_ns / 1e9);
	b.now += SECOND;
	from(2, "z", 1);
	wants(5, 1, MIB);
	hear();
	cr_expect_not(is_granted(5), "it is in time");
	b.now += 6 * SECOND;
	from(2, "z", 1);
	wants(5, 2, 128 * KIB);
	hear();
	cr_expect_not(is_granted(5), "there is another one for it");
	cr_expect(is_granted(6));
	from(3, "z", 1);
	wants(5, 2, 128 * KIB);
	hear();
	cr_expect(is_granted(5));
	cr_expect_not(is_granted(6));
}

static int64_t retry_of_one_more_than(unsigned int n)
{
	for (unsigned int k = 0; k < n; k++) {
		from(k, "z", n);
		wants(0, 256, 128 * KIB);
		hear();
	}
	from(n, "z", n);
	wants(900, 1, 128 * KIB); /* nobody else's */
	hear();
	cr_assert_eq(b.a.n_granted, 0);
	return b.a.retry_ns;
}

/* Up to a quarter by chance is in both. */
Test(tracker, of_many_each_comes_again_later, .init = begin_default,
     .fini = end)
{
	cr_expect_gt(retry_of_one_more_than(64),
		     3 * retry_of_one_more_than(20));
}

/* Whoever asks first would get all there is, and read it over one link. */
Test(tracker, who_has_read_nothing_gets_little, .init = begin_default,
     .fini = end)
{
	static const uint32_t first[] = { 0 };

	from(1, "z", 1);
	wants(0, 256, 128 * KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 2, "%zu", b.a.n_granted);
	cr_expect(b.a.is_full);
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, first, 1);
	from(1, "z", 1);
	wants(2, 254, 128 * KIB);
	hear();
	cr_expect_gt(b.a.n_granted, 4, "%zu", b.a.n_granted);
}

Test(tracker, who_has_less_than_it_read_has_none_of_it, .init = begin_default,
     .fini = end)
{
	static const uint32_t some[] = { 7, 8 };
	struct tracker_image_info info;

	from(1, "z", 1);
	wants(7, 2, 1000);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, some, 2);
	from(2, "z", 1);
	wants(7, 2, 1000);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	/* Started anew, with nothing, and nobody heard it leave. */
	from(1, "z", 1);
	b.c.have = 0;
	hear();
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.done, 0);
	from(2, "z", 1);
	wants(7, 2, 1000);
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

Test(tracker, a_lost_answer_is_given_again_but_not_longer,
     .init = begin_default, .fini = end)
{
	int64_t ttl;

	from(1, "z", 1);
	wants(7, 1, MIB);
	hear();
	ttl = b.a.ttl_ns;
	b.now += 100 * MS;
	hear();
	cr_assert_eq(b.a.n_granted, 1);
	cr_expect_eq(b.a.ttl_ns, ttl - 100 * MS);
	/* Named twice in one call: still once. */
	b.want[1] = 7;
	b.bytes[1] = MIB;
	b.c.n_want = 2;
	hear();
	cr_expect_eq(b.a.n_granted, 1);
}

static uint64_t window(void)
{
	struct tracker_image_info i;

	cr_assert(tracker_get_image(b.t, &b.c.image, &i));
	cr_expect_leq(i.flying, i.window);
	return i.window;
}

/* Ask for `n` pieces of a MiB, and report them so much later. */
static void round_of(uint32_t *at, uint32_t n, int64_t took, bool done)
{
	uint32_t got[TRACKER_PIECES_MAX];
	size_t n_got;

	from(1, "z", 1);
	wants(*at, n, MIB);
	*at += n;
	hear();
	n_got = b.a.n_granted;
	memcpy(got, b.a.granted, sizeof(got));
	b.now += took;
	from(1, "z", 1);
	report(done, got, n_got);
}

Test(tracker, the_window_grows_with_success_and_halves_with_failure,
     .init = begin_default, .fini = end)
{
	uint64_t first, grown, cut;
	uint32_t at = 0;

	round_of(&at, 1, 10 * MS, true);
	first = window();
	round_of(&at, 60, 100 * MS, true);
	grown = window();
	cr_expect_gt(grown, first);
	round_of(&at, 60, 100 * MS, false);
	cut = window();
	cr_expect_eq(cut, grown / 2);
	/* What fails together is one failure. */
	round_of(&at, 10, 100 * MS, false);
	cr_expect_eq(window(), cut);
	b.now += SECOND;
	round_of(&at, 10, 100 * MS, false);
	cr_expect_eq(window(), cut / 2);
	/* From then on it grows slowly. */
	b.now += SECOND;
	cut = window();
	for (int i = 0; i < 6; i++)
		round_of(&at, 40, 100 * MS, true);
	cr_expect_gt(window(), cut);
	cr_expect_leq(window(), cut + 6 * MIB);
}

/* Of pieces as large as may be, two do not fit what is left of the window for bulk,
 * though one of them is less than half of it. */
Test(tracker, large_pieces_do_not_keep_the_window_small, .init = begin_default,
     .fini = end)
{
	uint32_t at = 0;

	for (int i = 0; i < 20; i++) {
		uint32_t got[TRACKER_PIECES_MAX];
		size_t n_got;

		from(1, "z", 1);
		wants(at, 8, TRACKER_PIECE_BYTES_MAX);
		hear();
		n_got = b.a.n_granted;
		at += (uint32_t)n_got;
		memcpy(got, b.a.granted, sizeof(got));
		b.now += 5 * MS;
		from(1, "z", 1);
		report(true, got, n_got);
	}
	cr_expect_geq(window(), 8 * (uint64_t)TRACKER_PIECE_BYTES_MAX);
}

Test(tracker, nobody_reads_while_the_origin_asks_for_patience,
     .init = begin_default, .fini = end)
{
	static const uint32_t zero[] = { 0 };

	/* A stranger's word does not count. */
	from(2, "z", 1);
	b.c.origin_wait_ns = 3 * SECOND;
	hear();
	from(1, "z", 1);
	wants(0, 1, MIB);
	hear();
	cr_assert(is_granted(0));
	from(1, "z", 1);
	b.c.origin_wait_ns = 3 * SECOND;
	report(false, zero, 1);
	from(3, "z", 1);
	wants(5, 2, 128 * KIB);
	b.c.n_demand = 1;
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect_geq(b.a.retry_ns, 3 * SECOND);
	b.now += 3 * SECOND;
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

Test(tracker, leases_last_thrice_what_reads_need, .init = begin_default,
     .fini = end)
{
	uint32_t at = 0;

	/* 2 s a MiB, again and again. */
	for (int i = 0; i < 60; i++) {
		from(1, "z", 1);
		wants(at, 1, MIB);
		hear();
		b.now += 1900 * MS;
		from(1, "z", 1);
		report(true, &at, 1);
		at++;
	}
	from(1, "z", 1);
	wants(at, 1, MIB);
	hear();
	cr_expect_gt(b.a.ttl_ns, 4500 * MS);
	cr_expect_lt(b.a.ttl_ns, 6500 * MS);
}

/* Node `n` reads a piece of a MiB in so much time, as often as it says. */
static void reads(unsigned int n, uint32_t *at, int64_t took,
		  unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		from(n, "z", 1);
		wants(*at, 1, MIB);
		hear();
		cr_assert(is_granted(*at));
		b.now += took;
		from(n, "z", 1);
		report(true, at, 1);
		(*at)++;
	}
}

Test(tracker, who_is_late_gets_nothing_while_others_are_in_time,
     .init = begin_default, .fini = end)
{
	uint32_t at = 0, lent;

	for (unsigned int n = 1; n <= 4; n++)
		reads(n, &at, 20 * MS, 8);
	from(4, "z", 1);
	wants(at, 1, MIB);
	hear();
	cr_assert(is_granted(at));
	b.now += b.a.ttl_ns + MS;
	lent = at++;
	from(4, "z", 1);
	wants(at, 1, MIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect(b.a.is_full);
	/* What it had is somebody else's now. */
	from(1, "z", 1);
	wants(lent, 1, MIB);
	hear();
	cr_expect(is_granted(lent));
	/* In a while it is tried again. */
	b.now += 4 * SECOND;
	from(4, "z", 1);
	wants(at, 1, MIB);
	hear();
	cr_expect(is_granted(at));
}

/* Their links are slower than was thought: nothing would be read at all. */
Test(tracker, when_all_are_late_nobody_is, .init = begin_default, .fini = end)
{
	uint32_t at = 0, given = 0;
	int64_t longest = 0;

	for (unsigned int n = 1; n <= 4; n++)
		reads(n, &at, 20 * MS, 8);
	for (unsigned int n = 1; n <= 4; n++) {
		from(n, "z", 1);
		wants(at++, 1, MIB / 4);
		hear();
		cr_assert_eq(b.a.n_granted, 1);
		if (b.a.ttl_ns > longest)
			longest = b.a.ttl_ns;
	}
	b.now += longest + MS;
	/* The first ones were late before it was seen that all are. */
	for (unsigned int n = 1; n <= 4; n++) {
		from(n, "z", 1);
		wants(at++, 1, MIB / 4);
		hear();
		given += b.a.n_granted == 1;
	}
	cr_expect_geq(given, 2);
}

Test(tracker, silent_members_go_and_their_image_with_them,
     .init = begin_default, .fini = end)
{
	struct tracker_stats s;

	from(1, "z", 1);
	wants(0, 10, MIB);
	hear();
	b.now += tracker_config_default.member_ttl_ns / 2;
	from(2, "z", 1);
	hear();
	cr_expect_eq(b.a.swarm, 2);
	b.now += tracker_config_default.member_ttl_ns / 2 + 1;
	tracker_sweep(b.t, b.now);
	tracker_get_stats(b.t, &s);
	cr_expect_eq(s.members, 1);
	cr_expect_eq(s.leases, 0);
	b.now += tracker_config_default.member_ttl_ns;
	tracker_sweep(b.t, b.now);
	tracker_get_stats(b.t, &s);
	cr_expect_eq(s.members, 0);
	cr_expect_eq(s.images, 0);
	cr_expect_eq(s.memory, 0);
}

/* 300 nodes: 3 zones of 10 racks of 10. */
static void crowd(void)
{
	for (unsigned int n = 0; n < 300; n++) {
		char rack[16], zone[16];

		(void)snprintf(zone, sizeof(zone), "z%u", n / 100);
		(void)snprintf(rack, sizeof(rack), "r%u", n / 10 % 10);
		from(n, zone, 1)->rack = rack;
		hear();
	}
}

Test(tracker, an_answer_names_near_ones_and_always_far_ones,
     .init = begin_default, .fini = end)
{
	size_t rack = 0, zone = 0, far = 0;

	crowd();
	from(5, "z0", 1)->rack = "r0";
	b.c.wants_members = true;
	hear();
	cr_assert_eq(b.a.n_members, TRACKER_MEMBERS_MAX);
	cr_expect_eq(b.a.swarm, 300);
	for (size_t i = 0; i < b.a.n_members; i++) {
		const struct tracker_member *m = &b.a.members[i];

		cr_expect(strcmp(m->node, "n5") != 0);
		for (size_t k = 0; k < i; k++)
			cr_expect(strcmp(m->node, b.a.members[k].node) != 0);
		if (strcmp(m->zone, "z0") != 0)
			far++;
		else if (strcmp(m->rack, "r0") == 0)
			rack++;
		else
			zone++;
	}
	cr_expect_eq(rack, 9, "all there are");
	cr_expect_geq(zone, 32);
	cr_expect_geq(far, 13);
}

Test(tracker, limits_hold_and_the_longest_silent_leave)
{
	struct tracker_config cfg = tracker_config_default;
	struct tracker_stats s;

	cfg.images_max = 3;
	cfg.members_max = 10;
	cfg.memory_max = 3 * PIECES * 16;
	begin(&cfg);
	for (unsigned int n = 0; n < 40; n++) {
		from(n, "z", n % 5);
		wants(0, 4, MIB);
		b.now += MS;
		hear();
		tracker_get_stats(b.t, &s);
		cr_expect_leq(s.images, 3);
		cr_expect_leq(s.members, 10);
		cr_expect_leq(s.memory, cfg.memory_max);
		cr_expect_geq(b.a.swarm, 1);
	}
	end();
}

Test(tracker, who_says_another_number_of_pieces_spoils_nothing,
     .init = begin_default, .fini = end)
{
	struct tracker_image_info info;

	/* The first caller of all is the wrong one. */
	from(1, "z", 1)->n_pieces = 1;
	b.c.have = 0;
	wants(0, 1, MIB);
	hear();
	cr_expect_eq(b.a.n_granted, 1);
	for (unsigned int n = 2; n < 5; n++) {
		from(n, "z", 1)->wants_members = true;
		wants(0, 1, MIB);
		hear();
		cr_expect_eq(b.a.swarm, n - 1, "n%u", n);
		cr_expect_eq(b.a.n_granted, n == 2, "n%u", n);
		for (size_t k = 0; k < b.a.n_members; k++)
			cr_expect_str_neq(b.a.members[k].node, "n1");
	}
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.n_pieces, PIECES);
	cr_expect_eq(info.members, 3);
	from(1, "z", 1)->n_pieces = 1;
	b.c.have = 0;
	b.c.leaving = true;
	hear();
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.members, 3);
}

Test(tracker, refuses_what_cannot_be, .init = begin_default, .fini = end)
{
	static const uint32_t beyond[] = { PIECES };

	from(1, "z", 1);
	hear();
	from(2, "z", 1)->have = PIECES + 1;
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
	from(2, "z", 1)->done = beyond;
	b.c.n_done = 1;
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
	from(2, "z\n", 1);
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
	from(2, "z", 1)->node = "";
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
	from(2, "z", 1);
	wants(0, 1, 0);
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
	wants(0, 1, 1);
	b.c.n_demand = 2;
	cr_expect_eq(tracker_hear(b.t, &b.c, b.now, &b.a, NULL), -EINVAL);
}

/* ----------------------------------------------------------------- rendezvous --- */

Test(rendezvous, moves_only_the_images_of_one_that_is_lost)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	static const char *const fewer[] = { "a", "c", "d" };
	unsigned int count[4] = { 0 };

	for (unsigned int n = 0; n < 1000; n++) {
		size_t four[4], three[3];
		struct digest d;

		cr_assert_eq(digest_of(&n, sizeof(n), &d), 0);
		cr_assert_eq(rendezvous(&d, names, 4, four, NULL), 0);
		cr_assert_eq(rendezvous(&d, fewer, 3, three, NULL), 0);
		count[four[0]]++;
		if (four[0] == 1)
			cr_expect_str_eq(fewer[three[0]], names[four[1]]);
		else
			cr_expect_str_eq(fewer[three[0]], names[four[0]]);
	}
	for (size_t i = 0; i < 4; i++)
		cr_expect(count[i] > 190 && count[i] < 310, "%u", count[i]);
}

/* ------------------------------------------------- calls that are overtaken --- */

/* Node 1, in a run of it and an opening of the image. */
static struct tracker_call *from_opening(uint64_t run, uint64_t opening)
{
	struct tracker_call *c = from(1, "z", 1);

	c->run = run;
	c->opening = opening;
	return c;
}

static uint64_t members(void)
{
	struct tracker_stats stats;

	tracker_get_stats(b.t, &stats);
	return stats.members;
}

static void leaves(uint64_t run, uint64_t opening)
{
	from_opening(run, opening)->leaving = true;
	hear();
}

Test(tracker, who_left_before_it_came_again_is_there, .init = begin_default,
     .fini = end)
{
	from_opening(5, 1);
	hear();
	from_opening(5, 3);
	hear();
	leaves(5, 1);
	cr_expect_eq(members(), 1);
	/* The one before the node was started anew: its number may be larger. */
	leaves(4, 9);
	cr_expect_eq(members(), 1);
	leaves(5, 3);
	cr_expect_eq(members(), 0);
}

Test(tracker, who_tells_no_opening_leaves_as_ever, .init = begin_default,
     .fini = end)
{
	from_opening(5, 1);
	hear();
	leaves(0, 0);
	cr_expect_eq(members(), 0);
	from(1, "z", 1);
	hear();
	leaves(5, 1);
	cr_expect_eq(members(), 0);
}

Test(tracker, an_announcement_that_was_overtaken_changes_nothing_but_leases,
     .init = begin_default, .fini = end)
{
	static const uint32_t seven[] = { 7 };
	struct tracker_image_info info;

	from_opening(5, 1);
	wants(7, 1, MIB);
	hear();
	cr_expect(is_granted(7));
	b.now += 10 * MS;
	from_opening(5, 2)->have = PIECES;
	hear();
	from_opening(5, 1)->have = 1;
	b.c.done = seven;
	b.c.n_done = 1;
	b.c.wants_members = true;
	wants(8, 1, MIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect(b.a.is_full);
	cr_expect_eq(b.a.swarm, 1);
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.complete, 1);
	cr_expect_eq(info.leases, 0);
	cr_expect_eq(info.done, 1);
	/* Another run is not known to be before. */
	from_opening(4, 1)->have = 1;
	hear();
	cr_assert(tracker_get_image(b.t, &b.c.image, &info));
	cr_expect_eq(info.complete, 0);
}

/* Only addresses that take turns are two nodes: one may move. */
Test(tracker, two_nodes_of_one_name_are_told_of_each_other,
     .init = begin_default, .fini = end)
{
	struct tracker_stats stats;

	from(1, "a", 1);
	hear();
	b.c.addr = "10.0.0.9:7000";
	hear();
	cr_expect_str_eq(b.a.namesake, "", "it has moved");
	hear();
	cr_expect_str_eq(b.a.namesake, "");
	b.c.addr = "10.0.0.1:7000";
	hear();
	cr_expect_str_eq(b.a.namesake, "10.0.0.9:7000");
	b.c.addr = "10.0.0.9:7000";
	hear();
	cr_expect_str_eq(b.a.namesake, "10.0.0.1:7000");
	hear();
	cr_expect_str_eq(b.a.namesake, "");
	/* It comes back after it was gone. */
	b.now += 3600 * SECOND;
	b.c.addr = "10.0.0.1:7000";
	hear();
	cr_expect_str_eq(b.a.namesake, "");
	tracker_get_stats(b.t, &stats);
	cr_expect_eq(stats.namesakes_total, 2);
}
