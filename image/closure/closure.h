// SPDX-License-Identifier: Apache-2.0
/*
 * Predicts bytes that the start of an image reads, as far as the image tells: the program of its
 * command, ELF libraries, interpreters and their start files, the modules that a Python program
 * imports. Uses the metadata image and as few bytes of files as possible; a container may read
 * other bytes. All input is untrusted, and bounded.
 */
#ifndef BOOTSEER_IMAGE_CLOSURE_CLOSURE_H
#define BOOTSEER_IMAGE_CLOSURE_CLOSURE_H

#include "blockstore/file_map.h"
#include "image/erofs/erofs.h"

#define CLOSURE_FILES_MAX 16384u     /* files that are looked into */
#define CLOSURE_READ_MAX (64u << 20) /* bytes read from these files */
#define CLOSURE_RANGES_MAX 65536u    /* ranges found */
/* Unpacked bytes, other than those it looks into, that a search fetches before its end. */
#define CLOSURE_AHEAD_MAX (32u << 20)

/* The command that is started, from the image's config. */
struct closure_start {
	const char *const *words; /* entry point and command */
	size_t n_words;
	const char *const *env; /* "NAME=value" */
	size_t n_env;
	const char *folder; /* working directory; NULL: "/" */
};

/* Access to the files' bytes. */
struct closure_ops {
	/* Fetch `ranges`, and return when they are near. The search reads from them next,
	 * except from the last ones, which are only part of its result. Other than 0 ends the
	 * search. */
	int (*fetch)(void *arg, const struct device_span *ranges, size_t n,
		     struct error *err);
	int (*read)(void *arg, uint64_t voff, void *buf, size_t len,
		    struct error *err);
};

/*
 * Find the ranges that a start reads, in about the order in which it does; the caller owns the
 * array. Finding none is no error. Fetches in rounds: a round fetches the files that those of
 * the round before named.
 *
 *   -EINVAL (the image), -ENOMEM, and what `ops` return
 */
int closure_find(const struct erofs_image *img,
		 const struct closure_start *start,
		 const struct closure_ops *ops, void *arg,
		 struct device_span **ret, size_t *ret_n,
		 struct error *err) MUST_CHECK;

#endif
