// SPDX-License-Identifier: Apache-2.0
/* Who may have an image: for how long, and until it is revoked. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/rogue.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_rights, .timeout = 120);

/* On the loop of a node: who takes part in its image, and until when he may. */
struct holders {
	struct p2p *p;
	int64_t check_s; /* look who may at this time first; 0: not */
	unsigned int n;
	int64_t until;
};

static void count_holders(void *arg)
{
	struct holders *h = arg;
	const struct neighbour *nb;
	const struct right *r;
	struct link *l;

	if (h->check_s)
		rights_check(h->p, h->check_s);
	h->n = 0;
	LIST_FOREACH(l, &h->p->links, all)
	{
		LIST_FOREACH(nb, &l->neighbours, by_link)
		h->n++;
		LIST_FOREACH(r, &l->rights, by_link)
		h->until = r->until;
	}
}

/* Until `n` others take part and, of one, if there is one, the right lasts longer than
 * `until`. */
static void wait_holders(struct crowd_node *node, unsigned int n, int64_t until)
{
	struct holders h = { .p = node->p2p };

	wait_for((engine_run(h.p, count_holders, &h),
		  h.n == n && (!n || h.until > until)));
}

/* Two nodes that meet by the tracker, the first with the image. */
static struct fake_tracker *permitted(struct crowd *c, unsigned int life_s)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t;

	t = fake_tracker_start();
	fake_tracker_sign(t, life_s);
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	crowd_make(c, &cfg);
	crowd_put(&c->node[0], 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c->node[0]);
	wait_holders(&c->node[0], 1, 0);
	wait_holders(&c->node[1], 1, 0);
	return t;
}

Test(engine_rights, who_has_a_right_is_served_until_it_is_over)
{
	struct fake_tracker *t;
	struct p2p_stats s;
	struct holders h;
	struct crowd c;

	t = permitted(&c, 3600);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), 0);
	h = (struct holders){ .p = c.node[0].p2p, .check_s = time(NULL) + 60 };
	engine_run(h.p, count_holders, &h);
	cr_expect_eq(h.n, 1, "it is good for an hour");
	h.check_s = time(NULL) + 3601;
	engine_run(h.p, count_holders, &h);
	cr_expect_eq(h.n, 0);
	/* The other side hears of it. */
	wait_holders(&c.node[1], 0, 0);
	p2p_get_stats(c.node[0].p2p, &s);
	cr_expect_eq(s.denied_total, 1);
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* On the loop of a node: it calls somebody of whom the tracker does not know. */
struct call_to {
	struct p2p *p;
	const char *address;
};

static void call_rogue(void *arg)
{
	struct call_to *to = arg;
	struct net_node node = { .name = "rogue" };
	struct error err = ERROR_INIT;
	struct net_link *net;

	(void)snprintf(node.addr, sizeof(node.addr), "%s", to->address);
	cr_assert_eq(net_connect(to->p->net, node.addr, node.name, &net, &err),
		     0, "%s", err.msg);
	cr_assert(link_make(to->p, net, member_know(to->p, &node, true)));
}

Test(engine_rights, who_has_no_right_is_not_shown_what_images_there_are)
{
	struct fake_tracker *t;
	struct call_to to;
	struct digest swarm;
	struct rogue *r;
	struct crowd c;

	t = permitted(&c, 3600);
	crowd_swarm(&swarm);
	r = rogue_start(ROGUE_GONE, &c.img, &swarm);
	to = (struct call_to){ c.node[0].p2p, rogue_address(r) };
	engine_run(to.p, call_rogue, &to);
	/* Its OPEN is answered after what the node says of itself. */
	wait_for(rogue_refused(r) > 0);
	cr_expect_eq(rogue_shown(r), 0);
	crowd_remove(&c);
	rogue_stop(r);
	fake_tracker_free(t);
}

/* On the loop of a node with two images, blocks and metadata, and a right to both, that
 * shares both with a neighbour. */
static void look_shared(void *arg)
{
	struct holders *h = arg;
	struct p2p_image *i;

	h->n = 0;
	LIST_FOREACH(i, &h->p->images, all)
	h->n += i->right.len && neighbours_count(i) && !i->right.permit &&
		!swarm_takes_turns(i->swarm);
}

/* Is the image shown to it already?  It is by this. */
static bool is_shown(struct p2p_image *i, struct link *l)
{
	return net_open_image(l->net, &i->digest, i->n, i->right.capability,
			      i->right.len, NULL) == -EALREADY;
}

/* The neighbour says that the rogue takes part in the blocks. */
static void hear_of_rogue(void *arg)
{
	struct p2p *p = arg;
	struct member *rogue = member_by_name(p, "rogue");
	struct net_link *from = member_by_name(p, "node-01")->link->net;
	struct p2p_image *i, *blocks = NULL, *metadata = NULL;
	struct net_node said = rogue->node;

	LIST_FOREACH(i, &p->images, all)
	if (i->is_metadata)
		metadata = i;
	else
		blocks = i;
	cr_assert(blocks && metadata && rogue->link && rogue->link->is_up);
	/* As a node of before does: of one of them. */
	link_events.members(p, from, NULL, &said, 1);
	cr_expect(member_is_known(rogue, blocks));
	cr_expect_not(member_is_of_image(rogue, blocks));
	link_offer(rogue->link, blocks);
	link_events.members(p, from, &metadata->digest, &said, 1);
	cr_expect_not(is_shown(blocks, rogue->link), "nobody named it for it");
	cr_expect(is_shown(metadata, rogue->link));
}

Test(engine_rights, who_is_named_for_one_image_is_shown_no_other)
{
	struct fake_tracker *t;
	struct digest swarm;
	struct holders h;
	struct call_to to;
	struct rogue *r;
	struct crowd c;

	t = permitted(&c, 3600);
	crowd_open_metadata(&c.node[0]);
	crowd_open_metadata(&c.node[1]);
	h = (struct holders){ .p = c.node[0].p2p };
	wait_for((engine_run(h.p, look_shared, &h), h.n == 2));
	crowd_swarm(&swarm);
	r = rogue_start(ROGUE_GONE, &c.img, &swarm);
	to = (struct call_to){ c.node[0].p2p, rogue_address(r) };
	engine_run(to.p, call_rogue, &to);
	wait_for(rogue_refused(r) > 0);
	cr_expect_eq(rogue_shown(r), 0);
	engine_run(to.p, hear_of_rogue, to.p);
	crowd_remove(&c);
	rogue_stop(r);
	fake_tracker_free(t);
}

/* The right of the second of two nodes, and what the first answers whom. */
struct opening_by {
	struct p2p *p;
	uint8_t right[CAPABILITY_MAX];
	size_t len;
};

static void take_right(void *arg)
{
	struct opening_by *o = arg;
	const void *right = rights_shown(LIST_FIRST(&o->p->images), &o->len);

	memcpy(o->right, right, o->len);
}

static void open_what_is_here_and_not(void *arg)
{
	const struct opening_by *o = arg;
	struct link *l = LIST_FIRST(&o->p->links);
	struct digest here, gone, made_up, image, foreign;
	const struct {
		const struct digest *swarm;
		const void *right;
		size_t len;
		int rc;
	} cases[] = {
		{ &here, o->right, o->len, 0 },
		/* Nobody has opened its metadata. */
		{ &gone, o->right, o->len, -ENOENT },
		{ &here, "x", 1, -EACCES },
		{ &gone, "x", 1, -EACCES },
		{ &here, NULL, 0, -EACCES },
		{ &gone, NULL, 0, -EACCES },
		/* The right to one image says nothing of others. */
		{ &made_up, o->right, o->len, -EACCES },
		{ &foreign, o->right, o->len, -EACCES },
	};

	crowd_swarm(&here);
	crowd_image(&image);
	cr_assert_eq(p2p_swarm_name(&image, CROWD_REPO, P2P_SWARM_METADATA,
				    &gone, NULL),
		     0);
	cr_assert_eq(p2p_swarm_name(&image, "registry.example/private",
				    P2P_SWARM_BLOCKS, &foreign, NULL),
		     0);
	cr_assert_eq(digest_of("made up", 7, &made_up), 0);
	cr_assert(l && o->len);
	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(link_events.may_open(o->p, l->net, cases[k].swarm,
						  cases[k].right, cases[k].len,
						  &err),
			     cases[k].rc, "%zu: %s", k, err.msg);
	}
}

Test(engine_rights, who_has_no_right_does_not_learn_which_images_are_here)
{
	struct opening_by o = { .p = NULL };
	struct fake_tracker *t;
	struct crowd c;

	t = permitted(&c, 3600);
	o.p = c.node[1].p2p;
	engine_run(o.p, take_right, &o);
	o.p = c.node[0].p2p;
	engine_run(o.p, open_what_is_here_and_not, &o);
	crowd_remove(&c);
	fake_tracker_free(t);
}

Test(engine_rights, a_right_is_renewed_while_the_link_serves)
{
	int64_t until = time(NULL) + 5;
	struct holders h = { .n = 0 };
	struct fake_tracker *t;
	struct p2p_stats s;
	struct crowd c;

	/* It is renewed a second before. */
	t = permitted(&c, 4);
	wait_holders(&c.node[0], 1, until + 1);
	p2p_get_stats(c.node[0].p2p, &s);
	cr_expect_eq(s.denied_total, 0);
	/* Nobody gives one any more: it ends. */
	fake_tracker_sign(t, 0);
	h.p = c.node[0].p2p;
	wait_for((h.check_s = time(NULL), engine_run(h.p, count_holders, &h),
		  !h.n));
	crowd_origin_dies(&c.node[0]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
	fake_tracker_free(t);
}

Test(engine_rights, whose_right_is_revoked_is_served_no_more)
{
	struct fake_tracker *t;
	struct crowd c;

	t = permitted(&c, 3600);
	fake_tracker_revoke(t, "node-01");
	cr_expect_eq(p2p_reload(c.node[0].p2p, NULL), 0);
	wait_holders(&c.node[0], 0, 0);
	/* Also when it comes anew. */
	crowd_reopen(&c.node[1]);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* Two nodes with the image of a private repository, of which the second one may pull
 * the same image from `repo` only. */
static struct fake_tracker *foreign(struct crowd *c, const char *opened)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t = fake_tracker_start();

	fake_tracker_sign(t, 3600);
	fake_tracker_sign_other(t, "node-01", CROWD_REPO);
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	cfg.nodes = 0;
	crowd_make(c, &cfg);
	cfg.repo = "registry.example/private";
	(void)crowd_add(c, &cfg);
	crowd_put(&c->node[0], 0, CROWD_TWO_BLOCKS);
	crowd_reopen(&c->node[0]);
	cfg.repo = opened;
	(void)crowd_add(c, &cfg);
	return t;
}

static uint64_t denied_by(struct crowd_node *n)
{
	struct p2p_stats s;

	p2p_get_stats(n->p2p, &s);
	return s.denied_total;
}

Test(engine_rights, the_right_to_an_image_elsewhere_is_none_to_a_private_one)
{
	struct fake_tracker *t;
	struct crowd c;

	t = foreign(&c, "registry.example/private");
	wait_for(denied_by(&c.node[0]) > 0);
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	crowd_remove(&c);
	fake_tracker_free(t);
}

static void look_right(void *arg)
{
	struct holders *h = arg;

	h->n = LIST_FIRST(&h->p->images)->right.len > 0;
}

Test(engine_rights, the_same_image_of_another_repository_is_another_swarm)
{
	struct fake_tracker *t;
	struct holders h;
	struct crowd c;

	t = foreign(&c, CROWD_REPO);
	h = (struct holders){ .p = c.node[1].p2p };
	wait_for((engine_run(h.p, look_right, &h), h.n));
	crowd_fetch(&c.node[1]);
	cr_assert_eq(crowd_join(&c.node[1]), 0, "%s", c.node[1].err.msg);
	cr_expect_eq(crowd_origin_bytes(&c), crowd_stored_bytes(&c));
	/* Nobody was told of it: the two never asked each other. */
	cr_expect_eq(denied_by(&c.node[0]), 0);
	cr_expect_eq(denied_by(&c.node[1]), 0);
	crowd_remove(&c);
	fake_tracker_free(t);
}

#define FAR_NS INT64_C(3600000000000)

/* Two nodes that no tracker gives a right, nor do they announce on their own. */
static struct fake_tracker *refused(struct crowd *c)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t = fake_tracker_start();

	fake_tracker_interval(t, FAR_NS);
	fake_tracker_sign(t, 0);
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	crowd_make(c, &cfg);
	return t;
}

/* It was refused so often that it asks again in an hour, if it has been once. */
static void look_refused(void *arg)
{
	struct holders *h = arg;
	struct p2p_image *i = LIST_FIRST(&h->p->images);

	h->n = *i->right.refusal && !i->right.permit;
	if (h->n)
		i->right.renew_at = time(NULL) + 3600;
}

static void wait_refused(struct crowd *c)
{
	for (unsigned int k = 0; k < c->n; k++) {
		struct holders h = { .p = c->node[k].p2p };

		wait_for((engine_run(h.p, look_refused, &h), h.n));
	}
}

Test(engine_rights, a_reload_asks_anew_for_what_was_refused)
{
	struct fake_tracker *t;
	struct crowd c;

	t = refused(&c);
	wait_refused(&c);
	fake_tracker_sign(t, 3600);
	for (unsigned int k = 0; k < c.n; k++)
		cr_expect_eq(p2p_reload(c.node[k].p2p, NULL), 0);
	wait_holders(&c.node[0], 1, 0);
	wait_holders(&c.node[1], 1, 0);
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* Was it named for the image to this node?  The link is up then. */
static void look_named(void *arg)
{
	struct holders *h = arg;
	const struct link *l = LIST_FIRST(&h->p->links);

	h->n = l && l->is_up && l->member &&
	       member_is_of_image(l->member, LIST_FIRST(&h->p->images));
}

static void look_shown(void *arg)
{
	struct holders *h = arg;
	const struct link *l = LIST_FIRST(&h->p->links);

	h->n = l && LIST_FIRST(&l->rights);
}

/* To who announced first nobody was named, and it has its right last. */
Test(engine_rights, who_has_shown_a_right_is_shown_one_when_it_comes)
{
	struct holders one = { .p = NULL }, other = { .p = NULL };
	struct fake_tracker *t;
	struct crowd c;

	t = refused(&c);
	wait_refused(&c);
	one.p = c.node[0].p2p;
	other.p = c.node[1].p2p;
	wait_for((engine_run(one.p, look_named, &one),
		  engine_run(other.p, look_named, &other), one.n || other.n));
	if (!one.n) {
		one.p = c.node[1].p2p;
		other.p = c.node[0].p2p;
	}
	fake_tracker_sign(t, 3600);
	cr_expect_eq(p2p_reload(one.p, NULL), 0);
	wait_for((engine_run(other.p, look_shown, &other), other.n));
	cr_expect_eq(p2p_reload(other.p, NULL), 0);
	wait_holders(&c.node[0], 1, 0);
	wait_holders(&c.node[1], 1, 0);
	crowd_remove(&c);
	fake_tracker_free(t);
}

static atomic_uint n_asked;
static atomic_bool may_answer;

static char *answer_later(void *arg, struct pace *pace)
{
	(void)arg;
	atomic_fetch_add(&n_asked, 1);
	wait_for(atomic_load(&may_answer) || pace_level(pace) == PACE_STOP);
	return NULL;
}

/* It has read what it asks with before that was mended. */
Test(engine_rights, what_is_asked_for_during_a_reload_is_asked_for_again)
{
	struct fake_tracker *t;
	struct crowd c;

	t = refused(&c);
	c.node[1].authorization = answer_later;
	crowd_reopen(&c.node[1]);
	wait_for(atomic_load(&n_asked) == 1);
	cr_expect_eq(p2p_reload(c.node[1].p2p, NULL), 0);
	atomic_store(&may_answer, true);
	wait_for(atomic_load(&n_asked) == 2);
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* A registry that does not answer. */
static char *wait_for_stop(void *arg, struct pace *pace)
{
	struct crowd_node *n = arg;

	atomic_store(&n->is_asked, true);
	wait_for(pace_level(pace) == PACE_STOP);
	return NULL;
}

Test(engine_rights, who_leaves_an_image_does_not_wait_for_the_registry)
{
	struct fake_tracker *t;
	struct crowd c;

	t = permitted(&c, 3600);
	c.node[1].authorization = wait_for_stop;
	crowd_reopen(&c.node[1]);
	wait_for(atomic_load(&c.node[1].is_asked));
	crowd_kill(&c.node[1]); /* for ever, if it waited */
	crowd_remove(&c);
	fake_tracker_free(t);
}
