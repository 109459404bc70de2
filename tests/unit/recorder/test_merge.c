// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/recorder/make.h"

TestSuite(trace_merge, .timeout = 120);

static const struct trace_merge_config everything = { .min_confidence = 0 };

/* One entry of a run, as tests write it: block `block` of file `path`. */
struct line {
	const char *path;
	uint64_t off;
	uint32_t len, at_ms, block;
	uint16_t confidence;
};

static struct trace *run(const struct line *lines, size_t n)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	for (size_t i = 0; i < n; i++) {
		struct trace_entry e = {
			.path = lines[i].path,
			.off = lines[i].off,
			.len = lines[i].len,
			.at_ms = lines[i].at_ms,
			.csize = 1000 + lines[i].block,
			.confidence = lines[i].confidence,
			.block = make_digest(lines[i].block),
		};

		cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
	}
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	return t;
}

#define RUN(...) \
	run((const struct line[]){ __VA_ARGS__ }, \
	    sizeof((const struct line[]){ __VA_ARGS__ }) / \
		    sizeof(struct line))

static struct trace *merge(const struct trace_run *runs, size_t n,
			   const struct trace_merge_config *cfg)
{
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_merge(runs, n, cfg, &t, &err), 0, "%s", err.msg);
	return t;
}

static void free_all(struct trace **t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		trace_free(t[i]);
}

static void expect_entry(const struct trace *t, size_t i, const char *path,
			 uint64_t off, uint32_t len, uint32_t at_ms,
			 uint16_t confidence)
{
	const struct trace_entry *e = &t->entries[i];

	cr_assert_lt(i, t->n);
	cr_expect_str_eq(e->path, path);
	cr_expect(e->off == off && e->len == len, "entry %zu: %llu + %u", i,
		  (unsigned long long)e->off, e->len);
	cr_expect(e->at_ms == at_ms && e->confidence == confidence,
		  "entry %zu: %u ms, %u", i, e->at_ms, e->confidence);
}

Test(trace_merge, ranges_unite_times_are_medians_and_shares_are_weighted)
{
	AUTO(trace)
	a = RUN({ "/x", 0, 4096, 10, 1, 1000 }, { "/y", 0, 100, 20, 2, 1000 });
	AUTO(trace) b = RUN({ "/x", 8192, 4096, 30, 1, 1000 });
	AUTO(trace)
	c = RUN({ "/x", 4096, 4096, 40, 1, 1000 }, { "/z", 0, 1, 5, 3, 1000 });
	struct trace_run runs[] = { { a, 1 }, { b, 1 }, { c, 3 } };
	AUTO(trace) t = merge(runs, 3, &everything);

	cr_assert_eq(t->n, 3);
	expect_entry(t, 0, "/z", 0, 1, 5, 600);
	expect_entry(t, 1, "/y", 0, 100, 20, 200);
	expect_entry(t, 2, "/x", 0, 12288, 40, 1000);
	cr_expect_eq(t->info.runs, 3);
}

Test(trace_merge, entries_of_one_run_count_once)
{
	AUTO(trace)
	a = RUN({ "/x", 4096, 4096, 50, 1, 1000 },
		{ "/x", 0, 4096, 10, 1, 500 },
		{ "/x", 4096, 4096, 60, 1, 1000 });
	AUTO(trace) b = RUN({ "/y", 0, 4096, 0, 2, 1000 });
	struct trace_run runs[] = { { a, 1 }, { b, 1 } };
	AUTO(trace) t = merge(runs, 2, &everything);

	cr_assert_eq(t->n, 2);
	expect_entry(t, 0, "/y", 0, 4096, 0, 500);
	expect_entry(t, 1, "/x", 0, 8192, 10, 500);
}

Test(trace_merge, the_same_content_far_away_in_a_file_stays_apart)
{
	AUTO(trace)
	a = RUN({ "/x", 0, 4096, 1, 1, 1000 },
		{ "/x", TRACE_BLOCK_MAX, 4096, 2, 1, 1000 },
		{ "/x", (uint64_t)1 << 62, 4096, 3, 1, 1000 });
	struct trace_run runs[] = { { a, 1 } };
	AUTO(trace) t = merge(runs, 1, &everything);

	cr_assert_eq(t->n, 3);
	expect_entry(t, 1, "/x", TRACE_BLOCK_MAX, 4096, 2, 1000);
}

Test(trace_merge, what_few_runs_had_is_left_out)
{
	AUTO(trace) a = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace)
	b = RUN({ "/x", 0, 1, 1, 1, 1000 }, { "/y", 0, 1, 1, 2, 1000 });
	AUTO(trace) c = RUN({ "/z", 0, 1, 1, 3, 1000 });
	struct trace_run runs[] = { { a, 1 }, { b, 1 }, { c, 1 } };
	struct trace_merge_config cfg = { .min_confidence = 500 };
	AUTO(trace) t = merge(runs, 3, &cfg);

	cr_assert_eq(t->n, 1);
	expect_entry(t, 0, "/x", 0, 1, 1, 667);
}

Test(trace_merge, the_most_certain_then_the_earliest_stay)
{
	AUTO(trace)
	a = RUN({ "/late", 0, 1, 90, 1, 1000 }, { "/rare", 0, 1, 10, 2, 400 },
		{ "/early", 0, 1, 50, 3, 1000 });
	struct trace_run runs[] = { { a, 1 } };
	struct trace_merge_config two = { .entries_max = 2 };
	struct trace_merge_config one = { .entries_max = 1 };
	AUTO(trace) t = merge(runs, 1, &two);
	AUTO(trace) u = merge(runs, 1, &one);

	cr_assert_eq(t->n, 2);
	expect_entry(t, 0, "/early", 0, 1, 50, 1000);
	expect_entry(t, 1, "/late", 0, 1, 90, 1000);
	cr_assert_eq(u->n, 1);
	expect_entry(u, 0, "/early", 0, 1, 50, 1000);
}

Test(trace_merge, bytes_count_a_block_once_however_many_files_share_it)
{
	AUTO(trace)
	a = RUN({ "/a", 0, 1, 1, 5, 1000 }, { "/b", 0, 1, 2, 5, 1000 },
		{ "/c", 0, 1, 3, 6, 1000 }, { "/d", 0, 1, 4, 7, 1000 },
		{ "/e", 0, 1, 5, 5, 1000 });
	struct trace_run runs[] = { { a, 1 } };
	struct trace_merge_config cfg = { .bytes_max = 1005 + 1006 };
	AUTO(trace) t = merge(runs, 1, &cfg);

	cr_assert_eq(t->n, 4);
	expect_entry(t, 2, "/c", 0, 1, 3, 1000);
	expect_entry(t, 3, "/e", 0, 1, 5, 1000);
}

Test(trace_merge, information_is_of_the_newest_and_of_all)
{
	AUTO(trace) a = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace) b = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace) c = RUN({ "/x", 0, 1, 1, 1, 1000 });
	struct trace_run runs[] = { { a, 1 }, { b, 1 }, { c, 1 } };
	AUTO(trace) t = NULL;

	a->info.ready_ms = 100;
	b->info.ready_ms = 0;
	c->info.ready_ms = 300;
	b->info.created_at++;
	b->info.workload[0] = 'b';
	b->info.truncated = true;
	c->info.window_ms = 999999;
	t = merge(runs, 3, &everything);
	cr_expect_eq(t->info.ready_ms, 100);
	cr_expect_eq(t->info.created_at, b->info.created_at);
	cr_expect_str_eq(t->info.workload, "best-1");
	cr_expect_eq(t->info.window_ms, 999999);
	cr_expect(t->info.truncated);
}

Test(trace_merge, the_order_of_runs_changes_nothing)
{
	struct trace *t[5] = { 0 };
	struct trace_run runs[5];
	struct trace_merge_config cfg = { .min_confidence = 100,
					  .entries_max = 700,
					  .bytes_max = 3000000 };
	AUTO(trace) first = NULL;
	uint64_t state = 1;

	for (size_t i = 0; i < 5; i++) {
		/* Two equal ones among them. */
		t[i] = make_trace(100 + i / 2, 300);
		t[i]->info.ready_ms = make_random(&state, 100);
		runs[i] =
			(struct trace_run){ t[i], 1 + make_random(&state, 9) };
	}
	first = merge(runs, 5, &cfg);
	cr_expect_gt(first->n, 100);
	for (size_t round = 0; round < 50; round++) {
		AUTO(trace) again = NULL;

		for (size_t i = 4; i > 0; i--) {
			size_t k = make_random(&state, (uint32_t)i + 1);
			struct trace_run swap = runs[i];

			runs[i] = runs[k];
			runs[k] = swap;
		}
		again = merge(runs, 5, &cfg);
		expect_same(first, again);
	}
	free_all(t, ARRAY_SIZE(t));
}

/* Confidence of each entry of `t` by counting, for traces without repeats of
 * a block within a file. */
static void expect_counted(const struct trace *t, const struct trace_run *runs,
			   size_t n)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_entry *e = &t->entries[i];
		uint64_t have = 0, all = 0;

		for (size_t r = 0; r < n; r++) {
			const struct trace *x = runs[r].trace;
			bool found = false;

			for (size_t k = 0; k < x->n && !found; k++)
				found = strcmp(x->entries[k].path, e->path) ==
						0 &&
					digest_equal(&x->entries[k].block,
						     &e->block);
			all += runs[r].weight;
			have += found ? runs[r].weight : 0;
		}
		cr_expect_eq(e->confidence, (have * 1000 + all / 2) / all);
		cr_expect(!i || t->entries[i - 1].at_ms <= e->at_ms);
	}
}

/* A random run over 30 files, each of one block. */
static struct trace *random_run(uint64_t *state)
{
	struct line lines[40];
	static char paths[30][8];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		uint32_t file = make_random(state, 30);

		(void)snprintf(paths[file], 8, "/%u", file);
		lines[i] = (struct line){ paths[file],
					  make_random(state, 100000),
					  1 + make_random(state, 10000),
					  make_random(state, 1000),
					  file,
					  1000 };
	}
	return run(lines, ARRAY_SIZE(lines));
}

Test(trace_merge, shares_are_what_counting_gives)
{
	uint64_t state = 7;

	for (size_t round = 0; round < 20; round++) {
		struct trace *t[6] = { 0 };
		struct trace_run runs[6];
		AUTO(trace) m = NULL;

		for (size_t i = 0; i < 6; i++) {
			t[i] = random_run(&state);
			runs[i] = (struct trace_run){
				t[i], 1 + make_random(&state, 1000)
			};
		}
		m = merge(runs, 6, &everything);
		expect_counted(m, runs, 6);
		free_all(t, ARRAY_SIZE(t));
	}
}

Test(trace_merge, a_merged_trace_counts_as_its_runs)
{
	uint64_t state = 9;

	for (size_t round = 0; round < 20; round++) {
		struct trace *t[3] = { 0 };
		struct trace_run runs[3], pair[2];
		AUTO(trace) once = NULL;
		AUTO(trace) two = NULL;
		AUTO(trace) twice = NULL;

		for (size_t i = 0; i < 3; i++) {
			t[i] = random_run(&state);
			runs[i] = (struct trace_run){ t[i], 5 };
		}
		once = merge(runs, 3, &everything);
		two = merge(runs, 2, &everything);
		pair[0] = (struct trace_run){ two, 5 };
		pair[1] = runs[2];
		twice = merge(pair, 2, &everything);
		cr_assert_eq(once->n, twice->n);
		cr_expect_eq(twice->info.runs, 3);
		for (size_t i = 0; i < once->n; i++)
			for (size_t k = 0; k < twice->n; k++) {
				const struct trace_entry *x = &once->entries[i];
				const struct trace_entry *y =
					&twice->entries[k];

				if (strcmp(x->path, y->path) != 0)
					continue;
				cr_expect(x->off == y->off && x->len == y->len);
				/* Rounded twice. */
				cr_expect_leq(abs(x->confidence -
						  y->confidence),
					      1);
			}
		free_all(t, ARRAY_SIZE(t));
	}
}

Test(trace_merge, hostile_runs_stay_in_bounds)
{
	AUTO(trace)
	a = RUN({ "/x", (uint64_t)1 << 62, TRACE_BLOCK_MAX, UINT32_MAX, 1,
		  1000 });
	AUTO_FREE struct trace_run *runs = calloc(4097, sizeof(*runs));
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;

	cr_assert_not_null(runs);
	a->info.runs = TRACE_RUNS_MAX;
	for (size_t i = 0; i < 4097; i++)
		runs[i] = (struct trace_run){ a, 1000000 };
	cr_expect_eq(trace_merge(runs, 4097, &everything, &t, &err), -EINVAL);
	t = merge(runs, 4096, &everything);
	cr_assert_eq(t->n, 1);
	expect_entry(t, 0, "/x", (uint64_t)1 << 62, TRACE_BLOCK_MAX, UINT32_MAX,
		     1000);
	cr_expect_eq(t->info.runs, TRACE_RUNS_MAX);
}

Test(trace_merge, what_cannot_be_merged_is_refused)
{
	AUTO(trace) a = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace) b = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace) big = make_trace(1, 200000);
	struct trace_run runs[22] = { { a, 1 }, { b, 1 } };
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_expect_eq(trace_merge(runs, 0, &everything, &t, &err), -EINVAL);
	b->info.image.b[0] ^= 1;
	cr_expect_eq(trace_merge(runs, 2, &everything, &t, &err), -EINVAL);
	b->info.image.b[0] ^= 1;
	runs[1].weight = 0;
	cr_expect_eq(trace_merge(runs, 2, &everything, &t, &err), -EINVAL);
	runs[1].weight = 1000001;
	cr_expect_eq(trace_merge(runs, 2, &everything, &t, &err), -EINVAL);
	for (size_t i = 0; i < 22; i++)
		runs[i] = (struct trace_run){ big, 1 };
	cr_expect_eq(trace_merge(runs, 22, &everything, &t, &err), -EFBIG);
}

Test(trace_merge, runs_that_read_nothing_count)
{
	AUTO(trace) a = RUN({ "/x", 0, 1, 1, 1, 1000 });
	AUTO(trace) none = make_trace(1, 0);
	struct trace_run runs[] = { { a, 1 }, { none, 1 } };
	AUTO(trace) t = merge(runs, 2, &everything);
	AUTO(trace) nothing = merge(runs + 1, 1, &everything);

	cr_assert_eq(t->n, 1);
	cr_expect_eq(t->entries[0].confidence, 500);
	cr_expect_eq(nothing->n, 0);
}
