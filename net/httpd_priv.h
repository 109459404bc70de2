// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the HTTP server only. */
#ifndef BOOTSEER_NET_HTTPD_PRIV_H
#define BOOTSEER_NET_HTTPD_PRIV_H

#include <sys/queue.h>

#include "common/hash.h"
#include "net/httpd.h"
#include "net/listener.h"

struct bufferevent;
struct bufferevent_rate_limit_group;

enum httpd_conn_state {
	CONN_HEAD,    /* a head is awaited */
	CONN_QUEUED,  /* its body waits, unread, for memory */
	CONN_BODY,    /* the body comes */
	CONN_RUNNING, /* the handler has it */
	CONN_ANSWER,  /* the answer is on its way; a body nobody wants is
	               * dropped meanwhile */
	CONN_LINGER,  /* the answer was sent; the same for a moment, then the
	               * end, or the next head */
};

/* Number of shares of owners. The hash of their names is seeded, so nobody
 * knows which share a name gets; the first share is for requests without an
 * owner. */
#define HTTPD_SHARES 1024u

struct httpd_share {
	uint64_t bytes; /* of memory for bodies */
	uint64_t held; /* places: bodies awaited, and requests at the handler */
	uint64_t large; /* bytes of large answers that are not taken yet */
};

struct httpd_conn {
	struct httpd *server;
	struct bufferevent *bev; /* NULL: the client has gone */
	enum httpd_conn_state state;
	struct loop_timer timer; /* the deadline of the state */
	struct httpd_request req;
	struct httpd_peer peer; /* of a Unix socket */
	struct httpd_share *share;
	char *head;       /* what req.head points to */
	char *body;       /* req.body, while it is read */
	uint64_t got;     /* bytes of it */
	uint64_t discard; /* bytes of a body to be dropped */
	uint64_t large;   /* bytes of its answer, in the list of these; or 0 */
	struct httpd_stream stream; /* its answer; read NULL: another one */
	uint64_t stream_left;       /* bytes that were not read yet */
	bool head_begun;
	bool continue_sent;
	bool has_ended; /* the client sends nothing more */
	bool last;      /* the connection ends with this answer */
	bool is_bare;   /* its answer has no head, as its request is not HTTP */
	bool is_cut;    /* it ends before the answer does */
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
		unread; /* CONN_ANSWER to nobody known, the same */
	struct httpd_conn_list large; /* whose answers are, the same */
	struct httpd_share shares[HTTPD_SHARES];
	struct hash_seed seed;
	struct httpd_stats stats;
	struct bufferevent_rate_limit_group
		*rates;      /* of all connections; NULL: no bound */
	bool is_nudged;      /* cfg.group, and peers can send descriptors */
	struct nudge *nudge; /* of the loop's thread; NULL: nobody came yet */
	struct loop_timer quiet; /* ends it */
	bool stopping;
	void (*on_idle)(void *arg);
	void *on_idle_arg;
};

/* A connection was accepted; takes `fd`. */
void httpd_conn_new(struct httpd *s, int fd);

/* Unix sockets: httpd_unix.c. */
int httpd_unix_listen(struct httpd *s, int *ret, struct error *err) MUST_CHECK;
void httpd_unix_peer(const struct httpd *s, int fd, struct httpd_peer *ret);
/* The connection that gives its place to a newcomer: the oldest without a request of the group
 * that has the most; NULL. */
struct httpd_conn *httpd_unix_silent(const struct httpd *s);
/* Connections are there, or end: what closing them takes is not waited for.  False: it
 * would be. */
bool httpd_unix_nudge(struct httpd *s);
/* Close it now; its request stays until it is answered. */
void httpd_conn_close(struct httpd_conn *c);

/* For what all connections send together. */
int httpd_set_rate(struct httpd *s, struct error *err) MUST_CHECK;

/* A connection ended: others may come. */
void httpd_resume(struct httpd *s);

#endif
