// SPDX-License-Identifier: Apache-2.0
/*
 * The two passes over an image's layers: planning reads headers and makes the
 * tree, copying reads the files that are left.
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
	int spool_fd;                      /* of verified stored bytes, or -1 */
	struct inode **files; /* of each regular file, in layer order */
	size_t n_files, cap_files;
	uint64_t plain_bytes;
};

struct plan {
	struct oci_store *store; /* borrowed */
	struct tree *tree;
	struct plan_layer *layers;
	size_t n_layers;
	uint64_t plain_bytes; /* of all layers, unpacked */
	uint64_t image_bytes; /* of all files that are left */
	const char *temp_dir;
	struct convert_progress *progress; /* may be NULL */
	struct span_set *spans;
};

struct plan_config {
	struct oci_store *store;
	const struct oci_image *image; /* outlives the plan */
	const struct digest *diff_ids; /* n_layers of the image; checked */
	/* Keep the stored layers in temp_dir: the store is far away. */
	bool spool;
	const char *temp_dir;
	struct convert_progress *progress;
	/* Takes where layers can be entered, and, when they are copied, which bytes
	 * are whose; borrowed by the plan.  NULL: nobody asks. */
	struct span_set *spans;
	bool *is_at_fault; /* set with a failure: the image is; or NULL */
	/* Layers that are read side by side the first time, of FIRST_PASS_LAYERS at
	 * most; 0 is 1. */
	unsigned int jobs;
	/* Folder of kept readings (layer_reading.h) by the hexadecimal digest of their layers,
	 * which are not read for the spans then; or NULL. */
	const char *readings;
};

/*
 * Read every layer once: digests and diff ids are checked, headers make the
 * tree.  The message of a failure names layer and entry.
 */
int plan_make(const struct plan_config *cfg, struct plan **ret,
	      struct error *err) MUST_CHECK;
void plan_free(struct plan *p);
DEFINE_AUTO(plan)

/* Takes the content of the files that are left, in the order of the layers.
 * The same contract as chunker_begin(), _data(), _end(). */
struct copy_sink {
	int (*begin)(struct copy_sink *s, struct inode *i, struct error *err);
	int (*data)(struct copy_sink *s, uint64_t off, const void *data,
		    size_t len, struct error *err);
	int (*end)(struct copy_sink *s, struct error *err);
};

struct upload;

struct layer;
struct tar_visitor;

/* The entries of a layer of any type: tar_walk() or erofs_walk(). */
int plan_walk_layer(const struct plan *p, const struct plan_layer *l,
		    struct layer *stream, struct tar_visitor *v,
		    struct error *err) MUST_CHECK;
/* "layer 3 of 5 (sha256:...): " before the message. */
int plan_wrap_layer(const struct plan *p, size_t layer, int rc,
		    struct error *err);

/*
 * Read the layers again and give the files that are left to `sink`.  Layers
 * for which `missing` (n_layers, may be NULL) is true are uploaded as they are.
 */
int plan_copy(struct plan *p, struct copy_sink *sink, const bool *missing,
	      struct upload *upload, struct error *err) MUST_CHECK;

#endif
