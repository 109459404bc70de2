// SPDX-License-Identifier: Apache-2.0
/* Requests between the nodes of a save. */
#ifndef BOOTSEER_GROUPIO_SAVE_PEERS_H
#define BOOTSEER_GROUPIO_SAVE_PEERS_H

#include "groupio/save_priv.h"

/* Begin to serve other nodes; saves.addr is set then. */
int peers_begin(struct saves *s, struct error *err) MUST_CHECK;
void peers_end(struct saves *s);
/* wake waiting requests after a change; any thread */
void peers_kick(struct saves *s);
/* A request to another node: it fetches something of the save, or delivers a message. */
struct peer_question {
	const char *what;
	bool is_told;
	const void *text; /* text of the message */
	size_t len;
	/* Receives the answer's bytes instead of `ret`; `*n_sunk` counts them and is reset
	 * before each try. NULL: the answer goes to `ret`. */
	struct http_sink *sink;
	uint64_t *n_sunk;
};
/* Send a request to a node until it answers with a result. //   -ENOTCONN   the node is dead
 * //   -EREMOTEIO  the save has failed there //   -ETIMEDOUT, -ECANCELED */
int peer_ask(struct save *v, size_t node, const struct peer_question *q,
	     struct buf *ret, struct error *err) MUST_CHECK;
int peer_get(struct save *v, size_t node, const char *what, struct buf *ret,
	     struct error *err) MUST_CHECK;
/* Send a request once to a node that last answered at *heard_ns. 1: there is no result yet;
 * -EAGAIN: no answer, but the node does not count as dead yet; else as peer_ask(). */
int peer_look(struct save *v, size_t node, const char *what, int64_t *heard_ns,
	      struct buf *ret, struct error *err) MUST_CHECK;
bool peer_is_refused(struct save *v, size_t node, int64_t now_ns);
/* Tell a node that the save has failed here; a lost message is not sent again. */
void peer_tell_failure(struct save *v, size_t node);
/* Must the save stop? With the lock. */
bool save_is_to_stop(const struct save *v);
/* Pause before a request to a silent node is repeated. */
void peer_pause(struct saves *s);
/* Note that the save goes on without the node. */
void note_gone(struct save *v, size_t node, const char *why);

#endif
