// SPDX-License-Identifier: Apache-2.0
/*
 * The first step from a reference to an image: which manifest does the reference name?
 * Asks the repository, or containerd's content store on this machine; judges nothing,
 * and fetches no file.
 */
#ifndef BOOTSEER_NODE_RESOLVE_H
#define BOOTSEER_NODE_RESOLVE_H

#include "objects/oci.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/remote_call.h"

/* The image that a caller wants, as docs/formats/control.md says. */
struct image_query {
	const char *ref;
	const struct digest *manifest; /* NULL: the one that the tag names */
	bool plain_http;
	/* Ends the work.  NULL: only work that needs no registry is done, else
	 * -EINPROGRESS. */
	struct remote_call *call;
};

/* The query's reference, parsed. */
struct image_name {
	struct oci_ref ref;
	char *text;    /* "host/repo:tag" or "host/repo@digest": for messages */
	char *alias;   /* the name that leads to the image; NULL when a digest
	              * was given */
	bool pinned;   /* to `digest` */
	bool of_image; /* the digest is an image's, not an index's */
	struct digest digest; /* when pinned */
	bool plain_http;
	struct remote_call *call;
};

int image_name_init(struct image_name *n, const struct image_query *q,
		    struct error *err) MUST_CHECK;
void image_name_fini(struct image_name *n);

/*
 * "host/repo@digest", the caller's.  The digest alone would not do: the repository
 * decides which artifact belongs to the image, so an image of that digest in another
 * repository must not be found here.
 */
char *image_name_of_digest(const struct image_name *n,
			   const struct digest *d) MUST_CHECK;
/* A use of the image that the node has under that digest; or NULL. */
struct image *image_name_find(const struct image_name *n, struct images *images,
			      const struct digest *d) MUST_CHECK;

/* The answer of the registry. */
struct resolved {
	/* An image's manifest, or an index until resolve_platform(). */
	struct oci_manifest manifest;
	struct digest
		top; /* of the manifest or index that the reference names */
	/* The search for artifacts, begun beside; or NULL. */
	struct artifact_early *early;
};
#define RESOLVED_INIT ((struct resolved){ .manifest = { .body = BUF_INIT } })

/* Get the manifest or index that the reference names.  `containerd_root` as the
 * option of that name. */
int resolve_top(const struct image_name *n, struct oci_store *store,
		const char *containerd_root, struct resolved *ret,
		struct error *err) MUST_CHECK;
/* Replace an index by the manifest of this machine's platform. */
int resolve_platform(struct resolved *r, struct oci_store *store,
		     struct error *err) MUST_CHECK;
void resolved_fini(struct resolved *r);

/* Both steps without a look at the node's images, for layers of ordinary images: the
 * manifest, checked, and the repository; the caller's. */
int resolve_manifest(struct origins *origins, const struct image_query *q,
		     struct origin **ret_origin, struct oci_manifest *ret,
		     struct error *err) MUST_CHECK;

#endif
