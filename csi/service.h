// SPDX-License-Identifier: Apache-2.0
/* The gRPC services that the kubelet calls: csi.v1.Identity, csi.v1.Node and the registration,
 * in one table of methods. */
#ifndef BOOTSEER_CSI_SERVICE_H
#define BOOTSEER_CSI_SERVICE_H

#include "csi/volumes.h"
#include "net/grpc_server.h"

#define CSI_DRIVER "csi.bootseer"

struct csi_service;

/* All members are borrowed. */
struct csi_service_config {
	struct loop *loop;
	struct volumes *volumes;
	const char *node_name;
	/* path of the csi.v1 socket, which the kubelet is told */
	const char *endpoint;
};

int csi_service_new(const struct csi_service_config *cfg,
		    struct csi_service **ret, struct error *err) MUST_CHECK;
/* End the threads; waits for calls under way.  Call it before loop_free(). */
void csi_service_stop(struct csi_service *s);
/* Free the service; call it after loop_free(). */
void csi_service_free(struct csi_service *s);

const struct grpc_method *csi_service_methods(void);

/* Call `fn` on the loop when no call is under way, now or later. */
void csi_service_when_idle(struct csi_service *s, void (*fn)(void *arg),
			   void *arg);

#endif
