// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP/1.1 client on libcurl: blocking, thread-safe, with kept-alive connections. Retries and
 * credentials are left to the caller.
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
	65536u /* limit of other answers' bodies; the rest is dropped */
#define HTTP_REDIRECTS_MAX 10 /* the same as Go's clients */
#define HTTP_STOP_MS 50

#define HTTP_CURE_PROXY "; behind a proxy, https_proxy"

/* Advice in messages about failures: ends of sentences that name the options and keys to
 * change. All are required, except `proxy`. */
struct http_cures {
	const char *plain;   /* how to connect without TLS */
	const char *tls;     /* how to connect with TLS */
	const char *ca;      /* how to trust a certificate */
	const char *ca_file; /* what the file of certificates is called */
	/* what to do if a host is out of reach; NULL: no proxy is used or mentioned */
	const char *proxy;
};

struct http_config {
	/* borrowed; NULL: those for registries */
	const struct http_cures *cures;
	const char *ca_file; /* PEM; NULL: the system's */
	/* PEM text of more certificates to trust, or NULL */
	const char *more_ca;
	bool is_unverified; /* accept any certificate */
	/* PEM files for servers that ask for a client certificate, read for each connection;
	 * both or neither. */
	const char *cert_file, *key_file;
	bool allow_plain; /* http:// is allowed, also as a redirect's target */
	bool stays;       /* do not follow redirects: return them */
	bool is_direct;   /* use no proxy from the environment */
	/* send a Referer header when following a redirect */
	bool tells_referer;
	uint32_t connect_timeout_ms;
	/* longest time without a byte in or out; checked once a second */
	uint32_t stall_timeout_ms;
	/* Bytes a second, measured over stall_timeout_ms, below which a transfer counts as
	 * stalled; 0: none. Bulk that gives way (pace.h) may be slower. */
	uint64_t least_rate;
	unsigned int dscp;     /* of all packets; 0: the system's */
	unsigned int max_idle; /* connections kept open between requests; 0 is
	                        * 8 */
	/* Set to clock_now_ns() when bytes were sent, or an answer other than 429 and 5xx
	 * came. NULL: not wanted. */
	atomic_int_fast64_t *heard_ns;
};

struct http;

int http_new(const struct http_config *cfg, struct http **ret,
	     struct error *err) MUST_CHECK;
void http_free(struct http *c); /* no request may be running */
DEFINE_AUTO(http)

struct http_response {
	long status;        /* of the last answer; 0: none came */
	struct buf headers; /* "Name: value" strings, each with its NUL */
	struct buf body;    /* the part that no sink took */
	char *url;          /* final URL after redirects; NULL without one */
	char *referer;      /* Referer header sent to the final host, or NULL */
	/* the host answered, but nothing listens at the port */
	bool is_refused;
	/* How long the request took, and the server's share of it: from the request's last
	 * byte (without a body: from the connection) to the first byte of the last answer. Sent
	 * bytes may still have been in the kernel's buffers. */
	int64_t took_ns, wait_ns;
};

#define HTTP_RESPONSE_INIT \
	{ \
		.status = 0 \
	}

void http_response_fini(struct http_response *r);

/* Value of a header, whose name may be in any case; several of one name are joined by ", "
 * (RFC 9110, 5.3). The caller owns it; NULL if there is none. */
char *http_header(const struct http_response *r, const char *name) MUST_CHECK;

/* The meaning for a caller of a status other than 2xx, with advice ("; ..."). */
struct http_refusal {
	long status;
	int code; /* an errno */
	const char *cure;
};

/* Find the entry of `status` among `n`; without one: EIO and no advice. */
struct http_refusal http_refusal_of(const struct http_refusal *v, size_t n,
				    long status);

/* The date in a header ("Sun, 06 Nov 1994 08:49:37 GMT") in ms since 1970; -1: not a date. */
int64_t http_date_ms(const char *text);

/* How long the server asks not to be sent requests (Retry-After: seconds, or a date, which
 * is compared with the answer's own Date as clocks differ), at most a day; 0: it does not say. */
uint64_t http_retry_after_ms(const struct http_response *r);

/* returned by a sink that needs no more bytes; not a failure */
#define HTTP_STOP 1

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

	/* return a redirect instead of sending the body to another host */
	bool stays;

	struct http_sink *sink; /* NULL: the body goes to http_response.body */
	int64_t deadline_ns;    /* CLOCK_MONOTONIC; 0 is none */
	/* -ETIMEDOUT if there is no TCP connection within so long; 0: the config's limit */
	uint32_t reach_ms;
	/* may be NULL; a PACE_STOP takes effect within HTTP_STOP_MS */
	struct pace *pace;
	/* log in by SPNEGO, with this process's Kerberos user; cookies are kept */
	bool negotiates;
	/* uses the link fully: its pace can only stop it */
	bool is_greedy;

	/* Called with the bytes of the body sent so far; a non-zero result stops the request
	 * with -ECANCELED. May be NULL. */
	int (*sent)(void *arg, uint64_t n);
	void *sent_arg;

	/* Called about once a second with the time since the last byte. May be NULL. */
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
