// SPDX-License-Identifier: Apache-2.0
/*
 * Asks bootseerd about images through its control socket, and remembers the answers for a while.
 * Any thread; calls block for at most the configured time. They wait for a bootseerd that is
 * restarting, and repeat the request once: absence.h.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_IMAGES_H
#define BOOTSEER_CONTAINERD_PLUGIN_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "containerd-plugin/labels.h"
#include "containerd-plugin/turn.h"

struct image_lookup;

struct images_config {
	const char *socket; /* of bootseerd */
	/* names this snapshotter among bootseerd's users */
	const char *instance;
	int64_t timeout_ns;       /* limit of a request or a mount */
	int64_t layer_timeout_ns; /* limit of downloading a layer */
	int64_t start_timeout_ns; /* limit of the wait for a start's hot set */
	/* Prefix of the repositories that this snapshotter serves; NULL: all. Trees that are
	 * trusted only below another prefix are used if `scope` lies within that prefix, as all
	 * images of a snapshotter share snapshots by chain id. */
	const char *scope;
};

/* The strings of `config` must outlive it. */
int images_new(const struct images_config *config, struct image_lookup **ret,
	       struct error *err) MUST_CHECK;
void images_free(struct image_lookup *im);

/* A layer of a lazy image. */
struct image_layer {
	char *image;            /* reference; the caller frees it */
	struct digest manifest; /* of the ordinary image */
	struct digest tree;     /* the artifact that holds all layers */
	uint32_t layer;         /* 0 is the bottom */
	bool is_top;
};

enum images_answer {
	IMAGES_LAZY, /* `ret` is filled */
	/* The labels name no image, or it has no artifact that may be shared with the other
	 * images of this snapshotter. */
	IMAGES_ORDINARY,
	/* the image is outside of `config.scope`; `err` says so */
	IMAGES_FOREIGN,
	IMAGES_UNKNOWN, /* bootseerd cannot tell; `err` says why */
	IMAGES_LATER,   /* `turn` says what must be waited for first */
};

/*
 * Find the layer that these labels of Prepare name. `parent_chain` is the chain id of the
 * snapshot below, "" at the bottom. bootseerd is asked only once for an image and pull, however
 * many layers and threads need the answer. `turn`: as for turn_need().
 */
enum images_answer images_find(struct image_lookup *im,
			       const struct labels *labels,
			       const char *parent_chain, struct turn *turn,
			       struct image_layer *ret, struct error *err);

/*
 * Mount the tree for the snapshot `id`; the caller frees the path. `timeout_ns` 0: the
 * configured limit, which is also the maximum.
 *
 *   -EHOSTDOWN    not mounted: bootseerd does not run or cannot; `err` has a text for //
 * users
 *
 *   -EKEYREJECTED the tree is not trusted any more, or not for this snapshotter: use the //
 * image's ordinary layers
 *
 *   -ESTALE       bootseerd has deleted the tree (node gc): call images_find() again, //
 * which brings it back
 *
 *   -EINPROGRESS  unknown: bootseerd got the call and did not answer in time. The tree may //
 * be mounted, now or soon, until images_umount()
 */
int images_mount(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, int64_t timeout_ns, char **ret_path,
		 struct error *err) MUST_CHECK;

/*
 * Fetch an image again whose tree bootseerd has deleted (-ESTALE) though a snapshot needs it.
 * `*ret` is its new tree; the image's uppermost layer must have the chain id `chain`. -EHOSTDOWN
 * and -EKEYREJECTED as of images_mount().
 */
int images_bring(struct image_lookup *im, const char *image,
		 const struct digest *manifest, const char *chain,
		 struct digest *ret, struct error *err) MUST_CHECK;

/* The snapshot `id` no longer needs the tree; `tree` NULL: nor any other tree. */
int images_umount(struct image_lookup *im, const struct digest *tree,
		  uint64_t id, struct error *err) MUST_CHECK;

/* The snapshots for which bootseerd has images mounted; the caller frees the array. Does not
 * wait for a bootseerd that does not run. -ENOSYS: an older bootseerd, without this call. */
int images_users(struct image_lookup *im, int64_t timeout_ns, uint64_t **ret,
		 size_t *ret_n, struct error *err) MUST_CHECK;

/* A container that is about to start; where NULL is allowed, the comment says so. */
struct image_start {
	/* NULL: bootseerd reads it from the bundle later */
	const char *workload;
	/* name of a policy; NULL: bootseerd's default */
	const char *wait;
	const char *ready_file; /* path in the container; NULL: none */
	/* host path of the folder that the container writes to */
	const char *upper;
	const char *bundle; /* host path; NULL: not known */
};

/* Tell bootseerd that the container of snapshot `id` starts on the tree; returns when the
 * container need not wait for its files any more. A failure here must not fail the start. */
int images_start(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, const struct image_start *start,
		 struct error *err) MUST_CHECK;
int images_start_end(struct image_lookup *im, uint64_t id,
		     struct error *err) MUST_CHECK;

/* A layer of an image that may be downloaded. */
struct layer_source {
	const char *image; /* borrowed, as the rest */
	/* NULL: the manifest that the tag names now */
	const struct digest *manifest;
	uint32_t layer;
	/* chain id that the layer must have; NULL: any */
	const struct digest *chain_id;
};

/* Get the image that the labels of Prepare name; false: none. `*manifest` receives its
 * digest if the labels have it. */
bool images_named(const struct labels *labels, struct digest *manifest,
		  struct layer_source *ret);

/* Download an ordinary layer into the folder `dir`; `lower` are the folders of the layers
 * below, from the top down, joined by ':'. `turn` may be NULL. -ECANCELED: the turn was cut;
 * -EHOSTDOWN as of images_mount(); -ECONNRESET: bootseerd ended meanwhile: try again with an
 * empty folder. */
int images_apply(struct image_lookup *im, const struct layer_source *source,
		 const char *dir, const char *lower, const struct turn *turn,
		 struct error *err) MUST_CHECK;

struct node_layer;
struct node_layer_content;

/* Unpack a layer that containerd has: node_layer_unpack(). After a failure bootseerd may
 * still write to the folder until it unlocks it. */
int images_unpack(struct image_lookup *im, const struct node_layer *l,
		  const struct turn *turn, struct node_layer_content *ret,
		  struct error *err) MUST_CHECK;

#endif
