// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP/1.1 server on the loop, in which every resource is limited: connections, heads, bodies
 * in memory, answers that are not yet read, and the time for each. A body is read only after its
 * head was accepted, so a client without a token can send no more than a head. (libevent's own
 * server reads bodies first: see docs/decisions/0007-registry-service.md.)
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

/* A request; the server owns it until it is answered. */
struct httpd_request {
	struct httpd_head head;
	const char *body; /* head.content_length bytes; NULL without */
	int64_t begun_ns; /* when its head was complete */
	const struct httpd_peer *peer; /* NULL over TCP */
	/* Node named in the client's certificate by bootseer://node/NAME, or "". */
	char peer_node[HTTPD_PEER_MAX + 1];
	/* Set by head(): identifies the client. Unanswered requests of one owner may hold
	 * half of the places, and of the memory for bodies; when answers take too much memory,
	 * the owner with most of it loses answers. NULL: unknown client. */
	const char *owner;
	void *user; /* free for the handler, until it has answered */
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

	/* Or, when stream.read is set, bytes that are produced as the client reads them. */
	struct httpd_stream {
		uint64_t len; /* length of the whole body */
		/* Put up to `max` next bytes into `buf`; returns their number; 0: none yet,
		 * httpd_more() will say when; -errno: the connection must end. Must not block
		 * for long. */
		int64_t (*read)(void *arg, void *buf, size_t max);
		/* Called once, when all was taken or no more can be; the request is freed
		 * then. */
		void (*end)(void *arg);
		void *arg;
	} stream;
};

#define HTTPD_REPLY_INIT \
	{ \
		.status = HTTPD_OK \
	}
void httpd_reply_fini(struct httpd_reply *r);

/* Callbacks, on the loop. */
struct httpd_handler {
	/*
	 * A head arrived. Either answer it with httpd_answer(), or return the most bytes that
	 * its body may have; larger ones are refused.
	 */
	uint64_t (*head)(void *arg, struct httpd_request *r);
	/* The body is there too: httpd_answer() it, now or later. */
	void (*request)(void *arg, struct httpd_request *r);
	/* The body of an accepted head never came: the server itself answers, or the client
	 * has disconnected. */
	void (*drop)(void *arg, struct httpd_request *r);
	/* The client of an unanswered request has disconnected (not only ended its sending).
	 * May answer. May be NULL. */
	void (*gone)(void *arg, struct httpd_request *r);
	/* Write the body of an error's answer, of type `error_type`. */
	const char *error_type;
	int (*error)(void *arg, int status, const char *message,
		     struct buf *ret);
};

/* Counts since the start, or current values. */
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
	const char *name;   /* name of its socket, for the log */
	const char *option; /* option that gave `listen`, for messages */
	const char *listen; /* "ADDR:PORT", port 0: a free one */
	/* or a Unix socket, to which root and this process's user may connect; borrowed as
	 * long as the server exists. `option` is then the advice: "choose another --run" */
	const char *path;
	/* Set: everybody may connect to the Unix socket, for one request each. Returns the
	 * peer's group: when all places are taken, the group with most connections loses its
	 * oldest one without a request. The loop should be used for nothing else: see nudge.h. */
	uint64_t (*group)(const struct httpd_peer *peer);
	struct httpd_tls *tls; /* borrowed; NULL: plain */
	size_t connections_max;
	/* limit of bytes of bodies in memory; further bodies wait unread */
	uint64_t body_memory;
	/* limit of bytes of large answers in memory; does not apply to a single one */
	uint64_t answer_memory;
	unsigned int dscp;  /* of all packets; 0: the system's */
	uint64_t send_rate; /* bytes a second of all connections; 0: no limit */
	int64_t idle_ns;    /* longest time between requests */
	/* longest time for a head, and for a body, to arrive */
	int64_t request_ns;
	const struct httpd_handler *handler;
	void *arg;
};

int httpd_new(const struct httpd_config *cfg, struct httpd **ret,
	      struct error *err) MUST_CHECK;
/* The port it listens on. */
unsigned int httpd_port(const struct httpd *s);

/* Answer a request; takes the contents of `reply`, and frees the request. Call it exactly
 * once for each request, also when the client has disconnected. On the loop. */
void httpd_answer(struct httpd_request *r, struct httpd_reply *reply);
/* The request's stream has bytes again. Not after stream.end(). */
void httpd_more(struct httpd_request *r);
/* Answer with an error and its text. */
void httpd_answer_error(struct httpd_request *r, int status,
			const char *message);

/* The client's address, for the log; "gone" when it has disconnected. On the loop. */
void httpd_from(struct httpd_request *r, char *ret, size_t size);

void httpd_get_stats(const struct httpd *s, struct httpd_stats *ret);

/* Accept no more connections, and close idle ones; running requests are still answered.
 * `idle` is called on the loop when none is left. */
void httpd_stop(struct httpd *s, void (*idle)(void *arg), void *arg);
/* Close every connection at once. Requests at their handlers must still be answered before
 * httpd_free() is called; the loop may end earlier. */
void httpd_abort(struct httpd *s);
void httpd_free(struct httpd *s);

#endif
