// SPDX-License-Identifier: Apache-2.0
/* The first reading of an image's layers, several at the same time. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_FIRST_PASS_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_FIRST_PASS_H

#include "snapshotter/convert/plan.h"

/* Layers that are read at once.  Each needs two threads, 3 MiB of buffers, and its decoder's
 * window; only the layer in turn may have a window above ZSTD_WINDOW_SMALL. */
#define FIRST_PASS_LAYERS 4

/*
 * Part of plan_make(): check the layers, make the tree, and collect the spans.  The result is
 * the same whatever `jobs` is.  After a failure the other layers are not read further; if
 * several fail, the one that failed first is reported.
 */
int first_pass_run(struct plan *p, const struct plan_config *cfg,
		   struct error *err) MUST_CHECK;

#endif
