// SPDX-License-Identifier: Apache-2.0
/* Declarations that the files of the HTTP server share. */
#ifndef BOOTSEER_NET_HTTPD_PRIV_H
#define BOOTSEER_NET_HTTPD_PRIV_H

#include <sys/queue.h>

#include "common/hash.h"
#include "net/httpd.h"
#include "net/listener.h"

struct bufferevent;
struct bufferevent_rate_limit_group;

enum httpd_conn_state {
	CONN_HEAD,    /* waiting for a head */
	CONN_QUEUED,  /* its body waits unread until there is memory */
	CONN_BODY,    /* the body is arriving */
	CONN_RUNNING, /* the handler has the request */
	/* the answer is being sent; an unwanted body is dropped meanwhile */
	CONN_ANSWER,
	/* the answer was sent; drops the body for a moment longer, then ends or waits for
	 * the next head */
	CONN_LINGER,
};

/* Shares into which owners are hashed. The hash is seeded, so nobody knows which share a
 * name gets; the first share is for requests without an owner. */
#define HTTPD_SHARES 1024u

struct httpd_share {
	uint64_t bytes; /* of memory for bodies */
	uint64_t held; /* places: bodies awaited, and requests at the handler */
	uint64_t large; /* bytes of large answers that are not taken yet */
};

struct httpd_conn {
	struct httpd *server;
	struct bufferevent *bev; /* NULL: the client has disconnected */
	enum httpd_conn_state state;
	struct loop_timer timer; /* the deadline of the state */
	struct httpd_request req;
	struct httpd_peer peer; /* peer of a Unix socket */
	struct httpd_share *share;
	char *head;       /* what req.head points to */
	char *body;       /* req.body, while it is read */
	uint64_t got;     /* bytes of it */
	uint64_t discard; /* bytes of a body to be dropped */
	/* bytes of a large answer, which is then in the list of these; or 0 */
	uint64_t large;
	/* streamed answer; read is NULL for other answers */
	struct httpd_stream stream;
	uint64_t stream_left; /* bytes that were not read yet */
	bool head_begun;
	bool continue_sent;
	bool has_ended; /* the client has ended its sending */
	bool last;      /* the connection ends after this answer */
	bool is_bare;   /* the answer has no head, as the request is not HTTP */
	bool is_cut;    /* it was closed before the answer's end */
	TAILQ_ENTRY(httpd_conn) all;
	TAILQ_ENTRY(httpd_conn) some; /* of idle, waiting or unread, by state */
	TAILQ_ENTRY(httpd_conn) by_large;
};
TAILQ_HEAD(httpd_conn_list, httpd_conn);

struct httpd {
	struct httpd_config cfg;
	struct listener listener;
	struct httpd_conn_list conns;
	struct httpd_conn_list idle;    /* CONN_HEAD, longest idle first */
	struct httpd_conn_list waiting; /* CONN_QUEUED, first come first */
	struct httpd_conn_list
		unread; /* CONN_ANSWER to unknown clients, oldest first */
	struct httpd_conn_list large; /* with large answers, oldest first */
	struct httpd_share shares[HTTPD_SHARES];
	struct hash_seed seed;
	struct httpd_stats stats;
	struct bufferevent_rate_limit_group
		/* limits all connections together; NULL: no limit */
		*rates;
	/* cfg.group is set, and peers can send descriptors */
	bool is_nudged;
	/* for the loop's thread; NULL: no connection came yet */
	struct nudge *nudge;
	struct loop_timer quiet; /* ends the nudging */
	bool stopping;
	void (*on_idle)(void *arg);
	void *on_idle_arg;
};

/* A connection was accepted; takes `fd`. */
void httpd_conn_new(struct httpd *s, int fd);

/* Unix sockets: httpd_unix.c. */
int httpd_unix_listen(struct httpd *s, int *ret, struct error *err) MUST_CHECK;
void httpd_unix_peer(const struct httpd *s, int fd, struct httpd_peer *ret);
/* The connection to close for a newcomer: the oldest without a request of the group that has
 * the most; or NULL. */
struct httpd_conn *httpd_unix_silent(const struct httpd *s);
/* Connections are open, or are being closed: interrupt closings that would block. False:
 * they cannot be interrupted. */
bool httpd_unix_nudge(struct httpd *s);
/* Close the connection now; its request stays until it is answered. */
void httpd_conn_close(struct httpd_conn *c);

/* Limit the rate at which all connections together send. */
int httpd_set_rate(struct httpd *s, struct error *err) MUST_CHECK;

/* A connection ended: accept others again. */
void httpd_resume(struct httpd *s);

#endif
