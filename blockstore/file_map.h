// SPDX-License-Identifier: Apache-2.0
/*
 * Maps bytes of a virtual data device to files. The device itself knows nothing of files: the
 * reader of metadata images implements this interface, and recorder and hot list use it.
 */
#ifndef BOOTSEER_BLOCKSTORE_FILE_MAP_H
#define BOOTSEER_BLOCKSTORE_FILE_MAP_H

#include <stdint.h>

#include "common/error.h"

#define FILE_MAP_PATH_MAX \
	4095u /* bytes of a path; files with longer ones are left out */

/* A range of bytes of the device. */
struct device_span {
	uint64_t voff, len;
};

/* Bytes of one file that lie contiguous in the device. */
struct file_range {
	const char *path;  /* borrowed until `each` returns */
	uint64_t file_off; /* in the file */
	uint64_t voff;     /* in the device */
	uint64_t len;
};

typedef int file_range_fn(void *arg, const struct file_range *r);

/* The places of one image's files in its device. Any thread. */
struct file_map;
struct file_map_ops {
	/* Find the files with bytes in [voff, voff + len) of the device, in device order:
	 * `each` is called for each file range, and ends the walk by returning non-zero. */
	int (*at)(struct file_map *m, uint64_t voff, uint64_t len,
		  file_range_fn *each, void *arg, struct error *err);
	/* Find where bytes [off, off + len) of a regular file lie; -ENOENT: no such file.
	 * Bytes beyond its end are left out. */
	int (*of)(struct file_map *m, const char *path, uint64_t off,
		  uint64_t len, file_range_fn *each, void *arg,
		  struct error *err);
};
struct file_map {
	const struct file_map_ops *ops;
};

#endif
