// SPDX-License-Identifier: Apache-2.0
/* The kinds of data path, and probes of what they need from the kernel. */
#ifndef BOOTSEER_DATAPATH_KINDS_H
#define BOOTSEER_DATAPATH_KINDS_H

#include "snapshotter/datapath.h"

extern const struct datapath_ops datapath_erofs_fuse;
extern const struct datapath_ops datapath_erofs_loop;
extern const struct datapath_ops datapath_plain_fuse;

/* The probe of each kind, for datapath_ops.probe. */
int probe_erofs_fuse(const struct datapath_config *cfg, struct error *err);
int probe_erofs_loop(const struct datapath_config *cfg, struct error *err);
int probe_plain_fuse(const struct datapath_config *cfg, struct error *err);

#endif
