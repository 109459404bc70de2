// SPDX-License-Identifier: Apache-2.0
/* Events that have nothing to prefetch, and images without a prefetch. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshotter/node/starts/prefetch.h"
#include "tests/unit/snapshotter/test_node.h"

TestSuite(node_prefetch, .timeout = 120);

struct prefetch_fixture {
	struct test_node n;
	struct image *image;
	struct error err;
};

static void setup(struct prefetch_fixture *f, const char *mode)
{
	memset(f, 0, sizeof(*f));
	test_node_open(&f->n);
	f->n.cfg.prefetch = strdup(mode);
	test_node_open_prefetches(&f->n);
	f->image = test_node_add(&f->n, 1);
}

static void end(struct prefetch_fixture *f)
{
	images_put(f->image);
	free(f->n.cfg.prefetch);
	test_node_close(&f->n);
}

static struct hot_list hot_of(size_t n)
{
	struct hot_list hot = { .blocks = calloc(n, sizeof(*hot.blocks)),
				.n = n };

	cr_assert(hot.blocks);
	return hot;
}

Test(node_prefetch, that_is_not_to_be_needs_nothing_and_frees_the_hot_set)
{
	struct hot_list hot = hot_of(3);
	struct prefetch_fixture f;

	setup(&f, "off");
	cr_expect_eq(node_prefetch(f.n.node.prefetches, f.image,
				   PREFETCH_ON_TRACE, &hot, NULL, &f.err),
		     0);
	cr_expect_null(hot.blocks);
	cr_expect_null(f.image->prefetch);
	end(&f);
}

Test(node_prefetch, of_a_start_without_a_trace_waits_for_one)
{
	struct prefetch_fixture f;

	setup(&f, "hot");
	cr_expect_eq(node_prefetch(f.n.node.prefetches, f.image,
				   PREFETCH_ON_START_UNKNOWN, NULL, NULL,
				   &f.err),
		     0);
	cr_expect_null(f.image->prefetch);
	end(&f);
}

Test(node_prefetch, that_is_ordered_needs_a_hot_set_and_says_how_to_get_one)
{
	struct prefetch_fixture f;

	setup(&f, "all");
	cr_expect_eq(node_prefetch(f.n.node.prefetches, f.image,
				   PREFETCH_ON_ORDER_HOT, NULL, NULL, &f.err),
		     -ENOENT);
	cr_expect(strstr(f.err.msg, "'bootseer image record' makes one"), "%s",
		  f.err.msg);
	end(&f);
}

Test(node_prefetch, of_an_image_that_is_gone_frees_the_hot_set)
{
	struct hot_list hot = hot_of(3);
	struct prefetch_fixture f;

	setup(&f, "all");
	cr_assert_eq(images_remove(f.image, NULL), 0);
	cr_expect_eq(node_prefetch(f.n.node.prefetches, f.image,
				   PREFETCH_ON_TRACE, &hot, NULL, &f.err),
		     -ENOENT);
	cr_expect_str_eq(f.err.msg, "prefetch: it was removed meanwhile");
	cr_expect_null(hot.blocks);
	end(&f);
}

Test(node_prefetch, that_there_is_none_of_is_waited_for_by_nobody)
{
	const struct wait_policy all = { .kind = WAIT_ALL };
	struct prefetch_fixture f;
	struct prefetch_stats s;
	uint8_t *bits;

	setup(&f, "all");
	cr_expect_eq(node_prefetch_wait(f.image, &all, NULL, NULL), 0);
	cr_expect_eq(node_prefetch_wait_end(f.image, INT64_MAX / 2, NULL, NULL),
		     0);
	node_prefetch_stop(f.image);
	cr_expect_not(node_prefetch_stats(f.image, &s));
	cr_expect_eq(s.phase, PREFETCH_IDLE);
	cr_expect_eq(node_prefetch_fetched(f.image, true, &bits, NULL),
		     -ENOENT);
	end(&f);
}

Test(node_prefetch, follows_traces_unless_it_is_off)
{
	static char off[] = "off", hot[] = "hot";
	struct node_config cfg = { .prefetch = off };
	struct closure_searches *s = NULL;

	cr_expect_null(node_prefetch_trace_user(&cfg, s).found);
	cfg.prefetch = hot;
	cr_expect(node_prefetch_trace_user(&cfg, s).found);
}
