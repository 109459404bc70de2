// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes that the start of an image reads, as far as the image says so: the program of its
 * command, ELF libraries, interpreters and their start files, the modules that a Python
 * program imports.  Found from the metadata image and from as few bytes of files as that
 * takes; a container may do otherwise.  All that is read is a stranger's, and bounded.
 */
#ifndef BOOTSEER_IMAGE_CLOSURE_CLOSURE_H
#define BOOTSEER_IMAGE_CLOSURE_CLOSURE_H

#include "blockstore/file_map.h"
#include "image/erofs/erofs.h"

#define CLOSURE_FILES_MAX 16384u     /* looked into */
#define CLOSURE_READ_MAX (64u << 20) /* bytes read of them */
#define CLOSURE_RANGES_MAX 65536u    /* found */
/* Unpacked bytes beside those that it looks into which a search has fetched by itself. */
#define CLOSURE_AHEAD_MAX (32u << 20)

/* The command that is started: texts of the image's config. */
struct closure_start {
	const char *const *words; /* entry point and command */
	size_t n_words;
	const char *const *env; /* "NAME=value" */
	size_t n_env;
	const char *folder; /* that it is started in; NULL: "/" */
};

/* The files' bytes. */
struct closure_ops {
	/* The search reads from these next, those at the end excepted, which are among what it
	 * found: returns when they are near.  Other than 0 ends the search. */
	int (*fetch)(void *arg, const struct device_span *ranges, size_t n,
		     struct error *err);
	int (*read)(void *arg, uint64_t voff, void *buf, size_t len,
		    struct error *err);
};

/*
 * Find the ranges that a start reads, in about the order in which it does; the array is
 * the caller's.  None is no error.  Fetches in rounds: each is of what the files of the
 * round before name.
 *   -EINVAL (the image), -ENOMEM, and what `ops` return
 */
int closure_find(const struct erofs_image *img,
		 const struct closure_start *start,
		 const struct closure_ops *ops, void *arg,
		 struct device_span **ret, size_t *ret_n,
		 struct error *err) MUST_CHECK;

#endif
