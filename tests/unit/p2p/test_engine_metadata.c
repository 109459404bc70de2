// SPDX-License-Identifier: Apache-2.0
/* A swarm for what is needed before there is a block map, beside the image's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_metadata, .timeout = 120);

static struct error err;

/* All of the node's metadata, in this thread. */
static int fetch_metadata(struct crowd_node *n)
{
	uint32_t blocks[CROWD_TWO_BLOCKS];
	struct device_list list = { .blocks = blocks,
				    .n = CROWD_TWO_BLOCKS,
				    .priority = SOURCE_HOT,
				    .streams = 1 };

	for (uint32_t k = 0; k < CROWD_TWO_BLOCKS; k++)
		blocks[k] = k;
	return p2p_image_fetch(n->metadata, &list, &err);
}

struct found {
	unsigned int images, metadata;
	struct digest image;
};

static void count_images(void *arg, const struct p2p_image_info *i)
{
	struct found *f = arg;

	f->images += !i->is_metadata;
	f->metadata += i->is_metadata;
	f->image = i->image;
}

Test(engine_metadata, comes_from_a_node_that_has_it_beside_the_image)
{
	struct found f = { .images = 0 };
	struct p2p_progress at;
	struct p2p_stats s;
	struct crowd c;

	crowd_make(&c, &crowd_two);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	crowd_open_metadata(&c.node[0]);
	crowd_open_metadata(&c.node[1]);
	p2p_image_progress(c.node[1].metadata, &at);
	cr_expect_eq(at.moved_ns, 0);
	cr_assert_eq(fetch_metadata(&c.node[1]), 0, "%s", err.msg);
	crowd_expect_whole(&c.node[1]);
	p2p_image_progress(c.node[1].metadata, &at);
	cr_expect_gt(at.moved_ns, 0);
	cr_expect_gt(at.heard_ns, 0);
	cr_assert_eq(p2p_each_image(c.node[1].p2p, count_images, &f, &err), 0);
	cr_expect(f.images == 1 && f.metadata == 1);
	cr_expect(digest_equal(&f.image, &c.digest), "it has no other name");
	p2p_get_stats(c.node[1].p2p, &s);
	cr_expect_eq(s.origin_bytes_total, 0);
	cr_expect_eq(s.zone_bytes_total, crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* How many of the node's swarms the others take part in. */
struct shares {
	struct p2p *p;
	unsigned int n;
	bool is_same; /* what proves the right */
};

static void count_shares(void *arg)
{
	struct shares *s = arg;
	const struct p2p_image *i, *first = LIST_FIRST(&s->p->images);

	s->n = 0;
	s->is_same = true;
	LIST_FOREACH(i, &s->p->images, all)
	{
		s->n += i->neighbours.n;
		s->is_same =
			s->is_same && i->right.len == first->right.len &&
			memcmp(i->right.capability, first->right.capability,
			       first->right.len) == 0;
	}
}

Test(engine_metadata, is_for_those_who_have_the_right_to_the_image)
{
	struct crowd_config cfg = crowd_two;
	struct fake_tracker *t;
	struct shares s;
	struct crowd c;

	t = fake_tracker_start();
	fake_tracker_sign(t, 3600);
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	crowd_make(&c, &cfg);
	crowd_put(&c.node[0], 0, CROWD_TWO_BLOCKS);
	crowd_open_metadata(&c.node[0]);
	crowd_open_metadata(&c.node[1]);
	cr_assert_eq(fetch_metadata(&c.node[1]), 0, "%s", err.msg);
	crowd_expect_whole(&c.node[1]);
	s = (struct shares){ .p = c.node[0].p2p };
	wait_for((engine_run(s.p, count_shares, &s), s.n == 2));
	cr_expect(s.is_same, "it is asked for once");
	fake_tracker_revoke(t, "node-01");
	cr_expect_eq(p2p_reload(c.node[0].p2p, NULL), 0);
	wait_for((engine_run(s.p, count_shares, &s), !s.n));
	crowd_remove(&c);
	fake_tracker_free(t);
}

static int64_t told_ns(const struct p2p_image *i)
{
	struct p2p_progress at;

	p2p_image_progress(i, &at);
	return at.told_ns;
}

Test(engine_metadata, knows_when_a_tracker_tells_of_others)
{
	struct fake_tracker *t = fake_tracker_start();
	struct crowd_config cfg = crowd_two;
	struct tracker_stats s;
	struct crowd c;

	fake_tracker_interval(t, 200 * NS_PER_MS);
	cfg.tracker = fake_tracker_url(t);
	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	wait_for((fake_tracker_stats(t, &s), s.members == 1));
	cr_expect_eq(told_ns(c.node[0].image), 0, "there are none");
	(void)crowd_add(&c, &cfg);
	wait_for(told_ns(c.node[0].image) && told_ns(c.node[1].image));
	crowd_remove(&c);
	fake_tracker_free(t);
}

/* They number the pieces otherwise. */
Test(engine_metadata, of_two_kinds_is_two_swarms)
{
	struct digest image, names[3];

	crowd_image(&image);
	for (int k = 0; k < 3; k++)
		cr_assert_eq(p2p_swarm_name(&image, CROWD_REPO,
					    (enum p2p_swarm_kind)k, &names[k],
					    &err),
			     0);
	cr_expect(!digest_equal(&names[0], &names[1]));
	cr_expect(!digest_equal(&names[1], &names[2]));
	cr_expect(!digest_equal(&names[0], &names[2]));
}

static void *fetch_main(void *arg)
{
	struct crowd_node *n = arg;

	n->rc = fetch_metadata(n);
	return NULL;
}

Test(engine_metadata, ends_with_what_the_caller_had_of_the_origin_himself)
{
	struct crowd_config cfg = crowd_two;
	struct crowd_node *n;
	struct p2p_stats s;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	n = &c.node[0];
	crowd_open_metadata(n);
	cr_assert_eq(pthread_create(&n->thread, NULL, fetch_main, n), 0);
	for (uint32_t k = 0; k < CROWD_TWO_BLOCKS; k++) {
		crowd_put(n, k, 1);
		p2p_image_came(n->metadata, k);
	}
	cr_assert_eq(crowd_join(n), 0, "%s", err.msg);
	p2p_get_stats(n->p2p, &s);
	cr_expect_eq(s.origin_bytes_total, crowd_stored_bytes(&c));
	crowd_remove(&c);
}

/* Each time is later than the one before. */
Test(engine_metadata, is_not_read_again_when_the_origin_has_it_wrong)
{
	const struct fault_plan plan = { .n_wrong = UINT32_MAX };
	struct crowd_config cfg = crowd_two;
	struct p2p_stats s;
	struct crowd c;

	cfg.nodes = 1;
	crowd_make(&c, &cfg);
	c.node[0].metadata_plan = &plan;
	crowd_open_metadata(&c.node[0]);
	cr_expect_eq(fetch_metadata(&c.node[0]), -EBADMSG, "%s", err.msg);
	p2p_get_stats(c.node[0].p2p, &s);
	cr_expect(s.wrong_total >= 1 && s.wrong_total <= 2 * c.img.n_packs,
		  "%" PRIu64, s.wrong_total);
	crowd_remove(&c);
}
