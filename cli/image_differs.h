// SPDX-License-Identifier: Apache-2.0
/* Differences between blocks and layers of an image, for people. */
#ifndef BOOTSEER_CLI_IMAGE_DIFFERS_H
#define BOOTSEER_CLI_IMAGE_DIFFERS_H

#include "snapshotter/convert.h"

#define IMAGE_DIFFERS_SHOWN 20

struct image_differs {
	struct compare_report base;
	char shown[IMAGE_DIFFERS_SHOWN][256]; /* the first ones */
};

void image_differs_start(struct image_differs *d);

/* The first ones and how many more there are, on stdout; nothing when there are
 * none. */
void image_differs_print(const struct image_differs *d);

#endif
