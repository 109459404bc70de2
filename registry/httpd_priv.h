// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the HTTP server only. */
#ifndef BOOTSEER_REGISTRY_HTTPD_PRIV_H
#define BOOTSEER_REGISTRY_HTTPD_PRIV_H

#include <sys/queue.h>

#include "registry/httpd.h"

struct bufferevent;
struct evconnlistener;

enum conn_state {
	CONN_HEAD,    /* a head is awaited */
	CONN_QUEUED,  /* its body waits, unread, for memory */
	CONN_BODY,    /* the body comes */
	CONN_RUNNING, /* the handler has it */
	CONN_ANSWER,  /* the answer is on its way; a body nobody wants is
	               * dropped meanwhile */
	CONN_LINGER,  /* the answer was sent; the same, then the end */
};

struct conn {
	struct httpd *server;
	struct bufferevent *bev; /* NULL: the client has gone */
	enum conn_state state;
	struct loop_timer timer; /* the deadline of the state */
	struct httpd_request req;
	char *head;       /* what req.head points to */
	char *body;       /* req.body, while it is read */
	uint64_t got;     /* bytes of it */
	uint64_t discard; /* bytes of a body to be dropped */
	bool head_begun;
	bool continue_sent;
	bool last; /* the connection ends with this answer */
	TAILQ_ENTRY(conn) all;
	TAILQ_ENTRY(conn) some; /* of idle or waiting, by state */
};
TAILQ_HEAD(conn_list, conn);

struct httpd {
	struct httpd_config cfg;
	struct evconnlistener *listener;
	unsigned int port;
	struct conn_list conns;
	struct conn_list idle;    /* CONN_HEAD, longest idle first */
	struct conn_list waiting; /* CONN_QUEUED, first come first */
	struct loop_timer accept_again;
	struct httpd_stats stats;
	bool paused; /* the listener is */
	bool stopping;
	void (*on_idle)(void *arg);
	void *on_idle_arg;
};

/* A connection was accepted; takes `fd`. */
void conn_new(struct httpd *s, int fd);
/* Close it now; its request stays until it is answered. */
void conn_close(struct conn *c);

/* A connection ended: others may come. */
void httpd_resume(struct httpd *s);

#endif
