// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "net/http.h"
#include "p2p/p2p.h"
#include "p2p/tracker/tracker_client.h"

TestSuite(tracker_client, .timeout = 120);

/* A server that gives every request the same answer; "" closes instead. */
struct fake {
	_Atomic(const char *) answer;
	int fd;
	char url[64];
	atomic_uint asked;
	pthread_t thread;
	pthread_mutex_t lock; /* of what is after it */
	char request[4096];   /* the last */
};

/* Until the request is whole: our client sends its body at once. */
static void answer_one(struct fake *f, int fd)
{
	const char *text = atomic_load(&f->answer);
	size_t n = 0;
	ssize_t got;

	pthread_mutex_lock(&f->lock);
	do {
		got = read(fd, f->request + n, sizeof(f->request) - 1 - n);
		n += got > 0 ? (size_t)got : 0;
		f->request[n] = '\0';
	} while (got > 0 && !strstr(f->request, "}") &&
		 strncmp(f->request, "GET", 3) != 0);
	pthread_mutex_unlock(&f->lock);
	atomic_fetch_add(&f->asked, 1);
	cr_expect_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static bool was_asked(struct fake *f, const char *text)
{
	bool found;

	pthread_mutex_lock(&f->lock);
	found = strstr(f->request, text);
	pthread_mutex_unlock(&f->lock);
	return found;
}

static void *serve(void *arg)
{
	struct fake *f = arg;
	int fd;

	while ((fd = accept(f->fd, NULL, NULL)) >= 0) {
		answer_one(f, fd);
		close(fd);
	}
	return NULL;
}

static void fake_listen(struct fake *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(f->fd, 0);
	cr_assert_eq(bind(f->fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(f->fd, 16), 0);
	cr_assert_eq(getsockname(f->fd, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u",
		       ntohs(a.sin_port));
}

static void fake_start(struct fake *f, const char *answer)
{
	atomic_store(&f->answer, answer);
	(void)pthread_mutex_init(&f->lock, NULL);
	fake_listen(f);
	cr_assert_eq(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void fake_stop(struct fake *f)
{
	(void)shutdown(f->fd, SHUT_RDWR);
	(void)pthread_join(f->thread, NULL);
	close(f->fd);
}

#define ANSWER(status, body) \
	"HTTP/1.1 " status "\r\nConnection: close\r\n" \
	"Content-Type: application/json\r\n\r\n" body

static const char good[] =
	ANSWER("200 OK", "{\"epoch\":7,\"swarm\":3,\"interval_ms\":2000,"
			 "\"ttl_ms\":1000,\"retry_ms\":50,\"granted\":[5]}");

static struct tracker_answer answer;

static struct tracker_call example(void)
{
	struct tracker_call c = { .node = "n1",
				  .addr = "127.0.0.1:1",
				  .rack = "",
				  .zone = "",
				  .region = "",
				  .n_pieces = 10 };

	memset(c.image.b, 3, sizeof(c.image.b));
	return c;
}

static struct tracker_client *client(char *const *urls)
{
	const struct tracker_client_config cfg = { .urls = urls };
	struct error err = ERROR_INIT;
	struct tracker_client *c;

	cr_assert_eq(tracker_client_new(&cfg, &c, &err), 0, "%s", err.msg);
	return c;
}

/* One tracker, and who asks it. */
struct one {
	struct fake f;
	struct tracker_client *c;
};

static void one_start(struct one *o, const char *says)
{
	char *urls[] = { o->f.url, NULL };

	fake_start(&o->f, says);
	o->c = client(urls);
}

static void one_stop(struct one *o)
{
	tracker_client_free(o->c);
	fake_stop(&o->f);
}

/* Two, of which the one that is responsible for `image` answers as `says`; the
 * other one is good. */
struct two {
	struct fake f[2];
	struct fake *first, *second;
	struct tracker_client *c;
};

static void two_start(struct two *t, const struct digest *image,
		      const char *says)
{
	char *urls[] = { t->f[0].url, t->f[1].url, NULL };
	size_t first[2];

	fake_start(&t->f[0], good);
	fake_start(&t->f[1], good);
	cr_assert_eq(rendezvous(image, (const char *const *)urls, 2, first,
				NULL),
		     0);
	t->first = &t->f[first[0]];
	t->second = &t->f[first[1]];
	t->first->answer = says;
	t->c = client(urls);
}

static void two_stop(struct two *t)
{
	tracker_client_free(t->c);
	fake_stop(&t->f[0]);
	fake_stop(&t->f[1]);
}

Test(tracker_client, asks_the_next_when_one_fails_and_leaves_it_alone)
{
	struct tracker_call call = example();
	struct tracker_client_stats stats;
	struct error err = ERROR_INIT;
	struct two t = { .c = NULL };

	two_start(&t, &call.image, ANSWER("503 No", "{}"));
	cr_assert_eq(tracker_client_call(t.c, &call, &answer, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(answer.epoch, 7);
	cr_expect_eq(answer.n_granted, 1);
	cr_expect_eq(atomic_load(&t.first->asked), 1);
	cr_expect_eq(atomic_load(&t.second->asked), 1);
	tracker_client_get_stats(t.c, &stats);
	cr_expect_eq(stats.failures_total, 1);
	cr_expect_eq(stats.trackers, 2);
	/* When it failed three times it is left alone for a second, which is
	 * long enough to see it. */
	for (unsigned int k = 0; k < 1000 && stats.failures_total < 3; k++) {
		cr_assert_eq(tracker_client_call(t.c, &call, &answer, &err), 0);
		tracker_client_get_stats(t.c, &stats);
	}
	cr_expect_lt(atomic_load(&t.first->asked),
		     atomic_load(&t.second->asked));
	two_stop(&t);
}

Test(tracker_client, one_that_never_answers_leaves_time_for_the_next)
{
	struct tracker_call call = example();
	struct fake silent = { .fd = -1 }, f = { .fd = -1 };
	char *urls[] = { silent.url, f.url, NULL };
	struct error err = ERROR_INIT;
	struct tracker_client *c;
	size_t first[2];

	/* Nobody accepts there; the kernel connects it all the same. */
	fake_listen(&silent);
	fake_start(&f, good);
	do {
		call.image.b[0]++;
		cr_assert_eq(rendezvous(&call.image, (const char *const *)urls,
					2, first, NULL),
			     0);
	} while (first[0] != 0);
	c = client(urls);
	cr_expect_eq(tracker_client_call(c, &call, &answer, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(answer.epoch, 7);
	tracker_client_free(c);
	fake_stop(&f);
	close(silent.fd);
}

Test(tracker_client, fails_within_its_deadline_when_nobody_answers)
{
	/* Ports of closed sockets. */
	char *urls[] = { (char[]){ "http://127.0.0.1:9" },
			 (char[]){ "http://127.0.0.1:10/" }, NULL };
	struct tracker_call call = example();
	struct tracker_client *c = client(urls);
	struct tracker_client_stats stats;
	struct error err = ERROR_INIT;

	cr_expect_eq(tracker_client_call(c, &call, &answer, &err),
		     -ECONNREFUSED);
	/* Both are left alone: no time is lost on them, and it is no failure. */
	cr_expect_eq(tracker_client_call(c, &call, &answer, &err), -EAGAIN);
	tracker_client_get_stats(c, &stats);
	cr_expect_eq(stats.calls_total, 1);
	cr_expect_eq(stats.failures_total, 2);
	tracker_client_free(c);
}

Test(tracker_client, a_refusal_is_final_and_says_why)
{
	struct tracker_call call = example();
	struct one o = { .c = NULL };
	struct error err = ERROR_INIT;
	struct tracker_client_stats stats;

	one_start(&o, ANSWER("403 No", "{\"error\":{\"code\":\"forbidden\","
				       "\"message\":\"token 'x'\"}}"));
	cr_expect_eq(tracker_client_call(o.c, &call, &answer, &err), -EACCES);
	cr_expect(strstr(err.msg, "token 'x'"), "%s", err.msg);
	o.f.answer = ANSWER("200 OK", "[]");
	cr_expect_eq(tracker_client_call(o.c, &call, &answer, &err), -EPROTO);
	/* That is no tracker: it is left alone for a while. */
	cr_expect(strstr(err.msg, "--p2p-tracker"), "%s", err.msg);
	tracker_client_get_stats(o.c, &stats);
	cr_expect_eq(stats.down, 1);
	cr_expect_eq(stats.refusing, 1);
	one_stop(&o);
}

static enum pace_level stop(struct pace *p)
{
	return PACE_STOP;
}

Test(tracker_client, a_probe_tells_of_one_tracker_and_changes_nothing)
{
	struct tracker_call call = example();
	struct one o = { .c = NULL };
	struct error err = ERROR_INIT;
	struct tracker_client_stats stats;
	struct tracker_place place[TRACKER_URLS_MAX];
	struct pace pace = { .level = stop };

	one_start(&o, good);
	cr_expect_eq(tracker_client_probe(o.c, 0, "n1", &pace, &err),
		     -ECANCELED);
	(void)tracker_client_places(o.c, place);
	cr_expect_eq(place[0].state, TRACKER_NEW);
	cr_assert_eq(tracker_client_probe(o.c, 0, "n1", NULL, &err), 0, "%s",
		     err.msg);
	cr_expect(was_asked(&o.f, "\"leaving\":true"));
	cr_expect(was_asked(&o.f, "\"node\":\"n1\""));
	(void)tracker_client_places(o.c, place);
	cr_expect_eq(place[0].state, TRACKER_GOOD);
	o.f.answer = ANSWER("401 No", "{}");
	cr_expect_eq(tracker_client_probe(o.c, 0, "n1", NULL, &err), -EACCES);
	cr_expect(strstr(err.msg, "--service-token-file"), "%s", err.msg);
	(void)tracker_client_places(o.c, place);
	cr_expect_eq(place[0].state, TRACKER_REFUSES);
	o.f.answer = ANSWER("200 OK", "<html>");
	cr_expect_eq(tracker_client_probe(o.c, 0, "n1", NULL, &err), -EPROTO);
	o.f.answer = ANSWER("503 No", "{}");
	cr_expect_eq(tracker_client_probe(o.c, 0, "n1", NULL, &err),
		     -ECONNREFUSED);
	/* Who needs it need not wait for that. */
	tracker_client_get_stats(o.c, &stats);
	cr_expect_eq(stats.down, 0);
	o.f.answer = good;
	cr_expect_eq(tracker_client_call(o.c, &call, &answer, &err), 0);
	one_stop(&o);
}

static const char full[] =
	ANSWER("429 No", "{\"error\":{\"code\":\"too_many\","
			 "\"message\":\"no memory is left\"}}");

Test(tracker_client, one_without_room_for_an_image_is_there_for_others)
{
	struct tracker_call call = example(), other = example();
	struct tracker_client_stats stats;
	struct error err = ERROR_INIT;
	struct one o = { .c = NULL };

	one_start(&o, full);
	other.image.b[0]++;
	cr_expect_eq(tracker_client_call(o.c, &call, &answer, &err), -EBUSY);
	cr_expect(strstr(err.msg, "no memory is left"), "%s", err.msg);
	tracker_client_get_stats(o.c, &stats);
	cr_expect_eq(stats.failures_total, 0);
	cr_expect_eq(stats.down, 0);
	cr_expect_eq(stats.good, 1);
	o.f.answer = good;
	cr_expect_eq(tracker_client_call(o.c, &other, &answer, &err), 0);
	cr_expect_eq(atomic_load(&o.f.asked), 2);
	one_stop(&o);
}

Test(tracker_client, of_one_without_room_the_next_is_asked)
{
	struct tracker_call call = example();
	struct error err = ERROR_INIT;
	struct two t = { .c = NULL };

	two_start(&t, &call.image, full);
	cr_expect_eq(tracker_client_call(t.c, &call, &answer, &err), 0);
	cr_expect_eq(answer.epoch, 7);
	/* That this one fails does not mean that none is there. */
	t.second->answer = ANSWER("500 No", "{}");
	cr_expect_eq(tracker_client_call(t.c, &call, &answer, &err), -EBUSY);
	cr_expect_eq(tracker_client_call(t.c, &call, &answer, &err), -EBUSY);
	two_stop(&t);
}

Test(tracker_client, another_one_may_know_a_token_that_one_does_not)
{
	struct tracker_call call = example();
	struct tracker_client_stats stats;
	struct error err = ERROR_INIT;
	struct two t = { .c = NULL };

	two_start(&t, &call.image, ANSWER("401 No", "{}"));
	cr_assert_eq(tracker_client_call(t.c, &call, &answer, &err), 0, "%s",
		     err.msg);
	tracker_client_get_stats(t.c, &stats);
	cr_expect_eq(stats.good, 1);
	cr_expect_eq(stats.refusing, 1);
	two_stop(&t);
}

Test(tracker_client, a_registry_that_does_not_answer_is_no_lost_tracker)
{
	struct tracker_capability cap;
	struct digest image = example().image;
	struct tracker_client_stats stats;
	struct error err = ERROR_INIT;
	struct one o = { .c = NULL };

	one_start(&o, ANSWER("503 No", "{\"error\":{\"message\":"
				       "\"registry: away\"}}"));
	for (unsigned int k = 0; k < 3; k++)
		cr_expect_eq(tracker_client_capability(o.c, &image, "h/app",
						       "n1", "Basic x", &cap,
						       &err),
			     -EBUSY);
	cr_expect(strstr(err.msg, "503: registry: away"), "%s", err.msg);
	tracker_client_get_stats(o.c, &stats);
	cr_expect_eq(stats.lost, 0);
	cr_expect_eq(stats.down, 0);
	one_stop(&o);
}

Test(tracker_client, brings_capabilities_and_keys)
{
	struct tracker_capability cap;
	struct one o = { .c = NULL };
	struct error err = ERROR_INIT;
	struct digest image = example().image;

	one_start(&o, ANSWER("200 OK", "{\"capability\":\"QlNDUA==\","
				       "\"not_after\":99}"));
	cr_assert_eq(tracker_client_capability(o.c, &image, "h/app", "n1",
					       "Basic \"x\"", &cap, &err),
		     0, "%s", err.msg);
	cr_expect_eq(cap.len, 4);
	cr_expect_arr_eq(cap.data, "BSCP", 4);
	cr_expect_eq(cap.not_after, 99);
	cr_expect(was_asked(&o.f, "POST /v1/capabilities "));
	cr_expect(was_asked(&o.f, "Basic \\\"x\\\""));

	o.f.answer = ANSWER("501 No", "{}");
	cr_expect_eq(tracker_client_capability(o.c, &image, "h/app", "n1", NULL,
					       &cap, &err),
		     -EOPNOTSUPP);
	one_stop(&o);
}

Test(tracker_client, brings_what_was_revoked_when_it_is_new)
{
	static const char list[] =
		"HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"abc\"\r\n\r\n"
		"{\"revoked\":[{\"image\":\"\",\"node\":\"n1\"}]}";
	char etag[TRACKER_ETAG_MAX] = "";
	struct digest image = example().image;
	struct error err = ERROR_INIT;
	struct one o = { .c = NULL };
	struct revoked *r = NULL;

	one_start(&o, list);
	cr_assert_eq(tracker_client_revoked(o.c, etag, &r, &err), 0, "%s",
		     err.msg);
	cr_expect(was_asked(&o.f, "GET /v1/capability-keys "));
	cr_expect_not(was_asked(&o.f, "If-None-Match"));
	cr_assert(r);
	cr_expect(revoked_has(r, &image, "n1"));
	revoked_free(r);
	cr_expect_str_eq(etag, "\"abc\"");
	o.f.answer = "HTTP/1.1 304 Same\r\nConnection: close\r\n\r\n";
	cr_assert_eq(tracker_client_revoked(o.c, etag, &r, &err), 0, "%s",
		     err.msg);
	cr_expect(was_asked(&o.f, "If-None-Match: \"abc\""));
	cr_expect_null(r);
	o.f.answer = ANSWER("200 OK", "{}");
	cr_expect_eq(tracker_client_revoked(o.c, etag, &r, &err), -EPROTO);
	cr_expect_null(r);
	cr_expect_str_eq(etag, "\"abc\"");
	one_stop(&o);
}

Test(tracker_client, knows_which_trackers_may_be_told_secrets)
{
	static const char *const yes[] = {
		"https://a.example:1", "http://127.0.0.1:9730",
		"http://127.9.9.9/x", "http://[::1]:1", "http://localhost"
	};
	static const char *const no[] = {
		"http://10.0.0.1:9730",    "http://127.0.0.1.example:1",
		"http://127.0.0.1@evil:1", "http://localhost.example",
		"http://[::2]:1",          "HTTP://a.example",
		"a.example:9730",          "http://[::1",
	};

	for (size_t k = 0; k < ARRAY_SIZE(yes); k++)
		cr_expect(tracker_is_private(yes[k]), "%s", yes[k]);
	for (size_t k = 0; k < ARRAY_SIZE(no); k++)
		cr_expect(!tracker_is_private(no[k]), "%s", no[k]);
}

Test(tracker_client, tells_no_secret_in_the_clear)
{
	struct tracker_client_config cfg = { .token_file = "/dev/null" };
	struct tracker_capability cap;
	struct digest image = example().image;
	struct error err = ERROR_INIT;
	struct tracker_client *c = NULL;
	/* Nobody is asked there. */
	char *urls[] = { (char[]){ "http://192.0.2.1:9" }, NULL };

	cfg.urls = urls;
	cr_expect_eq(tracker_client_new(&cfg, &c, &err), -EINVAL);
	cr_expect(strstr(err.msg, "in the clear"), "%s", err.msg);
	cfg.token_file = NULL;
	cr_assert_eq(tracker_client_new(&cfg, &c, &err), 0, "%s", err.msg);
	cr_expect_eq(tracker_client_capability(c, &image, "h/app", "n1",
					       "Basic x", &cap, &err),
		     -EACCES);
	cr_expect(strstr(err.msg, "192.0.2.1"), "%s", err.msg);
	tracker_client_free(c);
}

Test(tracker_client, follows_nobody_to_another_place)
{
	struct tracker_capability cap;
	struct fake f = { .fd = -1 }, other = { .fd = -1 };
	char *urls[] = { f.url, NULL };
	struct digest image = example().image;
	struct error err = ERROR_INIT;
	struct tracker_client *c;
	char redirect[256];

	fake_start(&other, ANSWER("200 OK", "{\"capability\":\"QlNDUA==\","
					    "\"not_after\":99}"));
	(void)snprintf(redirect, sizeof(redirect),
		       "HTTP/1.1 307 There\r\nConnection: close\r\n"
		       "Location: %s/\r\nContent-Length: 0\r\n\r\n",
		       other.url);
	fake_start(&f, redirect);
	c = client(urls);
	cr_expect_eq(tracker_client_capability(c, &image, "h/app", "n1",
					       "Basic x", &cap, &err),
		     -ECONNREFUSED);
	cr_expect_eq(atomic_load(&f.asked), 1);
	cr_expect_eq(atomic_load(&other.asked), 0);
	tracker_client_free(c);
	fake_stop(&f);
	fake_stop(&other);
}

struct changes {
	atomic_uint lost, refuses, back;
	char why[ERROR_MSG_MAX]; /* the last one */
};

static void on_change(void *arg, const char *url, enum tracker_state state,
		      const char *why)
{
	struct changes *n = arg;

	cr_expect(strncmp(url, "http://127.0.0.1:", 17) == 0, "%s", url);
	cr_expect_eq(state != TRACKER_GOOD, *why != '\0');
	atomic_fetch_add(state == TRACKER_LOST      ? &n->lost
			 : state == TRACKER_REFUSES ? &n->refuses
						    : &n->back,
			 1);
	(void)snprintf(n->why, sizeof(n->why), "%s", why);
}

Test(tracker_client, a_tracker_that_is_lost_and_comes_back_is_told_once)
{
	struct tracker_call call = example();
	struct changes n = { .lost = 0 };
	struct fake f = { .fd = -1 };
	char *urls[] = { f.url, NULL };
	const struct tracker_client_config cfg = { .urls = urls,
						   .changed = on_change,
						   .arg = &n };
	int64_t end = clock_now_ns() + INT64_C(110000000000);
	struct tracker_client_stats stats = { .calls_total = 0 };
	struct tracker_client *c;

	fake_start(&f, good);
	cr_assert_eq(tracker_client_new(&cfg, &c, NULL), 0);
	cr_assert_eq(tracker_client_call(c, &call, &answer, NULL), 0);
	f.answer = ANSWER("503 No", "{}");
	while (stats.failures_total < 3 && clock_now_ns() < end) {
		(void)!tracker_client_call(c, &call, &answer, NULL);
		tracker_client_get_stats(c, &stats);
		cr_expect_eq(atomic_load(&n.lost), stats.failures_total > 1);
	}
	f.answer = good;
	while (tracker_client_call(c, &call, &answer, NULL) < 0)
		cr_assert_lt(clock_now_ns(), end);
	cr_assert_eq(tracker_client_call(c, &call, &answer, NULL), 0);
	cr_expect_eq(atomic_load(&n.lost), 1);
	cr_expect_eq(atomic_load(&n.back), 1);
	tracker_client_free(c);
	fake_stop(&f);
}

/* Each is told once, with its cure, however often it is met. */
Test(tracker_client, a_tracker_that_refuses_is_told_once_for_each_reason)
{
	static const struct {
		const char *answer, *cure;
	} cases[] = {
		{ ANSWER("401 No", "{}"), "--service-token-file" },
		{ ANSWER("403 No", "{}"), "read,write" },
		{ ANSWER("404 No", "<html>"), "it is no tracker" },
		{ ANSWER("200 OK", "<html>"), "it is no tracker" },
		{ "HTTP/1.1 301 There\r\nConnection: close\r\n"
		  "Location: http://127.0.0.1:9/\r\n\r\n",
		  "it leads elsewhere" },
	};
	struct tracker_call call = example();
	struct changes n = { .lost = 0 };
	struct fake f = { .fd = -1 };
	char *urls[] = { f.url, NULL };
	const struct tracker_client_config cfg = { .urls = urls,
						   .changed = on_change,
						   .arg = &n };
	struct tracker_place place[TRACKER_URLS_MAX];
	struct tracker_client *c;

	for (unsigned int k = 0; k < ARRAY_SIZE(cases); k++) {
		fake_start(&f, good);
		cr_assert_eq(tracker_client_new(&cfg, &c, NULL), 0);
		cr_expect_eq(tracker_client_places(c, place), 1);
		cr_expect_eq(place[0].state, TRACKER_NEW);
		cr_expect_eq(tracker_client_call(c, &call, &answer, NULL), 0);
		f.answer = cases[k].answer;
		for (unsigned int j = 0; j < 3; j++)
			cr_expect_lt(tracker_client_call(c, &call, &answer,
							 NULL),
				     0);
		cr_expect_eq(atomic_load(&n.refuses), k + 1);
		cr_expect(strstr(n.why, cases[k].cure), "%s", n.why);
		(void)tracker_client_places(c, place);
		cr_expect_eq(place[0].state, TRACKER_REFUSES);
		cr_expect_str_eq(place[0].why, n.why);
		tracker_client_free(c);
		fake_stop(&f);
	}
	cr_expect_eq(atomic_load(&n.lost), 0);
}

/* Another HTTP server, which does not know the method: a tracker says why it refuses. */
Test(tracker_client, who_refuses_without_a_reason_is_no_tracker)
{
	struct tracker_call call = example();
	struct fake f = { .fd = -1 };
	char *urls[] = { f.url, NULL };
	const struct tracker_client_config cfg = { .urls = urls };
	struct error err = ERROR_INIT;
	struct tracker_client *c;

	fake_start(&f, good);
	cr_assert_eq(tracker_client_new(&cfg, &c, NULL), 0);
	f.answer = ANSWER("501 No", "<html>");
	cr_assert_lt(tracker_client_call(c, &call, &answer, &err), 0);
	cr_expect(strstr(err.msg, "501: it is no tracker"), "%s", err.msg);
	f.answer =
		ANSWER("501 No", "{\"error\":{\"message\":\"not kept here\"}}");
	cr_assert_lt(tracker_client_call(c, &call, &answer, &err), 0);
	cr_expect_not(strstr(err.msg, "it is no tracker"), "%s", err.msg);
	tracker_client_free(c);
	fake_stop(&f);
}

Test(tracker_client, a_token_that_cannot_be_read_is_told)
{
	struct tracker_call call = example();
	struct changes n = { .lost = 0 };
	char *urls[] = { (char[]){ "http://127.0.0.1:9" }, NULL };
	const struct tracker_client_config cfg = { .urls = urls,
						   .token_file = "/dev/null/x",
						   .changed = on_change,
						   .arg = &n };
	struct tracker_client *c;

	cr_assert_eq(tracker_client_new(&cfg, &c, NULL), 0);
	for (unsigned int k = 0; k < 2; k++)
		cr_expect_eq(tracker_client_call(c, &call, &answer, NULL),
			     -EACCES);
	cr_expect_eq(atomic_load(&n.refuses), 1);
	cr_expect(strstr(n.why, "--service-token-file"), "%s", n.why);
	tracker_client_free(c);
}

Test(tracker_client, one_that_never_answered_is_told_at_once)
{
	struct tracker_call call = example();
	struct changes n = { .lost = 0 };
	char *urls[] = { (char[]){ "http://127.0.0.1:9" }, NULL };
	const struct tracker_client_config cfg = { .urls = urls,
						   .changed = on_change,
						   .arg = &n };
	struct tracker_client *c;

	cr_assert_eq(tracker_client_new(&cfg, &c, NULL), 0);
	cr_expect_eq(tracker_client_call(c, &call, &answer, NULL),
		     -ECONNREFUSED);
	cr_expect_eq(atomic_load(&n.lost), 1);
	tracker_client_free(c);
}
