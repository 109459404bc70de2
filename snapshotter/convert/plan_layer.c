// SPDX-License-Identifier: Apache-2.0
/* Reading of one layer, shared by both passes over an image. */
#include <errno.h>

#include "snapshotter/convert/erofs_layer.h"
#include "snapshotter/convert/layer_type.h"
#include "snapshotter/convert/plan.h"
#include "snapshotter/convert/tar.h"

int plan_wrap_layer(const struct plan *p, size_t layer, int rc,
		    struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(&p->layers[layer].blob->digest, text);
	return error_wrap(err, rc, "layer %zu of %zu (%.19s)", layer + 1,
			  p->n_layers, text);
}

int plan_walk_layer(const struct plan *p, const struct plan_layer *l,
		    struct layer *stream, struct tar_visitor *v,
		    struct error *err)
{
	int rc;

	if (!layer_type_is_erofs(l->blob->media_type))
		return tar_walk(stream, v, err);
	rc = erofs_walk(stream, p->temp_dir, v, err);
	return rc == -ENOTSUP
		       ? error_wrap(err, rc,
				    "an EROFS image that is not read: convert "
				    "the image with ordinary layers (of an "
				    "index: the entry without os.features)")
		       : rc;
}
