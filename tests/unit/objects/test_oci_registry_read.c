// SPDX-License-Identifier: Apache-2.0
/* Reading from a registry that misbehaves. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/http.h"
#include "objects/oci_hosts.h"
#include "oci_fixture.h"

#define BLOB_LEN ((size_t)300000)

static struct registry_fixture fix;
static struct digest blob;
static char *content;
static struct source *src;

static void open_source(void)
{
	struct error err = ERROR_INIT;

	source_free(src);
	src = NULL;
	cr_assert_eq(oci_open_blob(fix.store, &blob, BLOB_LEN, &src, &err), 0,
		     "%s", err.msg);
}

static void setup(void)
{
	fixture_start(&fix);
	content = fixture_blob(&fix, BLOB_LEN, 1, &blob);
	open_source();
}

static void teardown(void)
{
	source_free(src);
	free(content);
	fixture_stop(&fix);
}

TestSuite(oci_registry_read, .init = setup, .fini = teardown, .timeout = 120);

/* Read a range and compare it with what is stored. */
static void expect_range(size_t off, size_t len)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *got = malloc(len);

	cr_assert_not_null(got);
	cr_assert_eq(source_read_buf(src, off, got, len, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(memcmp(got, content + off, len), 0,
		     "%zu bytes at %zu differ", len, off);
}

static int take(struct source_sink *sink, uint64_t pos, const void *data,
		size_t len, struct error *err)
{
	return 0;
}

static int read_error(size_t off, size_t len, struct error *err)
{
	AUTO_FREE char *got = malloc(len);

	cr_assert_not_null(got);
	return source_read_buf(src, off, got, len, err);
}

Test(oci_registry_read, a_range_costs_one_request)
{
	expect_range(1000, 5000);
	expect_range(BLOB_LEN - 1, 1);
	expect_range(0, BLOB_LEN);
	cr_expect_eq(fixture_count(&fix, "GET", "/blobs/"), 3);
	cr_expect_eq(fixture_count(&fix, "range=bytes=1000-5999", " 206 "), 1);
}

Test(oci_registry_read, a_cut_is_continued_at_the_next_byte)
{
	fixture_fault(&fix, "cut=100000&times=2");
	expect_range(10, BLOB_LEN - 10);
	cr_expect_eq(fixture_count(&fix, "range=bytes=100010-", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "range=bytes=200010-", NULL), 1);
}

Test(oci_registry_read, cuts_do_not_use_up_the_budget_while_there_is_progress)
{
	fix.cfg.attempts = 2;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "cut=70000");
	expect_range(0, BLOB_LEN);
}

Test(oci_registry_read, a_transfer_that_hangs_goes_on_where_it_was)
{
	fix.cfg.stall_timeout_ms = 300;
	fix.cfg.attempts = 2;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "hang=1000&times=3");
	expect_range(10, BLOB_LEN - 10);
	cr_expect_eq(fixture_count(&fix, "range=bytes=1010-", NULL), 1);
	cr_expect_eq(fixture_count(&fix, "range=bytes=3010-", NULL), 1);
}

Test(oci_registry_read,
     who_has_a_deadline_waits_for_a_silent_registry_until_then)
{
	struct source_req req = { .len = BLOB_LEN };
	struct source_sink sink = { .put = take };
	struct error err = ERROR_INIT;

	fix.cfg.stall_timeout_ms = 300;
	fix.cfg.attempts = 2;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "delay_ms=60000&times=3");
	req.deadline_ns = clock_now_ns() + 50000000000;
	cr_expect_eq(source_read(src, &req, &sink, &err), 0, "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "GET", "/blobs/"), 4);
}

/* Counts, and ends the fault as soon as a read waits. */
struct counting_watch {
	struct oci_watch watch;
	unsigned int n_waits, n_ended, n_good;
	unsigned int n_again, n_throttled;
	int n_now;        /* requests that wait */
	const char *cure; /* NULL: none */
};

static void note_waits(struct oci_watch *w, const char *host,
		       const struct error *why)
{
	struct counting_watch *c =
		container_of(w, struct counting_watch, watch);

	cr_expect(strstr(host, "127.0.0.1"), "%s", host);
	cr_expect(*why->msg);
	c->n_waits++;
	if (c->cure)
		fixture_fault(&fix, c->cure);
}

static void note_ended(struct oci_watch *w, const char *host, bool waited,
		       bool is_good)
{
	struct counting_watch *c =
		container_of(w, struct counting_watch, watch);

	(void)host;
	c->n_ended += waited;
	c->n_good += is_good;
}

static void note_backs_off(struct oci_watch *w, const char *host,
			   bool is_throttled, bool is_over)
{
	struct counting_watch *c =
		container_of(w, struct counting_watch, watch);

	cr_expect(strstr(host, "127.0.0.1"), "%s", host);
	c->n_again += !is_over && !is_throttled;
	c->n_throttled += !is_over && is_throttled;
	c->n_now += is_over ? -1 : 1;
}

static struct counting_watch watch = {
	.watch = { .waits = note_waits,
		   .ended = note_ended,
		   .backs_off = note_backs_off },
};

static int read_until(int64_t ns, struct error *err)
{
	struct source_req req = { .len = 1000,
				  .deadline_ns = clock_now_ns() + ns };
	struct source_sink sink = { .put = take };

	return source_read(src, &req, &sink, err);
}

Test(oci_registry_read, who_has_a_deadline_waits_for_a_registry_that_refuses)
{
	static const struct {
		const char *fault, *cure;
	} faults[] = {
		{ "down=1", "down=0" },
		{ "drop=1", "drop=0" },
		{ "status=429", "status=0" },
		{ "status=500", "status=0" },
		{ "status=502", "status=0" },
		{ "status=503&retry_after=1", "status=0" },
		{ "status=504", "status=0" },
		{ "status=521", "status=0" },
	};

	fix.cfg.attempts = 1;
	fix.cfg.watch = &watch.watch;
	fixture_reopen(&fix);
	open_source();
	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++) {
		struct error err = ERROR_INIT;

		watch.cure = faults[i].cure;
		fixture_fault(&fix, faults[i].fault);
		cr_expect_eq(read_until(INT64_C(60000000000), &err), 0,
			     "%s: %s", faults[i].fault, err.msg);
		cr_expect_eq(watch.n_waits, i + 1, "%s", faults[i].fault);
		cr_expect_eq(watch.n_ended, i + 1, "%s", faults[i].fault);
		cr_expect_eq(watch.n_good, i + 1, "%s", faults[i].fault);
	}
}

Test(oci_registry_read, what_does_not_pass_is_not_waited_for)
{
	static const char *const faults[] = { "status=403", "status=404",
					      "status=416", "status=501" };
	struct error err = ERROR_INIT;

	fix.cfg.watch = &watch.watch;
	fixture_reopen(&fix);
	open_source();
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		fixture_fault(&fix, faults[i]);
		cr_expect_lt(read_until(INT64_C(600000000000), &err), 0);
		cr_expect_neq(err.code, ETIMEDOUT, "%s: %s", faults[i],
			      err.msg);
	}
	cr_expect_eq(fixture_count(&fix, "GET", "/blobs/"),
		     (int)ARRAY_SIZE(faults));
	cr_expect_eq(watch.n_waits, 0);
}

Test(oci_registry_read, who_waited_until_his_deadline_is_told_for_what)
{
	struct error err = ERROR_INIT;
	int64_t began = clock_now_ns();

	fixture_fault(&fix, "status=503");
	cr_expect_eq(read_until(INT64_C(2000000000), &err), -ETIMEDOUT);
	cr_expect_eq(err.code, ETIMEDOUT);
	cr_expect(strstr(err.msg, "503"), "%s", err.msg);
	cr_expect_geq(clock_now_ns() - began, INT64_C(1000000000));
}

Test(oci_registry_read, a_transfer_that_gets_nowhere_ends)
{
	struct error err = ERROR_INIT;

	fix.cfg.attempts = 3;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "cut=10");
	cr_expect_eq(read_error(0, BLOB_LEN, &err), -EIO);
	cr_expect_eq(fixture_count(&fix, "GET", "/blobs/"), 3);
	cr_expect(strstr(err.msg, "test/image") && strstr(err.msg, "sha256:"),
		  "%s", err.msg);
}

Test(oci_registry_read, a_registry_without_ranges_is_skipped_through)
{
	fixture_fault(&fix, "no_range=1");
	expect_range(200000, 1000);
	expect_range(0, 1000);
	expect_range(0, BLOB_LEN);
}

Test(oci_registry_read, short_answers_are_asked_to_go_on)
{
	fixture_fault(&fix, "max_range=90000");
	expect_range(5, BLOB_LEN - 5);
	cr_expect_eq(fixture_count(&fix, " 206 ", NULL), 4);
}

Test(oci_registry_read, another_range_than_asked_for_is_refused)
{
	struct error err = ERROR_INIT;

	fixture_fault(&fix, "bad_range=1");
	cr_expect_eq(read_error(100, 50, &err), -EPROTO);
	cr_expect(strstr(err.msg, "another range"), "%s", err.msg);
}

Test(oci_registry_read, a_wrong_size_in_the_descriptor_is_found)
{
	struct error err = ERROR_INIT;
	char byte[10];

	source_free(src);
	cr_assert_eq(oci_open_blob(fix.store, &blob, BLOB_LEN + 9, &src, &err),
		     0);
	cr_expect_eq(source_read_buf(src, 5, byte, 10, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "descriptor"), "%s", err.msg);
}

Test(oci_registry_read, wrong_bytes_do_not_pass_for_a_small_blob)
{
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;

	fixture_fault(&fix, "wrong=77");
	cr_expect_eq(oci_get_blob(fix.store, &blob, BLOB_LEN, BLOB_LEN, &got,
				  &err),
		     -EBADMSG);
	cr_expect_eq(got.len, 0);
	fixture_fault(&fix, "wrong=0");
	cr_expect_eq(oci_get_blob(fix.store, &blob, BLOB_LEN, BLOB_LEN, &got,
				  &err),
		     0, "%s", err.msg);
}

Test(oci_registry_read, passing_errors_are_tried_again_and_429_says_when)
{
	struct timespec before, after;

	fix.cfg.watch = &watch.watch;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "status=503&times=2");
	expect_range(0, 100);
	cr_expect_eq(watch.n_again, 2);
	cr_expect_eq(watch.n_throttled, 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	fixture_fault(&fix, "status=429&retry_after=1&times=1");
	expect_range(0, 100);
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	cr_expect((after.tv_sec - before.tv_sec) * 1000 +
			  (after.tv_nsec - before.tv_nsec) / 1000000 >=
		  1000);
	cr_expect_eq(watch.n_again, 2);
	cr_expect_eq(watch.n_throttled, 1);
	cr_expect_eq(watch.n_now, 0);
}

static void put_v1(void)
{
	char *text = fixture_manifest(&blob, NULL, NULL);
	struct error err = ERROR_INIT;

	cr_assert_eq(oci_put_manifest(fix.store, "v1", IMAGE_TYPE, text,
				      strlen(text), &err),
		     0, "%s", err.msg);
	free(text);
}

Test(oci_registry_read, manifests_and_questions_are_tried_again_too)
{
	static const char *const faults[] = {
		"status=503&times=2",
		"drop=1&times=2",
		"status=429&retry_after=1&times=2",
	};
	int64_t began = 0;

	put_v1();
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		struct oci_manifest m = { .body = BUF_INIT };
		struct error err = ERROR_INIT;
		bool have = false;

		began = clock_now_ns();
		fixture_fault(&fix, faults[i]);
		cr_expect_eq(oci_get_manifest(fix.store, "v1", &m, &err), 0,
			     "%s: %s", faults[i], err.msg);
		oci_manifest_fini(&m);
		fixture_fault(&fix, faults[i]);
		cr_expect_eq(oci_has_blob(fix.store, &blob, &have, &err), 0,
			     "%s: %s", faults[i], err.msg);
		cr_expect(have);
	}
	cr_expect_geq(clock_now_ns() - began, INT64_C(4000000000),
		      "it said when");
	cr_expect_eq(fixture_count(&fix, " 503 ", NULL), 4);
	cr_expect_eq(fixture_count(&fix, " 429 ", NULL), 4);
}

Test(oci_registry_read, too_many_requests_end_as_busy)
{
	struct error err = ERROR_INIT;

	fixture_fault(&fix, "status=429");
	cr_expect_eq(read_error(0, 10, &err), -EBUSY);
	cr_expect_eq(fixture_count(&fix, " 429 ", NULL), 4);
}

Test(oci_registry_read, a_deadline_ends_the_attempts)
{
	struct source_req req = { .off = 0, .len = 10 };
	struct source_sink none = { .put = NULL };
	struct error err = ERROR_INIT;

	fixture_fault(&fix, "status=429&retry_after=30");
	req.deadline_ns = clock_now_ns() + 2000000000;
	cr_expect(source_read(src, &req, &none, &err) < 0);
	/* The last one when there is just time for an answer. */
	cr_expect_leq(fixture_count(&fix, " 429 ", NULL), 2);
	cr_expect_lt(clock_now_ns(), req.deadline_ns + 20000000000);
}

Test(oci_registry_read, a_slow_answer_is_waited_for_and_a_dead_one_is_not)
{
	struct error err = ERROR_INIT;

	fixture_fault(&fix, "drip=3000&drip_ms=5");
	expect_range(0, BLOB_LEN);
	fix.cfg.stall_timeout_ms = 500;
	fix.cfg.attempts = 1;
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, "drip=3000&drip_ms=60000");
	cr_expect_eq(read_error(0, BLOB_LEN, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "hangs"), "%s", err.msg);
}

struct stoppable {
	struct pace pace;
	int64_t stop_ns;
};

static enum pace_level until_then(struct pace *p)
{
	struct stoppable *s = container_of(p, struct stoppable, pace);

	return clock_now_ns() < s->stop_ns ? PACE_GO : PACE_STOP;
}

static void is_moving(struct pace *p)
{
	(void)p;
}

Test(oci_registry_read, what_is_not_wanted_any_more_ends_at_once)
{
	static const char *const faults[] = {
		"drip=3000&drip_ms=60000",
		"delay_ms=30000",
		"status=429&retry_after=60",
	};
	struct source_sink sink = { .put = take };

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		struct stoppable s = { .pace = { .level = until_then,
						 .moves = is_moving } };
		struct source_req req = { .len = BLOB_LEN, .pace = &s.pace };
		struct error err = ERROR_INIT;

		fixture_fault(&fix, faults[i]);
		s.stop_ns = clock_now_ns() + 200000000;
		cr_expect_eq(source_read(src, &req, &sink, &err), -ECANCELED,
			     "%s: %s", faults[i], err.msg);
	}
}

static enum pace_level until_refused(struct pace *p)
{
	(void)p;
	return fixture_count(&fix, " 429 ", NULL) ? PACE_STOP : PACE_GO;
}

Test(oci_registry_read, nor_is_a_right_that_nobody_wants_waited_for)
{
	struct pace pace = { .level = until_refused, .moves = is_moving };
	struct error err = ERROR_INIT;
	struct digest d;
	char *right;

	cr_assert_eq(digest_of("", 0, &d), 0);
	fixture_fault(&fix, "status=429&retry_after=60");
	cr_expect(oci_authorization(fix.store, &d, &pace, &right, &err) < 0);
	/* The next attempt would be a minute later. */
	cr_expect_eq(fixture_count(&fix, " 429 ", NULL), 1, "%s", err.msg);
}

Test(oci_registry_read, a_registry_that_comes_back_is_found_again)
{
	struct error err = ERROR_INIT;

	expect_range(0, 10);
	fixture_fault(&fix, "down=1");
	fix.cfg.attempts = 2;
	fixture_reopen(&fix);
	open_source();
	cr_expect_eq(read_error(0, 10, &err), -EIO);
	cr_expect(strstr(err.msg, "127.0.0.1"), "%s", err.msg);
	fixture_fault(&fix, "down=0");
	expect_range(0, 10);
}

Test(oci_registry_read, a_closed_connection_is_opened_again)
{
	expect_range(0, 10);
	fixture_fault(&fix, "drop=1&times=1");
	expect_range(20, 10);
}

Test(oci_registry_read, a_redirect_is_remembered_and_shown_no_credentials)
{
	fixture_fault(&fix, "redirect=1&basic=1");
	(void)setenv("DOCKER_CONFIG", fix.dir, 1);
	close(fixture_file(&fix, "", 0));
	{
		AUTO_BUF path = BUF_INIT;
		AUTO_BUF text = BUF_INIT;
		FILE *out;

		cr_assert_eq(buf_printf(&path, "%s/config.json", fix.dir), 0);
		cr_assert_eq(buf_printf(&text,
					"{\"auths\":{\"127.0.0.1:%u\":{"
					"\"auth\":\"dXNlcjpzZWNyZXQ=\"}}}",
					fix.port),
			     0);
		out = fopen(path.data, "w");
		cr_assert_not_null(out);
		fputs(text.data, out);
		fclose(out);
	}
	expect_range(0, 10);
	expect_range(30, 10);
	cr_expect_eq(fixture_count(&fix, "/storage/", "auth=no"), 2);
	cr_expect_eq(fixture_count(&fix, " 307 ", "auth=yes"), 1);
	/* The place does not hold for ever. */
	fixture_fault(&fix, "redirect=0");
	expect_range(60, 10);
}

Test(oci_registry_read, a_storage_is_told_from_where_a_redirect_came)
{
	fixture_fault(&fix, "redirect=1&referer=1");
	expect_range(0, 10);
	/* Without asking the registry again, too. */
	expect_range(30, 10);
	cr_expect_eq(fixture_count(&fix, " 307 ", NULL), 1);
	cr_expect_eq(fixture_count(&fix, " 401 ", NULL), 0);
}

static void expect_found(const struct digest *d, uint64_t want)
{
	struct error err = ERROR_INIT;
	uint64_t size = 0;
	bool has = false;

	cr_assert_eq(oci_find_blob(fix.store, d, &has, &size, &err), 0, "%s",
		     err.msg);
	cr_expect(has);
	cr_expect_eq(size, want);
}

static void expect_blobs_without_head(const char *faults)
{
	struct digest large, none = { .b = { 1 } };
	struct error err = ERROR_INIT;
	uint64_t size;
	bool has = true;

	free(fixture_blob(&fix, 300000, 9, &large));
	fixture_reopen(&fix);
	fixture_fault(&fix, faults);
	expect_found(&large, 300000);
	expect_found(&large, 300000);
	cr_assert_eq(oci_find_blob(fix.store, &none, &has, &size, &err), 0,
		     "%s", err.msg);
	cr_expect_not(has);
}

Test(oci_registry_read, a_blob_is_found_where_only_get_is_allowed)
{
	expect_blobs_without_head("no_head=1");
	/* Once asked in vain. */
	cr_expect_eq(fixture_count(&fix, "HEAD", " 405 "), 1);
	expect_blobs_without_head("no_head=1&no_range=1");
	expect_blobs_without_head("no_head=2&redirect=1");
	expect_blobs_without_head("no_head=2&redirect=1&referer=1");
}

static void *read_some(void *arg)
{
	size_t seed = (size_t)(uintptr_t)arg;

	for (size_t i = 0; i < 20; i++)
		expect_range((seed * 7919 + i * 104729) % (BLOB_LEN - 5000),
			     5000);
	return NULL;
}

Test(oci_registry_read, many_threads_share_one_source)
{
	pthread_t threads[8];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, read_some,
					    (void *)(uintptr_t)i),
			     0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		(void)pthread_join(threads[i], NULL);
	cr_expect_eq(fixture_count(&fix, " 206 ", NULL), 160);
}

static int refuse(struct source_sink *sink, uint64_t pos, const void *data,
		  size_t len, struct error *err)
{
	return error_set(err, EIO, "the disk of the reader is full");
}

Test(oci_registry_read, what_the_reader_refuses_is_not_asked_for_again)
{
	struct source_req req = { .off = 0, .len = 10 };
	struct source_sink sink = { .put = refuse };
	struct error err = ERROR_INIT;

	cr_expect_eq(source_read(src, &req, &sink, &err), -EIO);
	cr_expect_eq(fixture_count(&fix, "GET", NULL), 1);
}

Test(oci_registry_read, missing_things_are_missing_at_once)
{
	struct error err = ERROR_INIT;
	struct oci_manifest m;
	struct digest other;
	bool have = true;

	cr_assert_eq(digest_of("x", 1, &other), 0);
	cr_expect_eq(oci_has_blob(fix.store, &other, &have, &err), 0);
	cr_expect_not(have);
	cr_expect_eq(oci_has_blob(fix.store, &blob, &have, &err), 0);
	cr_expect(have);
	cr_expect_eq(oci_get_manifest(fix.store, "nope", &m, &err), -ENOENT);
	cr_expect(strstr(err.msg, "nope") &&
			  strstr(err.msg, "MANIFEST_UNKNOWN"),
		  "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, " 404 ", NULL), 2);
}

Test(oci_registry_read, plain_http_must_be_asked_for)
{
	struct error err = ERROR_INIT;
	struct oci_manifest m;

	fix.cfg.plain_http = false;
	fixture_reopen(&fix);
	cr_expect_eq(oci_get_manifest(fix.store, "v1", &m, &err), -EPROTO);
	cr_expect(strstr(err.msg, "--plain-http"), "%s", err.msg);
}

/* ------------------------------------------------------ what is remembered --- */

static int ask_manifest(struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	int rc = oci_get_manifest(fix.store, "v1", &m, err);

	oci_manifest_fini(&m);
	return rc;
}

/* A port that takes no connection: its queue is full, and nobody empties it. */
struct full_port {
	int fds[4];
	unsigned int port;
};

static void full_port_open(struct full_port *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	f->fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(f->fds[0], (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(f->fds[0], 0), 0);
	cr_assert_eq(getsockname(f->fds[0], (struct sockaddr *)&a, &len), 0);
	f->port = ntohs(a.sin_port);
	for (size_t i = 1; i < ARRAY_SIZE(f->fds); i++) {
		f->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		cr_assert_geq(f->fds[i], 0);
		(void)connect(f->fds[i], (struct sockaddr *)&a, len);
	}
}

static void full_port_close(struct full_port *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->fds); i++)
		(void)close(f->fds[i]);
}

Test(oci_registry_read, a_host_out_of_reach_is_waited_for_once)
{
	struct error err = ERROR_INIT;
	char host[OCI_HOST_ROOM];
	struct full_port full;
	unsigned int port = fix.port;
	int64_t left;

	full_port_open(&full);
	fix.cfg.hosts = oci_hosts_new();
	fix.cfg.connect_timeout_ms = 600000; /* is not what ends it */
	fix.port = full.port;
	fixture_reopen(&fix);
	cr_expect_eq(ask_manifest(&err), -ETIMEDOUT, "%s", err.msg);
	cr_expect(strstr(err.msg, "no connection within"), "%s", err.msg);
	cr_expect(oci_hosts_get(fix.cfg.hosts, 0, clock_now_ns(), host, &left,
				&err));
	/* Another repository of it asks nothing. */
	fixture_reopen(&fix);
	cr_expect_eq(ask_manifest(&err), -ETIMEDOUT, "%s", err.msg);
	cr_expect(strstr(err.msg, "is away"), "%s", err.msg);
	/* A host beside it does. */
	fix.port = port;
	fixture_reopen(&fix);
	cr_expect_eq(ask_manifest(&err), -ENOENT, "%s", err.msg);
	oci_store_free(steal_ptr(&fix.store));
	oci_hosts_free(fix.cfg.hosts);
	full_port_close(&full);
}

static void expect_wait_refused(const char *wish)
{
	struct error err = ERROR_INIT;

	fix.cfg.hosts = oci_hosts_new();
	fixture_reopen(&fix);
	open_source();
	fixture_fault(&fix, wish);
	cr_expect_eq(ask_manifest(&err), -EBUSY, "%s", err.msg);
	fixture_reopen(&fix);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(ask_manifest(&err), -EBUSY, "%s", err.msg);
	cr_expect(strstr(err.msg, "asked for no more requests"), "%s", err.msg);
	cr_expect_eq(fixture_count(&fix, "/manifests/", NULL), 1);
	/* Blobs of mounted images are read all the same. */
	expect_range(0, 100);
	oci_hosts_forget(fix.cfg.hosts);
	fixture_fault(&fix, "status=0");
	cr_expect_eq(ask_manifest(&err), -ENOENT, "%s", err.msg);
	source_free(steal_ptr(&src));
	oci_store_free(steal_ptr(&fix.store));
	oci_hosts_free(fix.cfg.hosts);
}

Test(oci_registry_read, a_wait_that_cannot_be_kept_is_not_begun)
{
	expect_wait_refused("status=429&retry_after=21600&match=/manifests/");
}

Test(oci_registry_read, nor_is_one_until_a_date)
{
	expect_wait_refused("status=429&retry_after=-21600&match=/manifests/");
}
