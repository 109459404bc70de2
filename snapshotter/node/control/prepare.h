// SPDX-License-Identifier: Apache-2.0
/*
 * Having an image on the node.  The way from a reference to a mount has four steps, a
 * file each:
 *
 *   resolve.h  reference -> the image's manifest, by its registry
 *   admit.h    manifest  -> an artifact that may be used here
 *   fetch.h    artifact  -> its files on the node, an image of the table
 *   starts/mount.h       -> the kernel's mount, whose blocks come when they are read
 *
 * prepare.c takes the first three in this order, or none where the image is here.
 */
#ifndef BOOTSEER_NODE_PREPARE_H
#define BOOTSEER_NODE_PREPARE_H

#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/resolve.h"
#include "snapshotter/node/trust/admission.h"

struct trace_early;

enum prepare_source {
	PREPARE_NODE,     /* everything was here */
	PREPARE_REGISTRY, /* fetched now */
	PREPARE_STALE,    /* here; the registry could not be asked */
};

struct prepared {
	struct image *image; /* a use */
	struct digest manifest;
	enum prepare_source source;
	struct error warning; /* why it is stale */
	bool answered;        /* the registry said what the reference names */
	int64_t resolved_ns; /* when the registry had said what to fetch, monotonic; or 0 */
	/* How far its snapshots may be shared: a prefix of repositories that
	 * admission.c owns; "" is everywhere. */
	const char *scope;
	enum admission_reason untrusted; /* why no artifact may be used */
	/* The search for its trace, when the image came only now: the caller's,
	 * for trace_lookup_prepare(). */
	struct trace_early *early;
};

/*
 * `err` is not NULL here: it becomes a stale image's warning.
 * -EKEYREJECTED: no rule of --trust lets the image's artifact be used here, so it
 * is to start the ordinary way; that was noted for doctor and log.
 */
int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err) MUST_CHECK;

#endif
