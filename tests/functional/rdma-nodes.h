// SPDX-License-Identifier: Apache-2.0
/* A scenario of rdma-test with processes of their own: whole links of nodes. */
#ifndef BOOTSEER_TESTS_RDMA_NODES_H
#define BOOTSEER_TESTS_RDMA_NODES_H

#include <stdbool.h>

struct servers;

/* Start two processes that serve pieces, before anything of RDMA is open. */
struct servers *rdma_servers_start(void);
void rdma_servers_stop(struct servers *s);
/* Get pieces of the first, kill it in the middle, get the rest of the second.
 * False: what was not so is on stderr. */
bool rdma_servers_kill_one(struct servers *s);

#endif
