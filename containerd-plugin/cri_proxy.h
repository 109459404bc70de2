// SPDX-License-Identifier: Apache-2.0
/*
 * The CRI's image service for the kubelet's imageServiceEndpoint: a socket whose bytes go to
 * containerd's socket and back unchanged. A PullImage is held, for a moment at most, until
 * bootseerd has the login in it: containerd will then request snapshots of the image.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_CRI_PROXY_H
#define BOOTSEER_CONTAINERD_PLUGIN_CRI_PROXY_H

#include "common/error.h"
#include "net/loop.h"

struct cri_proxy;

struct cri_proxy_config {
	const char *address;    /* of the socket; kept, as the others */
	const char *containerd; /* its socket */
	const char *node;       /* bootseerd's socket */
};

int cri_proxy_new(struct loop *loop, const struct cri_proxy_config *cfg,
		  struct cri_proxy **ret, struct error *err) MUST_CHECK;

/* Accept no more connections. */
void cri_proxy_drain(struct cri_proxy *p);

/* End all connections and the threads; call it before loop_free() and cri_proxy_free(). */
void cri_proxy_stop(struct cri_proxy *p);
/* Free the proxy; call it after loop_free(). */
void cri_proxy_free(struct cri_proxy *p); /* NULL is allowed for both */

#endif
