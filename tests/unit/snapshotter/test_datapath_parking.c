// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <linux/fuse.h>
#include <string.h>

#include "snapshotter/datapath/parking.h"

TestSuite(datapath_parking, .timeout = 10);

struct request {
	struct fuse_in_header in;
	char name[16]; /* with the NUL that follows a request */
};

static struct request request(uint32_t opcode, uint64_t node, const char *name)
{
	struct request r = { .in = { .opcode = opcode, .nodeid = node } };

	strcpy(r.name, name);
	return r;
}

static bool take(struct parking *p, const struct request *r)
{
	return parking_take(p, (const char *)r,
			    sizeof(r->in) + strlen(r->name));
}

struct seen {
	uint64_t nodes[16];
	size_t n;
};

static void see(void *arg, void *data, size_t len)
{
	struct seen *s = arg;
	struct fuse_in_header in;

	cr_assert_geq(len, sizeof(in));
	memcpy(&in, data, sizeof(in));
	s->nodes[s->n++] = in.nodeid;
}

Test(datapath_parking, holds_nothing_before_it_is_opened)
{
	struct image_table *t = image_table_new();
	struct parking *p = parking_new(t);
	const struct request r = request(FUSE_READ, node_id(3, 0), "");

	cr_expect_not(take(p, &r));
	parking_free(p);
	image_table_free(t);
}

Test(datapath_parking, holds_what_is_about_images_that_are_not_there_yet)
{
	struct image_table *t = image_table_new();
	struct parking *p = parking_new(t);
	struct datapath_image img = { .index = 1, .name = "x" };
	struct error err = ERROR_INIT;
	const struct request early[] = {
		request(FUSE_READ, node_id(3, 0), ""),
		request(FUSE_LOOKUP, node_id(3, 36), "bin"),
		request(FUSE_LOOKUP, NODE_ROOT, "3"),
	};
	const struct request late[] = {
		request(FUSE_READ, node_id(1, 0), ""),
		request(FUSE_LOOKUP, NODE_ROOT, "1"),
		request(FUSE_LOOKUP, NODE_ROOT, "x"),
		request(FUSE_GETATTR, NODE_ROOT, ""),
		request(FUSE_FORGET, node_id(3, 0), ""),
		request(FUSE_BATCH_FORGET, 0, ""),
		request(FUSE_INTERRUPT, 0, ""),
	};

	cr_assert_eq(image_table_add(t, &img, NULL, &err), 0);
	parking_open(p);
	for (size_t i = 0; i < ARRAY_SIZE(early); i++)
		cr_expect(take(p, &early[i]), "early %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(late); i++)
		cr_expect_not(take(p, &late[i]), "late %zu", i);
	parking_free(p);
	image_table_free(t);
}

Test(datapath_parking, releases_in_order_what_came_and_the_rest_at_the_end)
{
	struct image_table *t = image_table_new();
	struct parking *p = parking_new(t);
	struct datapath_image img = { .index = 2, .name = "x" };
	struct error err = ERROR_INIT;
	struct seen s = { .n = 0 };
	struct request r;

	parking_open(p);
	for (uint64_t i = 0; i < 6; i++) {
		r = request(FUSE_READ, node_id(1 + i % 3, i), "");
		cr_assert(take(p, &r));
	}
	cr_assert_eq(image_table_add(t, &img, NULL, &err), 0);
	parking_release(p, false, see, &s);
	cr_assert_eq(s.n, 2);
	cr_expect_eq(s.nodes[0], node_id(2, 1));
	cr_expect_eq(s.nodes[1], node_id(2, 4));
	r = request(FUSE_READ, node_id(9, 9), "");
	cr_expect(take(p, &r), "the list still ends where it ends");
	parking_release(p, true, see, &s);
	cr_assert_eq(s.n, 7);
	cr_expect_eq(s.nodes[2], node_id(1, 0));
	cr_expect_eq(s.nodes[6], node_id(9, 9));
	cr_expect_not(take(p, &r), "closed");
	parking_free(p);
	image_table_free(t);
}
