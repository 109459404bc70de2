// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP/1.1 client on libcurl: blocking, thread-safe, connections kept alive.
 * It knows nothing of what it carries; retries and credentials are the caller's.
 */
#ifndef BOOTSEER_NET_HTTP_H
#define BOOTSEER_NET_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/pace.h"

#define HTTP_HEADERS_MAX (64u << 10) /* bytes of an answer's header lines */
#define HTTP_BODY_MAX \
	(8u << 20) /* of http_response.body; a longer 2xx answer
				       * is -EFBIG */
#define HTTP_ERROR_BODY_MAX \
	65536u                /* the same, of others: the rest is dropped */
#define HTTP_REDIRECTS_MAX 10 /* as Go's clients */
#define HTTP_STOP_MS 50

#define HTTP_CURE_PROXY "; behind a proxy, https_proxy"

/* Cures that messages of failures name: ends of sentences with the options and
 * keys that decide. All are wanted, but for the last. */
struct http_cures {
	const char *plain;   /* to talk without TLS */
	const char *tls;     /* to talk with it */
	const char *ca;      /* to trust a certificate */
	const char *ca_file; /* how the file of certificates is named */
	const char *proxy;   /* behind a host that is out of reach; NULL: no
			      * proxy is used, and none is spoken of */
};

struct http_config {
	const struct http_cures *cures; /* kept; NULL: those of registries */
	const char *ca_file;            /* PEM; NULL: the system's */
	const char *more_ca; /* PEM text, trusted beside those; or NULL */
	bool is_unverified;  /* any certificate will do */
	/* PEM, shown to servers that ask for one, read for each connection;
	 * both or neither. */
	const char *cert_file, *key_file;
	bool allow_plain; /* http:// is allowed, also as a redirect's target */
	bool stays;       /* a redirect is the answer: no other host is asked */
	bool is_direct;   /* no proxy of the environment is used */
	bool tells_referer; /* a host that a redirect leads to is told from where */
	uint32_t connect_timeout_ms;
	uint32_t stall_timeout_ms; /* no byte in or out for so long; seen once a
	                            * second */
	/* Bytes a second, over each stall_timeout_ms, below which a transfer
	 * counts as one without a byte; 0 is none.  Bulk, which gives way of
	 * its own (pace.h), may be slower. */
	uint64_t least_rate;
	unsigned int dscp;     /* of all packets; 0: the system's */
	unsigned int max_idle; /* connections kept open between requests; 0 is
	                        * 8 */
	/* When (clock_now_ns()) bytes last went out, or came of an answer by which a
	 * request gets on: neither 429 nor 5xx.  NULL: nobody asks. */
	atomic_int_fast64_t *heard_ns;
};

struct http;

int http_new(const struct http_config *cfg, struct http **ret,
	     struct error *err) MUST_CHECK;
void http_free(struct http *c); /* with no request under way */
DEFINE_AUTO(http)

struct http_response {
	long status;        /* of the last answer; 0: none came */
	struct buf headers; /* "Name: value" strings, each with its NUL */
	struct buf body;    /* what no sink took */
	char *url;          /* where a redirect ended; NULL without one */
	char *referer; /* what that host was told of where it came from; or NULL */
	bool is_refused; /* the host is there, and nobody listens at the port */
	/* How long the request took, and of that between its last byte, or the
	 * connection where it has no body, and the first byte of the last answer: the
	 * server's share.  What was sent may be in the kernel's buffers still. */
	int64_t took_ns, wait_ns;
};

#define HTTP_RESPONSE_INIT \
	{ \
		.status = 0 \
	}

void http_response_fini(struct http_response *r);

/* Value of a header, its name in any case; several of one name are joined by
 * ", " (RFC 9110, 5.3).  Caller owns; NULL if there is none. */
char *http_header(const struct http_response *r, const char *name) MUST_CHECK;

/* The meaning of a status other than 2xx to a caller, and its cure ("; ..."). */
struct http_refusal {
	long status;
	int code; /* an errno */
	const char *cure;
};

/* The one of `status` among `n`; -EIO's without a cure where there is none. */
struct http_refusal http_refusal_of(const struct http_refusal *v, size_t n,
				    long status);

/* The date of a header ("Sun, 06 Nov 1994 08:49:37 GMT") in ms since 1970; -1: it is
 * none. */
int64_t http_date_ms(const char *text);

/* How long the server wants to be left alone (Retry-After: seconds, or a date, which is
 * compared with the answer's own Date, as clocks differ), up to a day; 0: it does not say. */
uint64_t http_retry_after_ms(const struct http_response *r);

#define HTTP_STOP 1 /* from a sink: this is enough, and no failure */

/* Takes the body of a 2xx answer as it arrives; status and headers are in `r`.
 * Returns 0, HTTP_STOP or -errno, which http_do() then returns. */
struct http_sink {
	int (*put)(struct http_sink *s, const struct http_response *r,
		   const void *data, size_t len, struct error *err);
};

struct http_request {
	const char *method; /* "GET", "HEAD", "POST", ... */
	const char *url;
	const char *const
		*headers; /* "Name: value"; NULL ends it; may be NULL */

	/* The body of POST, PUT and PATCH: memory, or a range of a file. */
	const void *body;
	int body_fd;       /* used when `body` is NULL and body_len > 0 */
	uint64_t body_off; /* byte of the file */
	uint64_t body_len;

	bool stays; /* a redirect is the answer: the body is for this host */

	struct http_sink *sink; /* NULL: http_response.body */
	int64_t deadline_ns;    /* CLOCK_MONOTONIC; 0 is none */
	uint32_t reach_ms;      /* -ETIMEDOUT unless there is a connection, of
	                         * TCP alone, within so long; 0: config's bound */
	struct pace *pace;      /* may be NULL; PACE_STOP is seen within
	                          * HTTP_STOP_MS */
	bool negotiates;        /* log in by SPNEGO, as this process's user of
	                         * Kerberos; cookies are kept */
	bool is_greedy;         /* takes what the link gives: its pace does no
	                          * more than stop it */

	/* Bytes of the body sent so far; non-zero stops with -ECANCELED.
	 * May be NULL. */
	int (*sent)(void *arg, uint64_t n);
	void *sent_arg;

	/* No byte came or went for so long; about once a second.  May be NULL. */
	void (*silent)(void *arg, int64_t ms);
	void *silent_arg;
};

/*
 * Send one request and follow redirects; an Authorization header does not
 * travel to another host.  Returns 0 when a whole answer came, whatever its
 * status.  `r` must be initialised; it is reset here, and status and headers
 * stay valid on failure when there were any.
 *   -ETIMEDOUT     no connection, no byte, or the deadline is over
 *   -ECONNREFUSED  nothing listens there, or the name is not known
 *   -EIO           the connection broke, also while TLS began
 *   -EPROTO        TLS failed; the message says what to check
 *   -EFBIG         the answer is longer than allowed
 *   -EINVAL        not a URL that is allowed here
 *   -ENOMEM, -ECANCELED, or what the sink returned
 */
int http_do(struct http *c, const struct http_request *req,
	    struct http_response *r, struct error *err) MUST_CHECK;

#endif
