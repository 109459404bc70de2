// SPDX-License-Identifier: Apache-2.0
/* containerd's Snapshots service, and the half of its Diff service that unpacks
 * layers: messages in, calls of the snapshotter, replies out.  The table of messages
 * is docs/formats/snapshots.md. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SERVICE_H
#define BOOTSEER_CONTAINERD_PLUGIN_SERVICE_H

#include <stddef.h>

#include "common/error.h"
#include "containerd-plugin/snapshots.h"
#include "net/grpc_conn.h"
#include "net/loop.h"

struct plugin_service;

/* All arguments are borrowed; `snapshots` and `loop` must outlive the service. */
int service_new(struct loop *loop, struct snapshots *snapshots,
		size_t n_threads, struct plugin_service **ret,
		struct error *err) MUST_CHECK;

/* End the threads after the running calls; the server must have been freed. The calls' ends
 * are still posted to the loop. */
void snapshots_service_stop(struct plugin_service *s);

/* Free the service, after snapshots_service_stop() and loop_free(). */
void service_free(struct plugin_service *s);

/* For grpc_server_new(), with the service as its `arg`. */
const struct grpc_method *service_methods(void);

/* Number of calls that are not answered yet. */
size_t service_busy(const struct plugin_service *s);

/* Have `fn(arg)` called once, when no call is running. */
void service_when_idle(struct plugin_service *s, void (*fn)(void *arg),
		       void *arg);

#endif
