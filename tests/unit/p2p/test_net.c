// SPDX-License-Identifier: Apache-2.0
/* Links without security: what is told, in which order, and what is given back. */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "nodes.h"
#include "p2p/net/net_priv.h"

TestSuite(net, .timeout = 120);

static struct nodes all;
static struct node *a, *b;

/* Two nodes with a link, the first one began it. */
static void pair(void)
{
	nodes_init(&all);
	a = nodes_add(&all, "a");
	b = nodes_add(&all, "b");
	nodes_link(a, b);
}

static void open_pair(void)
{
	pair();
	nodes_open(a, b);
}

static void nothing(void)
{
	nodes_init(&all);
}

static void end(void)
{
	nodes_fini(&all);
}

Test(net, tells_each_side_who_the_other_is, .init = pair, .fini = end)
{
	char addr[64];

	cr_expect_str_eq(net_peer(a->link)->name, "b");
	cr_expect_str_eq(net_peer(a->link)->rack, "rack of b");
	cr_expect_str_eq(net_peer(a->link)->addr, nodes_addr(b, addr));
	cr_expect_str_eq(net_peer(b->link)->name, "a");
	cr_expect_str_eq(net_peer(b->link)->addr, nodes_addr(a, addr));
}

Test(net, opens_an_image_when_both_let_the_other_in, .init = open_pair,
     .fini = end)
{
	cr_expect_str_eq(a->capability, "right");
	cr_expect_str_eq(b->capability, "right");
	cr_expect_eq(a->openeds, 1);
	cr_expect_eq(b->openeds, 1);
}

Test(net, tells_who_is_denied_an_image, .init = pair, .fini = end)
{
	struct error err = ERROR_INIT;

	b->verdict = -EACCES;
	cr_assert_eq(net_open_image(a->link, &all.image, NODES_PIECES, NULL, 0,
				    &err),
		     0);
	until(&all, a->closeds);
	cr_expect_eq(a->refusal, SWARM_DENIED);
	b->verdict = -ENOENT;
	cr_assert_eq(net_open_image(a->link, &all.image, NODES_PIECES, NULL, 0,
				    &err),
		     0);
	until(&all, a->closeds == 2);
	cr_expect_eq(a->refusal, SWARM_GONE);
	/* Nothing is sent to who was not let in. */
	nodes_ask(a, 0, 4, SOURCE_HOT);
	b->verdict = 0;
	nodes_open(a, b);
	cr_expect_eq(b->wants, 0);
}

/* As many images as may be, and one; `tag` tells whose. */
static void open_all(struct node *n, uint8_t tag)
{
	struct digest d = { .b[4] = tag };

	for (uint32_t k = 0; k <= NET_IMAGES_MAX; k++) {
		put_le32(d.b, k);
		cr_assert_eq(net_open_image(n->link, &d, NODES_PIECES, NULL, 0,
					    NULL),
			     k < NET_IMAGES_MAX ? 0 : -ENOSPC);
	}
}

Test(net, stays_when_both_have_many_images_that_the_other_has_not, .init = pair,
     .fini = end)
{
	a->verdict = b->verdict = -ENOENT;
	open_all(a, 1);
	open_all(b, 2);
	until(&all, a->closeds == NET_IMAGES_MAX);
	until(&all, b->closeds == NET_IMAGES_MAX);
	cr_expect(a->downs == 0 && b->downs == 0);
	a->verdict = b->verdict = 0;
	nodes_open(a, b);
}

Test(net, brings_pieces_of_a_file_and_of_memory, .init = open_pair, .fini = end)
{
	struct net_link_stats st;

	nodes_ask(a, 0, 16, SOURCE_HOT);
	until(&all, a->gots == 16);
	b->serves = SERVES_MEMORY;
	nodes_ask(a, 16, 16, SOURCE_COLD);
	nodes_ask(a, 32, 16, SOURCE_DEMAND);
	until(&all, a->gots == 48 && b->sents == 48);
	cr_expect_eq(a->bad_bytes, 0);
	cr_expect_eq(a->moved, (uint64_t)48 * NODES_PIECE_SIZE);
	net_get_link(a->link, &st);
	cr_expect_eq(st.received_bytes, a->moved);
	net_get_link(b->link, &st);
	cr_expect_eq(st.sent_bytes, a->moved);
	cr_expect_eq(st.queued_bytes, 0);
}

Test(net, brings_pieces_in_both_directions_at_once, .init = open_pair,
     .fini = end)
{
	nodes_ask(a, 0, 64, SOURCE_HOT);
	nodes_ask(b, 0, 64, SOURCE_DEMAND);
	until(&all, a->gots == 64 && b->gots == 64);
	cr_expect_eq(a->bad_bytes + b->bad_bytes, 0);
}

Test(net, passes_on_what_somebody_has, .init = open_pair, .fini = end)
{
	struct swarm_range have[2] = { { 0, 3 }, { 10, 1 } };
	struct swarm_range lost = { 5, 2 }, promised = { 20, 4 };

	net_news(b->link, &all.image, have, 2, &lost, 1, &promised, 1, 7000000);
	until(&all, a->news);
	cr_expect_eq(a->have_pieces, 4);
	cr_expect_eq(a->lost_pieces, 2);
	cr_expect_eq(a->promised_pieces, 4);
	cr_expect_eq(a->eta_ns, 7000000);
}

Test(net, passes_on_a_refusal_and_its_time, .init = open_pair, .fini = end)
{
	b->serves = REFUSES;
	nodes_ask(a, 9, 1, SOURCE_DEMAND);
	until(&all, a->refuseds);
	cr_expect_eq(a->refusal, SWARM_BUSY);
	cr_expect_geq(a->retry_ns, 25000000);
	cr_expect_eq(b->last_piece, 9);
	cr_expect_eq(b->last_priority, SOURCE_DEMAND);
}

Test(net, brings_one_of_several_that_would_do, .init = open_pair, .fini = end)
{
	static const uint32_t some[] = { 1, 2, 3 };
	struct net_piece p = { .image = all.image,
			       .piece = 2,
			       .form = NET_STORED,
			       .len = NODES_PIECE_SIZE };
	struct net_body body = { .fd = all.fd, .off = 2 * NODES_PIECE_SIZE };

	b->serves = HOLDS;
	net_ask(a->link, &all.image, some, 3, BLOCK_USIZE_MAX, SOURCE_HOT);
	nodes_ask(a, 3, 1, SOURCE_HOT);
	until(&all, b->wants == 2);
	cr_expect_eq(b->last_n, 1);
	cr_expect_not(net_choose(b->link, &all.image, 7, 8), "nobody asked");
	cr_expect_not(net_choose(b->link, &all.image, 1, 3), "by itself");
	cr_assert(net_choose(b->link, &all.image, 1, 2));
	/* Who asked cannot know yet, and asks for it by itself. */
	nodes_ask(a, 2, 1, SOURCE_HOT);
	until(&all, a->refuseds == 1);
	cr_expect_eq(a->refusal, SWARM_SENDING);
	net_send(b->link, &p, SOURCE_HOT, &body, 5);
	until(&all, a->gots == 1);
	cr_expect_eq(a->last_got, 2);
	cr_expect_eq(a->bad_bytes, 0);
	/* The other one is still open, by its own name. */
	net_refuse(b->link, &all.image, 3, SWARM_BUSY, 0);
	until(&all, a->refuseds == 2);
}

Test(net, takes_back_what_it_asked_when_another_was_chosen, .init = open_pair,
     .fini = end)
{
	static const uint32_t some[] = { 1, 2 };

	b->serves = HOLDS;
	net_ask(a->link, &all.image, some, 2, BLOCK_USIZE_MAX, SOURCE_HOT);
	until(&all, b->wants == 1);
	cr_expect_eq(b->last_n, 2);
	cr_assert(net_choose(b->link, &all.image, 1, 2));
	cr_expect_null(net_cancel(a->link, &all.image, 1));
	until(&all, b->unwanteds == 1);
	/* And may ask for it. */
	b->serves = SERVES_FILE;
	nodes_ask(a, 2, 1, SOURCE_HOT);
	until(&all, a->gots == 1);
	cr_expect_eq(a->bad_bytes, 0);
}

Test(net, does_not_ask_twice_for_what_is_under_way, .init = open_pair,
     .fini = end)
{
	b->serves = HOLDS;
	nodes_ask(a, 1, 1, SOURCE_HOT);
	nodes_ask(a, 1, 1, SOURCE_DEMAND);
	nodes_ask(a, 2, 1, SOURCE_HOT);
	until(&all, b->wants == 2);
	cr_expect_eq(b->last_piece, 2);
}

Test(net, takes_back_what_it_asked, .init = open_pair, .fini = end)
{
	b->serves = HOLDS;
	nodes_ask(a, 1, 1, SOURCE_HOT);
	until(&all, b->wants == 1);
	cr_expect_null(net_cancel(a->link, &all.image, 1));
	until(&all, b->unwanteds == 1);
	/* And may ask again. */
	b->serves = SERVES_FILE;
	nodes_ask(a, 1, 1, SOURCE_HOT);
	until(&all, a->gots == 1);
	cr_expect_eq(a->refuseds, 0);
	cr_expect_eq(a->bad_bytes, 0);
}

Test(net, says_that_a_piece_was_sent_that_nobody_wants_any_more,
     .init = open_pair, .fini = end)
{
	struct net_piece p = { .piece = 1, .len = 10 };
	struct net_body body = { .fd = -1 };

	b->serves = HOLDS;
	nodes_ask(a, 1, 1, SOURCE_HOT);
	until(&all, b->wants == 1);
	net_cancel(a->link, &all.image, 1);
	until(&all, b->unwanteds == 1);
	p.image = all.image;
	body.data = all.content;
	net_send(b->link, &p, SOURCE_HOT, &body, 5);
	cr_expect_eq(b->sents, 0);
	until(&all, b->sents == 1);
	cr_expect_eq(a->rooms, 0);
}

Test(net, drops_what_comes_for_no_room, .init = open_pair, .fini = end)
{
	struct net_stats st;

	a->no_room = true;
	nodes_ask(a, 0, 4, SOURCE_HOT);
	until(&all, b->sents == 4 && a->rooms == 4);
	a->no_room = false;
	nodes_ask(a, 4, 4, SOURCE_HOT);
	until(&all, a->gots == 4);
	net_get_stats(a->net, &st);
	cr_expect_eq(st.dropped_bytes_total, 4ull * NODES_PIECE_SIZE);
	cr_expect_eq(a->bad_bytes, 0);
}

Test(net, gives_rooms_and_tags_back_when_the_other_side_is_killed,
     .init = open_pair, .fini = end)
{
	nodes_ask(a, 0, 64, SOURCE_HOT);
	until(&all, a->gots >= 2 && a->moved % NODES_PIECE_SIZE);
	net_free(b->net);
	b->net = NULL;
	cr_expect_eq(b->wants, b->sents);
	until(&all, a->downs == 1);
	cr_expect_eq(a->rooms, a->gots + a->losts);
	cr_expect_eq(a->why.code,
		     a->why.code == ECONNRESET ? ECONNRESET : ESHUTDOWN);
}

static void close_link(struct node *n, struct net_link *l)
{
	net_close(l, "enough");
}

Test(net, may_be_closed_from_within_an_event, .init = open_pair, .fini = end)
{
	a->on_got = close_link;
	nodes_ask(a, 0, 64, SOURCE_HOT);
	until(&all, a->downs == 1 && b->downs == 1);
	cr_expect_eq(a->why.code, 0, "%s", a->why.msg);
	cr_expect_eq(a->gots, 1);
	cr_expect_eq(a->rooms, a->gots + a->losts);
	cr_expect_eq(b->wants, b->sents);
}

Test(net, closes_an_image_and_opens_it_again, .init = open_pair, .fini = end)
{
	b->serves = HOLDS;
	nodes_ask(a, 0, 8, SOURCE_HOT);
	until(&all, b->wants == 8);
	net_close_image(b->link, &all.image, SWARM_GONE);
	until(&all, a->closeds == 1);
	cr_expect_eq(a->refuseds, 8);
	b->serves = SERVES_FILE;
	nodes_open(a, b);
	until(&all, a->openeds == 2 && b->openeds == 2);
	nodes_ask(a, 0, 8, SOURCE_HOT);
	until(&all, a->gots == 8);
	/* And the one who asks may close it, in the midst. */
	nodes_ask(a, 8, 32, SOURCE_HOT);
	until(&all, a->gots > 8);
	net_close_image(a->link, &all.image, SWARM_GONE);
	until(&all, b->closeds == 1 && b->wants - 8 == b->sents);
	cr_expect_eq(a->rooms, a->gots + a->losts);
	nodes_open(a, b);
	until(&all, b->openeds == 3);
	nodes_ask(a, 8, 32, SOURCE_HOT);
	a->gots = 0;
	until(&all, a->gots == 32);
	cr_expect_eq(a->bad_bytes, 0);
}

/* The second one lets the first one in, and takes no part itself yet. */
static void open_half(void)
{
	pair();
	b->opens_back = false;
	cr_assert_eq(net_open_image(a->link, &all.image, NODES_PIECES, "right",
				    5, NULL),
		     0);
	until(&all, *b->capability);
}

Test(net, says_that_it_closes_what_it_never_opened_itself, .init = open_half,
     .fini = end)
{
	net_close_image(b->link, &all.image, SWARM_GONE);
	until(&all, a->closeds == 1);
	cr_expect_eq(a->refusal, SWARM_GONE);
	b->opens_back = true;
	nodes_open(a, b);
	cr_expect(a->downs == 0 && b->downs == 0);
}

Test(net, says_that_it_closes_what_it_opened_in_vain, .init = open_half,
     .fini = end)
{
	a->verdict = -EACCES;
	cr_assert_eq(net_open_image(b->link, &all.image, NODES_PIECES, "right",
				    5, NULL),
		     0);
	net_close_image(b->link, &all.image, SWARM_GONE);
	until(&all, a->closeds == 1);
	a->verdict = 0;
	b->opens_back = true;
	nodes_open(a, b);
	cr_expect(a->downs == 0 && b->downs == 0);
}

Test(net, opens_an_image_that_the_other_closed_at_the_same_time,
     .init = open_half, .fini = end)
{
	net_close_image(a->link, &all.image, SWARM_GONE);
	nodes_open(b, a);
	cr_expect(a->downs == 0 && b->downs == 0);
}

Test(net, shows_a_newer_right_and_closes_when_it_is_none, .init = open_pair,
     .fini = end)
{
	net_renew_image(a->link, &all.image, "newer", 5);
	until(&all, strcmp(b->capability, "newer") == 0);
	/* It goes on as before. */
	nodes_ask(a, 0, 8, SOURCE_HOT);
	until(&all, a->gots == 8);
	cr_expect_eq(a->openeds, 1);
	b->verdict = -EACCES;
	net_renew_image(a->link, &all.image, "older", 5);
	until(&all, a->closeds == 1 && b->closeds == 1);
	cr_expect_eq(a->refusal, SWARM_DENIED);
	nodes_ask(a, 8, 8, SOURCE_HOT);
	/* And again, with a good one. */
	b->verdict = 0;
	nodes_open(a, b);
	until(&all, a->openeds == 2 && b->openeds == 2);
	cr_expect_eq(b->wants, 8);
}

Test(net, keeps_the_link_of_the_lower_name_when_both_connect, .init = nothing,
     .fini = end)
{
	struct error err = ERROR_INIT;
	struct net_link *la, *lb;
	char addr[64];

	a = nodes_add(&all, "a");
	b = nodes_add(&all, "b");
	cr_assert_eq(net_connect(b->net, nodes_addr(a, addr), NULL, &lb, &err),
		     0);
	cr_assert_eq(net_connect(a->net, nodes_addr(b, addr), NULL, &la, &err),
		     0);
	until(&all, a->ups && b->ups && b->downs);
	until(&all, a->ups - a->downs == 1 && b->ups - b->downs == 0);
	cr_expect_eq(b->why.code, EALREADY, "%s", b->why.msg);
	cr_expect_eq(a->link, la);
	cr_expect_neq(b->link, lb);
	nodes_open(a, b);
	nodes_ask(a, 0, 4, SOURCE_HOT);
	until(&all, a->gots == 4);
	/* A second one of the same side is of no use. */
	cr_assert_eq(net_connect(a->net, nodes_addr(b, addr), "b", &la, &err),
		     0);
	until(&all, a->downs == 1);
	cr_expect_eq(a->why.code, EALREADY, "%s", a->why.msg);
	cr_expect_eq(b->ups - b->downs, 0);
}

Test(net, takes_a_node_that_was_started_anew_for_its_old_self, .init = pair,
     .fini = end)
{
	/* As after a loss of power: the old one is there, and silent. */
	struct node *new = nodes_add(&all, "a");

	nodes_link(new, b);
	until(&all, b->downs == 1 && a->downs == 1);
	cr_expect_eq(b->ups, 2);
	cr_expect_eq(new->downs, 0);
}

Test(net, does_not_link_to_itself_or_to_another_than_was_meant, .init = nothing,
     .fini = end)
{
	struct error err = ERROR_INIT;
	struct net_link *l;
	char addr[64];

	a = nodes_add(&all, "a");
	b = nodes_add(&all, "b");
	cr_assert_eq(net_connect(a->net, nodes_addr(a, addr), NULL, &l, &err),
		     0);
	until(&all, a->downs == 1);
	cr_assert_eq(net_connect(a->net, nodes_addr(b, addr), "c", &l, &err),
		     0);
	until(&all, a->downs == 2);
	cr_expect_eq(a->why.code, EACCES, "%s", a->why.msg);
	cr_expect_eq(a->ups + b->ups, 0);
	cr_expect_eq(net_connect(a->net, "localhost:80", NULL, &l, &err),
		     -EINVAL);
}

Test(net, tells_about_an_address_where_nobody_is, .init = nothing, .fini = end)
{
	struct error err = ERROR_INIT;
	struct net_link *l;
	char addr[64];

	a = nodes_add(&all, "a");
	nodes_addr(nodes_add(&all, "b"), addr);
	net_free(all.node[1].net);
	all.node[1].net = NULL;
	cr_assert_eq(net_connect(a->net, addr, NULL, &l, &err), 0);
	until(&all, a->downs == 1);
	cr_expect_eq(a->why.code, ECONNREFUSED, "%s", a->why.msg);
}

Test(net, passes_on_members_and_measures_the_way, .init = open_pair,
     .fini = end)
{
	struct net_node m[2] = { { .name = "x", .addr = "10.0.0.1:1" },
				 { .name = "y", .zone = "z" } };
	struct net_link_stats st = { .rtt_ns = 0 };
	const struct digest none = { { 0 } };

	/* Not open: dropped. */
	net_members(a->link, &none, m, 1);
	net_members(a->link, &all.image, m, 2);
	until(&all, b->member_calls == 1);
	cr_expect_str_eq(b->member.name, "y");
	cr_expect_str_eq(b->member.zone, "z");
	cr_expect(digest_equal(&b->members_of, &all.image));
	/* A node of before. */
	a->link->features = WIRE_FEATURE_OTHERS;
	net_members(a->link, &all.image, m, 1);
	until(&all, b->member_calls == 2);
	cr_expect_str_eq(b->member.name, "x");
	cr_expect(digest_equal(&b->members_of, &none));
	until(&all, (net_get_link(a->link, &st), st.rtt_ns > 0));
}

/* Seconds that `count` pieces take with this rate on one of the sides. */
static double seconds_of(uint64_t up, uint64_t down, uint32_t count,
			 enum source_priority priority)
{
	int64_t began;
	double took;

	nodes_init(&all);
	all.cfg.download_rate = down;
	a = nodes_add(&all, "a");
	all.cfg.download_rate = 0;
	all.cfg.upload_rate = up;
	b = nodes_add(&all, "b");
	nodes_link(a, b);
	nodes_open(a, b);
	began = clock_now_ns();
	nodes_ask(a, 0, count, priority);
	until(&all, a->gots == (int)count);
	took = (double)(clock_now_ns() - began) / 1e9;
	cr_expect_eq(a->bad_bytes, 0);
	nodes_fini(&all);
	return took;
}

Test(net, a_transfer_with_a_rate_goes_in_few_calls)
{
	const int64_t second = 1000000000;
	struct bucket r;
	uint32_t n, calls = 0;
	uint64_t moved = 0;

	/* As fast as a call takes no time: a call a microsecond. */
	bucket_init(&r, 4 << 20, 256 << 10, 0);
	bucket_take(&r, 256 << 10);
	for (int64_t now = 0; now < second; now += 1000) {
		n = bucket_look_bytes(&r, 64 << 10, now);
		bucket_take(&r, n);
		moved += n;
		calls += n > 0;
	}
	cr_expect_gt(moved, (4 << 20) - (64 << 10));
	cr_expect_leq(calls, 256);
	/* A slow one does not wait long, and the end of a piece does not at all. */
	bucket_init(&r, 1024, 1024, 0);
	bucket_take(&r, 1024);
	cr_expect_eq(bucket_look_bytes(&r, 1000, second / 128), 0);
	cr_expect_eq(bucket_look_bytes(&r, 1000, second / 32), 32);
	cr_expect_eq(bucket_look_bytes(&r, 5, second / 32), 5);
}

Test(net, keeps_to_its_rates)
{
	/* 32 pieces are 9.8 MB; half a megabyte may come at once, and what the
	 * sockets hold has left already. */
	cr_expect_gt(seconds_of(10000000, 0, 32, SOURCE_HOT), 0.85);
	cr_expect_gt(seconds_of(0, 10000000, 32, SOURCE_HOT), 0.85);
}

Test(net, lets_demand_go_before_its_rate, .init = nothing, .fini = end)
{
	all.cfg.upload_rate = 200000; /* bulk would take minutes */
	b = nodes_add(&all, "b");
	a = nodes_add(&all, "a");
	nodes_link(a, b);
	nodes_open(a, b);
	nodes_ask(a, 0, 32, SOURCE_COLD);
	until(&all, b->wants == 32);
	nodes_ask(a, 40, 4, SOURCE_DEMAND);
	until(&all, a->gots == 4);
	cr_expect_eq(a->bad_bytes, 0);
}

Test(net, shares_its_rate_among_links, .init = nothing, .fini = end)
{
	struct node *c;

	a = nodes_add(&all, "a");
	c = nodes_add(&all, "c");
	/* Enough for a call at each second refill. */
	all.cfg.upload_rate = 4 << 20;
	b = nodes_add(&all, "b");
	nodes_link(a, b);
	nodes_link(c, b);
	nodes_open(a, b);
	nodes_open(c, b);
	nodes_ask(a, 0, 16, SOURCE_HOT);
	nodes_ask(c, 0, 16, SOURCE_HOT);
	until(&all, a->gots == 16 || c->gots == 16);
	cr_expect_geq(a->gots, 6);
	cr_expect_geq(c->gots, 6);
}
