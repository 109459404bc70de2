// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_TESTS_DATAPATH_IMAGE_H
#define BOOTSEER_TESTS_DATAPATH_IMAGE_H

#include "common/error.h"

/* Make `meta` and `data`, an image as convert lays it out, of the folder `dir`:
 * files up to 2 KiB inline, holes kept, hard links, xattrs and devices too. */
int datapath_image_make(const char *dir, const char *meta, const char *data,
			struct error *err) MUST_CHECK;

#endif
