// SPDX-License-Identifier: Apache-2.0
/*
 * The two passes over an image's layers: the first, planning, reads headers and makes the tree;
 * the second, copying, reads the files that the tree still has.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PLAN_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PLAN_H

#include "image/tree.h"
#include "objects/oci.h"
#include "snapshotter/convert.h"

#define PLAN_LAYERS_MAX 1024

struct plan_layer {
	const struct oci_descriptor *blob; /* borrowed */
	struct source *source;             /* stored bytes */
	/* copy of the verified stored bytes; -1: none */
	int spool_fd;
	struct inode **files; /* for each regular file, in the layer's order */
	size_t n_files, cap_files;
	uint64_t plain_bytes;
};

struct plan {
	struct oci_store *store; /* borrowed */
	struct tree *tree;
	struct plan_layer *layers;
	size_t n_layers;
	uint64_t plain_bytes; /* of all layers, unpacked */
	uint64_t image_bytes; /* bytes of the files in the tree */
	const char *temp_dir;
	struct convert_progress *progress; /* may be NULL */
	struct span_set *spans;
};

struct plan_config {
	struct oci_store *store;
	const struct oci_image *image; /* outlives the plan */
	/* one for each layer of the image; checked */
	const struct digest *diff_ids;
	/* Keep the stored layers in temp_dir, because the store is far away. */
	bool spool;
	const char *temp_dir;
	struct convert_progress *progress;
	/* Receives the points where decoding of layers can begin and, when files are copied,
	 * which bytes belong to which file; borrowed by the plan; may be NULL. */
	struct span_set *spans;
	/* set with a failure: the image is wrong, not the transfer; or NULL */
	bool *is_at_fault;
	/* Layers that the first pass reads at once, FIRST_PASS_LAYERS at most; 0 is 1. */
	unsigned int jobs;
	/* Folder of kept readings (layer_reading.h), named by the hexadecimal digest of their
	 * layer, which need not be read for its spans then; or NULL. */
	const char *readings;
};

/*
 * Read every layer once: check digests and diff ids, and make the tree from the headers.  The
 * message of a failure names layer and entry.
 */
int plan_make(const struct plan_config *cfg, struct plan **ret,
	      struct error *err) MUST_CHECK;
void plan_free(struct plan *p);
DEFINE_AUTO(plan)

/* Receives the content of the files in the tree, in the order of the layers. The same contract
 * as chunker_begin(), _data(), _end(). */
struct copy_sink {
	int (*begin)(struct copy_sink *s, struct inode *i, struct error *err);
	int (*data)(struct copy_sink *s, uint64_t off, const void *data,
		    size_t len, struct error *err);
	int (*end)(struct copy_sink *s, struct error *err);
};

struct upload;

struct layer;
struct tar_visitor;

/* Walk the entries of a layer of any type, by tar_walk() or erofs_walk(). */
int plan_walk_layer(const struct plan *p, const struct plan_layer *l,
		    struct layer *stream, struct tar_visitor *v,
		    struct error *err) MUST_CHECK;
/* Put "layer 3 of 5 (sha256:...): " before the message of a failure. */
int plan_wrap_layer(const struct plan *p, size_t layer, int rc,
		    struct error *err);

/*
 * Read the layers again and give the files of the tree to `sink`.  Layers for which `missing`
 * (n_layers, may be NULL) is true are uploaded unchanged.
 */
int plan_copy(struct plan *p, struct copy_sink *sink, const bool *missing,
	      struct upload *upload, struct error *err) MUST_CHECK;

#endif
