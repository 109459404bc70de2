// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/tracker/tracker_json.h"

TestSuite(tracker_json, .timeout = 120);

#define MS INT64_C(1000000)

Test(tracker_json, a_call_comes_back_as_it_was)
{
	static const uint32_t want[] = { 5, 6, 900 }, bytes[] = { 1, 2, 3 },
			      done[] = { 1 }, failed[] = { 2, 3 };
	const struct tracker_call c = { .node = "a\"b\\c",
					.addr = "[::1]:7000",
					.rack = "r1",
					.zone = "",
					.region = "eu",
					.n_pieces = 1000,
					.have = 7,
					.run = ((uint64_t)1 << 53) - 1,
					.opening = 70000,
					.wants_members = true,
					.want = want,
					.want_bytes = bytes,
					.n_want = 3,
					.n_demand = 2,
					.done = done,
					.n_done = 1,
					.failed = failed,
					.n_failed = 2,
					.origin_wait_ns = 1500 * MS };
	static struct tracker_call_text t;
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(tracker_call_to_json(&c, &text, &err), 0, "%s", err.msg);
	cr_assert_eq(tracker_call_from_json(text.data, text.len, &t, &err), 0,
		     "%s in %s", err.msg, text.data);
	cr_expect_str_eq(t.call.node, c.node);
	cr_expect_str_eq(t.call.addr, c.addr);
	cr_expect_str_eq(t.call.rack, "r1");
	cr_expect_str_eq(t.call.zone, "");
	cr_expect_str_eq(t.call.region, "eu");
	cr_expect_eq(t.call.n_pieces, 1000);
	cr_expect_eq(t.call.have, 7);
	cr_expect_eq(t.call.run, c.run);
	cr_expect_eq(t.call.opening, 70000);
	cr_expect(t.call.wants_members);
	cr_expect(!t.call.leaving);
	cr_expect_eq(t.call.n_want, 3);
	cr_expect_arr_eq(t.call.want, want, sizeof(want));
	cr_expect_arr_eq(t.call.want_bytes, bytes, sizeof(bytes));
	cr_expect_eq(t.call.n_demand, 2);
	cr_expect_eq(t.call.n_done, 1);
	cr_expect_eq(t.call.n_failed, 2);
	cr_expect_eq(t.call.origin_wait_ns, 1500 * MS);
}

Test(tracker_json, the_largest_answer_fits_and_comes_back)
{
	static struct tracker_answer a, b;
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;

	a.epoch = ((uint64_t)1 << 52) | 1;
	a.swarm = 1440;
	a.interval_ns = 2000 * MS;
	a.ttl_ns = 1234 * MS;
	a.retry_ns = 99 * MS;
	a.is_full = true;
	a.n_granted = TRACKER_PIECES_MAX;
	for (uint32_t i = 0; i < TRACKER_PIECES_MAX; i++)
		a.granted[i] = TRACKER_IMAGE_PIECES_MAX - 1 - i;
	a.n_members = TRACKER_MEMBERS_MAX;
	for (size_t i = 0; i < TRACKER_MEMBERS_MAX; i++) {
		memset(a.members[i].node, '"', TRACKER_NAME_MAX);
		memset(a.members[i].addr, '1', TRACKER_ADDR_MAX);
		memset(a.members[i].rack, '\\', TRACKER_PLACE_MAX);
		memset(a.members[i].zone, 'z', TRACKER_PLACE_MAX);
		memset(a.members[i].region, 'r', TRACKER_PLACE_MAX);
		a.members[i].have = (uint32_t)i;
	}
	cr_assert_eq(tracker_answer_to_json(&a, &text, &err), 0, "%s", err.msg);
	cr_expect_leq(text.len, TRACKER_ANSWER_JSON_MAX);
	cr_assert_eq(tracker_answer_from_json(text.data, text.len, &b, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(memcmp(&a, &b, sizeof(a)), 0);
}

Test(tracker_json, what_is_wrong_is_named)
{
	static const struct {
		const char *text, *named;
	} bad[] = {
		{ "", "JSON" },
		{ "[]", "object" },
		{ "{\"node\":7}", "node" },
		{ "{\"node\":\"a\",\"addr\":\"b\"}", "pieces" },
		{ "{\"node\":\"a\",\"addr\":\"b\",\"pieces\":-1}", "pieces" },
		{ "{\"node\":\"a\",\"addr\":\"b\",\"pieces\":9,"
		  "\"want\":[1]}",
		  "want_bytes" },
		{ "{\"node\":\"a\",\"addr\":\"b\",\"pieces\":9,"
		  "\"done\":[\"x\"]}",
		  "done" },
		{ "{\"node\":\"a\\u0000b\",\"addr\":\"b\",\"pieces\":9}",
		  "JSON" },
		{ "{\"node\":\"a\",\"addr\":\"b\",\"pieces\":9,"
		  "\"leaving\":1}",
		  "leaving" },
	};
	static struct tracker_call_text t;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(tracker_call_from_json(bad[i].text,
						    strlen(bad[i].text), &t,
						    &err),
			     -EINVAL);
		cr_expect(strstr(err.msg, bad[i].named), "%s: %s", bad[i].text,
			  err.msg);
	}
}

Test(tracker_json, what_was_revoked_is_read_and_found)
{
	static const char text[] =
		"{\"revoked\":[{\"image\":\"\",\"node\":\"n7\"},"
		"{\"image\":\"sha256:0101010101010101010101010101010101010101"
		"010101010101010101010101\",\"node\":\"\"},"
		"{\"image\":\"sha256:0202020202020202020202020202020202020202"
		"020202020202020202020202\",\"node\":\"n1\"}]}";
	static const char *const bad[] = {
		"{}",
		"{\"revoked\":[{\"image\":\"\",\"node\":\"\"}]}",
		"{\"revoked\":[{\"image\":\"sha256:01\",\"node\":\"\"}]}",
		"{\"revoked\":[{\"node\":\"x\"}]}",
		"{\"revoked\":[7]}",
	};
	struct error err = ERROR_INIT;
	struct digest a, b, c;

	memset(&a, 1, sizeof(a));
	memset(&b, 2, sizeof(b));
	memset(&c, 3, sizeof(c));
	cr_expect_not(revoked_has(NULL, &a, "n1"));
	{
		AUTO(revoked) r = NULL;

		cr_assert_eq(revoked_from_json(text, strlen(text), &r, &err), 0,
			     "%s", err.msg);
		cr_expect_eq(revoked_count(r), 3);
		cr_expect(revoked_has(r, &a, "n1"), "for every node");
		cr_expect(revoked_has(r, &c, "n7"), "every image");
		cr_expect(revoked_has(r, &b, "n1"));
		cr_expect_not(revoked_has(r, &b, "n2"));
		cr_expect_not(revoked_has(r, &c, "n1"));
	}
	for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
		AUTO(revoked) r = NULL;

		cr_expect_eq(revoked_from_json(bad[k], strlen(bad[k]), &r,
					       &err),
			     -EINVAL, "%s", bad[k]);
	}
}

Test(tracker_json, no_more_is_revoked_than_there_is_room_for)
{
	AUTO(revoked) r = NULL;
	AUTO(revoked) large = NULL;
	struct digest d;
	char node[16];

	memset(&d, 1, sizeof(d));
	cr_expect_eq(revoked_new(REVOKED_MAX + 1, &large, NULL), -E2BIG);
	cr_assert_eq(revoked_new(REVOKED_MAX, &r, NULL), 0);
	for (unsigned int k = 0; k < REVOKED_MAX; k++) {
		(void)snprintf(node, sizeof(node), "n%u", k);
		cr_assert_eq(revoked_add(r, k % 2 ? &d : NULL, node, NULL), 0);
	}
	cr_expect_eq(revoked_add(r, NULL, "n0", NULL), 0, "it is there");
	cr_expect_eq(revoked_add(r, NULL, "more", NULL), -ENOSPC);
	for (unsigned int k = 0; k < REVOKED_MAX; k++) {
		(void)snprintf(node, sizeof(node), "n%u", k);
		cr_assert(revoked_has(r, &d, node));
		memset(&d, k % 2 ? 2 : 1, sizeof(d));
		cr_assert_eq(revoked_has(r, &d, node), k % 2 == 0);
		memset(&d, 1, sizeof(d));
	}
}

/* ------------------------------------------------------------- out of memory --- */

static struct {
	unsigned int until; /* allocations that go well */
	unsigned int n, live;
} heap;

static void *heap_get(size_t size)
{
	void *ret = heap.n++ < heap.until ? malloc(size) : NULL;

	heap.live += ret != NULL;
	return ret;
}

static void heap_put(void *ptr)
{
	heap.live -= ptr != NULL;
	free(ptr);
}

static int write_wish(void)
{
	struct digest d = { { 1 } };
	AUTO_BUF out = BUF_INIT;

	return capability_wish_to_json(&d, "h/app", "n1", "Basic x", &out,
				       NULL);
}

static int read_call(void)
{
	static const char text[] = "{\"node\":\"a\",\"addr\":\"b\","
				   "\"pieces\":9,\"want\":[1,2],"
				   "\"want_bytes\":[1,1]}";
	static struct tracker_call_text t;

	return tracker_call_from_json(text, sizeof(text) - 1, &t, NULL);
}

static int read_answer(void)
{
	static const char text[] =
		"{\"epoch\":7,\"swarm\":3,\"interval_ms\":2000,"
		"\"ttl_ms\":1,\"retry_ms\":50,\"granted\":[5],"
		"\"members\":[{\"node\":\"a\",\"addr\":\"b\"}]}";
	static struct tracker_answer a;

	return tracker_answer_from_json(text, sizeof(text) - 1, &a, NULL);
}

static int read_capability(void)
{
	static const char text[] =
		"{\"capability\":\"QlNDUA==\",\"not_after\":9}";
	AUTO_BUF out = BUF_INIT;
	int64_t not_after;

	return capability_from_json(text, sizeof(text) - 1, &out, &not_after,
				    NULL);
}

static int read_revoked(void)
{
	static const char text[] =
		"{\"revoked\":[{\"image\":\"\",\"node\":\"n7\"}]}";
	AUTO(revoked) r = NULL;

	return revoked_from_json(text, sizeof(text) - 1, &r, NULL);
}

Test(tracker_json, without_memory_each_fails_and_keeps_nothing)
{
	static int (*const all[])(void) = { write_wish, read_call, read_answer,
					    read_capability, read_revoked };

	json_set_alloc_funcs(heap_get, heap_put);
	for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
		int rc = -1;

		for (heap.until = 0; rc < 0 && heap.until < 1000;
		     heap.until++) {
			heap.n = 0;
			rc = all[k]();
			cr_expect_eq(heap.live, 0, "%zu after %u", k,
				     heap.until);
			cr_expect_eq(rc<0, heap.n> heap.until, "%zu: %d", k,
				     rc);
		}
		cr_expect_eq(rc, 0);
		cr_expect_gt(heap.n, 5, "it was asked for memory");
	}
	heap.until = 0;
	cr_expect_eq(write_wish(), -ENOMEM);
}
