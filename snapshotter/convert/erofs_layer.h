// SPDX-License-Identifier: Apache-2.0
/* The entries of a layer that is an EROFS image, as containerd 2 makes them. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_EROFS_LAYER_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_EROFS_LAYER_H

#include "snapshotter/convert/tar.h"

/*
 * Read the layer to its end into a temporary file in `temp_dir`, then walk its folders; the
 * visitor gets entries as of a tar, with whiteouts and opaque folders as a tar's .wh. names.
 * The message of a failure names the entry.
 *     -EINVAL   no EROFS image, or a damaged one
 *     -ENOTSUP  compressed content, content in another device, marks of overlayfs that
 *                         no layer of a tar can have
 *     or what layer_read() or the visitor returned
 */
int erofs_walk(struct layer *l, const char *temp_dir, struct tar_visitor *v,
	       struct error *err) MUST_CHECK;

#endif
