// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to lines of the control socket and of ready.sock, and the figures for
 * Prometheus.
 */
#ifndef BOOTSEER_NODE_CONTROL_H
#define BOOTSEER_NODE_CONTROL_H

#include "common/buf.h"
#include "snapshotter/node/node.h"

/* Answer a line of RUN/ready.sock, which is for everybody: a process says that
 * its container is ready, and may say nothing else. `pidfd`: of the same
 * process, or -1. One thread at a time. */
int node_ready_line(struct node *n, int pid, int pidfd, const char *line,
		    size_t len, struct buf *reply) MUST_CHECK;

/* Do what a line asks for and append the reply's line: see server.h. */
struct control_call;
int node_answer(struct node *n, struct control_call *call, const char *line,
		size_t len, struct buf *reply) MUST_CHECK;

/* Prometheus text of everything. */
int node_metrics(struct node *n, struct buf *ret) MUST_CHECK;
void node_metrics_list(FILE *out);

#endif
