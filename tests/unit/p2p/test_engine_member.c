// SPDX-License-Identifier: Apache-2.0
/* Who is known to a node, and by whom. */
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/wait.h"
#include "tests/unit/p2p/fake_tracker.h"

TestSuite(engine_member, .timeout = 120);

/* On the loop of a node that is linked to another one. */
static void check_members(void *arg)
{
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct net_node lie = LIST_FIRST(&p->links)->member->node, other;
	struct member *m = member_by_name(p, lie.name);

	(void)strcpy(lie.addr, "192.0.2.1:1");
	cr_expect_eq(member_know(p, &lie, true), m);
	cr_expect(strcmp(m->node.addr, lie.addr) != 0, "one who is reached");
	other = (struct net_node){ .addr = "192.0.2.1:2" };
	for (unsigned int k = 0; k < KNOWN_MAX; k++) {
		(void)snprintf(other.name, sizeof(other.name), "invented-%u",
			       k);
		m = member_know(p, &other, true);
		cr_assert(m);
		member_takes_part(m, i, WORD_OF_IMAGE);
	}
	cr_expect_eq(i->known.n, KNOWN_MAX / 2, "the rest is the tracker's");
	for (unsigned int k = 0; i->known.n < KNOWN_MAX; k++) {
		(void)snprintf(other.name, sizeof(other.name), "named-%u", k);
		m = member_know(p, &other, false);
		cr_assert(m);
		member_takes_part(m, i, WORD_GIVEN);
	}
	(void)strcpy(other.name, "real");
	member_takes_part(member_know(p, &other, false), i, WORD_GIVEN);
	cr_expect_eq(member_by_name(p, "real")->refs, 0, "all may be there");
	member_failed(m, clock_now_ns());
	member_takes_part(member_by_name(p, "real"), i, WORD_OF_IMAGE);
	cr_expect_eq(member_by_name(p, "real")->refs, 0, "by hearsay alone");
	member_takes_part(member_by_name(p, "real"), i, WORD_GIVEN);
	cr_expect_eq(member_by_name(p, "real")->refs, 1);
	cr_expect_eq(m->refs, 0);
	cr_expect_eq(i->known.n, KNOWN_MAX);
	/* Nobody lives there. */
	(void)member_know(p,
			  &(struct net_node){ .name = "invented-0",
					      .addr = "192.0.2.1:3" },
			  true);
	cr_expect_str_eq(member_by_name(p, "invented-0")->node.addr,
			 "192.0.2.1:2");
}

Test(engine_member, who_tells_of_others_cannot_change_what_is_known)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_wait_peers(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_members, c.node[1].p2p);
	crowd_remove(&c);
}

static struct member *know(struct p2p *p, const char *name, const char *addr,
			   bool is_hearsay)
{
	struct net_node n = { .name = "" };
	struct member *m;

	(void)snprintf(n.name, sizeof(n.name), "%s", name);
	(void)snprintf(n.addr, sizeof(n.addr), "%s", addr);
	m = member_know(p, &n, is_hearsay);
	cr_assert(m);
	return m;
}

/* On the loop of a node: of two that the tracker names and that are away, the second was
 * told of by a neighbour before. */
static void check_named(void *arg)
{
	static const char there[] = "192.0.2.1:1", wrong[] = "192.0.2.1:2";
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct member *named = know(p, "named", there, false),
		      *both = know(p, "both", wrong, true), *made_up;
	char name[32];

	member_takes_part(named, i, WORD_GIVEN);
	member_takes_part(both, i, WORD_OF_IMAGE);
	cr_assert_eq(know(p, "both", there, false), both);
	member_takes_part(both, i, WORD_GIVEN);
	made_up = know(p, "made-up", there, true);
	member_takes_part(made_up, i, WORD_OF_IMAGE);
	member_failed(named, clock_now_ns());
	member_failed(both, clock_now_ns());
	for (unsigned int k = 0; k < KNOWN_MAX; k++) {
		(void)snprintf(name, sizeof(name), "invented-%u", k);
		member_takes_part(know(p, name, wrong, true), i, WORD_OF_IMAGE);
	}
	cr_expect_eq(i->known.n, KNOWN_MAX / 2);
	cr_expect(member_is_known(named, i));
	cr_expect(member_is_known(both, i));
	cr_expect(member_is_known(made_up, i));
	/* Of those that are hearsay one may take the other's place. */
	member_failed(made_up, clock_now_ns());
	member_takes_part(know(p, "another", there, true), i, WORD_OF_IMAGE);
	cr_expect_not(member_is_known(made_up, i));
	cr_expect(member_is_known(member_by_name(p, "another"), i));
	(void)know(p, "named", wrong, true);
	cr_expect_str_eq(named->node.addr, there);
	(void)know(p, "both", wrong, true);
	cr_expect_str_eq(both->node.addr, there);
	(void)know(p, "made-up", wrong, true);
	cr_expect_str_eq(made_up->node.addr, wrong);
	(void)know(p, "named", wrong, false);
	cr_expect_str_eq(named->node.addr, wrong, "the tracker may");
}

Test(engine_member,
     hearsay_takes_no_place_and_no_address_of_those_the_tracker_names)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_wait_peers(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_named, c.node[1].p2p);
	crowd_remove(&c);
}

/* On the loop of a node: members by name, as many as there may be. */
static void check_names(void *arg)
{
	struct p2p *p = arg;
	struct net_node n = { .addr = "192.0.2.1:1" };

	for (unsigned int k = 0; k < MEMBERS_MAX; k++) {
		(void)snprintf(n.name, sizeof(n.name), "hearsay-%u", k);
		cr_assert(member_know(p, &n, true));
	}
	cr_expect_eq(p->n_members, MEMBERS_MAX / 2);
	for (unsigned int k = 0; k < 2 * MEMBERS_MAX; k++) {
		(void)snprintf(n.name, sizeof(n.name), "member-%u", k);
		cr_assert(member_know(p, &n, false));
	}
	cr_expect_eq(p->n_members, MEMBERS_MAX);
	cr_expect_null(member_by_name(p, "member-0"), "the oldest leave");
	for (unsigned int k = MEMBERS_MAX; k < 2 * MEMBERS_MAX; k++) {
		(void)snprintf(n.name, sizeof(n.name), "member-%u", k);
		cr_assert_str_eq(member_by_name(p, n.name)->node.name, n.name);
	}
}

Test(engine_member, members_are_found_by_name_also_when_others_left)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	engine_run(c.node[0].p2p, check_names, c.node[0].p2p);
	crowd_remove(&c);
}

/* --------------------------------------------------------- what a neighbour makes up --- */

/* The node says that all these are at the addresses. */
static void tell_of(struct p2p *p, const char *const *addrs, size_t n)
{
	struct net_node nodes[SWARM_PEERS_MAX] = { { .name = "" } };

	cr_assert_leq(n, SWARM_PEERS_MAX);
	for (size_t k = 0; k < n; k++) {
		(void)snprintf(nodes[k].name, sizeof(nodes[k].name),
			       "invented-%zu", k);
		(void)snprintf(nodes[k].addr, sizeof(nodes[k].addr), "%s",
			       addrs[k]);
	}
	link_events.members(p, LIST_FIRST(&p->links)->net,
			    &LIST_FIRST(&p->images)->digest, nodes, n);
}

static const struct member *invented(struct p2p *p, size_t k)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "invented-%zu", k);
	return member_by_name(p, name);
}

/* An address of this machine that others may come to, if it has one. */
static bool own_address(char ret[64])
{
	struct ifaddrs *all = NULL, *a;
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };

	cr_assert_eq(getifaddrs(&all), 0);
	for (a = all; a && ss.ss_family != AF_INET; a = a->ifa_next)
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
		    (a->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
			memcpy(&ss, a->ifa_addr, sizeof(struct sockaddr_in));
	freeifaddrs(all);
	if (ss.ss_family != AF_INET)
		return false;
	net_addr_set_port(&ss, 22);
	net_addr_format(&ss, ret, 64);
	return true;
}

/* Of a node that says so of itself, or has the tracker say so: it is known, and dialled there
 * or not. */
static void check_own_word(struct p2p *p, const char *const addrs[], size_t n,
			   bool is_dialled)
{
	for (size_t k = 0; k < n; k++) {
		struct net_node node = { .name = "itself" };
		const struct member *m;

		(void)snprintf(node.addr, sizeof(node.addr), "%s", addrs[k]);
		m = member_know(p, &node, false);
		cr_assert_not_null(m);
		cr_expect_str_eq(m->node.addr, is_dialled ? addrs[k] : "");
	}
}

/* What is said of this machine, when the node is not alone on it. */
static void check_addresses(void *arg)
{
	static const char *const nowhere[] = {
		"224.0.0.1:1",       "0.0.0.0:1",
		"255.255.255.255:1", "169.254.169.254:80",
		"[ff02::1]:1",       "[::]:1",
		"[fe80::1]:1",       "[::ffff:0:0]:1",
		"127.0.0.1:0",       "x:1"
	};
	static const char *const here[] = { "127.0.0.1:22", "[::1]:22",
					    "127.1.2.3:1",
					    "[::ffff:127.0.0.1]:1" };
	struct p2p *p = arg;
	struct member *teller = LIST_FIRST(&p->links)->member;
	/* Owned by the net, and ours on its loop. */
	struct net_node *self = (struct net_node *)(uintptr_t)net_self(p->net);
	char was[sizeof(self->addr)], own[64];

	tell_of(p, nowhere, ARRAY_SIZE(nowhere));
	for (size_t k = 0; k < ARRAY_SIZE(nowhere); k++)
		cr_expect_null(invented(p, k), "%s", nowhere[k]);
	cr_expect_eq(teller->n_bad_says, ARRAY_SIZE(nowhere));
	/* As of a neighbour that has such an address, as long as it is there. */
	for (size_t k = 0; k < BAD_SAYS_MAX; k++)
		tell_of(p, nowhere, 1);
	cr_expect_eq(teller->n_bad_says, ARRAY_SIZE(nowhere));
	cr_expect(hearsay_is_believed(teller, clock_now_ns()));
	/* All of these nodes are on one machine. */
	tell_of(p, here, 1);
	cr_expect(invented(p, 0));
	check_own_word(p, here, ARRAY_SIZE(here), true);
	memcpy(was, self->addr, sizeof(was));
	(void)strcpy(self->addr, "192.0.2.7:9740");
	check_own_word(p, here, ARRAY_SIZE(here), false);
	check_own_word(p, nowhere, ARRAY_SIZE(nowhere), false);
	for (size_t k = 0; k < ARRAY_SIZE(here); k++)
		cr_expect_not(hearsay_may_be(p, here[k]), "%s", here[k]);
	if (own_address(own))
		cr_expect_not(hearsay_may_be(p, own), "%s", own);
	cr_expect(hearsay_may_be(p, "192.0.2.8:1"));
	cr_expect(hearsay_may_be(p, "[2001:db8::1]:1"));
	memcpy(self->addr, was, sizeof(was));
}

Test(engine_member,
     what_leads_to_this_machine_or_to_none_is_not_dialled_by_hearsay)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_wait_peers(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_addresses, c.node[1].p2p);
	crowd_remove(&c);
}

/* All places are taken, and who tells of another one has been there for the longest time,
 * without an image or a link: that one is no member's. */
static void check_teller_stays(void *arg)
{
	static const char *const there[] = { "192.0.2.1:1", "192.0.2.1:2" };
	struct p2p *p = arg;
	struct link *l = LIST_FIRST(&p->links);
	struct member *teller = l->member;
	struct net_node n = { .addr = "192.0.2.1:3" };
	char name[sizeof(n.name)];

	(void)snprintf(name, sizeof(name), "%s", teller->node.name);
	members_forget(LIST_FIRST(&p->images));
	cr_assert_eq(teller->refs, 0);
	l->member = NULL;
	teller->link = NULL;
	TAILQ_REMOVE(&p->members, teller, by_age);
	TAILQ_INSERT_HEAD(&p->members, teller, by_age);
	for (unsigned int k = 0; p->n_members < MEMBERS_MAX / 2; k++) {
		(void)snprintf(n.name, sizeof(n.name), "hearsay-%u", k);
		cr_assert(member_know(p, &n, true));
	}
	tell_of(p, there, ARRAY_SIZE(there));
	cr_assert_eq(member_by_name(p, name), teller);
	cr_expect_eq(teller->refs, 0);
	cr_expect_str_eq(invented(p, 0)->told_by, name);
	cr_expect_eq(p->n_members, MEMBERS_MAX / 2);
	teller->link = l;
	l->member = teller;
}

Test(engine_member, who_tells_of_others_does_not_leave_for_them)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	/* It dials nobody by itself. */
	cfg.neighbours = 1;
	crowd_make(&c, &cfg);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_teller_stays, c.node[1].p2p);
	crowd_remove(&c);
}

/* Of the names that nobody answers to, all but one are tried. */
static void check_muted(void *arg)
{
	enum { TOLD = 17 };
	const char *addrs[TOLD];
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct member *teller = LIST_FIRST(&p->links)->member, *m;
	struct net_node real = { .name = "real", .addr = "192.0.2.1:1" };
	int64_t now = clock_now_ns();
	size_t before = i->known.n;

	for (size_t k = 0; k < TOLD; k++)
		addrs[k] = "192.0.2.1:1";
	tell_of(p, addrs, TOLD);
	cr_assert_eq(i->known.n, before + TOLD);
	/* This one the tracker names as well. */
	(void)strcpy(real.name, "invented-16");
	cr_assert(member_know(p, &real, false));
	for (int k = 0; k < 2 * TOLD; k++)
		hearsay_failed(p, member_by_name(p, "invented-0"), now);
	cr_expect_eq(teller->n_bad_says, 1, "once for each");
	/* One that is there, and the others may be, too. */
	hearsay_proved(p, member_by_name(p, "invented-0"));
	cr_expect_eq(teller->n_bad_says, 0);
	tell_of(p, addrs, TOLD);
	cr_expect(hearsay_is_believed(teller, now));
	for (size_t k = 1; k < 16; k++)
		hearsay_failed(p, member_by_name(p, invented(p, k)->node.name),
			       now);
	cr_expect(hearsay_is_believed(teller, now));
	hearsay_note_bad(p, teller, &real, now);
	cr_expect_not(hearsay_is_believed(teller, now));
	for (size_t k = 1; k < 16; k++)
		cr_expect_null(invented(p, k), "%zu", k);
	m = member_by_name(p, "invented-16");
	cr_assert(m && member_is_known(m, i));
	cr_expect_eq(i->known.n, before + 2);
	tell_of(p, addrs, TOLD);
	cr_expect_null(invented(p, 1), "not heard");
	teller->muted_until = 0;
	tell_of(p, addrs, TOLD);
	cr_expect(invented(p, 1), "for a time");
}

Test(engine_member, who_makes_up_names_is_not_heard_and_they_are_forgotten)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	/* It dials nobody by itself. */
	cfg.neighbours = 1;
	crowd_make(&c, &cfg);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_muted, c.node[1].p2p);
	crowd_remove(&c);
}

/* It is told of by both neighbours for as long as they have it, and dialled each time. */
static void check_unreachable(void *arg)
{
	static const char *const there[] = { "192.0.2.1:1" };
	static const char *const other[] = { "192.0.2.1:2" };
	struct p2p *p = arg;
	struct member *teller = LIST_FIRST(&p->links)->member, *m;
	struct net_node second = { .name = "second", .addr = "192.0.2.2:1" };
	struct member *too = member_know(p, &second, false);
	int64_t now = clock_now_ns();

	cr_assert(too);
	for (unsigned int k = 0; k < 2 * BAD_SAYS_MAX; k++) {
		tell_of(p, there, 1);
		m = member_by_name(p, "invented-0");
		cr_assert(m);
		member_failed(m, now);
		hearsay_failed(p, m, now);
		cr_assert_eq(hearsay_know(p, too, &m->node), m);
		hearsay_failed(p, m, now);
	}
	cr_expect_eq(teller->n_bad_says, 0, "both say so");
	cr_expect_eq(too->n_bad_says, 0);
	cr_expect(hearsay_is_believed(teller, now));
	tell_of(p, other, 1);
	hearsay_failed(p, m, now);
	cr_expect_eq(teller->n_bad_says, 1, "another address");
}

Test(engine_member, who_tells_of_a_node_that_is_out_of_reach_is_heard)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	/* It dials nobody by itself. */
	cfg.neighbours = 1;
	crowd_make(&c, &cfg);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_unreachable, c.node[1].p2p);
	crowd_remove(&c);
}

/* A rack that died: two neighbours tell of its nodes, one before they are dialled, the other
 * then or behind that.  One says of some that they are elsewhere. */
static void check_rack(void *arg)
{
	enum { RACK = 2 * BAD_SAYS_MAX };
	const char *addrs[RACK];
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct member *teller = LIST_FIRST(&p->links)->member, *too;
	struct net_node second = { .name = "second", .addr = "192.0.2.2:1" };
	struct net_node node;
	int64_t now = clock_now_ns();

	too = member_know(p, &second, false);
	cr_assert(too);
	for (size_t k = 0; k < RACK; k++)
		addrs[k] = "192.0.2.1:1";
	tell_of(p, addrs, RACK);
	for (size_t k = 0; k < RACK; k++) {
		struct member *m = member_by_name(p, invented(p, k)->node.name);
		bool is_first = k % 2;

		node = m->node;
		if (is_first)
			cr_assert_eq(hearsay_know(p, too, &node), m);
		member_failed(m, now);
		hearsay_failed(p, m, now);
		cr_expect_eq(teller->n_bad_says, is_first ? 0 : 1);
		if (!is_first)
			cr_assert_eq(hearsay_know(p, too, &node), m);
		hearsay_failed(p, m, now);
	}
	cr_expect_eq(teller->n_bad_says, 0);
	cr_expect_eq(too->n_bad_says, 0);
	/* Nobody else says these: it is blamed, and what both say stays. */
	for (size_t k = 0; k < BAD_SAYS_MAX; k++) {
		struct member *m = member_by_name(p, invented(p, k)->node.name);

		node = m->node;
		(void)strcpy(node.addr, "192.0.2.9:1");
		cr_assert_eq(hearsay_know(p, too, &node), m);
		hearsay_failed(p, m, now);
	}
	cr_expect_not(hearsay_is_believed(too, now));
	cr_expect(hearsay_is_believed(teller, now));
	members_forget_told(i, teller->node.name);
	cr_expect(member_is_known(invented(p, RACK - 1), i));
}

Test(engine_member,
     who_tells_of_a_rack_that_died_is_heard_when_another_does_too)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	/* It dials nobody by itself. */
	cfg.neighbours = 1;
	crowd_make(&c, &cfg);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_rack, c.node[1].p2p);
	crowd_remove(&c);
}

/* Until when it is not heard, from `now` on. */
static int64_t make_up(struct p2p *p, struct member *teller, int64_t now)
{
	struct net_node n = { .name = "none" };

	for (unsigned int k = 0; k < BAD_SAYS_MAX; k++) {
		(void)snprintf(n.addr, sizeof(n.addr), "192.0.2.1:%u", k + 1);
		hearsay_note_bad(p, teller, &n, now);
	}
	return teller->muted_until - now;
}

static void check_mutes(void *arg)
{
	struct p2p *p = arg;
	struct member *teller = LIST_FIRST(&p->links)->member;
	struct net_node n = { .name = "there", .addr = "192.0.2.3:1" };
	int64_t now = clock_now_ns(), first = make_up(p, teller, now), ns = 0;

	cr_expect_eq(first, 30 * NS_PER_S);
	cr_expect_eq(make_up(p, teller, now += first), 2 * first);
	for (int k = 0; k < 8; k++)
		ns = make_up(p, teller, now = teller->muted_until);
	cr_expect_eq(ns, 600 * NS_PER_S, "and no longer");
	/* One of those that it names is there. */
	cr_assert(hearsay_know(p, teller, &n));
	hearsay_proved(p, member_by_name(p, "there"));
	cr_expect(hearsay_is_remembered(teller, now), "it is not heard yet");
	cr_expect_eq(make_up(p, teller, now = teller->muted_until), first);
	/* After a long time it begins anew; before that it is remembered. */
	now = teller->muted_until + 600 * NS_PER_S;
	cr_expect(hearsay_is_remembered(teller, now - 1));
	cr_expect_not(hearsay_is_remembered(teller, now));
	cr_expect_eq(make_up(p, teller, now), first);
}

Test(engine_member, who_makes_up_names_again_is_not_heard_for_longer)
{
	struct crowd_config cfg = crowd_two;
	struct crowd c;

	cfg.neighbours = 1;
	crowd_make(&c, &cfg);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, check_mutes, c.node[1].p2p);
	crowd_remove(&c);
}

static bool is_muted;

static void look_muted(void *arg)
{
	struct p2p *p = arg;

	is_muted = !hearsay_is_believed(LIST_FIRST(&p->links)->member,
					clock_now_ns());
}

/* Nobody listens on port 1. */
static void tell_of_port_1(void *arg)
{
	const char *addrs[32];

	for (size_t k = 0; k < ARRAY_SIZE(addrs); k++)
		addrs[k] = "127.0.0.1:1";
	tell_of(arg, addrs, ARRAY_SIZE(addrs));
}

Test(engine_member, names_that_were_dialled_in_vain_are_blamed_on_who_said_them)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[1].p2p, tell_of_port_1, c.node[1].p2p);
	wait_for((engine_run(c.node[1].p2p, look_muted, c.node[1].p2p),
		  is_muted));
	crowd_remove(&c);
}

/* ------------------------------------------------- links without room for one --- */

/* In one turn of the loop: the other side's answer would end the retry. */
static void refuse_as_busy_and_look_later(void *arg)
{
	struct p2p *p = arg;
	struct p2p_image *i = LIST_FIRST(&p->images);
	struct link *l = LIST_FIRST(&p->links);
	const struct retry *r;
	int64_t first, at;

	cr_assert(i->neighbours.n == 1 && LIST_FIRST(&l->neighbours));
	net_close_image(l->net, &i->digest, SWARM_GONE);
	link_events.closed(p, l->net, &i->digest, SWARM_BUSY);
	cr_expect_eq(i->neighbours.n, 0);
	r = LIST_FIRST(&l->retries);
	cr_assert(r);
	first = r->wait_ns;
	at = r->at;
	retries_check(p, at - 1);
	cr_expect_eq(r->at, at);
	retries_check(p, at);
	cr_expect_eq(r->at, at + first, "asked");
	retry_later(l, r->i);
	cr_expect_eq(r->wait_ns, 2 * first);
	for (int k = 0; k < 20; k++)
		retry_later(l, r->i);
	cr_expect_leq(r->wait_ns, INT64_C(300000000000));
}

static void expect_no_retries(void *arg)
{
	struct p2p *p = arg;

	cr_expect_null(LIST_FIRST(&LIST_FIRST(&p->links)->retries));
}

Test(engine_member, an_image_without_room_on_a_link_is_opened_there_later)
{
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_wait_neighbours(&c.node[0], 1);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[0].p2p, refuse_as_busy_and_look_later, c.node[0].p2p);
	crowd_wait_neighbours(&c.node[0], 1);
	crowd_wait_neighbours(&c.node[1], 1);
	engine_run(c.node[0].p2p, expect_no_retries, c.node[0].p2p);
	crowd_remove(&c);
}

/* -------------------------------------------------- who tells whom of others --- */

/* Two that met by the tracker. */
static struct fake_tracker *acquainted(struct crowd *c)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t;

	t = fake_tracker_start();
	cfg.tracker = fake_tracker_url(t);
	cfg.alone = true;
	crowd_make(c, &cfg);
	crowd_wait_peers(&c->node[0], 1);
	crowd_wait_peers(&c->node[1], 1);
	return t;
}

Test(engine_member, without_a_tracker_neighbours_tell_of_who_came)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t;
	struct crowd c;

	t = acquainted(&c);
	fake_tracker_kill(t);
	/* It is content with the one whom it knows, who tells the first. */
	cfg.tracker = fake_tracker_url(t);
	cfg.chain = true;
	cfg.neighbours = 1;
	crowd_put(crowd_add(&c, &cfg), 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c.node[2]);
	crowd_wait_peers(&c.node[0], 2);
	crowd_origin_dies(&c.node[0]);
	crowd_fetch(&c.node[0]);
	cr_assert_eq(crowd_join(&c.node[0]), 0, "%s", c.node[0].err.msg);
	crowd_expect_whole(&c.node[0]);
	crowd_remove(&c);
	fake_tracker_free(t);
}

Test(engine_member, who_comes_is_told_of_others)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t;
	struct crowd c;

	t = acquainted(&c);
	/* It knows the last one, and has no tracker. */
	cfg.chain = true;
	(void)crowd_add(&c, &cfg);
	crowd_wait_peers(&c.node[2], 2);
	crowd_wait_peers(&c.node[0], 2);
	crowd_remove(&c);
	fake_tracker_free(t);
}
