// SPDX-License-Identifier: Apache-2.0
/*
 * Maps the bytes of a metadata image's data device to the files that they belong to.
 */
#ifndef BOOTSEER_IMAGE_EROFS_FILE_MAP_H
#define BOOTSEER_IMAGE_EROFS_FILE_MAP_H

#include "blockstore/file_map.h"
#include "image/erofs/erofs.h"

/*
 * Walk the whole image once. `img` and the bytes behind it are borrowed until
 * erofs_file_map_free(). Takes about 70 bytes of memory for a file with data in the device. Left
 * out are files with a path longer than FILE_MAP_PATH_MAX bytes; a file with several names gets
 * the first that is found. Once built, any thread may use the map. -EINVAL: a damaged image, or
 * one whose number of devices is not one.
 */
int erofs_file_map_new(const struct erofs_image *img, struct file_map **ret,
		       struct error *err) MUST_CHECK;
void erofs_file_map_free(struct file_map *m); /* NULL is allowed */

#endif
