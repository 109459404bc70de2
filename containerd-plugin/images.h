// SPDX-License-Identifier: Apache-2.0
/*
 * Bootseerd's knowledge of images, asked through its control socket and remembered for a
 * while. Any thread; every call blocks for at most the configured time. A bootseerd that
 * is being started again is waited for, and asked once more: absence.h.
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
	const char *socket;       /* of bootseerd */
	const char *instance;     /* names us among bootseerd's users */
	int64_t timeout_ns;       /* of a question or a mount */
	int64_t layer_timeout_ns; /* of downloading a layer */
	int64_t start_timeout_ns; /* of the wait for a start's hot set */
	/* Prefix of the repositories that this snapshotter is for; NULL: all.
	 * Trees that are trusted below a prefix only are used when this one
	 * lies in it: chain ids, and with them trees, are shared by all images of a
	 * snapshotter. */
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
	/* The labels name no image, or it has no artifact that may be shared with
	 * whatever else this snapshotter runs. */
	IMAGES_ORDINARY,
	IMAGES_FOREIGN, /* it is none of `config.scope`; `err` says so */
	IMAGES_UNKNOWN, /* bootseerd cannot tell; `err` says why */
	IMAGES_LATER,   /* `turn` says what has to be waited for first */
};

/*
 * Find the layer that these labels of Prepare tell of. `parent_chain` is the chain id of
 * the snapshot below, "" at the bottom. Asks once for an image and pull, however many
 * layers and threads ask. `turn`: as for turn_need().
 */
enum images_answer images_find(struct image_lookup *im,
			       const struct labels *labels,
			       const char *parent_chain, struct turn *turn,
			       struct image_layer *ret, struct error *err);

/*
 * Have the tree mounted for the snapshot `id`; the caller frees the path.  0 for
 * `timeout_ns` is the configured one, which is also the longest.
 *   -EHOSTDOWN    it is not mounted: bootseerd does not run or cannot; `err`
 *                 tells people
 *   -EKEYREJECTED it is not trusted any more, or not for this snapshotter: the
 *                 image's ordinary layers are to be used
 *   -ESTALE       bootseerd has forgotten the tree (node gc): images_find() asks
 *                 again, which brings it back
 *   -EINPROGRESS  nobody knows: bootseerd took the call and did not answer in
 *                 time.  It may be mounted, now or soon, until images_umount()
 */
int images_mount(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, int64_t timeout_ns, char **ret_path,
		 struct error *err) MUST_CHECK;

/*
 * bootseerd has forgotten a tree that a snapshot stands on (-ESTALE): have the
 * image that it is of on the node again.  `*ret` is its tree now, of an image whose
 * uppermost layer has the chain id `chain`.  -EHOSTDOWN, -EKEYREJECTED as above.
 */
int images_bring(struct image_lookup *im, const char *image,
		 const struct digest *manifest, const char *chain,
		 struct digest *ret, struct error *err) MUST_CHECK;

/* The snapshot `id` needs it no more; NULL: nor anything else. */
int images_umount(struct image_lookup *im, const struct digest *tree,
		  uint64_t id, struct error *err) MUST_CHECK;

/* The snapshots that bootseerd has images mounted for; the caller frees the array.
 * A bootseerd that does not run is not waited for.  -ENOSYS: it is one of before that
 * does not tell. */
int images_users(struct image_lookup *im, int64_t timeout_ns, uint64_t **ret,
		 size_t *ret_n, struct error *err) MUST_CHECK;

/* A container that is about to start; what may be NULL says so. */
struct image_start {
	const char *workload;   /* NULL: told by the bundle, later */
	const char *wait;       /* a policy; NULL: bootseerd's */
	const char *ready_file; /* path in the container; NULL: none */
	const char *upper;      /* host path of what the container writes */
	const char *bundle;     /* host path; NULL: not known */
};

/* Tell bootseerd that the container of snapshot `id` starts on the tree; returns
 * when it need not wait for its files any more.  A failure is no failure of the
 * start. */
int images_start(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, const struct image_start *start,
		 struct error *err) MUST_CHECK;
int images_start_end(struct image_lookup *im, uint64_t id,
		     struct error *err) MUST_CHECK;

/* A layer of an image that may be downloaded. */
struct layer_source {
	const char *image;             /* borrowed, as the rest */
	const struct digest *manifest; /* NULL: what the tag names now */
	uint32_t layer;
	const struct digest *chain_id; /* what it must have; NULL: any */
};

/* The image that the labels of Prepare name; false: none.  `*manifest` is where its
 * digest is put if they have it. */
bool images_named(const struct labels *labels, struct digest *manifest,
		  struct layer_source *ret);

/* Download an ordinary layer into the folder `dir`; `lower` are the folders of
 * those below, from the top down, joined by ':'.  `turn` may be NULL; -ECANCELED:
 * it is cut.  -EHOSTDOWN as above;
 * -ECONNRESET: bootseerd ended meanwhile, and may be asked again with an empty
 * folder. */
int images_apply(struct image_lookup *im, const struct layer_source *source,
		 const char *dir, const char *lower, const struct turn *turn,
		 struct error *err) MUST_CHECK;

struct node_layer;
struct node_layer_content;

/* Unpack a layer that containerd has: node_layer_unpack().  After a failure bootseerd may still
 * write, until it has unlocked the folder. */
int images_unpack(struct image_lookup *im, const struct node_layer *l,
		  const struct turn *turn, struct node_layer_content *ret,
		  struct error *err) MUST_CHECK;

#endif
