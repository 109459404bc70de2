// SPDX-License-Identifier: Apache-2.0
/* The client of the trace service, against a server that says one thing. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fs.h"
#include "recorder/recorder.h"
#include "tests/unit/recorder/make.h"

TestSuite(store_service, .timeout = 120);

#define REPLY_JSON(status, text) \
	"HTTP/1.1 " status "\r\nContent-Type: application/json\r\n" \
	"Connection: close\r\n\r\n" text

/* Takes one connection, keeps the request, sends the reply, closes. */
struct server {
	int fd;
	unsigned int port;
	pthread_t thread;
	struct buf request, reply;
	bool mute; /* no reply: wait until the client goes away */
};

static bool is_complete(const struct buf *b)
{
	const char *end = b->data ? strstr(b->data, "\r\n\r\n") : NULL;
	const char *len =
		b->data ? strcasestr(b->data, "content-length:") : NULL;
	size_t body = len && len < end ? strtoul(len + 15, NULL, 10) : 0;

	return end && b->len - (size_t)(end + 4 - b->data) >= body;
}

static void *serve(void *arg)
{
	struct server *s = arg;
	AUTO_CLOSE int c = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
	char chunk[4096];
	ssize_t n = 1;

	while (n > 0 && (s->mute || !is_complete(&s->request))) {
		n = read(c, chunk, sizeof(chunk));
		if (n > 0)
			cr_assert_eq(buf_append(&s->request, chunk, (size_t)n),
				     0);
	}
	if (!s->mute)
		(void)!fs_write_full(c, s->reply.data, s->reply.len);
	(void)shutdown(c, SHUT_WR);
	return NULL;
}

static void listen_on(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	(void)setenv("no_proxy", "*", 1);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(s->fd >= 0);
	cr_assert_eq(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(s->fd, 4), 0);
	cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
}

static void server_start(struct server *s, const void *reply, size_t len)
{
	*s = (struct server){ .mute = len == 0 };
	cr_assert_eq(buf_append(&s->reply, reply, len), 0);
	listen_on(s);
	cr_assert_eq(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
	cr_assert_eq(pthread_join(s->thread, NULL), 0);
	(void)close(s->fd);
	buf_fini(&s->request);
	buf_fini(&s->reply);
}

static struct trace_store *client(const struct server *s,
				  const char *token_file, uint32_t timeout_ms)
{
	char url[64];
	const struct trace_service_config cfg = {
		.url = url,
		.token_file = token_file,
		.node = "node-1",
		.timeout_ms = timeout_ms,
	};
	struct error err = ERROR_INIT;
	struct trace_store *ret;

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", s->port);
	cr_assert_eq(trace_service_new(&cfg, &ret, &err), 0, "%s", err.msg);
	return ret;
}

static struct trace_query query(void)
{
	struct trace_info i = make_info();

	return (struct trace_query){ .image = i.image,
				     .repo = "h:5/a/b",
				     .workload = "test-1" };
}

/* A reply that carries `t`. */
static void trace_reply(const char *headers, const struct trace *t,
			struct buf *ret)
{
	AUTO_BUF body = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_encode(t, &body, &err), 0, "%s", err.msg);
	cr_assert_eq(buf_printf(ret,
				"HTTP/1.1 200 OK\r\nContent-Type: "
				"" TRACE_MEDIA_TYPE "\r\nContent-Length: %zu"
				"\r\n%s\r\n",
				body.len, headers),
		     0);
	cr_assert_eq(buf_append(ret, body.data, body.len), 0);
}

/* Ask a server that answers so; `saw` gets the request. */
static int get(const void *reply, size_t len, struct trace_found *ret,
	       struct error *err, struct buf *saw)
{
	struct trace_query q = query();
	struct trace_store *s;
	struct server server;
	int rc;

	server_start(&server, reply, len);
	s = client(&server, NULL, 10000);
	rc = trace_store_get(s, &q, ret, err);
	trace_store_free(s);
	if (saw)
		cr_assert_eq(buf_append(saw, server.request.data,
					server.request.len),
			     0);
	server_stop(&server);
	return rc;
}

Test(store_service, a_trace_is_asked_for_and_read)
{
	AUTO(trace) t = make_trace(1, 50);
	AUTO_BUF reply = BUF_INIT;
	AUTO_BUF saw = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_found found;

	trace_reply("Bootseer-Match: own\r\nBootseer-Wanted: 1\r\n", t, &reply);
	cr_assert_eq(get(reply.data, reply.len, &found, &err, &saw), 0, "%s",
		     err.msg);
	expect_same(t, found.trace);
	trace_free(found.trace);
	cr_expect_eq(found.match, TRACE_MATCH_OWN);
	cr_expect(found.wanted);
	cr_expect(strstr(saw.data,
			 "GET /v1/traces/sha256:111111111111111111111111111111"
			 "1111111111111111111111111111111111"
			 "?workload=test-1&repo=h%3A5%2Fa%2Fb HTTP/1.1"),
		  "%s", saw.data);
	cr_expect(strstr(saw.data, "Accept: " TRACE_MEDIA_TYPE "\r\n"));
}

Test(store_service, a_relative_is_told_apart)
{
	AUTO(trace) t = make_trace(1, 50);
	AUTO_BUF reply = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_found found;

	t->info.image.b[0] ^= 1;
	trace_reply("Bootseer-Match: relative\r\n", t, &reply);
	cr_assert_eq(get(reply.data, reply.len, &found, &err, NULL), 0, "%s",
		     err.msg);
	cr_expect_eq(found.match, TRACE_MATCH_RELATIVE);
	cr_expect_not(found.wanted);
	trace_free(found.trace);
}

Test(store_service, a_prediction_is_read_by_who_asked_for_one)
{
	struct trace_query q = query();
	AUTO(trace) t = make_trace(1, 50);
	const struct trace_donor donor = { t, 0, true };
	AUTO(trace) predicted = NULL;
	struct error err = ERROR_INIT;
	struct trace_found found;
	AUTO_BUF body = BUF_INIT;
	AUTO_BUF reply = BUF_INIT;
	struct trace_store *s;
	struct server server;

	cr_assert_eq(trace_predict(&donor, 1, 3, &predicted, &err), 0);
	cr_assert_eq(prediction_encode(predicted, &body, &err), 0);
	cr_assert_eq(buf_printf(&reply,
				"HTTP/1.1 200 OK\r\nBootseer-Match: predicted"
				"\r\nContent-Length: %zu\r\n\r\n",
				body.len),
		     0);
	cr_assert_eq(buf_append(&reply, body.data, body.len), 0);
	cr_expect_eq(get(reply.data, reply.len, &found, &err, NULL), -EBADMSG);
	q.predict = true;
	server_start(&server, reply.data, reply.len);
	s = client(&server, NULL, 10000);
	cr_assert_eq(trace_store_get(s, &q, &found, &err), 0, "%s", err.msg);
	cr_expect(strstr(server.request.data, "Bootseer-Predict: 1\r\n"));
	cr_expect_eq(found.match, TRACE_MATCH_PREDICTED);
	expect_same(predicted, found.trace);
	cr_expect_not_null(found.trace->readers);
	trace_free(found.trace);
	trace_store_free(s);
	server_stop(&server);
}

Test(store_service, answers_that_lie_or_make_no_sense_are_refused)
{
	AUTO(trace) t = make_trace(1, 50);
	AUTO_BUF foreign = BUF_INIT;
	AUTO_BUF no_match = BUF_INIT;
	AUTO_BUF damaged = BUF_INIT;
	struct trace_found found;
	struct error err = ERROR_INIT;

	trace_reply("", t, &no_match);
	trace_reply("Bootseer-Match: own\r\n", t, &damaged);
	damaged.data[damaged.len - 3] ^= 4;
	t->info.image.b[0] ^= 1;
	trace_reply("Bootseer-Match: own\r\n", t, &foreign);
	cr_expect_eq(get(no_match.data, no_match.len, &found, &err, NULL),
		     -EBADMSG);
	cr_expect(strstr(err.msg, "Bootseer-Match"), "%s", err.msg);
	cr_expect_eq(get(damaged.data, damaged.len, &found, &err, NULL),
		     -EBADMSG);
	cr_expect_eq(get(foreign.data, foreign.len, &found, &err, NULL),
		     -EBADMSG);
}

Test(store_service, refusals_name_the_address_the_reason_and_the_cure)
{
	static const struct {
		const char *reply;
		int rc;
		const char *says;
	} cases[] = {
		{ REPLY_JSON("404 Not Found",
			     "{\"error\":{\"code\":\"no_trace\",\"message\":"
			     "\"there is none\"}}"),
		  -ENOENT, "there is none" },
		{ REPLY_JSON("401 Unauthorized",
			     "{\"error\":{\"code\":\"unauthorized\","
			     "\"message\":\"no token\"}}"),
		  -EACCES, "--token-file" },
		{ REPLY_JSON("403 Forbidden", ""), -EACCES, "not allow" },
		{ REPLY_JSON("503 Unavailable", "<html>\x1b[2J"), -EBUSY,
		  "503" },
		{ REPLY_JSON("429 Too Many\r\nRetry-After: 7",
			     "{\"error\":{\"message\":\"a\\u001bb\"}}"),
		  -EBUSY, "a?b; try again later (after 7 s)" },
		{ REPLY_JSON("503 Unavailable\r\n"
			     "Date: Sun, 29 Nov 2026 12:00:00 GMT\r\n"
			     "Retry-After: Sun, 29 Nov 2026 12:01:05 GMT",
			     ""),
		  -EBUSY, "try again later (after 65 s)" },
		{ REPLY_JSON("500 Oh", "[1,2"), -EIO, "500" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct trace_found found;

		cr_expect_eq(get(cases[i].reply, strlen(cases[i].reply), &found,
				 &err, NULL),
			     cases[i].rc, "case %zu: %s", i, err.msg);
		cr_expect(strstr(err.msg, cases[i].says), "case %zu: %s", i,
			  err.msg);
		cr_expect(strstr(err.msg, "http://127.0.0.1:"), "case %zu: %s",
			  i, err.msg);
	}
}

Test(store_service, a_service_that_is_not_there_is_named)
{
	struct trace_query q = query();
	struct server server = { .mute = true };
	struct error err = ERROR_INIT;
	struct trace_found found;
	AUTO(trace_store) s = NULL;

	listen_on(&server);
	(void)close(server.fd); /* now nobody listens there */
	s = client(&server, NULL, 10000);
	cr_expect_eq(trace_store_get(s, &q, &found, &err), -ECONNREFUSED);
	cr_expect(strstr(err.msg, "http://127.0.0.1:"), "%s", err.msg);
	cr_expect(strstr(err.msg, "trace service: GET http:"), "%s", err.msg);
}

Test(store_service, a_service_that_says_nothing_ends_with_the_deadline)
{
	struct trace_query q = query();
	struct error err = ERROR_INIT;
	struct trace_found found;
	struct trace_store *s;
	struct server server;

	server_start(&server, "", 0);
	s = client(&server, NULL, 200);
	cr_expect_eq(trace_store_get(s, &q, &found, &err), -ETIMEDOUT, "%s",
		     err.msg);
	trace_store_free(s);
	server_stop(&server);
}

Test(store_service, a_recording_is_sent_with_node_and_token)
{
	static const char reply[] =
		REPLY_JSON("202 Accepted", "{\"status\":\"stored\"}");
	char token[] = "/tmp/bootseer-token.XXXXXX";
	AUTO_CLOSE int fd = mkostemp(token, O_CLOEXEC);
	AUTO(trace) t = make_trace(1, 50);
	AUTO_BUF body = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_store *s;
	struct server server;
	const char *sent;

	cr_assert_eq(fs_write_full(fd, "first\n", 6), 0);
	server_start(&server, reply, strlen(reply));
	s = client(&server, token, 10000);
	/* The token is read when it is needed. */
	cr_assert_eq(pwrite(fd, "other\n", 6, 0), 6);
	/* Whatever it says, it is one vote. */
	t->info.runs = 7;
	cr_expect_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
	trace_store_free(s);
	t->info.runs = 1;
	cr_assert_eq(trace_encode(t, &body, &err), 0);
	cr_expect(strncmp(server.request.data, "POST /v1/traces/sha256:1111",
			  27) == 0);
	cr_expect(strstr(server.request.data,
			 "?workload=test-1&repo=registry.example%3A5000%2Fteam"
			 "%2Fapp HTTP/1.1"),
		  "%s", server.request.data);
	cr_expect(strstr(server.request.data, "Bootseer-Node: node-1\r\n"));
	cr_expect(
		strstr(server.request.data, "Authorization: Bearer other\r\n"));
	sent = strstr(server.request.data, "\r\n\r\n") + 4;
	cr_assert_eq(server.request.len - (size_t)(sent - server.request.data),
		     body.len);
	cr_expect_eq(memcmp(sent, body.data, body.len), 0);
	server_stop(&server);
	(void)unlink(token);
}

Test(store_service, a_token_that_cannot_be_read_is_named)
{
	struct server nobody = { .port = 1 };
	AUTO(trace_store) s = client(&nobody, "/nonexistent/token", 1000);
	struct trace_query q = query();
	struct error err = ERROR_INIT;
	struct trace_found found;

	cr_expect_eq(trace_store_get(s, &q, &found, &err), -ENOENT);
	cr_expect(strstr(err.msg, "/nonexistent/token"), "%s", err.msg);
}

static int list(const char *reply, struct trace_info **ret, size_t *ret_n,
		struct error *err)
{
	struct trace_query q = query();
	struct trace_store *s;
	struct server server;
	int rc;

	q.workload = NULL;
	server_start(&server, reply, strlen(reply));
	s = client(&server, NULL, 10000);
	rc = trace_store_list(s, &q, ret, ret_n, err);
	cr_expect(strstr(server.request.data, "?limit=1000 HTTP"), "%s",
		  server.request.data);
	trace_store_free(s);
	server_stop(&server);
	return rc;
}

#define IMAGE_JSON \
	"\"image\":\"sha256:1111111111111111111111111111111111111111111111111" \
	"111111111111111\""

Test(store_service, a_list_is_read)
{
	struct trace_info *infos;
	struct error err = ERROR_INIT;
	size_t n;

	cr_assert_eq(list(REPLY_JSON("200 OK",
				     "{\"traces\":[{" IMAGE_JSON
				     ",\"repo\":\"h/a\",\"workload\":\"w\","
				     "\"runs\":4,\"entries\":5,\"bytes\":6,"
				     "\"created_at\":100,\"window_ms\":120000,"
				     "\"ready_ms\":8230,\"truncated\":true,"
				     "\"wanted\":true}]}"),
			  &infos, &n, &err),
		     0, "%s", err.msg);
	cr_assert_eq(n, 1);
	cr_expect_str_eq(infos[0].repo, "h/a");
	cr_expect_str_eq(infos[0].workload, "w");
	cr_expect_eq(infos[0].image.b[31], 0x11);
	cr_expect_eq(infos[0].runs, 4);
	cr_expect_eq(infos[0].created_at, 100);
	cr_expect_eq(infos[0].ready_ms, 8230);
	cr_expect(infos[0].truncated);
	trace_info_fini(&infos[0]);
	free(infos);
}

Test(store_service, a_list_that_is_none_is_refused)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"traces\":1}",
		"{\"traces\":[1]}",
		"{\"traces\":[{" IMAGE_JSON ",\"repo\":\"\"}]}",
		"{\"traces\":[{\"image\":\"sha256:1\",\"repo\":\"\","
		"\"workload\":\"w\",\"runs\":1,\"created_at\":1,"
		"\"window_ms\":1,\"ready_ms\":1,\"truncated\":false}]}",
		"{\"traces\":[{" IMAGE_JSON ",\"repo\":\"\","
		"\"workload\":\"w\",\"runs\":-1,\"created_at\":1,"
		"\"window_ms\":1,\"ready_ms\":1,\"truncated\":false}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_BUF reply = BUF_INIT;
		struct error err = ERROR_INIT;
		struct trace_info *infos;
		size_t n;

		cr_assert_eq(buf_printf(&reply, REPLY_JSON("200 OK", "%s"),
					bad[i]),
			     0);
		cr_expect_eq(list(reply.data, &infos, &n, &err), -EBADMSG, "%s",
			     bad[i]);
		cr_expect(strstr(err.msg, "http://127.0.0.1:"), "%s", err.msg);
	}
}

static int drop(const char *reply, struct error *err)
{
	struct trace_query q = query();
	struct trace_store *s;
	struct server server;
	int rc;

	server_start(&server, reply, strlen(reply));
	s = client(&server, NULL, 10000);
	rc = trace_store_remove(s, &q, err);
	cr_expect(strncmp(server.request.data, "DELETE /v1/traces/sha256:11",
			  27) == 0);
	cr_expect(strstr(server.request.data, "?workload=test-1 HTTP"));
	trace_store_free(s);
	server_stop(&server);
	return rc;
}

Test(store_service, removal_tells_whether_there_was_something)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(drop(REPLY_JSON("200 OK", "{\"removed\":2}"), &err), 0,
		     "%s", err.msg);
	cr_expect_eq(drop(REPLY_JSON("200 OK", "{\"removed\":0}"), &err),
		     -ENOENT);
}

Test(store_service, addresses_and_names_are_checked)
{
	static const char *const urls[] = { "",           "host:80",
					    "ftp://x",    "https://",
					    "http://u@h", "http://h/?x=1" };
	struct trace_service_config cfg = { .node = "n", .timeout_ms = 100 };
	struct trace_store *s;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		cfg.url = urls[i];
		cr_expect_eq(trace_service_new(&cfg, &s, &err), -EINVAL, "%s",
			     urls[i]);
	}
	cfg.url = "http://h";
	cfg.node = "a b";
	cr_expect_eq(trace_service_new(&cfg, &s, &err), -EINVAL);
	cfg.node = "";
	cr_expect_eq(trace_service_new(&cfg, &s, &err), -EINVAL);
}
