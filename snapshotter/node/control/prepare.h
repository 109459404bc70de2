// SPDX-License-Identifier: Apache-2.0
/* Having an image on the node: found here or fetched from its registry. */
#ifndef BOOTSEER_NODE_PREPARE_H
#define BOOTSEER_NODE_PREPARE_H

#include "objects/oci.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/remote_call.h"
#include "snapshotter/node/trust/admission.h"

struct trace_early;

/* Which image, as docs/formats/control.md says. */
struct image_query {
	const char *ref;
	const struct digest *manifest; /* NULL: what the tag points to */
	bool plain_http;
	/* What ends the work; NULL: only what needs no registry is done, else
	 * -EINPROGRESS. */
	struct remote_call *call;
};

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
 * `err` is not NULL here: it is what a stale image's warning says.
 * -EKEYREJECTED: no rule of --trust lets the image's artifact be used here, so it
 * is to start the ordinary way; that was noted for doctor and log.
 */
int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err) MUST_CHECK;

/* The manifest of the ordinary image, checked. */
int node_manifest(struct node *n, const struct image_query *q,
		  struct origin **ret_origin, struct oci_manifest *ret,
		  struct error *err) MUST_CHECK;

/*
 * Metadata image and block map of an artifact into `dir`, from peers where there are any,
 * else from `store`, and checked: the parser has looked at the whole of both, without
 * rights.  The swarm they came by is the caller's, for image_swarm_keep_metadata(); or
 * NULL.
 */
struct metadata_swarm;
struct metadata_swarm_of;
int prepare_fetch(struct node *n, const struct metadata_swarm_of *of,
		  struct oci_store *store, struct pace *pace, const char *dir,
		  struct metadata_swarm **ret, struct error *err) MUST_CHECK;

#endif
