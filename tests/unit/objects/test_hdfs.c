// SPDX-License-Identifier: Apache-2.0
/* What WebHDFS answers: what needs no server. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "objects/hdfs/hdfs_json.h"
#include "objects/hdfs/hdfs_spread.h"
#include "objects/hdfs/hdfs_store_priv.h"
#include "objects/store/store_url.h"

TestSuite(hdfs, .timeout = 60);

#define FILE_ENTRY \
	"{\"pathSuffix\":\"a\",\"type\":\"FILE\",\"length\":5," \
	"\"modificationTime\":1000,\"fileId\":77,\"blockSize\":1048576}"

static int add(void *arg, const struct hdfs_status *s)
{
	return buf_printf(arg, "%s %d %llu;", s->suffix, s->is_file,
			  (unsigned long long)s->size);
}

static int listing(const char *text, struct buf *got, char **last)
{
	return hdfs_listing_parse(text, strlen(text), add, got, last);
}

Test(hdfs, reads_pages_of_a_list)
{
	static const char head[] = "{\"DirectoryListing\":{\"partialListing\":"
				   "{\"FileStatuses\":{\"FileStatus\":[";
	AUTO_BUF page = BUF_INIT, got = BUF_INIT;
	char *last;

	cr_assert_eq(buf_printf(&page, "%s%s]}},\"remainingEntries\":3}}", head,
				FILE_ENTRY),
		     0);
	cr_expect_eq(listing(page.data, &got, &last), 0);
	cr_expect_str_eq(got.data, "a 1 5;");
	cr_expect_str_eq(last, "a");
	free(last);
	buf_reset(&page);
	cr_assert_eq(buf_printf(&page, "%s]}},\"remainingEntries\":0}}", head),
		     0);
	cr_expect_eq(listing(page.data, &got, &last), 0);
	cr_expect_null(last);
	/* A page without entries and more to come would come for ever. */
	buf_reset(&page);
	cr_assert_eq(buf_printf(&page, "%s]}},\"remainingEntries\":1}}", head),
		     0);
	cr_expect_eq(listing(page.data, &got, &last), -EBADMSG);
	cr_expect_eq(listing("{}", &got, &last), -EBADMSG);
}

Test(hdfs, takes_no_names_that_lead_elsewhere)
{
	static const char *const names[] = { "a/b", "..", "." };
	AUTO_BUF got = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_BUF page = BUF_INIT;
		char *last;

		cr_assert_eq(
			buf_printf(&page,
				   "{\"DirectoryListing\":{\"partialListing\":"
				   "{\"FileStatuses\":{\"FileStatus\":[{"
				   "\"pathSuffix\":\"%s\",\"type\":\"FILE\","
				   "\"length\":5,\"modificationTime\":1}]}},"
				   "\"remainingEntries\":0}}",
				   names[i]),
			0);
		cr_expect_eq(listing(page.data, &got, &last), -EBADMSG, "'%s'",
			     names[i]);
	}
}

Test(hdfs, reads_the_first_line_of_an_exception)
{
	static const char text[] =
		"{\"RemoteException\":{\"exception\":\"StandbyException\","
		"\"javaClassName\":\"x\",\"message\":\"no\\u0007 READ\\n\\tat "
		"org.apache\"}}";
	AUTO_FREE char *name = NULL;
	AUTO_FREE char *why = NULL;

	cr_assert_eq(hdfs_exception_parse(text, strlen(text), &name, &why), 0);
	cr_expect_str_eq(name, "StandbyException");
	cr_expect_str_eq(why, "no  READ");
	cr_expect_eq(hdfs_exception_parse("<html>", 6, &name, &why), -EBADMSG);
}

Test(hdfs, changes_the_range_of_a_redirect_and_no_more)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(hdfs_url_range("http://d:9864/webhdfs/v1/a%20b?op=OPEN&"
				    "offset=5&delegation=x%3D&length=7&z=1",
				    100, 20, &got),
		     0);
	cr_expect_str_eq(got.data, "http://d:9864/webhdfs/v1/a%20b?op=OPEN&"
				   "delegation=x%3D&z=1&offset=100&length=20");
	buf_reset(&got);
	cr_assert_eq(hdfs_url_range("http://d/x", 1, 2, &got), 0);
	cr_expect_str_eq(got.data, "http://d/x?offset=1&length=2");
}

/* -------------------------------------------------------------------- URLs --- */

Test(hdfs, urls_of_stores_are_taken_apart)
{
	struct store_url u;
	struct error err = ERROR_INIT;

	cr_assert_eq(store_url_parse("hdfs://a:1,b:2//x/y%20z/?k=v%26w&tls=yes",
				     &u, &err),
		     0, "%s", err.msg);
	cr_expect_str_eq(u.scheme, "hdfs");
	cr_expect_str_eq(u.authority, "a:1,b:2");
	cr_expect_str_eq(u.path, "x/y z");
	cr_expect_str_eq(store_url_take(&u, "k"), "v&w");
	cr_expect_eq(store_url_check(&u, &err), -EINVAL);
	cr_expect(strstr(err.msg, "'tls'"), "%s", err.msg);
	cr_expect_str_eq(store_url_take(&u, "tls"), "yes");
	cr_expect_eq(store_url_check(&u, &err), 0);
	store_url_fini(&u);
}

Test(hdfs, texts_that_are_no_url_of_a_store_are_refused)
{
	static const char *const bad[] = {
		"",          "x",          "/dir",        "s3:bucket",
		"://x",      "s3://k@b",   "s3://b/%zz",  "s3://b?x",
		"s3://b?=v", "s3://b/%00", "s3://b?a=%0",
	};
	struct store_url u;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(store_url_parse(bad[i], &u, &err), -EINVAL, "'%s'",
			     bad[i]);
}

/* ------------------------------------------------------------------ spread --- */

#define PATH "/webhdfs/v1/ckpt/a?op=CREATE"

static char *begin(struct hdfs_spread *s, const char *named, int64_t now_ns)
{
	struct error err = ERROR_INIT;
	char *url = NULL;

	cr_assert_eq(hdfs_spread_begin(s, named, HDFS_SPREAD_ANY, now_ns, &url,
				       &err),
		     0, "%s", err.msg);
	return url;
}

static void expect_begin(struct hdfs_spread *s, const char *named,
			 const char *wanted)
{
	AUTO_FREE char *url = begin(s, named, 0);

	cr_expect_str_eq(url, wanted);
}

Test(hdfs, sends_a_file_to_the_node_that_has_least_to_do)
{
	struct hdfs_spread s;

	hdfs_spread_init(&s);
	/* None is known but these two, and an idle one is taken as it was named. */
	expect_begin(&s, "http://a:1" PATH, "http://a:1" PATH);
	expect_begin(&s, "http://b:1" PATH, "http://b:1" PATH);
	/* By turns, whichever is named. */
	expect_begin(&s, "http://b:1" PATH, "http://a:1" PATH);
	expect_begin(&s, "http://b:1" PATH, "http://b:1" PATH);
	hdfs_spread_end(&s, "http://a:1" PATH, false);
	expect_begin(&s, "http://b:1" PATH, "http://a:1" PATH);
	/* Another one, which is idle. */
	expect_begin(&s, "http://c:1" PATH, "http://c:1" PATH);
	expect_begin(&s, "http://a:1" PATH, "http://b:1" PATH);
	/* a has two under way, b three: its turn is for nothing while c has one. */
	expect_begin(&s, "http://a:1" PATH, "http://a:1" PATH);
	expect_begin(&s, "http://a:1" PATH, "http://c:1" PATH);
	hdfs_spread_end(&s, "http://c:1" PATH, false);
	expect_begin(&s, "http://a:1" PATH, "http://c:1" PATH);
	hdfs_spread_fini(&s);
}

/* Places that follow one another are on nodes that do. */
static void expect_named_at(struct hdfs_spread *s, const char *named,
			    uint64_t place, const char *wanted)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *url = NULL;

	cr_assert_eq(hdfs_spread_begin(s, named, place, 0, &url, &err), 0, "%s",
		     err.msg);
	cr_expect_str_eq(url, wanted);
}

static void expect_at(struct hdfs_spread *s, uint64_t place, const char *wanted)
{
	expect_named_at(s, "http://a:1" PATH, place, wanted);
}

static void know(struct hdfs_spread *s, const char *named)
{
	AUTO_FREE char *url = begin(s, named, 0);

	hdfs_spread_end(s, url, false);
}

Test(hdfs, puts_parts_that_are_read_side_by_side_on_different_nodes)
{
	struct hdfs_spread s;

	hdfs_spread_init(&s);
	know(&s, "http://a:1" PATH);
	know(&s, "http://b:1" PATH);
	know(&s, "http://c:1" PATH);
	cr_expect_eq(hdfs_spread_row(&s), 0);
	cr_expect_eq(hdfs_spread_row(&s), 1);
	/* The first parts of two columns, then their second ones, though a is named, and
	 * idle. */
	expect_at(&s, 0, "http://a:1" PATH);
	expect_at(&s, 1, "http://b:1" PATH);
	expect_at(&s, 0 + 1, "http://b:1" PATH);
	expect_at(&s, 1 + 1, "http://c:1" PATH);
	expect_at(&s, 3, "http://a:1" PATH);
	/* b is much slower than c, which has one under way. */
	for (unsigned int i = 2; i <= 1 + HDFS_SPREAD_SLACK; i++)
		expect_at(&s, 1, "http://b:1" PATH);
	expect_at(&s, 1, "http://c:1" PATH);
	/* One that failed has no place. */
	hdfs_spread_end(&s, "http://b:1" PATH, true);
	expect_at(&s, 0, "http://a:1" PATH);
	expect_at(&s, 1, "http://c:1" PATH);
	/* One that was never named is taken at once, and has a place then. */
	expect_named_at(&s, "http://d:1" PATH, 0, "http://d:1" PATH);
	expect_at(&s, 2, "http://d:1" PATH);
	hdfs_spread_fini(&s);
}

Test(hdfs, sends_nothing_to_a_node_that_failed_or_is_not_named_any_more)
{
	struct hdfs_spread s;
	char *url;

	hdfs_spread_init(&s);
	expect_begin(&s, "http://a:1" PATH, "http://a:1" PATH);
	hdfs_spread_end(&s, "http://a:1" PATH, true);
	expect_begin(&s, "http://b:1" PATH, "http://b:1" PATH);
	expect_begin(&s, "http://b:1" PATH, "http://b:1" PATH);
	/* It is named: it has come back. */
	expect_begin(&s, "http://a:1" PATH, "http://a:1" PATH);
	hdfs_spread_end(&s, "http://a:1" PATH, false);
	url = begin(&s, "http://b:1" PATH, HDFS_SPREAD_FRESH_NS);
	cr_expect_str_eq(url, "http://b:1" PATH);
	free(url);
	hdfs_spread_fini(&s);
}

Test(hdfs, a_node_that_tells_the_bound_of_blocks_is_not_broken)
{
	struct error err = ERROR_INIT;
	int rc = error_set(&err, EIO,
			   "http://a:1: Specified block size is less than "
			   "configured minimum value "
			   "(dfs.namenode.fs-limits.min-block-size): 8388608 < "
			   "33554432 (IOException)");

	cr_expect_not(hdfs_node_is_broken(rc, &err));
	cr_expect(hdfs_refuses_block(&err));
	cr_expect_not(hdfs_node_is_broken(0, NULL));
	rc = error_set(&err, ENOENT, "http://a:1: no such file");
	cr_expect_not(hdfs_node_is_broken(rc, &err));
	rc = error_set(&err, EIO, "http://a:1: disk (IOException)");
	cr_expect(hdfs_node_is_broken(rc, &err));
	cr_expect(hdfs_node_is_broken(-ETIMEDOUT, NULL));
}

Test(hdfs, asks_for_another_node_while_there_may_be_one)
{
	struct hdfs_spread s;

	hdfs_spread_init(&s);
	cr_expect(!hdfs_spread_wants_another(&s, "http://a:1" PATH, 0));
	expect_begin(&s, "http://a:1" PATH, "http://a:1" PATH);
	cr_expect(hdfs_spread_wants_another(&s, "http://a:1" PATH, 0));
	/* An idle one is known. */
	cr_expect(!hdfs_spread_wants_another(&s, "http://b:1" PATH, 0));
	cr_expect(!hdfs_spread_wants_another(&s, "http://a:1" PATH, 0));
	expect_begin(&s, "http://b:1" PATH, "http://b:1" PATH);
	for (unsigned int i = 0; i < HDFS_SPREAD_REPEATS; i++)
		(void)hdfs_spread_wants_another(&s, "http://a:1" PATH, 0);
	cr_expect(!hdfs_spread_wants_another(&s, "http://b:1" PATH, 0));
	hdfs_spread_fini(&s);
}

Test(hdfs, leaves_alone_what_is_no_address_of_webhdfs)
{
	static const char *const urls[] = { "", "http://a:1", "http://a:1/gw?x",
					    "/webhdfs/v1/a" };
	struct hdfs_spread s;

	hdfs_spread_init(&s);
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		expect_begin(&s, urls[i], urls[i]);
		expect_begin(&s, urls[i], urls[i]);
		cr_expect(!hdfs_spread_wants_another(&s, urls[i], 0));
		hdfs_spread_end(&s, urls[i], true);
	}
	cr_expect_eq(s.n, 0);
	hdfs_spread_fini(&s);
}

Test(hdfs, knows_whether_two_urls_are_of_one_node)
{
	cr_expect(hdfs_spread_is_same("http://a:1" PATH,
				      "http://a:1/webhdfs/v1/b?op=OPEN"));
	cr_expect(!hdfs_spread_is_same("http://a:1" PATH, "http://a:2" PATH));
	cr_expect(!hdfs_spread_is_same("http://a:1" PATH, "http://a:11" PATH));
	cr_expect(!hdfs_spread_is_same("", ""));
}

Test(hdfs, remembers_so_many_nodes_and_no_more)
{
	struct hdfs_spread s;

	hdfs_spread_init(&s);
	for (unsigned int i = 0; i < 2 * HDFS_SPREAD_NODES; i++) {
		AUTO_BUF url = BUF_INIT;

		cr_assert_eq(buf_printf(&url, "http://n%u:1" PATH, i), 0);
		expect_begin(&s, url.data, url.data);
		hdfs_spread_end(&s, url.data, false);
	}
	cr_expect_eq(s.n, HDFS_SPREAD_NODES);
	hdfs_spread_fini(&s);
}
