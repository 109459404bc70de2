// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of tracker_client.h.  tracker_client.c owns the trackers, what became of each,
 * and whom a request goes to; tracker_client_calls.c what the requests say.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_PRIV_H
#define BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_PRIV_H

#include "net/http.h"
#include "p2p/tracker/tracker_client.h"

struct tracker_ask {
	const char *path, *method;
	const struct buf *body; /* NULL: none */
	const char *condition;  /* a header; NULL: none. 304 is an answer */
	bool is_secret;         /* the body is */
	bool is_call; /* its answer tells whether this node may take part */
	bool is_probe;
	struct pace *pace; /* NULL: none */
	/* Members of tracker_client.c. */
	int64_t deadline_ns;
	const char *const *headers;
	size_t at; /* which of them answered */
};

/* Ask the trackers that are responsible for the image, one after the other, until one answers. */
int tracker_ask(struct tracker_client *c, const struct digest *image,
		struct tracker_ask *a, struct http_response *r,
		struct error *err) MUST_CHECK;
/* Tracker `i`, whatever became of it before. */
int tracker_ask_one(struct tracker_client *c, size_t i, struct tracker_ask *a,
		    struct http_response *r, struct error *err) MUST_CHECK;
/* The answer to a call was read, `why` NULL; or could not be: -EPROTO. */
int tracker_answered(struct tracker_client *c, const struct tracker_ask *a,
		     long status, const char *why,
		     struct error *err) MUST_CHECK;

#endif
