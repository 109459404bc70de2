// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/recorder/make.h"

#include <criterion/criterion.h>
#include <string.h>

struct trace_info make_info(void)
{
	static char repo[] = "registry.example:5000/team/app";
	static char workload[] = "test-1";
	struct trace_info info = {
		.repo = repo,
		.workload = workload,
		.created_at = 1700000000,
		.window_ms = 120000,
		.ready_ms = 4321,
		.runs = 1,
	};

	memset(info.image.b, 0x11, DIGEST_SIZE);
	return info;
}

/* splitmix64 */
uint32_t make_random(uint64_t *state, uint32_t below)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

struct digest make_digest(uint32_t i)
{
	struct digest d;

	cr_assert_eq(digest_of(&i, sizeof(i), &d), 0);
	return d;
}

static void random_path(uint64_t *state, size_t files, char *out, size_t size)
{
	static const char *const folders[] = { "usr/lib", "usr/lib/python3/np",
					       "etc", "\xff\xfe", "a%41 b\n" };
	uint32_t file = make_random(state, (uint32_t)files);

	(void)snprintf(out, size, "/%s/file-%u.so",
		       folders[file % ARRAY_SIZE(folders)], file);
}

struct trace *make_trace(uint64_t seed, size_t n)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	struct error err = ERROR_INIT;
	uint64_t state = seed;
	struct trace *t;
	uint32_t now = 0;
	char path[64];

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0, "%s", err.msg);
	random_path(&state, n / 4 + 1, path, sizeof(path));
	for (size_t i = 0; i < n; i++) {
		uint32_t block = make_random(&state, (uint32_t)n / 2 + 1);
		struct trace_entry e = {
			.path = path,
			.off = (uint64_t)make_random(&state, 1u << 20) << 12,
			.len = 1 + make_random(&state, 1u << 17),
			.csize = 1 + block % 100000,
			.confidence = (uint16_t)(1 + make_random(&state, 1000)),
			.block = make_digest(block),
		};

		if (make_random(&state, 3) == 0) {
			random_path(&state, n / 4 + 1, path, sizeof(path));
			e.off = 0;
		}
		now += make_random(&state, 10);
		e.at_ms = now;
		cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
	}
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	return t;
}

void expect_same(const struct trace *a, const struct trace *b)
{
	cr_expect(digest_equal(&a->info.image, &b->info.image));
	cr_expect_str_eq(a->info.repo, b->info.repo);
	cr_expect_str_eq(a->info.workload, b->info.workload);
	cr_expect_eq(a->info.created_at, b->info.created_at);
	cr_expect_eq(a->info.window_ms, b->info.window_ms);
	cr_expect_eq(a->info.ready_ms, b->info.ready_ms);
	cr_expect_eq(a->info.runs, b->info.runs);
	cr_expect_eq(a->info.truncated, b->info.truncated);
	cr_assert_eq(a->n, b->n, "%zu and %zu entries", a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		const struct trace_entry *x = &a->entries[i];
		const struct trace_entry *y = &b->entries[i];

		cr_assert_str_eq(x->path, y->path, "entry %zu", i);
		cr_assert(x->off == y->off && x->len == y->len &&
				  x->at_ms == y->at_ms &&
				  x->csize == y->csize &&
				  x->confidence == y->confidence &&
				  digest_equal(&x->block, &y->block),
			  "entry %zu", i);
	}
}
