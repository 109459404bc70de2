// SPDX-License-Identifier: Apache-2.0
/* The first reading of an image's layers, some of them side by side. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_FIRST_PASS_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_FIRST_PASS_H

#include "snapshotter/convert/plan.h"

/* Each has two threads, 3 MiB of its bytes, and its decoder's window; one above
 * ZSTD_WINDOW_SMALL only the layer in turn has. */
#define FIRST_PASS_LAYERS 4

/*
 * Part of plan_make(): check the layers, make the tree, and collect the spans.  The
 * result is the same whatever `jobs` is.  After a failure no other layer is read on;
 * of several that fail the first one in time is told.
 */
int first_pass_run(struct plan *p, const struct plan_config *cfg,
		   struct error *err) MUST_CHECK;

#endif
