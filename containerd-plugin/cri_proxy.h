// SPDX-License-Identifier: Apache-2.0
/*
 * The CRI's image service for the kubelet's imageServiceEndpoint: a socket whose bytes go to
 * containerd's and back unchanged.  A PullImage among them waits until bootseerd has the
 * login that it carries, a moment at most: containerd asks for the image's snapshots then.
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

/* Take no further connections. */
void cri_proxy_drain(struct cri_proxy *p);

/* Before loop_free() and cri_proxy_free(): ends all connections, and its threads. */
void cri_proxy_stop(struct cri_proxy *p);
/* After loop_free(). */
void cri_proxy_free(struct cri_proxy *p); /* both: NULL is allowed */

#endif
