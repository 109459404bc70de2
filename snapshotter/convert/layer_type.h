/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of layers: which are read, and why others are not. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_TYPE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_TYPE_H

#include "blockstore/blockstore.h"
#include "objects/oci.h"

/* Check the layer's media type.  -ENOTSUP: such layers are not read; the message has the type,
 * and what to do. */
int layer_type_check(const struct oci_descriptor *layer,
		     struct error *err) MUST_CHECK;

/* Is a layer of this media type an EROFS image, and no tar? */
bool layer_type_is_erofs(const char *media_type);

/*
 * Explain why a layer could not be read (`rc`, from `source`, NULL when it was not opened) if
 * its kind is the reason: a foreign layer that is missing, or an unknown compression.  Returns
 * the code.
 */
int layer_type_explain(const char *media_type, struct source *source, int rc,
		       struct error *err) MUST_CHECK;

#endif
