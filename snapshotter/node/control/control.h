// SPDX-License-Identifier: Apache-2.0
/* Answers on the control socket and on ready.sock, and the figures for Prometheus. */
#ifndef BOOTSEER_NODE_CONTROL_H
#define BOOTSEER_NODE_CONTROL_H

#include "common/buf.h"
#include "snapshotter/node/control/node.h"

struct control_call;

/* Answer a request on RUN/ready.sock, which every process may open: it can only say that its
 * container is ready.  One thread at a time.  Called as control_server_config.answer(), like
 * node_answer(). */
int node_ready(struct node *n, const struct control_call *call,
	       struct buf *reply) MUST_CHECK;

/* Do what a call of the control socket asks for. */
int node_answer(struct node *n, struct control_call *call,
		struct buf *reply) MUST_CHECK;

/* All figures of the node as Prometheus text. */
int node_metrics(struct node *n, struct buf *ret) MUST_CHECK;
void node_metrics_list(FILE *out);

#endif
