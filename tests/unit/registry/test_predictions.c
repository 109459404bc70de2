// SPDX-License-Identifier: Apache-2.0
/* With starts and lists of its own: what a tenant is told of those of others. */
#include "registry/predictions.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "recorder/trace.h"

TestSuite(predictions, .timeout = 120);

/* A repository, and the files that its start reads, a letter each. */
struct repo_start {
	const char *repo, *files;
};

static const struct repo_start *starts;
static size_t n_starts, n_asked;

int trace_db_donors(struct db *db,
		    int (*each)(void *arg, const struct donor_line *l),
		    void *arg, struct error *err)
{
	n_asked++;
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

		path[1] = *files;
		e.block.b[0] = (uint8_t)*files;
		cr_assert_eq(trace_builder_add(b, &e, NULL), 0);
	}
	cr_assert_eq(trace_builder_finish(b, &t, NULL), 0);
	cr_assert_eq(trace_encode(t, ret, NULL), 0);
	trace_free(t);
}

int hot_get(struct hot *h, const struct start *s, struct hot_list_text **ret,
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

void hot_put(struct hot *h, struct hot_list_text *l)
{
	buf_fini(&l->trace);
	free(l);
}

/* The files that are told to who may see `prefix`, by name; "-": none. */
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
	expect_told("h/a", "lpx"); /* p is of b and c alone, and its own */
	expect_told("h/d", "lp");  /* p is of a, b and c */
	expect_told("h/b", "lpqz");
	expect_told("h/b/two", "lpqz");
	expect_told("h/nobody", "lp");
	expect_told("h/b/tw", "lp"); /* no part of a name */
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
