// SPDX-License-Identifier: Apache-2.0
/*
 * Files of a capture, opened and read by several threads before their turn comes, and
 * taken one by one in their order by the thread that stores them.
 */
#ifndef BOOTSEER_ENVCACHE_READ_AHEAD_H
#define BOOTSEER_ENVCACHE_READ_AHEAD_H

#include "envcache/changes.h"

/* Files up to this are read whole by the threads; of larger ones only the first look is
 * theirs. */
#define READ_AHEAD_WHOLE (128u << 10)

/* A file whose turn it is; valid until the next call. */
struct file_ahead {
	int fd;           /* open on it; -1: nothing more is to be read of it */
	bool has_xattrs;  /* so `fd` is open */
	const char *data; /* all of it, checked to have kept still; or NULL */
};

struct read_ahead;

/* `files` is borrowed until read_ahead_free(); `threads` is 1 to SIDES_MAX. */
int read_ahead_new(const struct changed_file *files, size_t n,
		   unsigned int threads, struct read_ahead **ret,
		   struct error *err) MUST_CHECK;
void read_ahead_free(struct read_ahead *r);
DEFINE_AUTO(read_ahead)

/* The next file.  -ESTALE: it is another than the scan saw. */
int read_ahead_next(struct read_ahead *r, struct file_ahead *ret,
		    struct error *err) MUST_CHECK;

#endif
