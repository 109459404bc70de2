// SPDX-License-Identifier: Apache-2.0
/* A whole file mapped into memory. */
#ifndef BOOTSEER_NODE_MAP_FILE_H
#define BOOTSEER_NODE_MAP_FILE_H

#include "common/digest.h"

struct map_file {
	void *data; /* NULL while closed */
	size_t len;
};
#define MAP_FILE_INIT \
	{ \
		.data = NULL \
	}

/* -EBADMSG for an empty file. */
int map_file_open(const char *path, struct map_file *ret,
		  struct error *err) MUST_CHECK;
void map_file_close(struct map_file *f);

/* Release the mapping's pages in memory; they are read again when needed. */
void map_file_rest(const struct map_file *f);

/* -EBADMSG: the content does not have this digest, or cannot be read from the disk. */
int map_file_check(const struct map_file *f, const struct digest *want,
		   const char *path, struct error *err) MUST_CHECK;

#endif
