// SPDX-License-Identifier: Apache-2.0
/* Tests, with fake starts and lists, what a tenant sees of other tenants' starts. */
#include "registry/predictions.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "recorder/trace.h"
#include "tests/unit/test_clock.h"

TestSuite(predictions, .timeout = 120);

/* A repository, and the files that its start reads, one letter each. */
struct repo_start {
	const char *repo, *files;
};

static const struct repo_start *starts;
static size_t n_starts, n_asked;
/* Time that fake calls take: to list starts, to find a list, to merge one. */
static int64_t listing_ns, looking_ns, merging_ns;
static bool is_db_down;

int trace_db_donors(struct db *db,
		    int (*each)(void *arg, const struct donor_line *l),
		    void *arg, struct error *err)
{
	n_asked++;
	test_clock_step(listing_ns);
	if (is_db_down)
		return error_set(err, ETIMEDOUT, "the database is busy");
	for (size_t i = 0; i < n_starts; i++) {
		const struct donor_line l = { .repo = starts[i].repo,
					      .start.id = (int64_t)i };

		if (each(arg, &l) < 0)
			return error_nomem(err);
	}
	return 0;
}

static void encode(const char *files, struct buf *ret)
{
	static char none[] = "", name[] = "run";
	const struct trace_info info = { .repo = none,
					 .workload = name,
					 .runs = 1 };
	struct trace_builder *b;
	struct trace *t;
	char path[] = "/x";

	cr_assert_eq(trace_builder_new(&info, &b, NULL), 0);
	for (; *files; files++) {
		struct trace_entry e = { .path = path,
					 .len = 1,
					 .confidence = TRACE_CERTAIN };

		path[1] = (char)(*files | 0x20);
		e.block.b[0] = (uint8_t)path[1];
		cr_assert_eq(trace_builder_add(b, &e, NULL), 0);
	}
	cr_assert_eq(trace_builder_finish(b, &t, NULL), 0);
	cr_assert_eq(trace_encode(t, ret, NULL), 0);
	trace_free(t);
}

static int get_list(const struct start *s, struct hot_list_text **ret,
		    struct error *err)
{
	struct hot_list_text *l;

	if (strcmp(starts[s->id].files, "gone") == 0)
		return error_set(err, ENOENT, "its votes have gone");
	l = calloc(1, sizeof(*l));
	cr_assert(l);
	encode(starts[s->id].files, &l->trace);
	*ret = l;
	return 0;
}

/* Files in capitals: the list was not merged yet. */
int hot_get_merged(struct hot *h, const struct start *s,
		   struct hot_list_text **ret, struct error *err)
{
	test_clock_step(looking_ns);
	if (starts[s->id].files[0] < 'a')
		return error_set(err, ENOENT, "there is no list");
	return get_list(s, ret, err);
}

int hot_get(struct hot *h, const struct start *s, struct hot_list_text **ret,
	    struct error *err)
{
	test_clock_step(merging_ns);
	return get_list(s, ret, err);
}

void hot_put(struct hot *h, struct hot_list_text *l)
{
	buf_fini(&l->trace);
	free(l);
}

/* Expect the predicted files, sorted by name, for a caller that may see `prefix`; "-": none. */
static void expect_told_by(struct predictions *p, const char *prefix,
			   const char *want)
{
	struct prediction_text *text;
	struct error err = ERROR_INIT;
	char got[64] = "-";
	struct trace *t;
	int rc = predictions_get(p, prefix, &text, &err);

	if (rc == 0) {
		const struct buf *b = prediction_trace(text);

		cr_assert_eq(prediction_decode(b->data, b->len, &t, &err), 0,
			     "%s", err.msg);
		memset(got, 0, sizeof(got));
		for (char c = 'a'; c <= 'z'; c++)
			for (size_t i = 0; i < t->n; i++)
				if (t->entries[i].path[1] == c)
					got[strlen(got)] = c;
		trace_free(t);
		predictions_put(p, text);
	}
	cr_expect_str_eq(got, want, "'%s': %s, not %s", prefix, got, want);
}

static void expect_told(const char *prefix, const char *want)
{
	AUTO(predictions) p = NULL;

	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	expect_told_by(p, prefix, want);
}

#define STARTS(...) \
	do { \
		static const struct repo_start all[] = { __VA_ARGS__ }; \
		starts = all; \
		n_starts = sizeof(all) / sizeof(all[0]); \
	} while (0)

Test(predictions, a_tenant_is_told_its_own_and_what_three_others_read)
{
	STARTS({ "h/a/app", "lpx" }, { "h/b/app", "lpq" },
	       { "h/b/two", "lpqz" }, { "h/b/three", "lq" },
	       { "h/c/app", "lp" }, { "h/d/app", "l" }, { "h/e/app", "gone" });
	/* p was read by owners b and c, and by a itself */
	expect_told("h/a", "lpx");
	expect_told("h/d", "lp"); /* p was read by a, b and c */
	expect_told("h/b", "lpqz");
	expect_told("h/b/two", "lpqz");
	expect_told("h/nobody", "lp");
	expect_told("h/b/tw", "lp"); /* prefixes match whole parts of names */
	expect_told("", "lpqxz");
}

Test(predictions, one_owner_is_one_voice_and_names_without_an_owner_are_none)
{
	STARTS({ "h/evil/1", "v" }, { "h/evil/2", "v" }, { "h/evil/3", "v" },
	       { "h/evil", "v" }, { "evil", "v" }, { "h/", "v" }, { "", "v" });
	expect_told("h/a", "-");
}

Test(predictions, many_starts_of_one_owner_crowd_out_nobody)
{
	static struct repo_start all[1000];
	static char names[1000][32];

	for (size_t i = 0; i < 1000; i++) {
		snprintf(names[i], sizeof(names[i]), "h/evil/%zu", i);
		all[i] = (struct repo_start){ names[i], "v" };
	}
	all[997] = (struct repo_start){ "h/a/app", "l" };
	all[998] = (struct repo_start){ "h/b/app", "l" };
	all[999] = (struct repo_start){ "h/c/app", "l" };
	starts = all;
	n_starts = 1000;
	expect_told("h/x", "l");
}

Test(predictions, a_list_is_made_once_for_all_who_ask)
{
	AUTO(predictions) p = NULL;
	struct prediction_stats s;

	STARTS({ "h/a/app", "l" });
	n_asked = 0;
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	for (int i = 0; i < 100; i++)
		expect_told_by(p, "h/a", "l");
	cr_expect_eq(n_asked, 1);
	predictions_get_stats(p, &s);
	cr_expect_eq(s.asked_total, 100);
	cr_expect_eq(s.told_total, 100);
	cr_expect_eq(s.made_total, 1);
	cr_expect_eq(s.entries, 1);
}

#define HOUR (3600 * NS_PER_S)

Test(predictions, a_database_that_fails_is_no_trace_or_the_one_of_before)
{
	AUTO(predictions) p = NULL;

	STARTS({ "h/a/app", "l" });
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	is_db_down = true;
	expect_told_by(p, "h/a", "-"); /* the only error is -ENOENT */
	test_clock_step(HOUR);
	is_db_down = false;
	expect_told_by(p, "h/a", "l");
	test_clock_step(HOUR);
	is_db_down = true;
	expect_told_by(p, "h/a", "l");
	cr_expect_eq(n_asked, 3);
}

/* Make many starts, each of another owner, that all read `files`. */
static void make_many(const char *files)
{
	static struct repo_start all[10000];
	static char names[10000][32];

	for (size_t i = 0; i < 10000; i++) {
		snprintf(names[i], sizeof(names[i]), "h/%zu/app", i);
		all[i] = (struct repo_start){ names[i], files };
	}
	starts = all;
	n_starts = 10000;
}

Test(predictions, ten_thousand_repositories_are_listed_once_a_minute)
{
	AUTO(predictions) p = NULL;

	make_many("l");
	listing_ns = 2 * NS_PER_S;
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	for (int i = 0; i < 6; i++) {
		expect_told_by(p, "h/x", "l");
		test_clock_step(9 * NS_PER_S);
	}
	cr_expect_eq(n_asked, 1);
	test_clock_step(9 * NS_PER_S);
	expect_told_by(p, "h/x", "l");
	cr_expect_eq(n_asked, 2);
}

Test(predictions, what_was_told_stays_when_there_is_no_time_for_more)
{
	AUTO(predictions) p = NULL;

	make_many("l");
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	expect_told_by(p, "h/x", "l");
	test_clock_step(HOUR);
	looking_ns = NS_PER_S;
	expect_told_by(p, "h/x", "l");
	looking_ns = 0;
	test_clock_step(HOUR);
	/* No starts exist, so the prediction is empty. */
	n_starts = 0;
	expect_told_by(p, "h/x", "-");
}

Test(predictions, lists_that_take_long_to_merge_keep_no_other_out)
{
	AUTO(predictions) p = NULL;

	STARTS({ "h/evil/1", "V" }, { "h/a/app", "l" }, { "h/b/app", "lm" },
	       { "h/c/app", "lm" }, { "h/d/app", "M" });
	merging_ns = NS_PER_S;
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	/* In the time left, each call merges one more list. */
	expect_told_by(p, "h/x", "l");
	test_clock_step(HOUR);
	expect_told_by(p, "h/x", "lm");
}

Test(predictions, half_of_the_places_are_an_askers_own_and_half_are_not)
{
	static struct repo_start all[200];
	static char names[200][32];

	for (size_t i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]),
			 i < 100 ? "h/%zu/app" : "h/own/%zu", i);
		all[i] = (struct repo_start){ names[i], i < 100 ? "l" : "o" };
	}
	all[131].files = "x"; /* the last start that is used */
	all[132].files = "y";
	starts = all;
	n_starts = 200;
	expect_told("h/own", "lox");
}

Test(predictions, no_list_is_dropped_for_one_that_is_not_made_now)
{
	AUTO(predictions) p = NULL;
	char name[32];

	STARTS({ "h/0/app", "l" }, { "h/a/app", "k" }, { "h/b/app", "k" },
	       { "h/c/app", "k" });
	/* so that no prediction is made for a while after this one */
	listing_ns = NS_PER_S;
	cr_assert_eq(predictions_new(NULL, NULL, &p, NULL), 0);
	expect_told_by(p, "h/0", "kl");
	for (int i = 1; i < 100; i++) {
		snprintf(name, sizeof(name), "h/%d", i);
		expect_told_by(p, name, "-");
	}
	expect_told_by(p, "h/0", "kl");
}
