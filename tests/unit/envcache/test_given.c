// SPDX-License-Identifier: Apache-2.0
/* Blocks from a giver that is not trusted; the rest comes from the store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "envcache/given.h"

TestSuite(env_given, .timeout = 60);

#define N 6
#define SIZE 4096u

static struct error err;

/* A pack of N blocks, a source that reads it from the store, and a giver of the same blocks. */
struct two {
	char data[N][SIZE];
	struct block blocks[N];
	struct block_source store;
	size_t n_stored, n_opened;
	struct env_giver giver;
	size_t n_asked, n_ranges, fails_at;
	int wrong; /* index of the block that the giver has wrong; -1: none */
	char got[N][SIZE];
	size_t n_got;
	struct block_sink sink;
	size_t refuses_at;
};

static int store_read(struct block_source *s, const struct block_req *req,
		      struct block_sink *sink, struct error *e)
{
	struct two *t = container_of(s, struct two, store);
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < req->n_blocks; k++) {
		t->n_stored++;
		rc = sink->put(sink, k, t->data[req->blocks[k].poff / SIZE], e);
	}
	return rc;
}

static void store_free(struct block_source *s)
{
	(void)s;
}

static const struct block_source_ops store_ops = {
	.name = "store",
	.read = store_read,
	.free = store_free,
};

/* Positions in the device are those in the pack, with a gap after the third block. */
static uint64_t device_offset(size_t k)
{
	return (k + (k > 2)) * SIZE;
}

static int give_counted(struct env_giver *g, const struct env_range *ranges,
			size_t n, void *buf, struct error *e)
{
	struct two *t = container_of(g, struct two, giver);
	char *to = buf;

	t->n_ranges += n;
	if (t->n_asked++ == t->fails_at)
		return error_set(e, EIO, "it left");
	for (size_t i = 0; i < n; i++)
		for (uint64_t at = 0; at < ranges[i].len; at += SIZE) {
			size_t k = 0;

			while (device_offset(k) != ranges[i].off + at)
				k++;
			memcpy(to, t->data[k], SIZE);
			if ((int)k == t->wrong)
				to[7] ^= 1;
			to += SIZE;
		}
	return 0;
}

static int take(struct block_sink *sink, size_t index, const void *data,
		struct error *e)
{
	struct two *t = container_of(sink, struct two, sink);

	cr_assert_eq(index, t->n_got, "in order");
	if (index == t->refuses_at)
		return error_set(e, ENOSPC, "full");
	memcpy(t->got[t->n_got++], data, SIZE);
	return 0;
}

static void make_two_sources(struct two *t)
{
	*t = (struct two){
		.store.ops = &store_ops,
		.giver = { .meta = -1, .map = -1, .give = give_counted },
		.fails_at = SIZE_MAX,
		.refuses_at = SIZE_MAX,
		.wrong = -1,
		.sink.put = take
	};
	for (size_t k = 0; k < N; k++) {
		memset(t->data[k], (int)k + 1, SIZE);
		t->blocks[k] = (struct block){ .voff = device_offset(k),
					       .poff = k * SIZE,
					       .usize = SIZE,
					       .csize = SIZE,
					       .codec = BLOCK_CODEC_RAW };
		cr_assert_eq(digest_of(t->data[k], SIZE, &t->blocks[k].digest),
			     0);
	}
}

static int open_store(void *arg, size_t pack, struct block_source **ret,
		      struct error *e)
{
	struct two *t = arg;

	(void)e;
	cr_expect_eq(pack, 3);
	t->n_opened++;
	*ret = &t->store;
	return 0;
}

static int read_all(struct two *t)
{
	const struct block_req req = { .blocks = t->blocks, .n_blocks = N };
	struct block_source *s = NULL;
	struct given *g = NULL;
	int rc;

	cr_assert_eq(given_new(&t->giver, open_store, t, &g, &err), 0);
	cr_assert_eq(given_source_new(g, 3, &s, &err), 0);
	rc = block_source_read(s, &req, &t->sink, &err);
	block_source_free(s);
	given_free(g);
	return rc;
}

static void expect_whole(struct two *t)
{
	cr_assert_eq(read_all(t), 0, "%s", err.msg);
	cr_expect_eq(t->n_got, N);
	cr_expect_eq(memcmp(t->got, t->data, sizeof(t->data)), 0);
}

Test(env_given, blocks_are_not_read_of_the_store)
{
	struct two t;

	make_two_sources(&t);
	expect_whole(&t);
	cr_expect_eq(t.n_stored, 0);
	cr_expect_eq(t.n_opened, 0, "nor asked for anything");
	cr_expect_eq(t.n_asked, 1);
	cr_expect_eq(t.n_ranges, 2, "of what lies together one");
	cr_expect_eq(t.giver.given, N * SIZE);
	cr_expect_eq(t.giver.failed.code, 0);
}

Test(env_given, a_wrong_block_and_what_follows_it_are_the_stores)
{
	struct two t;

	make_two_sources(&t);
	t.wrong = 4;
	expect_whole(&t);
	cr_expect_eq(t.n_stored, N - 4);
	cr_expect_eq(t.giver.given, 4 * SIZE);
	cr_expect_eq(t.giver.failed.code, EBADMSG);
}

Test(env_given, one_that_fails_is_asked_no_more)
{
	struct two t;

	make_two_sources(&t);
	t.fails_at = 0;
	expect_whole(&t);
	cr_expect_eq(t.n_stored, N);
	cr_expect_str_eq(t.giver.failed.msg, "it left");
	t.n_got = 0;
	t.fails_at = SIZE_MAX;
	expect_whole(&t);
	cr_expect_eq(t.n_stored, 2 * N);
	cr_expect_eq(t.n_asked, 1);
}

Test(env_given, what_the_reader_refuses_is_not_asked_of_the_store)
{
	struct two t;

	make_two_sources(&t);
	t.refuses_at = 2;
	cr_expect_eq(read_all(&t), -ENOSPC);
	cr_expect_eq(t.n_stored, 0);
	cr_expect_eq(t.giver.failed.code, 0);
}
