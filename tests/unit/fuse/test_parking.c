// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <linux/fuse.h>
#include <string.h>

#include "fuse/parking_priv.h"

TestSuite(parking, .timeout = 120);

/* Stands for a handler: what it knows, and what it was asked about. */
struct knower {
	uint64_t known; /* nodes below are not too early, nor is this name */
	const char *name;
	unsigned int n_asked;
	bool named; /* the last question had a name */
};

static bool is_early(void *owner, uint64_t node, const char *name)
{
	struct knower *k = owner;

	k->n_asked++;
	k->named = name != NULL;
	return node >= k->known && !(name && k->name && !strcmp(name, k->name));
}

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

Test(parking, holds_nothing_and_asks_nothing_before_it_is_opened)
{
	struct knower k = { .known = 0 };
	struct parking *p = parking_new(is_early, &k);
	const struct request r = request(FUSE_READ, 3, "");

	cr_expect_not(take(p, &r));
	cr_expect_eq(k.n_asked, 0);
	parking_free(p);
}

Test(parking, holds_nothing_for_a_handler_to_which_no_request_is_too_early)
{
	struct parking *p = parking_new(NULL, NULL);
	struct seen s = { .n = 0 };
	const struct request r = request(FUSE_READ, 3, "");

	parking_open(p);
	cr_expect_not(take(p, &r));
	parking_release(p, true, see, &s);
	cr_expect_eq(s.n, 0);
	parking_free(p);
}

Test(parking, holds_what_the_handler_says_is_too_early)
{
	struct knower k = { .known = 2, .name = "there" };
	struct parking *p = parking_new(is_early, &k);
	const struct request early[] = {
		request(FUSE_READ, 3, ""),
		request(FUSE_LOOKUP, 3, "bin"),
		request(FUSE_GETATTR, 2, ""),
	};
	const struct request late[] = {
		request(FUSE_READ, 1, ""),
		request(FUSE_LOOKUP, 3, "there"),
		request(FUSE_LOOKUP, 1, "x"),
	};

	parking_open(p);
	for (size_t i = 0; i < ARRAY_SIZE(early); i++) {
		cr_expect(take(p, &early[i]), "early %zu", i);
		cr_expect_eq(k.named, early[i].in.opcode == FUSE_LOOKUP,
			     "early %zu", i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(late); i++)
		cr_expect_not(take(p, &late[i]), "late %zu", i);
	parking_free(p);
}

Test(parking, lets_pass_what_expects_no_answer_whatever_it_is_about)
{
	struct knower k = { .known = 0 };
	struct parking *p = parking_new(is_early, &k);
	const struct request pass[] = {
		request(FUSE_FORGET, 3, ""),
		request(FUSE_BATCH_FORGET, 0, ""),
		request(FUSE_INTERRUPT, 0, ""),
		request(FUSE_DESTROY, 0, ""),
	};

	parking_open(p);
	for (size_t i = 0; i < ARRAY_SIZE(pass); i++)
		cr_expect_not(take(p, &pass[i]), "pass %zu", i);
	cr_expect_eq(k.n_asked, 0);
	parking_free(p);
}

Test(parking, releases_in_order_what_came_and_the_rest_at_the_end)
{
	struct knower k = { .known = 0 };
	struct parking *p = parking_new(is_early, &k);
	struct seen s = { .n = 0 };
	struct request r;

	parking_open(p);
	for (uint64_t i = 0; i < 6; i++) {
		r = request(FUSE_READ, 10 * (i % 3 + 1) + i, "");
		cr_assert(take(p, &r));
	}
	k.known = 20;
	parking_release(p, false, see, &s);
	cr_assert_eq(s.n, 2);
	cr_expect_eq(s.nodes[0], 10);
	cr_expect_eq(s.nodes[1], 13);
	r = request(FUSE_READ, 99, "");
	cr_expect(take(p, &r), "the list still ends where it ends");
	parking_release(p, true, see, &s);
	cr_assert_eq(s.n, 7);
	cr_expect_eq(s.nodes[2], 21);
	cr_expect_eq(s.nodes[6], 99);
	cr_expect_not(take(p, &r), "closed");
	parking_free(p);
}
