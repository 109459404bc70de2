// SPDX-License-Identifier: Apache-2.0
/*
 * The carrier: a FUSE mount with one file for each image, the image's virtual data device.
 * Only the kernel opens these files, for EROFS.
 */
#ifndef BOOTSEER_DATAPATH_CARRIER_H
#define BOOTSEER_DATAPATH_CARRIER_H

#include "snapshotter/datapath/image_session.h"

/* `name` is the session's: each kind of data path has a carrier of its own. */
int carrier_start(const struct datapath_config *cfg, const char *name,
		  struct image_session **ret, struct error *err) MUST_CHECK;

/* Serve the image's file: 0, or 1 when it was served already. */
int carrier_add(struct image_session *s, struct datapath_image *img,
		struct error *err) MUST_CHECK;
/* Stop serving the image's file; a missing file is no error. */
void carrier_remove(struct image_session *s, struct datapath_image *img);

/* Path of the image's file; caller owns; NULL when memory is short. */
char *carrier_path(const struct image_session *s,
		   const struct datapath_image *img) MUST_CHECK;

#endif
