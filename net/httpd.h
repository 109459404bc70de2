// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP/1.1 server on the loop, with every resource bounded: connections,
 * heads, bodies held in memory, answers that are not yet taken, and the time for
 * each of them.  A body is read only after the head was accepted, so whoever has
 * no token costs a head.  (libevent's own server reads bodies first: see
 * docs/decisions/0007-registry-service.md.)
 */
#ifndef BOOTSEER_NET_HTTPD_H
#define BOOTSEER_NET_HTTPD_H

#include "common/buf.h"
#include "net/httpd_head.h"
#include "net/httpd_tls.h"
#include "net/loop.h"

#define HTTPD_HEAD_MAX 16384u  /* bytes of a head */
#define HTTPD_PEER_MAX 255u    /* bytes of a node's name */
#define HTTPD_SILENT_MAX 1024u /* connections_max with `group` */

struct httpd;

/* The process at the other end of a Unix socket. */
struct httpd_peer {
	int pid;
	int pidfd; /* of the same process, whatever its number becomes; -1 on
		    * kernels before 6.5 */
	uint64_t group; /* httpd_config.group() of it */
};

/* A request; it belongs to the server until it was answered. */
struct httpd_request {
	struct httpd_head head;
	const char *body; /* head.content_length bytes; NULL without */
	int64_t begun_ns; /* when its head was complete */
	const struct httpd_peer *peer; /* NULL over TCP */
	/* Whom the client's certificate names, bootseer://node/NAME; "". */
	char peer_node[HTTPD_PEER_MAX + 1];
	/* Set by head(), and looked at when it returns: whose it is.  Requests of
	 * one owner, until they are answered, leave half of the places, and of the
	 * memory for bodies, to others; when answers are too much memory, whoever
	 * has most of it gives way.  NULL: of nobody who is known. */
	const char *owner;
	void *user; /* the handler's, until it has answered */
};

/* The answer to send. Initialise with HTTPD_REPLY_INIT. */
struct httpd_reply {
	int status;
	const char *type;   /* Content-Type; NULL without a body */
	struct buf headers; /* more of them, each "Name: value\r\n" */

	/* The body: a text of its own, or bytes shared with others, which
	 * stay until release(release_arg) on the loop. */
	struct buf body;
	const void *shared;
	size_t shared_len;
	void (*release)(void *arg);
	void *release_arg;

	/* Or bytes that come as they are taken, when stream.read is set. */
	struct httpd_stream {
		uint64_t len; /* of all */
		/* Put the next `max` bytes at most into `buf`.  How many; 0: there
		 * are none yet, and httpd_more() says when; -errno: there will be
		 * none, and the connection ends.  Must not wait for long. */
		int64_t (*read)(void *arg, void *buf, size_t max);
		/* Once: all was taken, or nothing more can be.  From here on the
		 * request is gone. */
		void (*end)(void *arg);
		void *arg;
	} stream;
};

#define HTTPD_REPLY_INIT \
	{ \
		.status = HTTPD_OK \
	}
void httpd_reply_fini(struct httpd_reply *r);

/* Called on the loop. */
struct httpd_handler {
	/*
	 * A head came.  Either answer it with httpd_answer(), or return the
	 * most bytes that its body may have; a larger one is refused.
	 */
	uint64_t (*head)(void *arg, struct httpd_request *r);
	/* The body is there too: httpd_answer() it, now or later. */
	void (*request)(void *arg, struct httpd_request *r);
	/* A request whose head was accepted is answered by the server itself,
	 * or its client has gone: its body never came. */
	void (*drop)(void *arg, struct httpd_request *r);
	/* The client of a request that was not answered yet has gone, and has not only
	 * ended what it sends.  May answer.  May be NULL. */
	void (*gone)(void *arg, struct httpd_request *r);
	/* The text of an error, of the type `error_type`. */
	const char *error_type;
	int (*error)(void *arg, int status, const char *message,
		     struct buf *ret);
};

/* Figures since the start, or of now. */
struct httpd_stats {
	uint64_t connections, connections_total, connections_refused_total;
	uint64_t tls_failures_total;
	uint64_t requests_total, request_ns_total;
	uint64_t answers_2xx_total, answers_3xx_total, answers_4xx_total,
		answers_5xx_total;
	uint64_t received_bytes_total, sent_bytes_total;
	uint64_t body_bytes, bodies_waiting;
	uint64_t answer_bytes; /* of large answers that are not taken yet */
	uint64_t answers_dropped_total;
};

struct httpd_config {
	struct loop *loop;
	const char *name;   /* in the log, for its socket */
	const char *option; /* that gave `listen`, for messages */
	const char *listen; /* "ADDR:PORT", port 0: a free one */
	const char *path;   /* or a Unix socket, which root and our own user may
	                   * connect to; borrowed as long as the server is.
	                   * `option` is its cure: "choose another --run" */
	/* Everybody may connect to the Unix socket, for one request each.  Returns whose
	 * a peer is: when all places are taken, the one who has the most of them loses
	 * the oldest without a request.  The loop should be one of its own: see nudge.h.
	 * NULL: not everybody may connect. */
	uint64_t (*group)(const struct httpd_peer *peer);
	struct httpd_tls *tls; /* borrowed; NULL: plain */
	size_t connections_max;
	uint64_t body_memory;   /* bytes of bodies held at once; further ones
	                       * wait unread */
	uint64_t answer_memory; /* bytes of large answers held at once, if more
	                         * than one is */
	unsigned int dscp;      /* of all packets; 0: the system's */
	uint64_t send_rate; /* bytes a second, of all connections; 0 no bound */
	int64_t idle_ns;    /* between requests */
	int64_t request_ns; /* for a head, and again for a body, to come */
	const struct httpd_handler *handler;
	void *arg;
};

int httpd_new(const struct httpd_config *cfg, struct httpd **ret,
	      struct error *err) MUST_CHECK;
/* The port it listens on. */
unsigned int httpd_port(const struct httpd *s);

/* Answer; takes what `reply` holds and frees the request.  Exactly once for
 * each, also when the client has gone.  On the loop. */
void httpd_answer(struct httpd_request *r, struct httpd_reply *reply);
/* There are bytes of its stream again.  Before stream.end() was called. */
void httpd_more(struct httpd_request *r);
/* The same with an error's text. */
void httpd_answer_error(struct httpd_request *r, int status,
			const char *message);

/* The address of its client, for a log line; "gone" when that is.  On the loop. */
void httpd_from(struct httpd_request *r, char *ret, size_t size);

void httpd_get_stats(const struct httpd *s, struct httpd_stats *ret);

/* Accept nothing more and close what is idle; requests under way are answered.
 * `idle` is called on the loop when nothing is left. */
void httpd_stop(struct httpd *s, void (*idle)(void *arg), void *arg);
/* Close every connection at once.  Requests that are with their handler must
 * still be answered, then httpd_free() may be called; the loop may end before. */
void httpd_abort(struct httpd *s);
void httpd_free(struct httpd *s);

#endif
