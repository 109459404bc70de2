// SPDX-License-Identifier: Apache-2.0
/*
 * The causes of failed requests that people meet, and their cures.  The text of
 * libcurl or OpenSSL decides where one code has several causes; a text that is
 * worded otherwise in another version gets the general cure of its code.
 */
#include "common/http_priv.h"

#include <errno.h>
#include <string.h>

/* Options of bootseer, and keys of bootseerd.conf. */
#define USE_PLAIN "say --plain-http, or plain-http in bootseerd.conf"
#define USE_TLS \
	"if it speaks TLS, leave out --plain-http (bootseerd.conf: plain-http)"
#define USE_CA \
	"name the authority's file: --ca-file, or ca-file in bootseerd.conf"
#define USE_PROXY "check https_proxy, http_proxy and no_proxy"

enum when {
	WHEN_ALWAYS,
	WHEN_PLAIN,  /* the URL is http:// */
	WHEN_SILENT, /* the same, and not a line of an answer came */
};

/* The first that fits; those of one code from special to general. */
static const struct {
	CURLcode code;
	enum when when;
	const char *part; /* of libcurl's text; NULL: whatever it is */
	int error;
	const char *cure;
} causes[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  "check the name, and this machine's DNS" },
	{ CURLE_COULDNT_RESOLVE_PROXY, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  USE_PROXY },
	{ CURLE_PROXY, WHEN_ALWAYS, NULL, EIO, USE_PROXY },
	{ CURLE_RECV_ERROR, WHEN_ALWAYS, "CONNECT", EIO,
	  "the proxy refuses: " USE_PROXY },
	{ CURLE_COULDNT_CONNECT, WHEN_ALWAYS, NULL, ECONNREFUSED,
	  "check host, port and firewall, and that it runs there; behind a "
	  "proxy, https_proxy" },
	{ CURLE_OPERATION_TIMEDOUT, WHEN_ALWAYS, "onnect", ETIMEDOUT,
	  "check host, port and firewall; behind a proxy, https_proxy" },
	{ CURLE_OPERATION_TIMEDOUT, WHEN_ALWAYS, NULL, ETIMEDOUT, NULL },

	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "not yet valid", EPROTO,
	  "is this machine's clock slow? See date" },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "expired", EPROTO,
	  "the server needs a new certificate, unless this machine's clock is "
	  "wrong: see date" },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, "subject name", EPROTO,
	  "call it by a name that its certificate has" },
	{ CURLE_PEER_FAILED_VERIFICATION, WHEN_ALWAYS, NULL, EPROTO, USE_CA },
	{ CURLE_SSL_CACERT_BADFILE, WHEN_ALWAYS, NULL, EPROTO,
	  "--ca-file (bootseerd.conf: ca-file) wants certificates in PEM" },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, "wrong version", EPROTO,
	  "it speaks no TLS: " USE_PLAIN },
	{ CURLE_SSL_CONNECT_ERROR, WHEN_ALWAYS, NULL, EPROTO,
	  "if it speaks no TLS, " USE_PLAIN },
	{ CURLE_SSL_CERTPROBLEM, WHEN_ALWAYS, NULL, EPROTO, NULL },
	{ CURLE_SSL_CIPHER, WHEN_ALWAYS, NULL, EPROTO, NULL },
	{ CURLE_SSL_ISSUER_ERROR, WHEN_ALWAYS, NULL, EPROTO, USE_CA },

	/* What a TLS server says to a request without TLS. */
	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_PLAIN, "HTTP/0.9", EPROTO, USE_TLS },
	{ CURLE_GOT_NOTHING, WHEN_SILENT, NULL, EIO, USE_TLS },
	{ CURLE_RECV_ERROR, WHEN_SILENT, NULL, EIO, USE_TLS },
	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_ALWAYS, "HTTP/0.9", EPROTO,
	  "it is no HTTP server: check the port" },

	{ CURLE_UNSUPPORTED_PROTOCOL, WHEN_ALWAYS, NULL, EINVAL,
	  "for plain HTTP " USE_PLAIN },
	{ CURLE_URL_MALFORMAT, WHEN_ALWAYS, NULL, EINVAL, NULL },
	{ CURLE_TOO_MANY_REDIRECTS, WHEN_ALWAYS, NULL, EINVAL, NULL },
};

static bool applies(enum when when, bool plain, bool answered)
{
	return when == WHEN_ALWAYS ||
	       (plain && (when == WHEN_PLAIN || !answered));
}

int http_error(CURLcode code, const char *why, bool plain, bool answered,
	       struct error *err)
{
	if (code == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (causes[i].code == code &&
		    applies(causes[i].when, plain, answered) &&
		    (!causes[i].part || strstr(why, causes[i].part)))
			return error_set(err, causes[i].error, "%s%s%s", why,
					 causes[i].cure ? ": " : "",
					 causes[i].cure ? causes[i].cure : "");
	return error_set(err, EIO, "%s", why);
}
