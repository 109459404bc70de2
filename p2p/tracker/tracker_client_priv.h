// SPDX-License-Identifier: Apache-2.0
/*
 * Private parts of tracker_client.h. tracker_client.c has the trackers, their states, and the
 * choice of a tracker for a request; tracker_client_calls.c writes requests and reads answers.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_PRIV_H
#define BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_PRIV_H

#include "net/http.h"
#include "p2p/tracker/tracker_client.h"

struct tracker_ask {
	const char *path, *method;
	const struct buf *body; /* NULL: none */
	/* A condition header; NULL: none. 304 is an answer. */
	const char *condition;
	bool is_secret; /* the body is secret */
	bool is_call;   /* its answer tells whether this node may take part */
	bool is_probe;
	struct pace *pace; /* NULL: none */
	/* Members of tracker_client.c. */
	int64_t deadline_ns;
	const char *const *headers;
	size_t at; /* index of the tracker that answered */
};

/* Ask the trackers that are responsible for the image, one after the other, until one answers. */
int tracker_ask(struct tracker_client *c, const struct digest *image,
		struct tracker_ask *a, struct http_response *r,
		struct error *err) MUST_CHECK;
/* Ask tracker `i`, whatever its state. */
int tracker_ask_one(struct tracker_client *c, size_t i, struct tracker_ask *a,
		    struct http_response *r, struct error *err) MUST_CHECK;
/* Note that the answer to a call was read (`why` NULL), or could not be: -EPROTO. */
int tracker_answered(struct tracker_client *c, const struct tracker_ask *a,
		     long status, const char *why,
		     struct error *err) MUST_CHECK;

#endif
