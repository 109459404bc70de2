// SPDX-License-Identifier: Apache-2.0
/*
 * Which files lie where in the data device of a metadata image.
 */
#ifndef BOOTSEER_IMAGE_EROFS_FILE_MAP_H
#define BOOTSEER_IMAGE_EROFS_FILE_MAP_H

#include "blockstore/file_map.h"
#include "image/erofs/erofs.h"

/*
 * Walk the whole image once.  `img` and the bytes behind it are borrowed until
 * erofs_file_map_free().  Takes about 70 bytes for a file with data in the device,
 * whose path is of no more than FILE_MAP_PATH_MAX bytes; of a file with several names
 * the first met is its path.  Any thread may use it then.  -EINVAL: a damaged image,
 * or one with another number of devices than one.
 */
int erofs_file_map_new(const struct erofs_image *img, struct file_map **ret,
		       struct error *err) MUST_CHECK;
void erofs_file_map_free(struct file_map *m); /* NULL is allowed */

#endif
