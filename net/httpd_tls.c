// SPDX-License-Identifier: Apache-2.0
#include "net/httpd_tls.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/tls_authority.h"

struct httpd_tls {
	char *cert_file, *key_file;
	char *const *client_cas; /* borrowed; NULL-terminated, or NULL */
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

/* Explain a failure: OpenSSL reports a missing or unreadable file as "system lib", and a
 * file of another kind as "PEM lib". */
static int file_fail(struct error *err, const char *option, const char *what,
		     const char *file)
{
	unsigned long code = ERR_peek_last_error();
	int why = ERR_GET_REASON(code);
	bool is_empty = why == ERR_R_PEM_LIB ||
			(ERR_GET_LIB(code) == ERR_LIB_X509 &&
			 why == X509_R_NO_CERTIFICATE_OR_CRL_FOUND);
	struct stat st;

	if (stat(file, &st) < 0 || access(file, R_OK) < 0) {
		ERR_clear_error();
		return error_set(err, errno, "%s '%s': %s%s", option, file,
				 strerror(errno),
				 errno == ENOENT ? ": mend the path, or make "
						   "the file first"
						 : error_root_hint(errno));
	}
	if (!S_ISDIR(st.st_mode) && !is_empty)
		return tls_fail(err, option, file);
	ERR_clear_error();
	if (S_ISDIR(st.st_mode))
		return error_set(err, EISDIR,
				 "%s '%s' is a folder: name a file in it",
				 option, file);
	return error_set(err, EINVAL,
			 "%s '%s': there is no %s in it: want "
			 "-----BEGIN %s-----",
			 option, file, what, what);
}

/* Explain a failure of the key: for a key of another kind OpenSSL says that there is no
 * certificate. */
static int key_fail(const struct httpd_tls *t, struct error *err)
{
	unsigned long code = ERR_peek_last_error();
	int why = ERR_GET_REASON(code);

	if ((ERR_GET_LIB(code) == ERR_LIB_X509 &&
	     (why == X509_R_KEY_VALUES_MISMATCH ||
	      why == X509_R_KEY_TYPE_MISMATCH)) ||
	    (ERR_GET_LIB(code) == ERR_LIB_SSL &&
	     why == SSL_R_NO_CERTIFICATE_ASSIGNED)) {
		ERR_clear_error();
		return error_set(err, EINVAL,
				 "key '%s' does not belong to certificate "
				 "'%s': --tls-key and --tls-cert are to be a "
				 "pair",
				 t->key_file, t->cert_file);
	}
	return file_fail(err, "--tls-key", "PRIVATE KEY", t->key_file);
}

static int load_client_cas(const struct httpd_tls *t, SSL_CTX *ctx,
			   struct error *err)
{
	for (char *const *file = t->client_cas; *file; file++) {
		if (!tls_authority_load(ctx, *file))
			return file_fail(err, "--tls-client-ca", "CERTIFICATE",
					 *file);
	}
	/* Clients need not show a certificate; others are authorized by token. */
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_session_id_context(ctx, (const uint8_t *)"bootseer",
					   8) != 1)
		return tls_fail(err, "TLS", "session id");
	return 0;
}

static int httpd_tls_load(const struct httpd_tls *t, SSL_CTX *ctx,
			  struct error *err)
{
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return tls_fail(err, "TLS", "1.2");
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	/* Else SSL_read() would go on as long as records without data arrive. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	/* So that a client cannot make this process compute keys again and again. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	if (SSL_CTX_use_certificate_chain_file(ctx, t->cert_file) != 1)
		return file_fail(err, "--tls-cert", "CERTIFICATE",
				 t->cert_file);
	if (SSL_CTX_use_PrivateKey_file(ctx, t->key_file, SSL_FILETYPE_PEM) !=
		    1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return key_fail(t, err);
	return t->client_cas ? load_client_cas(t, ctx, err) : 0;
}

int httpd_tls_reload(struct httpd_tls *t, struct error *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int rc;

	if (!ctx)
		return error_nomem(err);
	rc = httpd_tls_load(t, ctx, err);
	if (rc < 0) {
		SSL_CTX_free(ctx);
		return rc;
	}
	SSL_CTX_free(t->ctx);
	t->ctx = ctx;
	return 0;
}

int httpd_tls_new(const char *cert_file, const char *key_file,
		  char *const *client_cas, struct httpd_tls **ret,
		  struct error *err)
{
	struct httpd_tls *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (t) {
		t->cert_file = strdup(cert_file);
		t->key_file = strdup(key_file);
		t->client_cas = client_cas;
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

int64_t httpd_tls_not_after(const struct httpd_tls *t)
{
	const X509 *cert = SSL_CTX_get0_certificate(t->ctx);
	struct tm tm;

	return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1
		       ? (int64_t)timegm(&tm)
		       : 0;
}

int httpd_tls_check_time(const struct httpd_tls *t, struct error *err)
{
	if (httpd_tls_not_after(t) > (int64_t)time(NULL))
		return 0;
	return error_set(err, EKEYEXPIRED,
			 "certificate '%s' has expired: renew it, and reload "
			 "bootseer-registry; or this machine's clock is wrong: "
			 "see date",
			 t->cert_file);
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
	/* An end without close_notify is accepted, since bodies have a length. */
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	return bev;
}

static void name_of(const X509 *cert, char *ret, size_t size)
{
	static const char prefix[] = "bootseer://node/";
	GENERAL_NAMES *all =
		X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	int n = all ? sk_GENERAL_NAME_num(all) : 0;

	for (int i = 0; i < n; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		const ASN1_IA5STRING *uri =
			name->type == GEN_URI
				? name->d.uniformResourceIdentifier
				: NULL;
		const char *text =
			uri ? (const char *)ASN1_STRING_get0_data(uri) : "";
		size_t len = uri ? (size_t)ASN1_STRING_length(uri) : 0;

		if (len <= strlen(prefix) || memchr(text, 0, len) ||
		    strncmp(text, prefix, strlen(prefix)) != 0 ||
		    len - strlen(prefix) >= size)
			continue;
		len -= strlen(prefix);
		memcpy(ret, text + strlen(prefix), len);
		ret[len] = '\0';
		break;
	}
	GENERAL_NAMES_free(all);
}

void httpd_tls_peer(struct bufferevent *bev, char *ret, size_t size)
{
	X509 *cert =
		SSL_get1_peer_certificate(bufferevent_openssl_get_ssl(bev));

	ret[0] = '\0';
	if (!cert)
		return;
	name_of(cert, ret, size);
	X509_free(cert);
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
