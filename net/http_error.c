// SPDX-License-Identifier: Apache-2.0
/*
 * Maps failed requests to causes that users meet, with advice. Where one code of libcurl has
 * several causes, the text of libcurl or OpenSSL decides; if another version words it
 * differently, the general advice for the code is given.
 */
#include "net/http_priv.h"

#include <errno.h>
#include <string.h>

static const struct http_cures of_registries = {
	.plain = "say --plain-http, or plain-http in bootseerd.conf",
	.tls = "leave out --plain-http (bootseerd.conf: plain-http)",
	.ca = "name the authority's file: --ca-file, or ca-file in "
	      "bootseerd.conf",
	.ca_file = "--ca-file (bootseerd.conf: ca-file)",
	.proxy = HTTP_CURE_PROXY,
};

/* The member of struct http_cures that helps. */
enum cure {
	NO_CURE,
	CURE_PLAIN,
	CURE_TLS,
	CURE_CA,
	CURE_CA_FILE,
	CURE_PROXY,
};

#define USE_PROXY "check https_proxy, http_proxy and no_proxy"

enum when {
	WHEN_ALWAYS,
	WHEN_PLAIN,  /* the URL is http:// */
	WHEN_SILENT, /* the URL is http://, and no line of an answer came */
};

/* The first entry that fits is used, so special ones of a code stand before general ones. */
static const struct {
	CURLcode code;
	enum when when;
	const char *part; /* part of libcurl's text; NULL: any text */
	int error;
	const char *advice; /* NULL: none */
	enum cure cure;     /* appended to the advice */
} causes[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  "check the name, and this machine's DNS", NO_CURE },
	{ CURLE_COULDNT_RESOLVE_PROXY, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  USE_PROXY, NO_CURE },
	{ CURLE_PROXY, WHEN_ALWAYS, NULL, EIO, USE_PROXY, NO_CURE },
	{ CURLE_RECV_ERROR, WHEN_ALWAYS, "CONNECT", EIO,
	  "the proxy refuses: " USE_PROXY, NO_CURE },
	{ CURLE_COULDNT_CONNECT, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  "check host, port and firewall, and that it runs there", CURE_PROXY },
	{ CURLE_OPERATION_TIMEDOUT, WHEN_ALWAYS, "SSL connection", ETIMEDOUT,
	  "check host, port and firewall; if it speaks no TLS, ", CURE_PLAIN },
	{ CURLE_OPERATION_TIMEDOUT, WHEN_ALWAYS, "onnect", ETIMEDOUT,
	  "check host, port and firewall", CURE_PROXY },
	{ CURLE_OPERATION_TIMEDOUT, WHEN_ALWAYS, NULL, ETIMEDOUT, NULL,
	  NO_CURE },

	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "not yet valid", EPROTO,
	  "is this machine's clock slow? See date", NO_CURE },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "expired", EPROTO,
	  "the server needs a new certificate, unless this machine's clock is "
	  "wrong: see date",
	  NO_CURE },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "subject name", EPROTO,
	  "call it by a name that its certificate has", NO_CURE },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, NULL, EPROTO, "",
	  CURE_CA },
	{ CURLE_SSL_CACERT_BADFILE, WHEN_ALWAYS, NULL, EPROTO,
	  "certificates in PEM are wanted of ", CURE_CA_FILE },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, "wrong version", EPROTO,
	  "it speaks no TLS: ", CURE_PLAIN },
	/* The connection was broken off before any message of TLS, as an overloaded server
	 * does. */
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, "SYSCALL", EIO,
	  "if it speaks no TLS, ", CURE_PLAIN },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, "reset by peer", EIO,
	  "if it speaks no TLS, ", CURE_PLAIN },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, "unexpected eof", EIO,
	  "if it speaks no TLS, ", CURE_PLAIN },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, NULL, EPROTO,
	  "if it speaks no TLS, ", CURE_PLAIN },
	{ CURLE_SSL_CERTPROBLEM, WHEN_ALWAYS, NULL, EPROTO, NULL, NO_CURE },
	{ CURLE_SSL_CIPHER, WHEN_ALWAYS, NULL, EPROTO, NULL, NO_CURE },
	{ CURLE_SSL_ISSUER_ERROR, WHEN_ALWAYS, NULL, EPROTO, "", CURE_CA },

	/* Answers of a TLS server to a request without TLS. */
	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_PLAIN, "HTTP/0.9", EPROTO,
	  "if it speaks TLS, ", CURE_TLS },
	{ CURLE_GOT_NOTHING, WHEN_SILENT, NULL, EIO, "if it speaks TLS, ",
	  CURE_TLS },
	{ CURLE_RECV_ERROR, WHEN_SILENT, NULL, EIO, "if it speaks TLS, ",
	  CURE_TLS },
	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_ALWAYS, "HTTP/0.9", EPROTO,
	  "it is no HTTP server: check the port", NO_CURE },

	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_ALWAYS, NULL, EINVAL,
	  "for plain HTTP ", CURE_PLAIN },
	{ CURLE_URL_MALFORMAT, WHEN_ALWAYS, NULL, EINVAL, NULL, NO_CURE },
	{ CURLE_TOO_MANY_REDIRECTS, WHEN_ALWAYS, NULL, EINVAL, NULL, NO_CURE },
};

static bool http_error_applies(enum when when, bool plain, bool answered)
{
	return when == WHEN_ALWAYS ||
	       (plain && (when == WHEN_PLAIN || !answered));
}

static const char *cure_text(const struct http_cures *c, enum cure cure)
{
	const char *const texts[] = {
		[NO_CURE] = "",
		[CURE_PLAIN] = c->plain,
		[CURE_TLS] = c->tls,
		[CURE_CA] = c->ca,
		[CURE_CA_FILE] = c->ca_file,
		[CURE_PROXY] = c->proxy ? c->proxy : "",
	};

	return texts[cure];
}

int http_error(CURLcode code, const char *why, bool plain, bool answered,
	       const struct http_cures *cures, struct error *err)
{
	if (code == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		const char *advice = causes[i].advice;

		if (causes[i].code != code ||
		    !http_error_applies(causes[i].when, plain, answered) ||
		    (causes[i].part && !strstr(why, causes[i].part)))
			continue;
		return error_set(err, causes[i].error, "%s%s%s%s", why,
				 advice ? ": " : "", advice ? advice : "",
				 cure_text(cures ? cures : &of_registries,
					   causes[i].cure));
	}
	return error_set(err, EIO, "%s", why);
}
