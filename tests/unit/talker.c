// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/talker.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

void talker_call(struct talker *t, int listening, const char *cert,
		 const char *key)
{
	const int small = 16 << 10;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	cr_assert_eq(setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)),
		     0);
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(getsockname(listening, (struct sockaddr *)&ss, &len), 0);
	cr_assert_eq(connect(t->fd, (struct sockaddr *)&ss, len), 0);
	t->ctx = SSL_CTX_new(TLS_client_method());
	if (cert) {
		cr_assert_eq(SSL_CTX_use_certificate_chain_file(t->ctx, cert),
			     1);
		cr_assert_eq(SSL_CTX_use_PrivateKey_file(t->ctx, key,
							 SSL_FILETYPE_PEM),
			     1);
	}
	t->ssl = SSL_new(t->ctx);
	t->in = BIO_new(BIO_s_mem());
	t->out = BIO_new(BIO_s_mem());
	SSL_set_bio(t->ssl, t->in, t->out);
	SSL_set_connect_state(t->ssl);
}

size_t talker_send(struct talker *t)
{
	char *data;
	size_t n = (size_t)BIO_get_mem_data(t->out, &data);
	ssize_t sent = send(t->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)BIO_reset(t->out);
	return sent > 0 ? (size_t)sent : 0;
}

bool talker_shakes_hands(struct talker *t)
{
	char chunk[4096];
	ssize_t n = recv(t->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
	bool is_done;

	if (n > 0)
		cr_assert_eq(BIO_write(t->in, chunk, (int)n), n);
	is_done = SSL_do_handshake(t->ssl) == 1;
	(void)talker_send(t);
	return is_done;
}

void talker_change_keys(struct talker *t, int times)
{
	while (times-- > 0) {
		cr_assert_eq(SSL_key_update(t->ssl,
					    SSL_KEY_UPDATE_NOT_REQUESTED),
			     1);
		cr_assert_eq(SSL_do_handshake(t->ssl), 1);
	}
}

void talker_end(struct talker *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	close(t->fd);
}
