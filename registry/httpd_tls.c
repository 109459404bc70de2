// SPDX-License-Identifier: Apache-2.0
#include "registry/httpd_tls.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <unistd.h>

struct httpd_tls {
	char *cert_file, *key_file;
	SSL_CTX *ctx;
};

static int tls_fail(struct error *err, const char *what, const char *file)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = ERR_reason_error_string(code);

	ERR_clear_error();
	return error_set(err, EINVAL, "%s '%s': %s", what, file,
			 reason ? reason : "not usable");
}

/* OpenSSL calls a file that is missing or closed to us "system lib", and one
 * of another kind "PEM lib". */
static int file_fail(struct error *err, const char *what, const char *file)
{
	if (access(file, R_OK) == 0)
		return tls_fail(err, what, file);
	ERR_clear_error();
	return error_set(err, errno, "%s '%s': %s", what, file,
			 strerror(errno));
}

static int load(const struct httpd_tls *t, SSL_CTX *ctx, struct error *err)
{
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return tls_fail(err, "TLS", "1.2");
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	/* A client cannot make us compute keys over and over. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	if (SSL_CTX_use_certificate_chain_file(ctx, t->cert_file) != 1)
		return file_fail(err, "certificate (PEM)", t->cert_file);
	if (SSL_CTX_use_PrivateKey_file(ctx, t->key_file, SSL_FILETYPE_PEM) !=
		    1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return file_fail(err, "key (PEM)", t->key_file);
	return 0;
}

int httpd_tls_reload(struct httpd_tls *t, struct error *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int rc;

	if (!ctx)
		return error_nomem(err);
	rc = load(t, ctx, err);
	if (rc < 0) {
		SSL_CTX_free(ctx);
		return rc;
	}
	SSL_CTX_free(t->ctx);
	t->ctx = ctx;
	return 0;
}

int httpd_tls_new(const char *cert_file, const char *key_file,
		  struct httpd_tls **ret, struct error *err)
{
	struct httpd_tls *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (t) {
		t->cert_file = strdup(cert_file);
		t->key_file = strdup(key_file);
	}
	if (!t || !t->cert_file || !t->key_file)
		rc = error_nomem(err);
	if (rc == 0)
		rc = httpd_tls_reload(t, err);
	if (rc < 0) {
		httpd_tls_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void httpd_tls_free(struct httpd_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	free(t->cert_file);
	free(t->key_file);
	free(t);
}

struct bufferevent *httpd_tls_accept(struct httpd_tls *t,
				     struct event_base *base, int fd)
{
	SSL *ssl = SSL_new(t->ctx);
	struct bufferevent *bev;

	if (!ssl)
		return NULL;
	bev = bufferevent_openssl_socket_new(base, fd, ssl,
					     BUFFEREVENT_SSL_ACCEPTING,
					     BEV_OPT_CLOSE_ON_FREE);
	if (!bev) {
		SSL_free(ssl);
		return NULL;
	}
	/* An end without close_notify is an end; bodies have a length. */
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	return bev;
}

bool httpd_tls_failed(struct bufferevent *bev)
{
	return bufferevent_get_openssl_error(bev) != 0;
}

void httpd_tls_close(struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	if (!SSL_is_init_finished(ssl))
		return;
	SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
	(void)SSL_shutdown(ssl);
	ERR_clear_error();
}
