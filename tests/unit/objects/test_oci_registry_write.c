// SPDX-License-Identifier: Apache-2.0
/* Writing to a registry that misbehaves. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "oci_fixture.h"
#include "tests/fakes/registry.h"

#define BIG ((size_t)40 << 20) /* several chunks */
#define ARTIFACT "application/vnd.example.artifact"

static struct registry_fixture fix;
static struct error err;

static void setup(void)
{
	fixture_start(&fix);
	err = (struct error)ERROR_INIT;
}

static void teardown(void)
{
	fixture_stop(&fix);
}

TestSuite(oci_registry_write, .init = setup, .fini = teardown, .timeout = 120);

/* A file of `len` bytes, its digest, and what came of uploading it. */
static int put(size_t len, struct digest *d, struct oci_progress *p)
{
	AUTO_FREE char *data = malloc(len + 1);
	AUTO_CLOSE int fd = -1;

	cr_assert_not_null(data);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 7 + i / 251 + len);
	cr_assert_eq(digest_of(data, len, d), 0);
	fd = fixture_file(&fix, data, len);
	return oci_put_blob(fix.store, d, len, fd, p, &err);
}

/* The registry checked the digest; here is whether it has the blob. */
static void expect_stored(const struct digest *d, size_t len)
{
	AUTO_BUF got = BUF_INIT;

	cr_expect_eq(oci_get_blob(fix.store, d, len, len, &got, &err), 0, "%s",
		     err.msg);
}

Test(oci_registry_write, a_small_blob_is_two_requests_and_sent_once)
{
	struct digest d;

	cr_assert_eq(put(1000, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, 1000);
	cr_expect_eq(fixture_count(&fix, "POST", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "PUT", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "PATCH", NULL), 0);
	cr_assert_eq(put(1000, &d, NULL), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "POST", NULL), 1);
}

Test(oci_registry_write, an_empty_blob_can_be_stored)
{
	struct digest d;

	cr_assert_eq(put(0, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, 0);
}

Test(oci_registry_write, a_cut_upload_goes_on_where_the_registry_says)
{
	struct digest d;

	fixture_fault(&fix, "upload_cut=5000000&times=1");
	cr_assert_eq(put(BIG, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, BIG);
	cr_expect_eq(fixture_count(&fix, "POST", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "GET /v2/any/blobs/uploads", NULL), 1);
}

Test(oci_registry_write, a_lost_session_is_begun_anew)
{
	struct digest d;

	fixture_fault(&fix, "upload_lose=1&times=1&match=state=16777216");
	cr_assert_eq(put(BIG, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, BIG);
	cr_expect_eq(fixture_count(&fix, "POST", NULL), 2);
}

Test(oci_registry_write, a_registry_without_chunks_gets_one_piece)
{
	struct digest d;

	fixture_fault(&fix, "no_chunks=1");
	cr_assert_eq(put(BIG, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, BIG);
}

Test(oci_registry_write, a_lost_answer_to_the_last_request_is_no_failure)
{
	struct digest d;

	fixture_fault(&fix, "drop_after=1&times=1");
	cr_assert_eq(put(1000, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, 1000);
	cr_expect_eq(fixture_count(&fix, "POST", NULL), 1);
}

Test(oci_registry_write, content_that_is_not_what_its_digest_says_is_refused)
{
	AUTO_CLOSE int fd = fixture_file(&fix, "other", 5);
	struct digest d;

	cr_assert_eq(digest_of("wrong", 5, &d), 0);
	cr_expect_eq(oci_put_blob(fix.store, &d, 5, fd, NULL, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "sha256:"), "%s", err.msg);
}

Test(oci_registry_write, errors_end_within_the_budget)
{
	struct digest d;

	fixture_fault(&fix, "status=500");
	cr_expect_eq(put(1000, &d, NULL), -EIO);
	cr_expect_eq(fixture_count(&fix, " 500 ", NULL), 4);
}

Test(oci_registry_write, an_upload_waits_as_long_as_the_registry_says)
{
	struct digest d;

	fixture_fault(&fix,
		      "status=429&retry_after=1&times=1&match=/uploads/u");
	cr_expect_eq(put(1000, &d, NULL), 0, "%s", err.msg);
	expect_stored(&d, 1000);
}

struct stopper {
	struct oci_progress base;
	uint64_t last, total;
	uint64_t stop_at;
};

static int on_step(struct oci_progress *p, uint64_t done, uint64_t total)
{
	struct stopper *s = container_of(p, struct stopper, base);

	cr_expect_geq(done, s->last);
	s->last = done;
	s->total = total;
	return done >= s->stop_at;
}

Test(oci_registry_write, progress_reaches_the_size_and_can_stop_the_upload)
{
	struct stopper s = { .base.step = on_step, .stop_at = UINT64_MAX };
	struct digest d;

	cr_assert_eq(put(BIG, &d, &s.base), 0, "%s", err.msg);
	cr_expect_eq(s.last, BIG);
	cr_expect_eq(s.total, BIG);
	s = (struct stopper){ .base.step = on_step, .stop_at = 1000000 };
	cr_expect_eq(put(BIG + 1, &d, &s.base), -ECANCELED);
}

/* ------------------------------------------------------------- manifests --- */

static struct digest put_image(const char *tag, const struct digest *subject,
			       const char *type)
{
	AUTO_FREE char *text = NULL;
	struct digest config, d;

	cr_assert_eq(put(2, &config, NULL), 0, "%s", err.msg);
	text = fixture_manifest(&config, subject, type);
	cr_assert_eq(digest_of(text, strlen(text), &d), 0);
	cr_assert_eq(oci_put_manifest(fix.store, tag, IMAGE_TYPE, text,
				      strlen(text), &err),
		     0, "%s", err.msg);
	return d;
}

static size_t count_referrers(const struct digest *subject, const char *type)
{
	struct digest *found = NULL;
	size_t n = 0;

	cr_assert_eq(oci_list_referrers(fix.store, subject, type, &found, &n,
					&err),
		     0, "%s", err.msg);
	free(found);
	return n;
}

Test(oci_registry_write, a_manifest_comes_back_by_tag_and_by_digest)
{
	struct digest d = put_image("v1", NULL, NULL);
	struct oci_manifest m;
	char name[DIGEST_STR_MAX];

	digest_format(&d, name);
	cr_assert_eq(oci_get_manifest(fix.store, "v1", &m, &err), 0, "%s",
		     err.msg);
	cr_expect(digest_equal(&m.digest, &d));
	cr_expect_str_eq(m.media_type, IMAGE_TYPE);
	oci_manifest_fini(&m);
	cr_assert_eq(oci_get_manifest(fix.store, name, &m, &err), 0, "%s",
		     err.msg);
	oci_manifest_fini(&m);
	cr_assert_eq(oci_remove_manifest(fix.store, &d, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(oci_get_manifest(fix.store, "v1", &m, &err), -ENOENT);
}

Test(oci_registry_write, referrers_are_found_by_the_api)
{
	struct digest image = put_image("v1", NULL, NULL);

	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	cr_expect_eq(count_referrers(&image, "other/type"), 0);
	cr_expect_eq(count_referrers(&image, NULL), 1);
	/* Asked beside the first, when it was not known which of them answers. */
	cr_expect_eq(fixture_count(&fix, "manifests/sha256-", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "/referrers/", NULL), 4);
}

Test(oci_registry_write, without_the_api_a_tag_lists_the_referrers)
{
	struct digest image = put_image("v1", NULL, NULL);
	struct digest one, two;

	fixture_fault(&fix, "referrers=0");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	one = put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	two = put_image(NULL, &image, "other/type");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	cr_expect_eq(count_referrers(&image, NULL), 2);
	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, NULL), 2);
	cr_assert_eq(oci_remove_manifest(fix.store, &one, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	cr_assert_eq(oci_remove_manifest(fix.store, &two, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(count_referrers(&image, NULL), 0);
	cr_expect_eq(fixture_count(&fix, "/referrers/", NULL), 1);
}

static struct digest put_noted(const struct digest *subject, const char *note)
{
	AUTO_FREE char *text = NULL;
	struct digest config, d;

	cr_assert_eq(put(2, &config, NULL), 0, "%s", err.msg);
	text = fixture_noted(&config, subject, ARTIFACT, note);
	cr_assert_eq(digest_of(text, strlen(text), &d), 0);
	cr_assert_eq(oci_put_manifest(fix.store, NULL, IMAGE_TYPE, text,
				      strlen(text), &err),
		     0, "%s", err.msg);
	return d;
}

/* Two of one type and one of another for an image, found again by a store that
 * remembers nothing, then one removed. */
static void expect_referrers_are_kept(void)
{
	struct digest image = put_image("v1", NULL, NULL);
	struct digest one, two;

	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	one = put_noted(&image, "one");
	two = put_noted(&image, "two");
	put_image(NULL, &image, "other/type");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 2);
	fixture_reopen(&fix);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 2);
	cr_expect_eq(count_referrers(&image, "other/type"), 1);
	cr_expect_eq(count_referrers(&image, "third/type"), 0);
	cr_assert_eq(oci_remove_manifest(fix.store, &one, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	cr_assert_eq(oci_remove_manifest(fix.store, &two, &err), 0, "%s",
		     err.msg);
}

Test(oci_registry_write, referrers_are_kept_however_a_registry_says_no)
{
	static const int answers[] = { LISTS_NONE,  LISTS_OTHER, LISTS_NULL,
				       LISTS_EMPTY, 400,         401,
				       403,         405,         406,
				       410,         415,         501 };

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		char query[32];

		(void)snprintf(query, sizeof(query), "referrers=%d",
			       answers[i]);
		fixture_reopen(&fix);
		fixture_fault(&fix, query);
		expect_referrers_are_kept();
		/* A list that stays behind is not the next one's. */
		fixture_stop(&fix);
		fixture_start(&fix);
	}
}

Test(oci_registry_write, an_api_that_fails_is_no_registry_without_one)
{
	struct digest image = put_image("v1", NULL, NULL);
	struct digest *found = NULL;
	size_t n;

	fixture_fault(&fix, "referrers=500");
	cr_expect_eq(oci_list_referrers(fix.store, &image, ARTIFACT, &found, &n,
					&err),
		     -EIO);
}

Test(oci_registry_write, a_list_without_end_is_left_after_some_pages)
{
	struct digest image = put_image("v1", NULL, NULL);

	put_noted(&image, "one");
	fixture_fault(&fix, "referrers=7");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 100);
	cr_expect_eq(fixture_count(&fix, "/referrers/", NULL), 100);
}

Test(oci_registry_write, entries_without_a_type_are_read)
{
	fixture_fault(&fix, "referrers=4");
	expect_referrers_are_kept();
}

Test(oci_registry_write, tags_that_are_digests_hold_no_list)
{
	char tag[DIGEST_STR_MAX + 16];
	struct oci_manifest m;
	struct digest image;
	const char *text;

	fixture_fault(&fix, "referrers=0&digest_tags=1");
	expect_referrers_are_kept();
	/* Also of an image that comes after what refers to it. */
	image = (struct digest){ .b = { 1 } };
	put_noted(&image, "one");
	put_noted(&image, "two");
	digest_format(&image, tag);
	tag[6] = '-';
	strcat(tag, ".referrers");
	cr_assert_eq(oci_get_manifest(fix.store, tag, &m, &err), 0, "%s",
		     err.msg);
	text = strstr(m.body.data, "\"n\":\"one\"");
	cr_assert(text);
	cr_expect(strstr(text, "\"n\":\"two\""));
	oci_manifest_fini(&m);
}

Test(oci_registry_write, tags_that_never_change_say_what_cannot_be_kept)
{
	AUTO_FREE char *text = NULL;
	struct digest image, config;
	int rc;

	fixture_fault(&fix, "referrers=0&immutable=400");
	image = put_image("v1", NULL, NULL);
	put_noted(&image, "one");
	/* The same once more changes nothing. */
	put_image("v1", NULL, NULL);
	put_noted(&image, "one");
	cr_assert_eq(put(2, &config, NULL), 0, "%s", err.msg);
	text = fixture_noted(&config, &image, ARTIFACT, "two");
	rc = oci_put_manifest(fix.store, NULL, IMAGE_TYPE, text, strlen(text),
			      &err);
	cr_expect_eq(rc, -ENOTSUP);
	cr_expect(strstr(err.msg, "exempt tags 'sha256-*'"), "%s", err.msg);
	/* It need not change where the API lists all the same. */
	fixture_fault(&fix, "referrers=6");
	fixture_reopen(&fix);
	put_noted(&image, "three");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 3);
}

Test(oci_registry_write, a_forged_list_leads_to_no_other_address)
{
	static const char index[] = "application/vnd.oci.image.index.v1+json";
	static const char forged[] =
		"{\"schemaVersion\":2,\"manifests\":[{\"size\":2,"
		"\"digest\":\"../../../../elsewhere\"}]}";
	struct digest image, config;
	AUTO_FREE char *text = NULL;
	char tag[DIGEST_STR_MAX];

	fixture_fault(&fix, "referrers=0");
	image = put_image("v1", NULL, NULL);
	digest_format(&image, tag);
	*strchr(tag, ':') = '-';
	cr_assert_eq(oci_put_manifest(fix.store, tag, index, forged,
				      strlen(forged), &err),
		     0, "%s", err.msg);
	cr_assert_eq(put(2, &config, NULL), 0, "%s", err.msg);
	/* The list is refused, so what is gone of it is looked for. */
	fixture_fault(&fix, "immutable=400");
	text = fixture_noted(&config, &image, ARTIFACT, "one");
	cr_expect_eq(oci_put_manifest(fix.store, NULL, IMAGE_TYPE, text,
				      strlen(text), &err),
		     -ENOTSUP);
	cr_expect_eq(fixture_count(&fix, "elsewhere", NULL), 0);
}

/* The note that the list has of a manifest, to be freed; NULL: none. */
static char *listed_note(const struct digest *subject, const struct digest *of)
{
	const struct oci_referrers_query q = {
		.subject = subject,
		.artifact_type = ARTIFACT,
		.note = "n",
	};
	struct oci_referrers list;
	char *note = NULL;
	bool found = false;

	cr_assert_eq(oci_list_noted(fix.store, &q, &list, &err), 0, "%s",
		     err.msg);
	for (size_t i = 0; i < list.n; i++) {
		if (!digest_equal(&list.digests[i], of))
			continue;
		found = true;
		note = list.notes && list.notes[i] ? strdup(list.notes[i])
						   : NULL;
	}
	cr_expect(found);
	oci_referrers_fini(&list);
	return note;
}

static void expect_notes_are_listed(void)
{
	static char lengthy[OCI_NOTE_MAX + 2];
	struct digest image = put_image("v1", NULL, NULL);
	struct digest one = put_noted(&image, "one"),
		      none = put_noted(&image, NULL), large, next;
	AUTO_FREE char *first = listed_note(&image, &one);

	cr_assert(first);
	cr_expect_str_eq(first, "one");
	cr_expect_null(listed_note(&image, &none));
	memset(lengthy, 'x', OCI_NOTE_MAX + 1);
	large = put_noted(&image, lengthy);
	cr_expect_null(listed_note(&image, &large));
	/* Only the last have theirs. */
	for (unsigned int i = 0; i < OCI_NOTES_LISTED; i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "no %u", i);
		next = put_noted(&image, text);
		free(listed_note(&image, &next));
	}
}

Test(oci_registry_write, a_list_by_the_api_says_how_each_is_annotated)
{
	expect_notes_are_listed();
}

Test(oci_registry_write, a_list_by_tag_says_how_each_is_annotated)
{
	struct digest image;
	const struct oci_referrers_query q = {
		.subject = &image,
		.artifact_type = ARTIFACT,
		.note = "n",
	};
	struct oci_referrers list;

	fixture_fault(&fix, "referrers=0");
	expect_notes_are_listed();
	/* In the order of the list, which a tag keeps. */
	image = put_image("v1", NULL, NULL);
	cr_assert_eq(oci_list_noted(fix.store, &q, &list, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(list.n, OCI_NOTES_LISTED + 3);
	cr_expect_null(list.notes[0]);
	cr_assert(list.notes[list.n - 1]);
	cr_expect_str_eq(list.notes[list.n - 1], "no 31");
	oci_referrers_fini(&list);
}

Test(oci_registry_write, an_api_that_goes_is_missed)
{
	struct digest image = put_image("v1", NULL, NULL);

	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	fixture_fault(&fix, "referrers=0");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
}

/* As who asks for referrers before the registry was asked for the image. */
static bool guess(const struct digest *subject, size_t *ret_n)
{
	const struct oci_referrers_query q = {
		.subject = subject,
		.artifact_type = ARTIFACT,
		.is_guess = true,
	};
	struct oci_referrers list;
	bool is_doubtful;

	cr_assert_eq(oci_list_noted(fix.store, &q, &list, &err), 0, "%s",
		     err.msg);
	*ret_n = list.n;
	is_doubtful = list.is_doubtful;
	oci_referrers_fini(&list);
	return is_doubtful;
}

Test(oci_registry_write, a_guess_tells_nothing_of_what_a_registry_can)
{
	struct digest image = put_image("v1", NULL, NULL);
	size_t n;

	/* Some answer 404 of what they have not, as those do that have no API. */
	fixture_fault(&fix, "referrers=0");
	cr_expect(guess(&image, &n));
	cr_expect_eq(n, 0);
	fixture_fault(&fix, "referrers=1");
	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	fixture_fault(&fix, "referrers=0");
	cr_expect(guess(&image, &n));
	cr_expect(guess(&image, &n));
	fixture_fault(&fix, "referrers=1");
	cr_expect_not(guess(&image, &n));
	cr_expect_eq(n, 1);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
}

Test(oci_registry_write, a_list_by_tag_is_no_doubtful_answer)
{
	struct digest image = put_image("v1", NULL, NULL);
	size_t n;

	fixture_fault(&fix, "referrers=0");
	put_image(NULL, &image, ARTIFACT);
	cr_expect_not(guess(&image, &n));
	cr_expect_eq(n, 1);
}

Test(oci_registry_write, an_api_that_was_away_for_a_moment_is_asked_again)
{
	struct digest image = put_image("v1", NULL, NULL);

	put_image(NULL, &image, ARTIFACT);
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
	fixture_fault(&fix, "referrers=0");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 0);
	fixture_fault(&fix, "referrers=1");
	cr_expect_eq(count_referrers(&image, ARTIFACT), 1);
}

Test(oci_registry_write, tags_are_listed_over_all_pages)
{
	char **tags = NULL;
	size_t n = 0;

	for (int i = 0; i < 7; i++) {
		char tag[8];

		snprintf(tag, sizeof(tag), "t%d", i);
		put_image(tag, NULL, NULL);
	}
	fixture_fault(&fix, "page=3");
	cr_assert_eq(oci_list_tags(fix.store, 100, &tags, &n, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n, 7);
	while (n)
		free(tags[--n]);
	free(tags);
	cr_assert_eq(oci_list_tags(fix.store, 4, &tags, &n, &err), 0);
	cr_expect_eq(n, 4);
	while (n)
		free(tags[--n]);
	free(tags);
}
