// SPDX-License-Identifier: Apache-2.0
/* Who is known to a node, and by whom. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
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
		member_takes_part(m, i, true);
	}
	cr_expect_eq(i->known.n, KNOWN_MAX / 2, "the rest is the tracker's");
	for (unsigned int k = 0; i->known.n < KNOWN_MAX; k++) {
		(void)snprintf(other.name, sizeof(other.name), "named-%u", k);
		m = member_know(p, &other, false);
		cr_assert(m);
		member_takes_part(m, i, false);
	}
	(void)strcpy(other.name, "real");
	member_takes_part(member_know(p, &other, false), i, false);
	cr_expect_eq(member_by_name(p, "real")->refs, 0, "all may be there");
	member_failed(m, clock_now_ns());
	member_takes_part(member_by_name(p, "real"), i, true);
	cr_expect_eq(member_by_name(p, "real")->refs, 0, "by hearsay alone");
	member_takes_part(member_by_name(p, "real"), i, false);
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
