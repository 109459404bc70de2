// SPDX-License-Identifier: Apache-2.0
/* A server that uses TLS in ways that no good one does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/fs.h"
#include "net/http.h"
#include "tests/unit/p2p/certs.h"

TestSuite(http_tls, .timeout = 120);

#define CHANGES 50000
#define CHANGE_MIN 20u /* bytes of one, at least */
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"

struct server {
	char dir[64], cert[128], key[128], ca[128];
	SSL_CTX *ctx;
	int fd;
	unsigned int port;
	pthread_t thread;
	struct pace pace;
	atomic_bool begins;   /* to send what takes so long */
	unsigned int n_asked; /* connections of serve_alpn() */
	bool h2_was_offered;
	size_t all, sent;
};

static bool send_waiting(int fd, BIO *out, size_t *ret_sent)
{
	char *data;
	size_t n = (size_t)BIO_get_mem_data(out, &data), at = 0;
	ssize_t sent;

	while (at < n && (sent = send(fd, data + at, n - at, MSG_NOSIGNAL)) > 0)
		at += (size_t)sent;
	*ret_sent = at;
	(void)BIO_reset(out);
	return at == n;
}

static void get_some(int fd, BIO *in)
{
	char chunk[4096];
	ssize_t n = recv(fd, chunk, sizeof(chunk), 0);

	cr_assert_gt(n, 0);
	cr_assert_eq(BIO_write(in, chunk, (int)n), n);
}

static void *serve(void *arg)
{
	const int small = 32 << 10;
	struct server *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	SSL *ssl = SSL_new(s->ctx);
	char request[4096], *data;
	size_t n;

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small,
				sizeof(small)),
		     0);
	SSL_set_bio(ssl, in, out);
	SSL_set_accept_state(ssl);
	while (SSL_do_handshake(ssl) != 1) {
		(void)send_waiting(fd, out, &n);
		get_some(fd, in);
	}
	while (SSL_read(ssl, request, sizeof(request)) <= 0) {
		(void)send_waiting(fd, out, &n);
		get_some(fd, in);
	}
	cr_assert_gt(SSL_write(ssl, ANSWER, sizeof(ANSWER) - 1), 0);
	for (int k = 0; k < CHANGES; k++) {
		cr_assert_eq(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED),
			     1);
		cr_assert_eq(SSL_do_handshake(ssl), 1);
	}
	s->all = (size_t)BIO_get_mem_data(out, &data);
	atomic_store(&s->begins, true);
	(void)send_waiting(fd, out, &s->sent);
	SSL_free(ssl);
	close(fd);
	return NULL;
}

/* Nobody wants it any more as soon as it begins. */
static enum pace_level level(struct pace *p)
{
	struct server *s = container_of(p, struct server, pace);

	return atomic_load(&s->begins) ? PACE_STOP : PACE_GO;
}

static void moves(struct pace *p)
{
}

static void begin(struct server *s, void *(*serve_it)(void *arg))
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	struct ca *ca;

	*s = (struct server){
		.dir = "/tmp/bootseer-http.XXXXXX",
		.pace = { .level = level, .moves = moves, .is_urgent = true }
	};
	cr_assert_not_null(mkdtemp(s->dir));
	ca = ca_new(s->dir, "ca");
	ca_issue(ca, "here", "IP:127.0.0.1", 3600);
	ca_free(ca);
	(void)snprintf(s->ca, sizeof(s->ca), "%s/ca.pem", s->dir);
	(void)snprintf(s->cert, sizeof(s->cert), "%s/here.pem", s->dir);
	(void)snprintf(s->key, sizeof(s->key), "%s/here.key", s->dir);
	s->ctx = SSL_CTX_new(TLS_server_method());
	cr_assert_eq(SSL_CTX_use_certificate_chain_file(s->ctx, s->cert), 1);
	cr_assert_eq(SSL_CTX_use_PrivateKey_file(s->ctx, s->key,
						 SSL_FILETYPE_PEM),
		     1);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(s->fd, 8), 0);
	cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
	cr_assert_eq(pthread_create(&s->thread, NULL, serve_it, s), 0);
}

static void end(struct server *s)
{
	struct error err = ERROR_INIT;

	SSL_CTX_free(s->ctx);
	close(s->fd);
	cr_expect_eq(fs_remove_tree(s->dir, &err), 0, "%s", err.msg);
}

Test(http_tls, who_changes_keys_over_and_over_is_left)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct error err = ERROR_INIT;
	struct http_config cfg = { .connect_timeout_ms = 10000,
				   .is_direct = true };
	struct http_request req = { .method = "GET" };
	struct http *c;
	struct server s;
	char url[64];

	begin(&s, serve);
	cfg.ca_file = s.ca;
	cr_assert_eq(http_new(&cfg, &c, &err), 0, "%s", err.msg);
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", s.port);
	req.url = url;
	req.pace = &s.pace;
	cr_expect_eq(http_do(c, &req, &r, &err), -ECANCELED, "%s", err.msg);
	http_free(c); /* with its connection */
	cr_assert_eq(pthread_join(s.thread, NULL), 0);
	cr_expect_gt(s.all, CHANGES * CHANGE_MIN);
	cr_expect_lt(s.sent, s.all, "all was read first");
	http_response_fini(&r);
	end(&s);
}

/* As servers do that prefer HTTP/2. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		   const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char wanted[] = "\x02h2\x08http/1.1";
	struct server *s = arg;
	unsigned char *chosen;
	int rc = SSL_select_next_proto(&chosen, out_len, wanted,
				       sizeof(wanted) - 1, in, in_len);

	s->h2_was_offered = *out_len == 2;
	*out = chosen;
	return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
					    : SSL_TLSEXT_ERR_NOACK;
}

/* Hangs up in the middle of the first answer, which is what is left of a GOAWAY where
 * there is one request at a time. */
static void *serve_alpn(void *arg)
{
	static const char *const answers[] = { ANSWER "half",
					       ANSWER "all of it" };
	struct server *s = arg;
	char request[4096];

	SSL_CTX_set_alpn_select_cb(s->ctx, on_alpn, s);
	for (; s->n_asked < ARRAY_SIZE(answers); s->n_asked++) {
		int fd = accept(s->fd, NULL, NULL);
		SSL *ssl = SSL_new(s->ctx);
		const char *text = answers[s->n_asked];

		cr_assert_eq(SSL_set_fd(ssl, fd), 1);
		cr_assert_eq(SSL_accept(ssl), 1);
		cr_assert_gt(SSL_read(ssl, request, sizeof(request)), 0);
		cr_expect(strstr(request, " HTTP/1.1\r\n"));
		cr_assert_gt(SSL_write(ssl, text, (int)strlen(text)), 0);
		(void)SSL_shutdown(ssl);
		SSL_free(ssl);
		close(fd);
	}
	return NULL;
}

Test(http_tls, a_server_that_prefers_http_2_is_spoken_to_by_http_1_1)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct error err = ERROR_INIT;
	struct server s;
	char url[64];

	begin(&s, serve_alpn);
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", s.port);
	{
		const struct http_config cfg = { .ca_file = s.ca,
						 .is_direct = true,
						 .connect_timeout_ms = 10000 };
		const struct http_request req = { .method = "GET", .url = url };
		AUTO(http) c = NULL;

		cr_assert_eq(http_new(&cfg, &c, &err), 0, "%s", err.msg);
		cr_expect_eq(http_do(c, &req, &r, &err), -EIO);
		cr_assert_eq(http_do(c, &req, &r, &err), 0, "%s", err.msg);
	}
	pthread_join(s.thread, NULL);
	cr_expect_str_eq(r.body.data, "all of it");
	cr_expect_not(s.h2_was_offered);
	http_response_fini(&r);
	end(&s);
}
