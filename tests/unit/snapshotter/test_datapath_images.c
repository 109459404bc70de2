// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#include "snapshotter/datapath/image_session.h"

TestSuite(datapath_images, .timeout = 120);

static struct image_table *table(void)
{
	struct image_table *t = image_table_new();

	cr_assert_not_null(t);
	return t;
}

Test(datapath_images, are_found_by_index_whatever_the_order_they_came_in)
{
	AUTO(image_table) t = table();
	struct datapath_image img[100] = { { 0 } };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < 100; i++) {
		img[i].index = i * 37 % 100;
		img[i].name = "x";
		cr_assert_eq(image_table_add(t, &img[i], NULL, &err), 0);
	}
	for (size_t i = 0; i < 100; i++) {
		struct image_entry *e = image_get(t, img[i].index);

		cr_assert_not_null(e);
		cr_expect_eq(e->img, &img[i]);
		image_put(t, e);
	}
	cr_expect_null(image_get(t, 100));
}

Test(datapath_images, with_one_index_are_refused)
{
	AUTO(image_table) t = table();
	struct datapath_image a = { .index = 1, .name = "a" };
	struct datapath_image b = { .index = 1, .name = "b" };
	struct datapath_image big = { .index = IMAGE_INDEX_MAX + 1,
				      .name = "big" };
	struct error err = ERROR_INIT;

	cr_assert_eq(image_table_add(t, &a, NULL, &err), 0);
	cr_expect_eq(image_table_add(t, &a, NULL, &err), -EALREADY);
	cr_expect_eq(image_table_add(t, &b, NULL, &err), -EEXIST);
	cr_expect_eq(image_table_add(t, &big, NULL, &err), -EINVAL);
}

struct removal {
	struct image_table *t;
	_Atomic bool done;
};

static void *remove_it(void *arg)
{
	struct removal *r = arg;

	cr_expect_eq(image_table_remove(r->t, 5, NULL), 0);
	r->done = true;
	return NULL;
}

Test(datapath_images, go_only_when_no_request_is_under_way)
{
	AUTO(image_table) t = table();
	struct datapath_image a = { .index = 5, .name = "a" };
	struct removal r = { .t = t };
	struct error err = ERROR_INIT;
	struct image_entry *e, *later;
	pthread_t thread;

	cr_assert_eq(image_table_add(t, &a, NULL, &err), 0);
	e = image_get(t, 5);
	cr_assert_not_null(e);
	cr_assert_eq(pthread_create(&thread, NULL, remove_it, &r), 0);
	/* Wait until new requests do not find the image; this one still holds it. */
	while ((later = image_get(t, 5)))
		image_put(t, later);
	cr_expect_not(r.done);
	cr_expect_eq(e->img, &a);
	image_put(t, e);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect(r.done);
	cr_expect_eq(image_table_remove(t, 5, NULL), -ENOENT);
}

Test(datapath_images, have_node_ids_that_say_whose_they_are)
{
	cr_expect_not(node_is_image(NODE_ROOT));
	cr_expect(node_is_image(node_id(0, 0)));
	cr_expect_eq(node_index(node_id(0, 36)), 0);
	cr_expect_eq(node_index(node_id(IMAGE_INDEX_MAX, NODE_LOCAL_MASK)),
		     IMAGE_INDEX_MAX);
	cr_expect_eq(node_id(9, 36) & NODE_LOCAL_MASK, 36);
}

Test(datapath_images, have_names_in_plain_decimal_only)
{
	static const char *const bad[] = {
		"", "-1", "01", "1 ", "x", "+1", "99999999999999999999999"
	};
	uint64_t v;

	cr_assert_eq(image_index_parse("0", &v), 0);
	cr_expect_eq(v, 0);
	cr_assert_eq(image_index_parse("1234", &v), 0);
	cr_expect_eq(v, 1234);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(image_index_parse(bad[i], &v), -EINVAL, "'%s'",
			     bad[i]);
}

Test(datapath_images, that_are_not_there_yet_are_waited_for)
{
	AUTO(image_table) t = table();
	struct image_session s = { .images = t };
	struct datapath_image img = { .index = 1, .name = "x" };
	struct error err = ERROR_INIT;

	cr_assert_eq(image_table_add(t, &img, NULL, &err), 0);
	cr_expect(image_session_is_early(&s, node_id(3, 0), NULL));
	cr_expect(image_session_is_early(&s, node_id(3, 36), "bin"));
	cr_expect(image_session_is_early(&s, NODE_ROOT, "3"));
	cr_expect_not(image_session_is_early(&s, node_id(1, 0), NULL));
	cr_expect_not(image_session_is_early(&s, node_id(1, 36), "3"));
	cr_expect_not(image_session_is_early(&s, NODE_ROOT, "1"));
	cr_expect_not(image_session_is_early(&s, NODE_ROOT, "x"));
	cr_expect_not(image_session_is_early(&s, NODE_ROOT, NULL));
	/* The check left no reference, so the image can be removed. */
	cr_expect_eq(image_table_remove(t, 1, NULL), 0);
}
