// SPDX-License-Identifier: Apache-2.0
/*
 * Form F1: the whole tree as one ordinary tar+gzip layer, written from the
 * same second pass that makes the blocks.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_FLAT_H

#include "snapshotter/convert/plan.h"

struct flat;

/* Make the layer; folders are written at once.  `t` and `upload` are borrowed. */
int flat_new(struct tree *t, unsigned int jobs, const char *temp_dir,
	     struct upload *upload, struct flat **ret,
	     struct error *err) MUST_CHECK;
void flat_free(struct flat *f);
DEFINE_AUTO(flat)

/* A sink that writes each file to the layer and passes it on to `next`;
 * borrowed from `f`. */
struct copy_sink *flat_wrap(struct flat *f, struct copy_sink *next);

/* Called after the last file: write everything without content, and the end of the tar.  The
 * layer is given to `upload`. */
int flat_close(struct flat *f, struct error *err) MUST_CHECK;

/* The digest of the layer's uncompressed bytes, after flat_close(). */
const struct digest *flat_diff_id(const struct flat *f);

/*
 * Make the image of that one layer: the old image's `config`, with other diff ids, is stored as
 * a blob; `ret` is the manifest, not stored yet, whose layer is annotated with `artifact`.
 */
int flat_manifest(struct flat *f, struct oci_store *store,
		  const struct buf *config, const struct digest *artifact,
		  struct oci_manifest *ret, struct error *err) MUST_CHECK;

#endif
