// SPDX-License-Identifier: Apache-2.0
/*
 * Which bytes of which file lie where in a virtual data device.  The device itself
 * knows nothing of files: what reads metadata images implements this, and a recorder
 * or a hot list asks it.
 */
#ifndef BOOTSEER_BLOCKSTORE_FILE_MAP_H
#define BOOTSEER_BLOCKSTORE_FILE_MAP_H

#include <stdint.h>

#include "common/error.h"

#define FILE_MAP_PATH_MAX \
	4095u /* bytes of a path; a file with a longer one is not in it */

/* Bytes of the device. */
struct device_span {
	uint64_t voff, len;
};

/* Bytes of one file that lie together in the device. */
struct file_range {
	const char *path;  /* borrowed until `each` returns */
	uint64_t file_off; /* in the file */
	uint64_t voff;     /* in the device */
	uint64_t len;
};

typedef int file_range_fn(void *arg, const struct file_range *r);

/* Where the files of one image lie in its device.  Any thread. */
struct file_map;
struct file_map_ops {
	/* The files that have bytes in [voff, voff + len) of the device, in
	 * device order: one call of `each` a file range, which ends the walk
	 * by returning non-zero. */
	int (*at)(struct file_map *m, uint64_t voff, uint64_t len,
		  file_range_fn *each, void *arg, struct error *err);
	/* Where bytes [off, off + len) of a regular file lie; -ENOENT: no such
	 * file.  What lies beyond its end is left out. */
	int (*of)(struct file_map *m, const char *path, uint64_t off,
		  uint64_t len, file_range_fn *each, void *arg,
		  struct error *err);
};
struct file_map {
	const struct file_map_ops *ops;
};

#endif
