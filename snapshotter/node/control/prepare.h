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
 * prepare.c takes the first three in this order, or none if the image is on the node.
 */
#ifndef BOOTSEER_NODE_PREPARE_H
#define BOOTSEER_NODE_PREPARE_H

#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/resolve.h"
#include "snapshotter/node/trust/admission.h"

struct trace_early;

enum prepare_source {
	PREPARE_NODE,     /* the image was on the node */
	PREPARE_REGISTRY, /* the image was fetched now */
	/* the image was on the node; the registry could not be asked */
	PREPARE_STALE,
};

struct prepared {
	struct image *image; /* a use of the image */
	struct digest manifest;
	enum prepare_source source;
	struct error warning; /* why the image may be stale */
	/* the registry answered which manifest the reference names */
	bool answered;
	/* monotonic time at which the registry had answered; 0: it was not asked */
	int64_t resolved_ns;
	/* Repositories that may share the image's snapshots: a prefix of their names, owned by
	 * admission.c; "": all. */
	const char *scope;
	enum admission_reason untrusted; /* why no artifact may be used */
	/* The search for the trace of an image that was just fetched; the caller gives it to
	 * trace_lookup_prepare(). */
	struct trace_early *early;
};

/*
 * `err` is not NULL here: it becomes a stale image's warning. -EKEYREJECTED: no rule of --trust
 * admits the image's artifact, so the image is to start the ordinary way; that was logged and
 * noted for doctor.
 */
int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err) MUST_CHECK;

#endif
