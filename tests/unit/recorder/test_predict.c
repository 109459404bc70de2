// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/recorder/layout.h"
#include "tests/unit/recorder/make.h"

TestSuite(predict, .timeout = 120);

struct line {
	const char *path;
	uint32_t len, at_ms, block;
};

static struct trace *make_run(const struct line *lines, size_t n)
{
	struct trace_info info = make_info();
	AUTO(trace_builder) b = NULL;
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	for (size_t i = 0; i < n; i++) {
		struct trace_entry e = {
			.path = lines[i].path,
			.len = lines[i].len,
			.at_ms = lines[i].at_ms,
			.confidence = TRACE_CERTAIN,
			.block = make_digest(lines[i].block),
		};

		cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
	}
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	return t;
}

#define RUN(...) \
	make_run((const struct line[]){ __VA_ARGS__ }, \
		 sizeof((const struct line[]){ __VA_ARGS__ }) / \
			 sizeof(struct line))

static struct trace *predict_for(const struct trace_donor *donors, size_t n)
{
	struct error err = ERROR_INIT;
	struct trace *t;

	cr_assert_eq(trace_predict(donors, n, 3, &t, &err), 0, "%s", err.msg);
	return t;
}

static const struct trace_entry *entry_of(const struct trace *t,
					  const char *path)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->entries[i].path, path) == 0)
			return &t->entries[i];
	return NULL;
}

static uint64_t readers_of(const struct trace *t, const char *path)
{
	const struct trace_entry *e = entry_of(t, path);

	return e ? t->readers[e - t->entries] : 0;
}

Test(predict, strangers_content_is_told_when_three_owners_have_it)
{
	AUTO(trace) a = RUN({ "/libc", 10, 1, 1 }, { "/secret", 10, 2, 2 });
	AUTO(trace) b = RUN({ "/libc", 10, 1, 1 }, { "/secret", 10, 2, 2 });
	AUTO(trace) c = RUN({ "/libc", 10, 1, 1 }, { "/other", 10, 2, 3 });
	const struct trace_donor donors[] = {
		/* Two starts of one owner are one voice. */
		{ a, 0, false },
		{ b, 1, false },
		{ b, 1, false },
		{ c, 2, false },
	};
	AUTO(trace) t = predict_for(donors, 4);
	AUTO(trace) two = predict_for(donors, 3);

	cr_expect_eq(t->n, 1);
	cr_expect_eq(readers_of(t, "/libc"), 0xf);
	cr_expect_eq(two->n, 0);
}

Test(predict, an_own_start_is_told_whole_but_not_who_else_has_a_file)
{
	AUTO(trace) own = RUN({ "/app", 10, 1, 1 }, { "/libc", 10, 2, 2 });
	AUTO(trace) a = RUN({ "/app", 10, 1, 7 }, { "/libc", 10, 2, 3 });
	AUTO(trace) b = RUN({ "/libc", 10, 2, 4 });
	AUTO(trace) c = RUN({ "/libc", 10, 2, 5 });
	const struct trace_donor donors[] = {
		{ own, 0, true },
		{ a, 1, false },
		{ b, 2, false },
		{ c, 3, false },
	};
	AUTO(trace) t = predict_for(donors, 4);

	cr_expect_eq(t->n, 2);
	cr_expect_eq(readers_of(t, "/app"), 0x1);
	/* Of enough owners the path is told, though each has another content. */
	cr_expect_eq(readers_of(t, "/libc"), 0xf);
	cr_expect(digest_equal(&entry_of(t, "/libc")->block,
			       &own->entries[1].block));
}

Test(predict, a_stranger_makes_no_range_grow_and_an_own_start_speaks_first)
{
	AUTO(trace) small = RUN({ "/a", 10, 1, 1 });
	AUTO(trace) large = RUN({ "/a", TRACE_BLOCK_MAX, 5, 1 });
	const struct trace_donor strangers[] = {
		{ large, 0, false },
		{ small, 1, false },
		{ large, 2, false },
	};
	const struct trace_donor own[] = {
		{ small, 0, false },
		{ large, 1, true },
		{ small, 1, true },
	};
	/* Who may see all repositories believes none of their owners more. */
	const struct trace_donor all[] = {
		{ small, 0, true },
		{ large, 1, true },
		{ large, 1, true },
	};
	AUTO(trace) t = predict_for(strangers, 3);
	AUTO(trace) u = predict_for(own, 3);
	AUTO(trace) v = predict_for(all, 3);

	cr_expect_eq(t->entries[0].len, 10);
	cr_expect_eq(v->entries[0].len, 10);
	/* All that own starts read, from when the first did. */
	cr_expect_eq(u->entries[0].len, TRACE_BLOCK_MAX);
	cr_expect_eq(u->entries[0].at_ms, 1);
}

/* As much as a prediction can hold, of files that others do not have. */
static struct trace *run_flood(void)
{
	struct trace_info info = make_info();
	char path[16];
	struct trace_entry e = { .path = path,
				 .len = 1,
				 .confidence = TRACE_CERTAIN };
	struct trace_builder *b;
	struct trace *t;

	cr_assert_eq(trace_builder_new(&info, &b, NULL), 0);
	for (unsigned int i = 0; i < PREDICTION_ENTRIES_MAX; i++) {
		snprintf(path, sizeof(path), "/a%u", i);
		cr_assert_eq(trace_builder_add(b, &e, NULL), 0);
	}
	cr_assert_eq(trace_builder_finish(b, &t, NULL), 0);
	return t;
}

Test(predict, starts_of_one_owner_are_one_voice_for_who_may_see_all)
{
	AUTO(trace) flood = run_flood();
	AUTO(trace) libc = RUN({ "/libc", 10, 1, 1 });
	const struct trace_donor donors[] = {
		{ flood, 0, true }, { flood, 0, true }, { flood, 0, true },
		{ libc, 1, true },  { libc, 2, true },
	};
	AUTO(trace) t = predict_for(donors, 5);

	cr_expect_eq(t->n, PREDICTION_ENTRIES_MAX);
	cr_expect(entry_of(t, "/libc"));
}

Test(predict, the_encoded_form_comes_back_and_others_are_refused)
{
	AUTO(trace) a = RUN({ "/a", 10, 1, 1 }, { "/b", 20, 2, 2 });
	const struct trace_donor donor = { a, 0, true };
	AUTO(trace) t = predict_for(&donor, 1);
	struct error err = ERROR_INIT;
	AUTO(trace) again = NULL;
	AUTO(trace) bad = NULL;
	AUTO_BUF text = BUF_INIT;
	char *p;

	cr_assert_eq(prediction_encode(t, &text, &err), 0);
	p = text.data;
	cr_assert_eq(prediction_decode(p, text.len, &again, &err), 0, "%s",
		     err.msg);
	expect_same(t, again);
	cr_expect_eq(memcmp(t->readers, again->readers, 16), 0);
	for (size_t n = 0; n < text.len; n++)
		cr_expect_eq(prediction_decode(p, n, &bad, &err), -EINVAL);
	p[16] = 0; /* nobody read the first */
	cr_expect_eq(prediction_decode(p, text.len, &bad, &err), -EINVAL);
	p[12] = 3;
	cr_expect_eq(prediction_decode(p, text.len, &bad, &err), -EINVAL);
	p[8] = 2;
	cr_expect_eq(prediction_decode(p, text.len, &bad, &err), -ENOTSUP);
}

/* ------------------------------------------------------------------ choosing --- */

static const struct layout_block blocks[] = {
	{ 1, 4096 }, { 2, 4096 }, { 3, 4096 }, { 4, 4096 },
	{ 5, 4096 }, { 6, 4096 }, { 7, 4096 }, { 8, 4096 },
};
static const struct layout_range ranges[] = {
	{ "/c1", 0, 0, 0, 4096 }, { "/c2", 0, 1, 0, 4096 },
	{ "/c3", 0, 2, 0, 4096 }, { "/c4", 0, 3, 0, 4096 },
	{ "/n1", 0, 4, 0, 4096 }, { "/n2", 0, 5, 0, 4096 },
	{ "/n3", 0, 6, 0, 4096 }, { "/n4", 0, 7, 0, 4096 },
};

#define COMMON \
	{ "/c1", 9, 1, 91 }, { "/c2", 9, 2, 92 }, { "/c3", 9, 3, 93 }, \
	{ \
		"/c4", 9, 4, 94 \
	}
#define NUMPY \
	{ "/n1", 9, 5, 5 }, { "/n2", 9, 6, 6 }, { "/n3", 9, 7, 97 }, \
	{ \
		"/n4", 9, 8, 98 \
	}

#define ABSENT \
	{ "/y1", 9, 9, 12 }, { "/y2", 9, 9, 13 }, { "/y3", 9, 9, 14 }, \
	{ \
		"/y4", 9, 9, 15 \
	}

/* What is chosen for the image, as the blocks of its map in order. */
static void expect_chosen(const struct trace *const *runs, size_t n,
			  const char *want)
{
	struct trace_donor donors[4];
	struct error err = ERROR_INIT;
	struct hot_list l;
	struct layout layout;
	char got[64] = "";
	AUTO(trace) t = NULL;

	for (size_t i = 0; i < n; i++)
		donors[i] = (struct trace_donor){ runs[i], (uint32_t)i, true };
	t = predict_for(donors, n);
	layout_make(&layout, blocks, ARRAY_SIZE(blocks), ranges,
		    ARRAY_SIZE(ranges));
	cr_assert_eq(hot_list_make(t, &layout.map, &layout.files, &l, &err), 0,
		     "%s", err.msg);
	cr_expect(l.is_predicted);
	for (size_t i = 0; i < l.n; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%u ",
			 l.blocks[i].index);
	cr_expect_str_eq(got, want);
	hot_list_fini(&l);
	layout_fini(&layout);
}

Test(predict, a_twins_files_are_all_that_is_taken)
{
	AUTO(trace) twin = RUN(COMMON, { "/n1", 9, 5, 5 });
	AUTO(trace)
	other = RUN(COMMON, NUMPY, { "/x1", 9, 9, 9 }, { "/x2", 9, 9, 10 },
		    { "/x3", 9, 9, 11 });
	const struct trace *both[] = { twin, other };

	expect_chosen(both, 2, "0 1 2 3 4 ");
}

Test(predict,
     without_a_twin_what_the_same_donors_read_is_taken_when_it_is_there)
{
	/* Of what `a` alone read the image has 4 of 5 files, of what `b` alone did all, and
	 * of what both did none. */
	AUTO(trace) a = RUN(NUMPY, { "/x1", 9, 9, 9 }, ABSENT);
	AUTO(trace) twin_of_a = RUN(NUMPY, { "/x1", 9, 9, 9 }, ABSENT);
	AUTO(trace) b = RUN(COMMON, ABSENT);
	const struct trace *all[] = { a, b, twin_of_a };

	expect_chosen(all, 2, "0 1 2 3 4 5 6 7 ");
	/* That more starts read the same changes nothing. */
	expect_chosen(all, 3, "0 1 2 3 4 5 6 7 ");
	/* Half of all that a donor read is too little. */
	expect_chosen(all + 1, 1, "");
}

Test(predict, a_twin_of_few_files_hides_nothing_that_others_show)
{
	AUTO(trace) common = RUN(COMMON);
	AUTO(trace) a = RUN(COMMON, NUMPY, ABSENT);
	AUTO(trace)
	b = RUN(NUMPY, { "/x1", 9, 9, 9 }, { "/x2", 9, 9, 10 },
		{ "/x3", 9, 9, 11 });
	const struct trace *all[] = { common, a, b };

	expect_chosen(all, 3, "0 1 2 3 4 5 6 7 ");
}
