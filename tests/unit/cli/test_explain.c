// SPDX-License-Identifier: Apache-2.0
/* The verdict on figures of starts, and finding an image by name. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/explain.h"

TestSuite(explain, .timeout = 60);

static json_t *parse_starts(const char *json)
{
	json_t *j = json_loads(json, 0, NULL);

	cr_assert(j, "%s", json);
	return j;
}

static void expect_verdict(const char *starts, const char *begin)
{
	json_t *j = parse_starts(starts);
	const char *text = explain_verdict(j);

	cr_expect(strncmp(text, begin, strlen(begin)) == 0, "%s:\n%s", starts,
		  text);
	json_decref(j);
}

Test(explain, nothing_is_said_of_starts_that_are_not_there)
{
	expect_verdict("[]", "no start of this image has ended");
}

Test(explain, a_start_that_was_not_watched_is_judged_by_nothing_else)
{
	expect_verdict(
		"[{\"watched\":false,\"trace\":\"none\",\"recorded\":true}]",
		"the last start was not watched");
}

Test(explain, without_a_trace_it_matters_whether_one_was_recorded)
{
	expect_verdict(
		"[{\"watched\":true,\"trace\":\"none\",\"recorded\":true,"
		"\"missed_blocks\":0,\"read_blocks\":10}]",
		"no trace was found: this start recorded one");
	expect_verdict(
		"[{\"watched\":true,\"trace\":\"none\",\"recorded\":false,"
		"\"missed_blocks\":0,\"read_blocks\":10}]",
		"no trace was found and none was recorded");
}

Test(explain, one_block_in_fifty_is_little)
{
	expect_verdict("[{\"watched\":true,\"trace\":\"far\","
		       "\"missed_blocks\":2,\"read_blocks\":100}]",
		       "good:");
	expect_verdict("[{\"watched\":true,\"trace\":\"far\","
		       "\"missed_blocks\":3,\"read_blocks\":100}]",
		       "the trace was of another image or workload");
	/* A start that read nothing has no misses. */
	expect_verdict("[{\"watched\":true,\"trace\":\"own\","
		       "\"missed_blocks\":0,\"read_blocks\":0}]",
		       "good:");
}

#define OWN \
	"[{\"watched\":true,\"trace\":\"own\",\"missed_blocks\":50," \
	"\"read_blocks\":100,"

Test(explain, an_own_trace_does_not_fit_or_was_late_or_the_start_is_another)
{
	expect_verdict(OWN "\"hot\":{\"used_blocks\":4,\"unused_blocks\":5,"
			   "\"bytes\":100},\"fetched\":{\"hot\":0}}]",
		       "the trace does not fit this start");
	expect_verdict(OWN "\"hot\":{\"used_blocks\":5,\"unused_blocks\":5,"
			   "\"bytes\":100},\"fetched\":{\"hot\":49}}]",
		       "the prefetch was overtaken");
	expect_verdict(OWN "\"hot\":{\"used_blocks\":5,\"unused_blocks\":5,"
			   "\"bytes\":100},\"fetched\":{\"hot\":50}}]",
		       "the last start read what no start before it had read");
}

Test(explain, the_newest_start_is_the_one_that_counts)
{
	expect_verdict(
		"[{\"watched\":true,\"trace\":\"own\",\"missed_blocks\":0,"
		"\"read_blocks\":9},{\"watched\":false}]",
		"good:");
}

/* ---------------------------------------------------------------------- finding --- */

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const char status_text[] =
	"{\"images\":[{\"id\":\"sha256:" A "\",\"manifest\":\"sha256:" A "\","
	"\"names\":[\"h/app:1\",\"h/app2:latest\"]},"
	"{\"id\":\"sha256:" B "\",\"manifest\":\"sha256:0\","
	"\"artifact\":\"sha256:cccccccccccccccc\",\"names\":[]}],"
	"\"untrusted\":[{\"image\":\"docker://h/bad:latest\","
	"\"reason\":\"nobody signed it\"}]}";

static void expect_found(const json_t *status, const char *ref, int at)
{
	const json_t *want =
		at < 0 ? NULL
		       : json_array_get(json_object_get(status, "images"),
					(size_t)at);

	cr_expect_eq(explain_find(status, ref), want, "%s", ref);
}

Test(explain, an_image_is_found_by_its_names_and_digests)
{
	json_t *s = parse_starts(status_text);

	expect_found(s, "h/app:1", 0);
	expect_found(s, "docker://h/app:1", 0);
	expect_found(s, "h/app2", 0);
	expect_found(s, "h/app2:latest", 0);
	/* Names must match completely: not only their beginning, and not another tag. */
	expect_found(s, "h/app", -1);
	expect_found(s, "h/ap", -1);
	expect_found(s, "h/app2:late", -1);
	expect_found(s, "", -1);
	expect_found(s, "sha256:" A, 0);
	expect_found(s, "bbbbbbbbbbbb", 1);
	expect_found(s, "bbbbbbbbbbb", -1);
	expect_found(s, "sha256:cccccccccccc", 1);
	expect_found(s, "sha256:" B "b", -1);
	json_decref(s);
}

static const char *reason(const json_t *status, const char *ref)
{
	return json_string_value(
		json_object_get(explain_ordinary(status, ref), "reason"));
}

Test(explain, an_untrusted_image_has_its_reason)
{
	json_t *s = parse_starts(status_text), *none = parse_starts("{}");

	cr_expect_str_eq(reason(s, "h/bad"), "nobody signed it");
	cr_expect_str_eq(reason(s, "docker://h/bad:latest"),
			 "nobody signed it");
	cr_expect_null(explain_ordinary(s, "h/ba"));
	cr_expect_null(explain_ordinary(s, "h/bad:1"));
	cr_expect_null(explain_ordinary(none, "h/bad"));
	cr_expect_null(explain_find(none, "h/bad"));
	json_decref(s);
	json_decref(none);
}
