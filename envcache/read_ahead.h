// SPDX-License-Identifier: Apache-2.0
/*
 * Opens and reads the files of a capture ahead, on several threads; the thread that stores them
 * takes them one by one, in order.
 */
#ifndef BOOTSEER_ENVCACHE_READ_AHEAD_H
#define BOOTSEER_ENVCACHE_READ_AHEAD_H

#include "envcache/changes.h"

/* Files up to this size are read completely by the threads; larger files are only opened. */
#define READ_AHEAD_WHOLE (128u << 10)

/* The next file of the sequence; valid until the next call. */
struct file_ahead {
	int fd;           /* open file; -1: nothing is left to be read */
	bool has_xattrs;  /* if true, `fd` is open */
	const char *data; /* complete content, checked not to have changed;
	                   * or NULL */
};

struct read_ahead;

/* `files` is borrowed until read_ahead_free(); `threads` is 1 to SIDES_MAX. */
int read_ahead_new(const struct changed_file *files, size_t n,
		   unsigned int threads, struct read_ahead **ret,
		   struct error *err) MUST_CHECK;
void read_ahead_free(struct read_ahead *r);
DEFINE_AUTO(read_ahead)

/* Get the next file.  -ESTALE: it differs from the scan. */
int read_ahead_next(struct read_ahead *r, struct file_ahead *ret,
		    struct error *err) MUST_CHECK;

#endif
