// SPDX-License-Identifier: Apache-2.0
/* What the tracker learns of the origin and of members, and what follows. */
#include "tests/unit/p2p/tracker_bench.h"

TestSuite(tracker_window, .timeout = 120);

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

Test(tracker_window, the_window_grows_with_success_and_halves_with_failure,
     .init = begin_default, .fini = end)
{
	uint64_t first, grown, cut;
	uint32_t at = 0;

	round_of(&at, 1, 10 * MS, true);
	first = window();
	for (int i = 0; i < 2; i++)
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
Test(tracker_window, large_pieces_do_not_keep_the_window_small,
     .init = begin_default, .fini = end)
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

Test(tracker_window, who_is_asked_for_patience_waits_and_nobody_else,
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
	from(1, "z", 1);
	wants(10, 2, 128 * KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 0);
	cr_expect(b.a.is_full);
	cr_expect_geq(b.a.retry_ns, 3 * SECOND);
	/* But for its readers. */
	b.c.n_demand = 1;
	hear();
	cr_expect_eq(b.a.n_granted, 1);
	cr_expect(is_granted(10));
	from(1, "z", 1);
	report(true, (uint32_t[]){ 10 }, 1);
	from(3, "z", 1);
	wants(5, 2, 128 * KIB);
	b.c.n_demand = 1;
	hear();
	cr_expect_eq(b.a.n_granted, 2);
	b.now += 3 * SECOND;
	from(1, "z", 1);
	wants(20, 2, 128 * KIB);
	hear();
	cr_expect_eq(b.a.n_granted, 2);
}

/* It says each time, before that is over, that the origin wants an hour of patience. */
Test(tracker_window, one_node_keeps_no_reader_waiting_for_ever,
     .init = begin_default, .fini = end)
{
	from(1, "z", 1);
	wants(5, 1, MIB);
	hear();
	cr_assert(is_granted(5));
	for (uint32_t k = 0; k < 3; k++) {
		b.now += 9 * SECOND;
		from(1, "z", 1);
		b.c.origin_wait_ns = 3600 * SECOND;
		hear();
		from(2, "z", 1);
		wants(6 + k, 1, MIB);
		b.c.n_demand = 1;
		hear();
		cr_expect(is_granted(6 + k));
		from(2, "z", 1);
		report(true, (uint32_t[]){ 6 + k }, 1);
		from(3 + k, "z", 1);
		wants(16 + k, 1, MIB);
		hear();
		cr_expect(is_granted(16 + k), "round %u", k);
	}
}

/* Of 16 whom the origin serves, one says that it does not. */
Test(tracker_window, one_of_many_does_not_keep_the_window_small,
     .init = begin_default, .fini = end)
{
	uint32_t at = 0;
	uint64_t before;

	for (int k = 0; k < 20; k++)
		round_of(&at, 32, 10 * MS, true);
	for (unsigned int n = 2; n <= 16; n++) {
		from(n, "z", 1);
		wants(900 + n, 1, MIB);
		hear();
	}
	before = window();
	cr_assert_geq(before, 16 * MIB);
	for (int k = 0; k < 4; k++) {
		b.now += 1500 * MS;
		from(2, "z", 1);
		b.c.origin_wait_ns = SECOND;
		hear();
	}
	cr_expect_geq(window(), before / 2, "%llu of %llu",
		      (unsigned long long)window(), (unsigned long long)before);
	cr_expect_lt(window(), before, "it counts once");
}

/* What it holds waits at its own link: the origin idles.  (All others were full after
 * 28 s, not 14, where one of 16 nodes was 50 times slower.) */
Test(tracker_window, one_slow_node_does_not_take_the_others_room,
     .init = begin_default, .fini = end)
{
	static const uint32_t first = 0;
	unsigned int given = 0;

	from(1, "z", 1);
	wants(first, 1, 128 * KIB);
	hear();
	b.now += 900 * MS;
	from(1, "z", 1);
	report(true, &first, 1);
	from(1, "z", 1);
	wants(100, 200, 128 * KIB);
	b.c.n_demand = 200;
	hear();
	cr_expect_eq(b.a.n_granted, 8, "%zu", b.a.n_granted);
	cr_expect(b.a.is_full);
	for (unsigned int n = 2; n < 9; n++) {
		from(n, "z", 1);
		wants(400, 256, 128 * KIB);
		hear();
		given += b.a.n_granted == 2;
	}
	cr_expect_geq(given, 6, "%u", given);
}

/* Whoever asks first would get all there is, and read it over one link. */
Test(tracker_window, who_has_read_nothing_gets_little, .init = begin_default,
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
	cr_expect_geq(b.a.n_granted, 3, "%zu", b.a.n_granted);
}

/* Others are members, and want nothing: a lone reader was leased one piece of 197 kB at a
 * time, and waited for each. */
Test(tracker_window, the_window_is_shared_by_those_who_ask,
     .init = begin_default, .fini = end)
{
	static const uint32_t first[] = { 0 };

	for (unsigned int n = 1; n <= 40; n++) {
		from(n, "z", 1);
		hear();
	}
	from(1, "z", 1);
	wants(0, 1, 128 * KIB);
	hear();
	b.now += 10 * MS;
	from(1, "z", 1);
	report(true, first, 1);
	from(1, "z", 1);
	wants(1, 200, 128 * KIB);
	hear();
	cr_expect_gt(b.a.n_granted, 3, "%zu", b.a.n_granted);
	/* Many ask: what is left is shared, also some seconds later. */
	for (unsigned int n = 2; n <= 40; n++) {
		from(n, "z", 1);
		wants(300, 1, 128 * KIB);
		hear();
	}
	b.now += tracker_config_default.interval_ns;
	for (uint32_t p = 1; p <= 20; p++) {
		from(1, "z", 1);
		report(true, &p, 1);
	}
	from(1, "z", 1);
	wants(400, 200, 128 * KIB);
	hear();
	cr_expect_leq(b.a.n_granted, 2, "%zu", b.a.n_granted);
}

Test(tracker_window, leases_last_thrice_what_reads_need, .init = begin_default,
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

Test(tracker_window, who_is_late_gets_nothing_while_others_are_in_time,
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

/* A share is of bytes, and these are what the asker says. */
Test(tracker_window, who_says_that_pieces_are_small_does_not_hold_all_for_ever,
     .init = begin_default, .fini = end)
{
	uint32_t at = 500;

	for (unsigned int n = 1; n <= 4; n++)
		reads(n, &at, 20 * MS, 8);
	for (unsigned int k = 0; k < 8; k++) {
		from(9, "z", 1);
		wants(0, TRACKER_PIECES_MAX, 1);
		b.c.n_demand = TRACKER_PIECES_MAX;
		hear();
		b.now += SECOND + MS;
		for (unsigned int n = 1; n <= 4; n++)
			reads(n, &at, 20 * MS, 1);
	}
	from(9, "z", 1);
	wants(0, TRACKER_PIECES_MAX, 1);
	b.c.n_demand = TRACKER_PIECES_MAX;
	hear();
	cr_expect_leq(b.a.n_granted, 8, "%zu", b.a.n_granted);
	from(1, "z", 1);
	wants(0, TRACKER_PIECES_MAX, 4 * KIB);
	hear();
	cr_expect_geq(b.a.n_granted, 32, "%zu", b.a.n_granted);
}

/* Their links are slower than was thought: nothing would be read at all. */
Test(tracker_window, when_all_are_late_nobody_is, .init = begin_default,
     .fini = end)
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

#define CONNECTIONS 6u

/* A node that reads pieces of a MiB, each by a connection of its own. */
struct reading {
	unsigned int node;
	uint32_t next; /* piece to ask for */
	int64_t took;  /* by a connection for a piece */
	unsigned int n, most;
	struct {
		uint32_t piece;
		int64_t ends;
	} flies[64]; /* in order */
};

/* Ask for more, as a node does whenever a piece came. */
static void reading_ask(struct reading *r)
{
	from(r->node, "z", 1);
	wants(r->next, 8, MIB);
	hear();
	for (size_t k = 0; k < b.a.n_granted; k++) {
		int64_t free = r->n < CONNECTIONS
				       ? b.now
				       : r->flies[r->n - CONNECTIONS].ends;

		cr_assert_lt(r->n, 64);
		cr_assert_eq(b.a.granted[k], r->next);
		r->flies[r->n].piece = r->next++;
		r->flies[r->n++].ends = free + r->took;
	}
	r->most = r->n > r->most ? r->n : r->most;
}

/* Until the next piece is here. */
static void reading_wait(struct reading *r)
{
	uint32_t piece = r->flies[0].piece;

	b.now = r->flies[0].ends;
	r->n--;
	memmove(r->flies, r->flies + 1, r->n * sizeof(r->flies[0]));
	from(r->node, "z", 1);
	report(true, &piece, 1);
}

/* As an object store gives each connection a rate. (32.1 s for 149 MB, not 5.3, where a quarter
 * of the window of half a second was less than two pieces.) */
Test(tracker_window, who_is_alone_reads_by_all_its_connections,
     .init = begin_default, .fini = end)
{
	static const int64_t times[] = { 40 * MS, 168 * MS, 400 * MS,
					 800 * MS };

	for (unsigned int k = 0; k < ARRAY_SIZE(times); k++) {
		struct reading r = { .node = 1, .took = times[k] };

		end();
		begin_default();
		for (unsigned int i = 0; i < 40; i++) {
			reading_ask(&r);
			reading_wait(&r);
		}
		cr_expect_geq(r.most, CONNECTIONS, "%u at %lld ms", r.most,
			      (long long)(times[k] / MS));
	}
}

/* A lone member holds what it reads in a second, so that a newcomer waits no longer for room. */
Test(tracker_window, who_was_alone_makes_room_for_others, .init = begin_default,
     .fini = end)
{
	struct reading r = { .node = 1, .took = 168 * MS };
	unsigned int ended = 0;
	int64_t came;

	for (unsigned int i = 0; i < 60; i++) {
		reading_ask(&r);
		reading_wait(&r);
	}
	reading_ask(&r);
	cr_assert_geq(r.n, CONNECTIONS);
	cr_expect_leq(r.flies[r.n - 1].ends - b.now, SECOND);
	came = b.now;
	for (;;) {
		from(2, "z", 1);
		wants(500, 8, MIB);
		hear();
		if (b.a.n_granted)
			break;
		cr_assert_lt(++ended, 10);
		reading_wait(&r);
		reading_ask(&r);
	}
	cr_expect_leq(b.now - came, 2 * 168 * MS);
	/* From now on it has half. */
	for (unsigned int i = 0; i < 20; i++) {
		reading_wait(&r);
		reading_ask(&r);
	}
	cr_expect_leq((uint64_t)r.n * MIB, window() / 2 + MIB, "%u", r.n);
}

/* A lone member's leases are bounded by its link: more of them would wait there. */
Test(tracker_window, who_is_alone_on_a_slow_link_holds_little,
     .init = begin_default, .fini = end)
{
	struct reading r = { .node = 1, .took = 0 };
	int64_t link = b.now;

	for (unsigned int i = 0; i < 40; i++) {
		unsigned int had = r.n;

		reading_ask(&r);
		for (unsigned int k = had; k < r.n; k++) {
			link = (link > b.now ? link : b.now) + 500 * MS;
			r.flies[k].ends = link;
		}
		reading_wait(&r);
	}
	cr_expect_leq(r.most, 4, "%u", r.most);
}
