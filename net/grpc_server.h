// SPDX-License-Identifier: Apache-2.0
/* A gRPC server on a Unix socket, in the loop. */
#ifndef BOOTSEER_NET_GRPC_SERVER_H
#define BOOTSEER_NET_GRPC_SERVER_H

#include "common/error.h"
#include "net/grpc_conn.h"
#include "net/loop.h"

struct grpc_server;

/* `methods` and `arg` as in struct grpc_conn_ops. */
int grpc_server_new(struct loop *loop, const struct grpc_method *methods,
		    void *arg, struct grpc_server **ret,
		    struct error *err) MUST_CHECK;

/* End all connections; calls that a service still has go on without one. */
void grpc_server_free(struct grpc_server *s);
DEFINE_AUTO(grpc_server)

/*
 * Accept on the socket `path`. It appears once connections are accepted, and replaces a socket
 * that another process left. EADDRINUSE: a process serves it. Only root and this process's own
 * user may connect.
 */
int grpc_server_listen(struct grpc_server *s, const char *path,
		       struct error *err) MUST_CHECK;

/* Accept on a socket that listens already.  Takes `fd`, also on failure. */
int grpc_server_adopt(struct grpc_server *s, int fd,
		      struct error *err) MUST_CHECK;

/* Accept no more, and ask clients to start no further calls. */
void grpc_server_drain(struct grpc_server *s);

#endif
