// SPDX-License-Identifier: Apache-2.0
/* Failures of requests name their cure: here with servers that misbehave. */
#include "net/http.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_priv.h"

TestSuite(http, .timeout = 120);

/* A server that says the same to everybody, and hangs up. */
struct server {
	int fd;
	unsigned int port;
	const void *text;
	size_t len;
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	char request[4096];
	int fd;

	while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
		if (read(fd, request, sizeof(request)) > 0)
			cr_assert_eq(write(fd, s->text, s->len),
				     (ssize_t)s->len);
		close(fd);
	}
	return NULL;
}

static void server_listen(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(s->fd, 0);
	cr_assert_eq(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(s->fd, 8), 0);
	cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
}

static void server_start(struct server *s, const void *text, size_t len)
{
	s->text = text;
	s->len = len;
	server_listen(s);
	cr_assert_eq(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
	(void)shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
}

static int get(const char *url, struct error *err)
{
	const struct http_config cfg = {
		.allow_plain = true,
		.connect_timeout_ms = 10000,
	};
	struct http_request req = { .method = "GET", .url = url };
	struct http_response r = HTTP_RESPONSE_INIT;
	AUTO(http) c = NULL;
	int rc;

	setenv("no_proxy", "*", 1);
	cr_assert_eq(http_new(&cfg, &c, err), 0);
	rc = http_do(c, &req, &r, err);
	http_response_fini(&r);
	return rc;
}

static int get_from(const struct server *s, const char *scheme,
		    struct error *err)
{
	char url[64];

	snprintf(url, sizeof(url), "%s://127.0.0.1:%u/", scheme, s->port);
	return get(url, err);
}

#define expect_cure(err, text) \
	cr_expect(strstr((err).msg, text), "'%s' is not in: %s", text, \
		  (err).msg)

Test(http, says_how_to_speak_to_a_server_without_tls)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct error err = ERROR_INIT;
	struct server s;

	server_start(&s, text, sizeof(text) - 1);
	cr_expect_eq(get_from(&s, "https", &err), -EPROTO);
	expect_cure(err, "it speaks no TLS: say --plain-http, or plain-http in "
			 "bootseerd.conf");
	server_stop(&s);
}

Test(http, says_that_a_server_may_want_tls)
{
	/* The alert "unexpected message", as OpenSSL sends it. */
	static const unsigned char alert[] = { 0x15, 3, 1, 0, 2, 2, 10 };
	struct error err = ERROR_INIT;
	struct server s;

	server_start(&s, alert, sizeof(alert));
	cr_expect_eq(get_from(&s, "http", &err), -EPROTO);
	expect_cure(err, "leave out --plain-http");
	server_stop(&s);
	server_start(&s, "", 0);
	cr_expect_eq(get_from(&s, "http", &err), -EIO);
	expect_cure(err, "leave out --plain-http");
	server_stop(&s);
}

Test(http, gives_no_such_advice_when_an_answer_breaks_off)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
	struct error err = ERROR_INIT;
	struct server s;

	server_start(&s, text, sizeof(text) - 1);
	cr_expect_eq(get_from(&s, "http", &err), -EIO);
	cr_expect_null(strstr(err.msg, "plain-http"), "%s", err.msg);
	server_stop(&s);
}

Test(http, takes_a_handshake_that_breaks_off_for_a_broken_connection)
{
	struct error err = ERROR_INIT;
	struct server s;

	server_start(&s, "", 0);
	cr_expect_eq(get_from(&s, "https", &err), -EIO);
	expect_cure(err, "if it speaks no TLS, ");
	server_stop(&s);
}

#define PAUSE_MS 40
/* The client of a busy machine may see the head of the answer late, by so much less. */
#define BODY_PAUSE_MS (20 * PAUSE_MS)

/* Waits before an answer, and in the middle of it, for a client that says no more. */
static void *serve_slowly(void *arg)
{
	static const char head[] =
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na";
	struct server *s = arg;
	char request[4096];
	int fd = accept(s->fd, NULL, NULL);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	while (n < 4 || memcmp(request + n - 4, "body", 4) != 0) {
		ssize_t got = read(fd, request + n, sizeof(request) - n);

		cr_assert_gt(got, 0);
		n += (size_t)got;
	}
	cr_assert_eq(poll(&p, 1, PAUSE_MS), 0);
	cr_assert_eq(write(fd, head, strlen(head)), (ssize_t)strlen(head));
	cr_assert_eq(poll(&p, 1, BODY_PAUSE_MS), 0);
	cr_assert_eq(write(fd, "b", 1), 1);
	close(fd);
	return NULL;
}

Test(http, tells_which_part_of_the_time_was_the_server_s)
{
	const struct http_config cfg = { .allow_plain = true,
					 .connect_timeout_ms = 10000 };
	char url[64];
	struct http_request req = {
		.method = "PUT", .url = url, .body = "body", .body_len = 4
	};
	struct http_response r = HTTP_RESPONSE_INIT;
	struct error err = ERROR_INIT;
	AUTO(http) c = NULL;
	struct server s;

	server_listen(&s);
	cr_assert_eq(pthread_create(&s.thread, NULL, serve_slowly, &s), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", s.port);
	setenv("no_proxy", "*", 1);
	cr_assert_eq(http_new(&cfg, &c, &err), 0);
	cr_assert_eq(http_do(c, &req, &r, &err), 0, "%s", err.msg);
	server_stop(&s);
	cr_expect_not(r.is_refused);
	cr_expect_geq(r.wait_ns, PAUSE_MS * 1000000LL);
	cr_expect_geq(r.took_ns, (PAUSE_MS + BODY_PAUSE_MS) * 1000000LL);
	cr_expect_geq(r.took_ns - r.wait_ns, PAUSE_MS * 1000000LL);
	http_response_fini(&r);
	/* Who is not there keeps nobody waiting. */
	req.url = "http://127.0.0.1:1/";
	cr_expect_eq(http_do(c, &req, &r, &err), -ECONNREFUSED);
	cr_expect(r.is_refused);
	cr_expect_eq(r.wait_ns, 0);
	cr_expect_gt(r.took_ns, 0);
	http_response_fini(&r);
}

Test(http, says_to_check_the_port_when_nothing_listens)
{
	struct error err = ERROR_INIT;
	struct server s;

	server_listen(&s);
	close(s.fd);
	cr_expect_eq(get_from(&s, "http", &err), -ECONNREFUSED);
	expect_cure(err, "check host, port and firewall");
}

Test(http, says_to_check_a_name_that_is_not_known)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(get("https://no-such-host.invalid/", &err), -ECONNREFUSED);
	expect_cure(err, "check the name");
}

/* Texts of libcurl 7.88 with OpenSSL 3. */
static const struct {
	CURLcode code;
	const char *why;
	int error;
	const char *cure;
} known[] = {
	{ CURLE_PEER_FAILED_VERIFICATION,
	  "SSL certificate problem: certificate has expired", EPROTO, "date" },
	{ CURLE_PEER_FAILED_VERIFICATION,
	  "SSL certificate problem: certificate is not yet valid", EPROTO,
	  "clock slow" },
	{ CURLE_PEER_FAILED_VERIFICATION,
	  "SSL certificate problem: unable to get local issuer certificate",
	  EPROTO, "--ca-file, or ca-file in bootseerd.conf" },
	{ CURLE_PEER_FAILED_VERIFICATION,
	  "SSL: no alternative certificate subject name matches target host "
	  "name 'a'",
	  EPROTO, "a name that its certificate has" },
	{ CURLE_SSL_CONNECT_ERROR, "Recv failure: Connection reset by peer",
	  EIO, "no TLS" },
	{ CURLE_SSL_CONNECT_ERROR,
	  "TLS connect error: error:0A000126:SSL routines::unexpected eof "
	  "while reading",
	  EIO, "no TLS" },
	{ CURLE_SSL_CONNECT_ERROR,
	  "error:0A00042E:SSL routines::tlsv1 alert protocol version", EPROTO,
	  "no TLS" },
	{ CURLE_RECV_ERROR, "CONNECT tunnel failed, response 403", EIO,
	  "no_proxy" },
	{ CURLE_COULDNT_RESOLVE_PROXY, "Could not resolve proxy: p",
	  ECONNREFUSED, "https_proxy" },
	{ CURLE_UNSUPPORTED_PROTOCOL,
	  "Protocol \"http\" not supported or disabled in libcurl", EINVAL,
	  "say --plain-http" },
};

Test(http, has_a_cure_for_each_known_cause)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(http_error(known[i].code, known[i].why, false,
					false, NULL, &err),
			     -known[i].error, "%s", known[i].why);
		expect_cure(err, known[i].why);
		expect_cure(err, known[i].cure);
	}
}

Test(http, names_the_options_of_who_asks)
{
	static const struct http_cures cures = {
		.plain = "A", .tls = "B", .ca = "C", .ca_file = "D"
	};
	static const struct {
		CURLcode code;
		bool plain;
		const char *end;
	} cases[] = {
		{ CURLE_UNSUPPORTED_PROTOCOL, false, "for plain HTTP A" },
		{ CURLE_GOT_NOTHING, true, "if it speaks TLS, B" },
		{ CURLE_PEER_FAILED_VERIFICATION, false, "why: C" },
		{ CURLE_SSL_CACERT_BADFILE, false, "are wanted of D" },
		{ CURLE_COULDNT_RESOLVE_HOST, false, "DNS" },
		{ CURLE_COULDNT_CONNECT, false, "runs there" },
		{ CURLE_URL_MALFORMAT, false, "why" },
	};
	struct error late = ERROR_INIT;

	cr_expect_eq(http_error(CURLE_OPERATION_TIMEDOUT,
				"SSL connection timeout", false, false, &cures,
				&late),
		     -ETIMEDOUT);
	cr_expect(strstr(late.msg, "if it speaks no TLS, A"), "%s", late.msg);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = ERROR_INIT;
		size_t end = strlen(cases[i].end);

		cr_expect_lt(http_error(cases[i].code, "why", cases[i].plain,
					false, &cures, &err),
			     0);
		cr_assert_geq(strlen(err.msg), end);
		cr_expect_str_eq(err.msg + strlen(err.msg) - end, cases[i].end);
	}
}

Test(http, knows_how_long_a_server_wants_to_be_left_alone)
{
#define NOON "Date: Sun, 29 Nov 2026 12:00:00 GMT"
	static const struct {
		const char *after, *date;
		uint64_t ms;
	} cases[] = {
		{ "Retry-After: 120", NULL, 120000 },
		{ "Retry-After: 120", NOON, 120000 },
		{ "Retry-After: 0", NOON, 0 },
		{ "Retry-After: 86401", NULL, 86400000 },
		{ "Retry-After: 99999999999999999999999", NULL, 86400000 },
		{ "Retry-After: -5", NULL, 0 },
		{ "Retry-After: soon", NOON, 0 },
		{ "Retry-After:", NOON, 0 },
		{ "X-After: 5", NOON, 0 },
		/* The three forms of a date (RFC 9110, 5.6.7). */
		{ "Retry-After: Sun, 29 Nov 2026 12:00:07 GMT", NOON, 7000 },
		{ "Retry-After: Sunday, 29-Nov-26 12:00:07 GMT", NOON, 7000 },
		{ "Retry-After: Sun Nov 29 12:00:07 2026", NOON, 7000 },
		{ "Retry-After: Sun, 29 Nov 2026 11:59:59 GMT", NOON, 0 },
		{ "Retry-After: Sun, 29 Nov 2026 12:00:00 GMT", NOON, 0 },
		{ "Retry-After: Thu, 29 Nov 2096 12:00:00 GMT", NOON,
		  86400000 },
		/* Without the server's clock ours counts. */
		{ "Retry-After: Thu, 29 Nov 2096 12:00:00 GMT", NULL,
		  86400000 },
		{ "Retry-After: Thu, 29 Nov 2096 12:00:00 GMT", "Date: now?",
		  86400000 },
		{ "Retry-After: Fri, 29 Nov 1996 12:00:00 GMT", NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_response r = HTTP_RESPONSE_INIT;
		const char *lines[] = { cases[i].after, cases[i].date };

		for (size_t k = 0; k < 2 && lines[k]; k++)
			cr_assert_eq(buf_append(&r.headers, lines[k],
						strlen(lines[k]) + 1),
				     0);
		cr_expect_eq(http_retry_after_ms(&r), cases[i].ms, "%s, %s",
			     lines[0], lines[1] ? lines[1] : "no date");
		http_response_fini(&r);
	}
}
