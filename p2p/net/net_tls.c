// SPDX-License-Identifier: Apache-2.0
/*
 * Identity of nodes: TLS 1.3 with certificates on both sides, and, where bulk is plain, signatures
 * with a key of that TLS session.
 */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "common/bytes.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "net/tls_authority.h"
#include "p2p/net/net_cert.h"
#include "p2p/net/net_priv.h"

#define READ_AHEAD (64u << 10) /* bytes that OpenSSL reads at once */
#define STAGE_SIZE (64u << 10) /* bytes that wait to be encrypted */
#define KEY_LABEL "EXPORTER-bootseer-p2p-bulk"
#define KEY_SIZE 32u
#define KEY_FILE_MAX (64u << 10)
/* Limit of TLS key updates: nodes never request one; OpenSSL might, after many bytes. */
#define KEY_UPDATES_MAX 64u

struct security {
	SSL_CTX *ctx;
	/* Copies of the names in the net's configuration. */
	char *ca_file, *cert_file, *key_file;
	struct net_times times;
};

struct tls {
	SSL *ssl;
	uint8_t *stage;
	size_t at, len; /* stage[at, len) is to be encrypted */
	unsigned int key_updates;
};

/* ------------------------------------------------------------ certificates --- */

/* Error: `wanted` cannot be read from the file given by `option`. */
static int file_fail(struct error *err, const char *option, const char *file,
		     const char *wanted)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	/* OpenSSL only says "system lib" when it cannot read a file */
	if (access(file, R_OK) != 0)
		return error_errno(err, errno, "%s '%s'", option, file);
	return error_set(err, EINVAL, "%s '%s': %s is not in it, as PEM: %s",
			 option, file, wanted, why ? why : "not usable");
}

/* Load the key without leaving a copy of its text in freed memory, as OpenSSL's own function
 * would. */
static bool use_key(SSL_CTX *ctx, const char *file)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	EVP_PKEY *key = NULL;
	BIO *bio = NULL;
	bool ok;

	if (fs_read_file(file, KEY_FILE_MAX, &text, NULL) == 0)
		bio = BIO_new_mem_buf(text.data, (int)text.len);
	if (bio)
		key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	ok = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;
	BIO_free(bio);
	EVP_PKEY_free(key);
	return ok;
}

static int tls_load(const struct security *s, SSL_CTX *ctx, struct error *err)
{
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
	/* Without this, SSL_read() does not return until data comes. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_verify(ctx,
			   SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
			   NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1 ||
	    SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:"
					  "TLS_AES_256_GCM_SHA384:"
					  "TLS_CHACHA20_POLY1305_SHA256") != 1)
		return error_set(err, EINVAL, "TLS 1.3: not in this OpenSSL");
	if (!tls_authority_load(ctx, s->ca_file))
		return file_fail(err, "--p2p-tls", s->ca_file, "a certificate");
	if (SSL_CTX_use_certificate_chain_file(ctx, s->cert_file) != 1)
		return file_fail(err, "--p2p-tls", s->cert_file,
				 "a certificate");
	if (use_key(ctx, s->key_file))
		return 0;
	if (ERR_GET_REASON(ERR_peek_last_error()) != X509_R_KEY_VALUES_MISMATCH)
		return file_fail(err, "--p2p-tls", s->key_file,
				 "a private key");
	ERR_clear_error();
	return error_set(err, EINVAL,
			 "key '%s' does not belong to certificate '%s': "
			 "--p2p-tls wants a pair",
			 s->key_file, s->cert_file);
}

int net_check_files(const char *node, const char *ca_file,
		    const char *cert_file, const char *key_file,
		    struct error *err)
{
	struct net_node self = { .name = "" };
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	AUTO_FREE char *ca = strdup(ca_file);
	AUTO_FREE char *cert = strdup(cert_file);
	AUTO_FREE char *key = strdup(key_file);
	const struct security s = { .ca_file = ca,
				    .cert_file = cert,
				    .key_file = key };
	int rc = ctx && ca && cert && key ? 0 : error_nomem(err);

	(void)snprintf(self.name, sizeof(self.name), "%s", node);
	if (rc == 0)
		rc = net_check_ca(ca_file, err);
	if (rc == 0)
		rc = tls_load(&s, ctx, err);
	if (rc == 0)
		rc = cert_check_own(ctx, &self, cert_file, err);
	if (rc == 0)
		rc = cert_check_chain(ctx, cert_file, err);
	SSL_CTX_free(ctx);
	return rc;
}

static int tls_reload(struct security *s, const struct net_node *self,
		      struct error *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	int rc;

	if (!ctx)
		return error_nomem(err);
	rc = tls_load(s, ctx, err);
	if (rc == 0)
		rc = cert_check_own(ctx, self, s->cert_file, err);
	if (rc < 0) {
		SSL_CTX_free(ctx);
		return rc;
	}
	SSL_CTX_free(s->ctx);
	s->ctx = ctx;
	cert_times(ctx, &s->times);
	return 0;
}

int security_new(const struct net *n, struct security **ret, struct error *err)
{
	struct security *s;
	int rc;

	if (!n->ca_file || !n->cert_file || !n->key_file)
		return error_set(err, EINVAL,
				 "links to nodes need a CA's certificate, a "
				 "certificate and a key");
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->ca_file = n->ca_file;
	s->cert_file = n->cert_file;
	s->key_file = n->key_file;
	rc = tls_reload(s, &n->self, err);
	if (rc < 0) {
		security_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void security_free(struct security *s)
{
	if (!s)
		return;
	SSL_CTX_free(s->ctx);
	free(s);
}

void net_get_times(const struct net *n, struct net_times *ret)
{
	*ret = n->security ? n->security->times
			   : (struct net_times){ .not_after = 0 };
}

int net_reload(struct net *n, struct error *err)
{
	return n->security ? tls_reload(n->security, &n->self, err) : 0;
}

int security_name(struct conn *c, char *ret, size_t size, struct error *err)
{
	X509 *cert = c->tls ? SSL_get1_peer_certificate(c->tls->ssl) : NULL;
	int rc;

	if (!cert)
		return error_set(err, EACCES, "it shows no certificate");
	rc = cert_name(cert, ret, size, err);
	X509_free(cert);
	return rc;
}

bool security_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

/* ------------------------------------------------------------- connections --- */

#define OTHER_SECURITY "its --p2p-security is another, or it is no bootseerd"

/* Text for a TLS alert of the peer that refuses this node: numbers of RFC 8446, section 6. */
static const char *alert_text(int alert, int *ret_rc)
{
	static const struct {
		int alert;
		const char *text;
	} all[] = {
		{ 42, "it does not accept this node's certificate" },
		{ 43, "it does not accept this node's certificate" },
		{ 44, "it says that this node's certificate was revoked" },
		{ 45, "it says that this node's certificate has expired: renew "
		      "it, and reload bootseerd; or a clock is wrong" },
		{ 46, "it does not accept this node's certificate" },
		{ 48,
		  "ca.crt of its --p2p-tls has not the authority of this node's "
		  "certificate" },
		{ 116, "it was shown no certificate" },
	};

	*ret_rc = -EACCES;
	for (size_t k = 0; k < ARRAY_SIZE(all); k++)
		if (all[k].alert == alert)
			return all[k].text;
	*ret_rc = -EPROTONOSUPPORT;
	return OTHER_SECURITY;
}

/* Error code for OpenSSL's reason to refuse the peer. */
static int tls_error(struct conn *c)
{
	int reason = ERR_GET_REASON(ERR_peek_last_error()), rc;

	if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return 0;
	if (reason > SSL_AD_REASON_OFFSET) {
		c->why = alert_text(reason - SSL_AD_REASON_OFFSET, &rc);
		return rc;
	}
	if (SSL_is_init_finished(c->tls->ssl)) {
		c->why = ERR_reason_error_string(ERR_peek_last_error());
		return -EPROTO;
	}
	/* For bytes that are not TLS, OpenSSL has many reasons. */
	c->why = OTHER_SECURITY;
	return -EPROTONOSUPPORT;
}

/* Result of a failed SSL call: 0: end of the stream; -EAGAIN; or -errno, and maybe c->why. */
static int tls_result(struct conn *c, int rc)
{
	switch (SSL_get_error(c->tls->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->wants_write = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return errno ? -errno : 0;
	default:
		return tls_error(c);
	}
}

static int tls_secure(struct conn *c, struct error *err)
{
	long verified;
	int rc;

	ERR_clear_error();
	errno = 0;
	c->wants_write = false;
	rc = SSL_do_handshake(c->tls->ssl);
	if (rc == 1)
		return 0;
	rc = tls_result(c, rc);
	if (rc == -EAGAIN)
		return rc;
	ERR_clear_error();
	verified = SSL_get_verify_result(c->tls->ssl);
	if (verified != X509_V_OK)
		return error_set(err, EACCES, "its certificate: %s",
				 cert_trouble(verified));
	if (rc == 0)
		return error_set(err, ECONNRESET,
				 "it closed the connection in TLS's handshake");
	return error_set(err, -rc, "%s", c->why ? c->why : strerror(-rc));
}

static ssize_t tls_recv(struct conn *c, void *a, size_t n_a, void *b,
			size_t n_b)
{
	size_t n;
	int rc;

	ERR_clear_error();
	errno = 0;
	rc = SSL_read_ex(c->tls->ssl, n_a ? a : b, n_a ? n_a : n_b, &n);
	if (c->tls->key_updates > KEY_UPDATES_MAX) {
		c->why = "it changes its keys over and over";
		return -EPROTO;
	}
	if (rc == 1)
		return (ssize_t)n;
	return tls_result(c, rc);
}

static int tls_flush(struct conn *c)
{
	struct tls *t = c->tls;
	size_t n;
	int rc;

	while (t->at < t->len) {
		ERR_clear_error();
		errno = 0;
		rc = SSL_write_ex(t->ssl, t->stage + t->at, t->len - t->at, &n);
		if (rc != 1) {
			rc = tls_result(c, rc);
			return rc ? rc : -ECONNRESET;
		}
		t->at += n;
	}
	t->at = t->len = 0;
	return 0;
}

/* Copy into the stage only: bytes given to OpenSSL must be given again unchanged if the socket
 * did not take them. */
static ssize_t tls_send(struct conn *c, const void *head, size_t n_head,
			const struct net_body *body, size_t n_body)
{
	struct tls *t = c->tls;
	size_t n = n_head < STAGE_SIZE ? n_head : STAGE_SIZE;
	ssize_t more = 0;
	int rc;

	if (!t->stage)
		t->stage = malloc(STAGE_SIZE);
	if (!t->stage)
		return -ENOMEM;
	if (t->len)
		return -EAGAIN;
	if (n)
		memcpy(t->stage, head, n);
	if (n_body > STAGE_SIZE - n)
		n_body = STAGE_SIZE - n;
	if (body && body->fd < 0) {
		memcpy(t->stage + n, body->data, n_body);
		more = (ssize_t)n_body;
	} else if (body && n_body) {
		more = pread(body->fd, t->stage + n, n_body, (off_t)body->off);
		if (more <= 0)
			return more ? -errno : -ENODATA;
	}
	t->len = n + (size_t)more;
	rc = tls_flush(c);
	return rc < 0 && rc != -EAGAIN ? rc : (ssize_t)n + more;
}

static void tls_close(struct conn *c)
{
	struct tls *t = c->tls;

	ERR_clear_error();
	if (SSL_is_init_finished(t->ssl))
		(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
	SSL_free(t->ssl);
	free(t->stage);
	free(t);
	c->tls = NULL;
}

static const struct conn_io conn_tls = {
	.secure = tls_secure,
	.recv = tls_recv,
	.send = tls_send,
	.flush = tls_flush,
	.close = tls_close,
};

static void on_message(int is_write, int version, int type, const void *data,
		       size_t n, SSL *ssl, void *arg)
{
	const uint8_t *p = data;
	struct tls *t = arg;

	if (!is_write && type == SSL3_RT_HANDSHAKE && n > 0 &&
	    p[0] == SSL3_MT_KEY_UPDATE)
		t->key_updates++;
}

int security_wrap(struct conn *c, struct error *err)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	t->ssl = SSL_new(c->net->security->ctx);
	if (!t->ssl || SSL_set_fd(t->ssl, c->fd) != 1) {
		SSL_free(t->ssl);
		free(t);
		return error_nomem(err);
	}
	SSL_set_msg_callback(t->ssl, on_message);
	SSL_set_msg_callback_arg(t->ssl, t);
	if (c->outgoing)
		SSL_set_connect_state(t->ssl);
	else
		SSL_set_accept_state(t->ssl);
	c->tls = t;
	c->io = &conn_tls;
	return 0;
}

/* --------------------------------------------------------------- signatures --- */

struct tls_way {
	EVP_MAC_CTX *mac;
	uint64_t seq; /* number of the next message */
};

struct signer {
	struct tls_way out, in;
};

static EVP_MAC_CTX *mac_keyed(EVP_MAC *mac, const uint8_t key[KEY_SIZE])
{
	char name[] = "SHA256";
	OSSL_PARAM params[2] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name,
						 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);

	if (ctx && EVP_MAC_init(ctx, key, KEY_SIZE, params) != 1) {
		EVP_MAC_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

int signer_new(struct conn *control, struct signer **ret, struct error *err)
{
	/* Keys for the connector's output, then for its input. */
	uint8_t keys[2 * KEY_SIZE];
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	struct signer *s = calloc(1, sizeof(*s));
	bool connector = control->outgoing;

	if (s && mac && control->tls &&
	    SSL_export_keying_material(control->tls->ssl, keys, sizeof(keys),
				       KEY_LABEL, strlen(KEY_LABEL), NULL, 0,
				       0) == 1) {
		s->out.mac = mac_keyed(mac, connector ? keys : keys + KEY_SIZE);
		s->in.mac = mac_keyed(mac, connector ? keys + KEY_SIZE : keys);
	}
	OPENSSL_cleanse(keys, sizeof(keys));
	EVP_MAC_free(mac);
	if (!s || !s->out.mac || !s->in.mac) {
		signer_free(s);
		return error_set(err, EIO, "no key for signatures");
	}
	*ret = s;
	return 0;
}

void signer_free(struct signer *s)
{
	if (!s)
		return;
	EVP_MAC_CTX_free(s->out.mac);
	EVP_MAC_CTX_free(s->in.mac);
	free(s);
}

static int tls_sign(struct tls_way *w, const void *head, const void *fields,
		    size_t n, uint8_t mac[WIRE_MAC_SIZE])
{
	uint8_t seq[8], full[EVP_MAX_MD_SIZE];
	size_t len;

	put_le64(seq, w->seq);
	if (EVP_MAC_init(w->mac, NULL, 0, NULL) != 1 ||
	    EVP_MAC_update(w->mac, seq, sizeof(seq)) != 1 ||
	    EVP_MAC_update(w->mac, head, WIRE_HEAD_SIZE) != 1 ||
	    EVP_MAC_update(w->mac, fields, n) != 1 ||
	    EVP_MAC_final(w->mac, full, &len, sizeof(full)) != 1)
		return -EIO;
	w->seq++;
	memcpy(mac, full, WIRE_MAC_SIZE);
	return 0;
}

int signer_sign(struct signer *s, const void *head, const void *fields,
		size_t n, uint8_t mac[WIRE_MAC_SIZE])
{
	return tls_sign(&s->out, head, fields, n, mac);
}

bool signer_check(struct signer *s, const void *head, const void *fields,
		  size_t n, const uint8_t mac[WIRE_MAC_SIZE])
{
	uint8_t right[WIRE_MAC_SIZE];
	uint64_t seq = s->in.seq;

	if (tls_sign(&s->in, head, fields, n, right) == 0 &&
	    security_equal(right, mac, WIRE_MAC_SIZE))
		return true;
	/* A forged message must not use up the number of the genuine one. */
	s->in.seq = seq;
	return false;
}
