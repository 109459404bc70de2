// SPDX-License-Identifier: Apache-2.0
/* The ways there are, and what they need of the kernel. */
#ifndef BOOTSEER_DATAPATH_KINDS_H
#define BOOTSEER_DATAPATH_KINDS_H

#include "snapshotter/datapath.h"

extern const struct datapath_ops datapath_erofs_fuse;
extern const struct datapath_ops datapath_erofs_loop;
extern const struct datapath_ops datapath_plain_fuse;

/* datapath_ops.probe of each. */
int probe_erofs_fuse(const struct datapath_config *cfg, struct error *err);
int probe_erofs_loop(const struct datapath_config *cfg, struct error *err);
int probe_plain_fuse(const struct datapath_config *cfg, struct error *err);

#endif
