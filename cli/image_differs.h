// SPDX-License-Identifier: Apache-2.0
/* Print differences between the blocks and the layers of an image. */
#ifndef BOOTSEER_CLI_IMAGE_DIFFERS_H
#define BOOTSEER_CLI_IMAGE_DIFFERS_H

#include "snapshotter/convert.h"

#define IMAGE_DIFFERS_SHOWN 20

struct image_differs {
	struct compare_report base;
	char shown[IMAGE_DIFFERS_SHOWN][256]; /* texts of the first
	                                       * differences */
};

void image_differs_start(struct image_differs *d);

/* Print the first differences on stdout, and the number of further ones. */
void image_differs_print(const struct image_differs *d);

#endif
