// SPDX-License-Identifier: Apache-2.0
/* Members: who is there, who is named to whom, and limits. */
#include "p2p/tracker/tracker_priv.h"
#include "tests/unit/p2p/tracker_bench.h"

TestSuite(tracker, .timeout = 120);

#define MANY 10u /* nodes of one image, more than may have made it up */

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

/* So many nodes take part in each of so many images, and have leases in them. */
static void share_images(unsigned int n, unsigned int nodes)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int m = 0; m < nodes; m++) {
			from(m, "z", i);
			wants(10 * m, 1, 65536);
			hear();
		}
}

/* The next call is of somebody who has made up an image, of the most pieces. */
static void made_up(unsigned int image)
{
	from(99, "z", 0)->n_pieces = TRACKER_IMAGE_PIECES_MAX;
	memset(b.c.image.b, 0xee, sizeof(b.c.image.b));
	memcpy(b.c.image.b + 8, &image, sizeof(image));
	for (uint32_t k = 0; k < TRACKER_PIECES_MAX; k++) {
		b.want[k] = k * 65536 + image;
		b.bytes[k] = 65536;
	}
	b.c.n_want = TRACKER_PIECES_MAX;
}

/* May fail. */
static int say(void)
{
	return tracker_hear(b.t, &b.c, b.now, &b.a, NULL);
}

Test(tracker, a_call_costs_what_it_names, .init = begin_default, .fini = end)
{
	struct tracker_stats s;

	made_up(0);
	b.c.n_want = 1;
	hear();
	cr_expect_eq(b.a.n_granted, 1);
	tracker_get_stats(b.t, &s);
	cr_expect_lt(s.memory, MIB);
}

Test(tracker, who_is_alone_takes_no_memory_from_what_others_share)
{
	struct tracker_config cfg = tracker_config_default;
	struct tracker_stats s;
	uint64_t leases;

	cfg.memory_max = 8 * MIB;
	begin(&cfg);
	share_images(100, 4);
	tracker_get_stats(b.t, &s);
	leases = s.leases;
	for (unsigned int k = 0; k < 50; k++) {
		made_up(k % 3);
		for (uint32_t w = 0; w < TRACKER_PIECES_MAX; w++)
			b.want[w] += 256 * k;
		(void)say();
		tracker_get_stats(b.t, &s);
		cr_expect_leq(s.memory, cfg.memory_max);
	}
	for (unsigned int i = 0; i < 100; i++)
		for (unsigned int m = 0; m < 4; m++) {
			from(m, "z", i);
			hear();
			cr_expect_eq(b.a.swarm, 4, "image %u", i);
		}
	tracker_get_stats(b.t, &s);
	cr_expect_geq(s.leases, leases);
	/* Nor does he keep it from one who comes now, and is alone as he is. */
	from(1, "z", 200)->n_pieces = 100000;
	wants(0, 200, 65536);
	hear();
	cr_expect_gt(b.a.n_granted, 0);
	end();
}

Test(tracker, who_is_alone_takes_no_place_from_what_others_share)
{
	struct tracker_config cfg = tracker_config_default;
	struct tracker_stats s;

	cfg.images_max = 8;
	begin(&cfg);
	share_images(6, MANY);
	for (unsigned int k = 0; k < 100; k++) {
		made_up(k);
		b.c.n_want = 1;
		(void)say();
	}
	for (unsigned int i = 0; i < 6; i++) {
		from(1, "z", i);
		hear();
		cr_expect_eq(b.a.swarm, MANY, "image %u", i);
	}
	/* He gives way to somebody who has fewer of his own. */
	from(1, "z", 200);
	hear();
	cr_expect_eq(b.a.swarm, 1);
	made_up(100);
	cr_expect_eq(say(), 0);
	from(1, "z", 200);
	hear();
	tracker_get_stats(b.t, &s);
	cr_expect_eq(s.images, 8);
	/* All are shared: no place is left for one who is alone. */
	for (unsigned int m = 2; m < MANY; m++)
		for (unsigned int i = 200; i < 202; i++) {
			from(m + MANY * (i - 200), "z", i);
			hear();
		}
	made_up(101);
	cr_expect_eq(say(), -ENOSPC);
	end();
}

/* The next call is of one of two who made up images together, each of which both
 * take part in. */
static int say_together(unsigned int node, unsigned int image,
			uint32_t from_piece)
{
	made_up(image);
	(void)snprintf(b.node, sizeof(b.node), "two%u", node);
	b.c.n_want = from_piece == UINT32_MAX ? 0 : TRACKER_PIECES_MAX;
	for (uint32_t k = 0; k < b.c.n_want; k++)
		b.want[k] = k * 65536 + from_piece;
	return say();
}

Test(tracker, two_who_make_images_up_together_leave_places)
{
	struct tracker_config cfg = tracker_config_default;

	cfg.images_max = 64;
	begin(&cfg);
	for (unsigned int m = 1; m < 3; m++) {
		from(m, "z", 1);
		hear();
	}
	for (unsigned int k = 0; k < 100; k++)
		for (unsigned int m = 0; m < 2; m++)
			(void)say_together(m, k, UINT32_MAX);
	/* What two others share stays, and there is a place for what is new. */
	for (unsigned int i = 1; i < 20; i++) {
		from(1, "z", i);
		cr_expect_eq(say(), 0, "image %u", i);
		from(2, "z", i);
		hear();
		cr_expect_eq(b.a.swarm, 2, "image %u", i);
		for (unsigned int m = 0; m < 2; m++)
			(void)say_together(m, 100 + i, UINT32_MAX);
	}
	for (unsigned int i = 1; i < 20; i++) {
		from(2, "z", i);
		hear();
		cr_expect_eq(b.a.swarm, 2, "image %u", i);
	}
	end();
}

Test(tracker, two_who_make_images_up_together_leave_memory)
{
	struct tracker_config cfg = tracker_config_default;
	struct tracker_stats s;

	cfg.memory_max = 16 * MIB;
	begin(&cfg);
	for (unsigned int m = 1; m < 3; m++) {
		from(m, "z", 1)->n_pieces = 100000;
		wants(1000 * m, 10, 65536);
		hear();
	}
	for (unsigned int k = 0; k < 40; k++)
		for (unsigned int m = 0; m < 2; m++)
			(void)say_together(m, k % 8, 512 * k + 256 * m);
	for (unsigned int i = 2; i < 5; i++)
		for (unsigned int m = 1; m < 3; m++) {
			from(m, "z", i)->n_pieces = 100000;
			wants(20000 * i + 1000 * m, 10, 4096);
			cr_expect_eq(say(), 0, "image %u", i);
			cr_expect_eq(b.a.swarm, m, "image %u", i);
			cr_expect_eq(b.a.n_granted, 10, "image %u", i);
		}
	from(1, "z", 1)->n_pieces = 100000;
	hear();
	cr_expect_eq(b.a.swarm, 2);
	tracker_get_stats(b.t, &s);
	cr_expect_leq(s.memory, cfg.memory_max);
	end();
}

Test(tracker, what_images_of_few_take_is_counted_and_given_back)
{
	struct tracker_config cfg = tracker_config_default;

	cfg.images_max = 20;
	cfg.memory_max = 200 * KIB;
	begin(&cfg);
	/* By lot, the same each time: who comes, leaves, is pushed out, or asks. */
	for (unsigned int k = 0; k < 5000; k++) {
		unsigned int lot = k * 2654435761u >> 8;

		from(lot % 14, "z", lot / 14 % 30);
		b.c.leaving = lot / 420 % 5 == 0;
		wants(lot / 2100 % 900, b.c.leaving ? 0 : 20, 65536);
		(void)say();
	}
	b.now += tracker_config_default.member_ttl_ns + 1;
	tracker_sweep(b.t, b.now);
	for (size_t k = 0; k < TRACKER_TAKEN; k++) {
		cr_assert_eq(b.t->taken[k].images, 0);
		cr_assert_eq(b.t->taken[k].memory, 0);
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

static unsigned int longest_chain(const struct tracker *t)
{
	unsigned int most = 0;

	for (size_t k = 0; k < t->n_buckets_i; k++) {
		unsigned int n = 0;

		for (const struct tracker_image *i = t->images[k]; i;
		     i = i->next)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

static unsigned int longest_chain_of_members(const struct tracker *t)
{
	unsigned int most = 0;

	for (size_t k = 0; k < t->n_buckets_m; k++) {
		unsigned int n = 0;

		for (uint32_t m = t->heads[k]; m != NONE;
		     m = t->members[m].next)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

/* Images that nobody has cost the others nothing: no chain grows that one chose. */
Test(tracker, images_that_are_alike_share_no_chain, .init = begin_default,
     .fini = end)
{
	for (unsigned int k = 0; k < 1000; k++) {
		from(1, "z", 1);
		if (k % 2)
			b.c.n_pieces += k;
		else
			put_le32(b.c.image.b + 8, k);
		hear();
	}
	cr_expect_lt(longest_chain(b.t), 16);
	cr_expect_lt(longest_chain_of_members(b.t), 16);
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
