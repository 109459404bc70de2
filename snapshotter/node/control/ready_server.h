// SPDX-License-Identifier: Apache-2.0
/*
 * RUN/ready.sock, where containers say that they are ready.  It has a loop and
 * threads of its own: a container that floods it delays no other work.
 */
#ifndef BOOTSEER_NODE_CONTROL_READY_SERVER_H
#define BOOTSEER_NODE_CONTROL_READY_SERVER_H

#include "common/error.h"

struct node;
struct ready_server;

int ready_server_start(struct node *n, struct ready_server **ret,
		       struct error *err) MUST_CHECK;
void ready_server_stop(struct ready_server *s);

#endif
