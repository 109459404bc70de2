// SPDX-License-Identifier: Apache-2.0
/* Traces in a registry: against the fake one, which can misbehave. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "recorder/recorder.h"
#include "tests/unit/objects/oci_fixture.h"
#include "tests/unit/recorder/make.h"

static struct registry_fixture f;

static void start(void)
{
	fixture_start(&f);
}

static void stop(void)
{
	fixture_stop(&f);
}

TestSuite(store_oci, .init = start, .fini = stop, .timeout = 120);

static struct trace_store *open_traces(void)
{
	struct trace_store *s;
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_oci_new(f.store, &s, &err), 0, "%s", err.msg);
	return s;
}

/* An image of the repository; another one for another seed. */
static struct digest image(unsigned int seed)
{
	struct error err = ERROR_INIT;
	struct digest config, d;
	AUTO_FREE char *m = NULL;

	free(fixture_blob(&f, 2, seed, &config));
	m = fixture_manifest(&config, NULL, NULL);
	cr_assert_eq(oci_put_manifest(f.store, NULL, IMAGE_TYPE, m, strlen(m),
				      &err),
		     0, "%s", err.msg);
	cr_assert_eq(digest_of(m, strlen(m), &d), 0);
	return d;
}

static struct trace *recording(const struct digest *of, const char *workload,
			       uint64_t at)
{
	struct trace *t = make_trace(at, 40);

	t->info.image = *of;
	free(t->info.workload);
	t->info.workload = strdup(workload);
	t->info.created_at = at;
	return t;
}

static void put(struct trace_store *s, const struct digest *of,
		const char *workload, uint64_t at)
{
	AUTO(trace) t = recording(of, workload, at);
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
}

static int get(struct trace_store *s, const struct digest *of,
	       const char *workload, struct trace_found *ret)
{
	struct trace_query q = { .image = *of, .workload = workload };
	struct error err = ERROR_INIT;
	int rc = trace_store_get(s, &q, ret, &err);

	cr_expect(rc == 0 || *err.msg);
	return rc;
}

/* Get what must be there; its image. */
static enum trace_match nearest(struct trace_store *s, const struct digest *of,
				const char *workload, struct digest *ret)
{
	struct trace_found found;

	cr_assert_eq(get(s, of, workload, &found), 0);
	*ret = found.trace->info.image;
	trace_free(found.trace);
	return found.match;
}

static size_t referrers(const struct digest *of)
{
	AUTO_FREE struct digest *list = NULL;
	struct error err = ERROR_INIT;
	size_t n = 0;

	cr_assert_eq(oci_list_referrers(f.store, of, TRACE_MEDIA_TYPE, &list,
					&n, &err),
		     0, "%s", err.msg);
	/* The folder behind the fake has an entry for the digest and one for
	 * the tag. */
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			if (digest_equal(&list[i], &list[k]))
				list[k--] = list[--n];
	return n;
}

Test(store_oci, what_was_put_comes_back)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	AUTO(trace) t = recording(&a, "train", 1000);
	struct trace_found found;
	struct error err = ERROR_INIT;

	cr_expect_eq(get(s, &a, "train", &found), -ENOENT);
	cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	expect_same(t, found.trace);
	cr_expect_eq(found.match, TRACE_MATCH_OWN);
	cr_expect(found.wanted);
	trace_free(found.trace);
}

Test(store_oci, the_same_trace_counts_once)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_found found;

	put(s, &a, "train", 1000);
	put(s, &a, "train", 1000);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	cr_expect_eq(found.trace->info.runs, 1);
	trace_free(found.trace);
}

Test(store_oci, recordings_become_one_artifact)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_found found;

	for (uint64_t i = 0; i < 4; i++)
		put(s, &a, "train", 1000 + i);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	cr_expect_eq(found.trace->info.runs, 4);
	cr_expect_eq(found.trace->info.created_at, 1003);
	trace_free(found.trace);
	cr_expect_eq(referrers(&a), 1);
}

Test(store_oci, where_nothing_can_be_deleted_nothing_counts_twice)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_found found;
	struct trace_info *infos;
	struct trace_query q = { .image = a };
	size_t n;

	for (uint64_t i = 0; i < 4; i++) {
		fixture_fault(&f, "no_delete=1");
		put(s, &a, "train", 1000 + i);
	}
	cr_expect_eq(referrers(&a), 4);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	cr_expect_eq(found.trace->info.runs, 4);
	trace_free(found.trace);
	cr_assert_eq(trace_store_list(s, &q, &infos, &n, NULL), 0);
	cr_assert_eq(n, 1);
	cr_expect_eq(infos[0].runs, 4);
	trace_info_fini(&infos[0]);
	free(infos);
}

Test(store_oci, a_registry_without_referrers_serves_as_well)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), b = image(2), of;

	fixture_fault(&f, "referrers=0");
	put(s, &a, "train", 1000);
	put(s, &a, "train", 1001);
	put(s, &b, "train", 1002);
	/* The tag names b's now, so a's is found by the list. */
	cr_expect_eq(nearest(s, &a, "train", &of), TRACE_MATCH_OWN);
	cr_expect(digest_equal(&of, &a));
	cr_expect_eq(nearest(s, &b, "train", &of), TRACE_MATCH_OWN);
	cr_expect(digest_equal(&of, &b));
}

Test(store_oci, the_nearest_trace_is_found)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), b = image(2), c = image(3), of;
	struct trace_query q = { .image = c,
				 .workload = "train",
				 .exact = true };
	struct trace_found found;

	put(s, &a, "train", 1000);
	cr_expect_eq(nearest(s, &c, "train", &of), TRACE_MATCH_RELATIVE);
	cr_expect(digest_equal(&of, &a));
	put(s, &b, "train", 2000);
	cr_expect_eq(nearest(s, &c, "train", &of), TRACE_MATCH_RELATIVE);
	cr_expect(digest_equal(&of, &b));
	cr_expect_eq(nearest(s, &a, "serve", &of), TRACE_MATCH_WORKLOAD);
	cr_expect(digest_equal(&of, &a));
	cr_expect_eq(nearest(s, &c, "serve", &of), TRACE_MATCH_FAR);
	cr_expect_eq(trace_store_get(s, &q, &found, NULL), -ENOENT);
}

Test(store_oci, what_is_inherited_costs_few_requests)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), b = image(2), of;
	size_t before;

	put(s, &a, "train", 1000);
	before = fixture_count(&f, "GET ", NULL);
	cr_expect_eq(nearest(s, &a, "train", &of), TRACE_MATCH_OWN);
	/* Manifest by its tag, and the trace. */
	cr_expect_eq(fixture_count(&f, "GET ", NULL) - before, 2);
	before = fixture_count(&f, "GET ", NULL);
	cr_expect_eq(nearest(s, &b, "train", &of), TRACE_MATCH_RELATIVE);
	/* And the question whether the image has one of its own. */
	cr_expect_eq(fixture_count(&f, "GET ", NULL) - before, 3);
}

Test(store_oci, wrong_bytes_are_refused)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_found found;

	put(s, &a, "train", 1000);
	fixture_fault(&f, "wrong=200");
	cr_expect_eq(get(s, &a, "train", &found), -EBADMSG);
	fixture_fault(&f, "wrong=0");
	cr_assert_eq(get(s, &a, "train", &found), 0);
	trace_free(found.trace);
}

/* An artifact of anything, with an honest digest. */
static void put_artifact(const struct digest *of, const char *workload,
			 const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	char layer[DIGEST_STR_MAX], subject[DIGEST_STR_MAX];
	struct digest d;
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(oci_put_bytes(f.store, data, len, &d, &err), 0, "%s",
		     err.msg);
	digest_format(&d, layer);
	digest_format(of, subject);
	cr_assert_eq(
		buf_printf(
			&b,
			"{\"schemaVersion\":2,\"mediaType\":\"%s\","
			"\"artifactType\":\"" TRACE_MEDIA_TYPE "\","
			"\"config\":{\"mediaType\":\"application/"
			"vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":2},"
			"\"layers\":[{\"mediaType\":\"" TRACE_MEDIA_TYPE
			"\",\"digest\":\"%s\",\"size\":%zu}],"
			"\"subject\":{\"mediaType\":\"%s\",\"digest\":\"%s\","
			"\"size\":9},\"annotations\":{"
			"\"dev.bootseer.trace.workload\":\"%s\"}}",
			IMAGE_TYPE, layer, layer, len, IMAGE_TYPE, subject,
			workload),
		0);
	cr_assert_eq(oci_put_manifest(f.store, NULL, IMAGE_TYPE, b.data, b.len,
				      &err),
		     0, "%s", err.msg);
}

Test(store_oci, what_is_no_trace_or_not_of_this_start_is_refused)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), b = image(2), c = image(3);
	AUTO(trace) t = recording(&a, "train", 1000);
	AUTO_BUF encoded = BUF_INIT;
	struct trace_found found;

	cr_assert_eq(trace_encode(t, &encoded, NULL), 0);
	put_artifact(&a, "train", "nonsense", 8);
	put_artifact(&b, "train", encoded.data, encoded.len);
	put_artifact(&c, "other", encoded.data, encoded.len);
	cr_expect_eq(get(s, &a, "train", &found), -EBADMSG);
	cr_expect_eq(get(s, &b, "train", &found), -EBADMSG);
	cr_expect_eq(get(s, &c, "other", &found), -EBADMSG);
	/* It does not stop those who record. */
	put(s, &a, "train", 2000);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	cr_expect_eq(found.trace->info.created_at, 2000);
	trace_free(found.trace);
	cr_expect_eq(referrers(&a), 1);
}

Test(store_oci, what_cannot_be_read_leaves_its_place_to_the_next)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), of;
	struct trace_query q = { .image = a };
	struct trace_info *infos;
	size_t n;

	put(s, &a, "serve", 1000);
	put_artifact(&a, "train", "nonsense", 8);
	cr_expect_eq(nearest(s, &a, "train", &of), TRACE_MATCH_WORKLOAD);
	cr_assert_eq(trace_store_list(s, &q, &infos, &n, NULL), 0);
	cr_assert_eq(n, 1);
	cr_expect_str_eq(infos[0].workload, "serve");
	trace_info_fini(&infos[0]);
	free(infos);
}

Test(store_oci, a_trace_that_claims_many_runs_is_one_vote)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	AUTO(trace) t = recording(&a, "train", 2000);
	struct trace_found found;
	struct error err = ERROR_INIT;

	put(s, &a, "train", 1000);
	t->info.runs = TRACE_RUNS_MAX;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
	cr_assert_eq(get(s, &a, "train", &found), 0);
	cr_expect_leq(found.trace->info.runs, 3);
	cr_expect(found.wanted);
	trace_free(found.trace);
}

Test(store_oci, an_image_of_another_repository_has_no_traces_here)
{
	AUTO(trace_store) s = open_traces();
	struct digest a;
	struct error err = ERROR_INIT;

	memset(&a, 7, sizeof(a));
	{
		AUTO(trace) t = recording(&a, "train", 1000);

		cr_expect_eq(trace_store_put(s, t, &err), -ENOENT);
	}
	cr_expect(strstr(err.msg, "where its image is"), "%s", err.msg);
}

Test(store_oci, a_registry_that_is_down_is_named)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_query q = { .image = a, .workload = "train" };
	struct error err = ERROR_INIT;
	struct trace_found found;

	f.cfg.attempts = 1;
	fixture_reopen(&f);
	trace_store_free(s);
	s = open_traces();
	fixture_fault(&f, "down=1");
	cr_expect_eq(trace_store_get(s, &q, &found, &err), -EIO, "%s", err.msg);
	cr_expect(strstr(err.msg, "127.0.0.1"), "%s", err.msg);
}

Test(store_oci, lists_are_of_an_image_or_the_repository)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1), b = image(2);
	struct trace_query q = { .image = a };
	struct trace_info *infos;
	struct error err = ERROR_INIT;
	size_t n;

	put(s, &a, "train", 1000);
	put(s, &a, "serve", 1001);
	put(s, &b, "train", 1002);
	cr_assert_eq(trace_store_list(s, &q, &infos, &n, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(n, 2);
	cr_expect_str_eq(infos[0].workload, "serve");
	cr_expect_eq(infos[0].ready_ms, 4321);
	for (size_t i = 0; i < n; i++)
		trace_info_fini(&infos[i]);
	free(infos);
	/* Of the repository the newest of each workload. */
	memset(&q.image, 0, sizeof(q.image));
	cr_assert_eq(trace_store_list(s, &q, &infos, &n, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(n, 2);
	cr_expect(digest_equal(&infos[0].image, &b));
	cr_expect_str_eq(infos[0].workload, "train");
	for (size_t i = 0; i < n; i++)
		trace_info_fini(&infos[i]);
	free(infos);
}

Test(store_oci, removal_takes_one_workload_or_all)
{
	AUTO(trace_store) s = open_traces();
	struct digest a = image(1);
	struct trace_query q = { .image = a, .workload = "train" };
	struct error err = ERROR_INIT;

	put(s, &a, "train", 1000);
	put(s, &a, "serve", 1001);
	put(s, &a, "eval", 1002);
	cr_expect_eq(trace_store_remove(s, &q, &err), 0, "%s", err.msg);
	cr_expect_eq(trace_store_remove(s, &q, &err), -ENOENT);
	cr_expect_eq(referrers(&a), 2);
	q.workload = NULL;
	cr_expect_eq(trace_store_remove(s, &q, &err), 0, "%s", err.msg);
	cr_expect_eq(referrers(&a), 0);
}
