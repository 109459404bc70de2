// SPDX-License-Identifier: Apache-2.0
/*
 * The first step from a reference to an image: which manifest does the reference name? Asks the
 * repository, or containerd's content store on this machine; does not check trust, and fetches
 * no file.
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
	/* the manifest's digest; NULL: that of the tag */
	const struct digest *manifest;
	bool plain_http;
	/* The caller, which may end the work.  NULL: do only work that needs no registry, else
	 * -EINPROGRESS. */
	struct remote_call *call;
};

/* The query's reference, parsed. */
struct image_name {
	struct oci_ref ref;
	char *text; /* "host/repo:tag" or "host/repo@digest": for messages */
	/* the name under which the node has the image; NULL for a reference with a digest */
	char *alias;
	bool pinned;   /* the reference has a `digest` */
	bool of_image; /* the digest is an image manifest's, not an index's */
	struct digest digest; /* set when pinned */
	bool plain_http;
	struct remote_call *call;
};

int image_name_init(struct image_name *n, const struct image_query *q,
		    struct error *err) MUST_CHECK;
void image_name_fini(struct image_name *n);

/*
 * Returns "host/repo@digest", which the caller frees.  The digest alone would not do: the
 * repository decides which artifact belongs to the image, so an image of that digest in another
 * repository must not be found here.
 */
char *image_name_of_digest(const struct image_name *n,
			   const struct digest *d) MUST_CHECK;
/* Take a use of the image that the node has under that digest; NULL: there is none. */
struct image *image_name_find(const struct image_name *n, struct images *images,
			      const struct digest *d) MUST_CHECK;

/* The registry's answer. */
struct resolved {
	/* The image's manifest, or before resolve_platform() maybe an index. */
	struct oci_manifest manifest;
	/* digest of the manifest or index that the reference names */
	struct digest top;
	/* The search for artifacts, which runs at the same time; or NULL. */
	struct artifact_early *early;
};
#define RESOLVED_INIT ((struct resolved){ .manifest = { .body = BUF_INIT } })

/* Get the manifest or index that the reference names.  `containerd_root` is that of the option. */
int resolve_top(const struct image_name *n, struct oci_store *store,
		const char *containerd_root, struct resolved *ret,
		struct error *err) MUST_CHECK;
/* Replace an index by the manifest of this machine's platform. */
int resolve_platform(struct resolved *r, struct oci_store *store,
		     struct error *err) MUST_CHECK;
void resolved_fini(struct resolved *r);

/* Both steps for ordinary layers, without a search of the node's images.  Returns the checked
 * manifest and the repository, both the caller's. */
int resolve_manifest(struct origins *origins, const struct image_query *q,
		     struct origin **ret_origin, struct oci_manifest *ret,
		     struct error *err) MUST_CHECK;

#endif
