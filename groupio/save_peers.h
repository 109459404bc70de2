// SPDX-License-Identifier: Apache-2.0
/* Questions of a save's nodes to one another. */
#ifndef BOOTSEER_GROUPIO_SAVE_PEERS_H
#define BOOTSEER_GROUPIO_SAVE_PEERS_H

#include "groupio/save_priv.h"

/* Begin to be asked by other nodes; the address is in saves.addr then. */
int peers_begin(struct saves *s, struct error *err) MUST_CHECK;
void peers_end(struct saves *s);
void peers_kick(struct saves *s); /* something has changed: any thread */
/* A question to another node: for what it has of the save, or by what it is told. */
struct peer_question {
	const char *what;
	bool is_told;
	const void *text; /* that it is told */
	size_t len;
	/* Takes the answer, so that `ret` stays empty; its count of bytes is set to 0 before each
	 * try.  NULL: `ret` has it. */
	struct http_sink *sink;
	uint64_t *n_sunk;
};
/* Ask a node until it answers with what it was asked for.
 *   -ENOTCONN   the node is gone
 *   -EREMOTEIO  the save has failed there
 *   -ETIMEDOUT, -ECANCELED */
int peer_ask(struct save *v, size_t node, const struct peer_question *q,
	     struct buf *ret, struct error *err) MUST_CHECK;
int peer_get(struct save *v, size_t node, const char *what, struct buf *ret,
	     struct error *err) MUST_CHECK;
/* Ask once for what is there now, of a node that answered last at *heard_ns.  1: it is not there
 * yet; -EAGAIN: there was no answer, and the node is not taken for gone yet; else as peer_ask(). */
int peer_look(struct save *v, size_t node, const char *what, int64_t *heard_ns,
	      struct buf *ret, struct error *err) MUST_CHECK;
bool peer_is_refused(struct save *v, size_t node, int64_t now_ns);
/* Let a node know that the save has failed here.  Nobody is told that it does not know. */
void peer_tell_failure(struct save *v, size_t node);
/* With the lock: the save is not to go on. */
bool save_is_to_stop(const struct save *v);
/* Before a node that does not answer is asked again. */
void peer_pause(struct saves *s);
/* The save goes on without the node. */
void note_gone(struct save *v, size_t node, const char *why);

#endif
