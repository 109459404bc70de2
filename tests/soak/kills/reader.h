/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a reader of the soak compares with: what an image was made
 * from, so every byte of a mount of it is known.
 */
#ifndef BOOTSEER_TESTS_SOAK_KILLS_READER_H
#define BOOTSEER_TESTS_SOAK_KILLS_READER_H

#include <stddef.h>
#include <stdint.h>

#define TRUTH_PAGE 4096

struct truth_file {
	char *path; /* below the folder */
	size_t size;
	const uint8_t *data; /* mapped; NULL when size is 0 */
};

struct truth {
	struct truth_file *files;
	size_t n;
};

/* What bytes that were read are. */
enum verdict {
	VERDICT_RIGHT,
	VERDICT_WRONG,
	VERDICT_ZEROS, /* every page that is wrong is all zeros */
};

/* Map every regular file below `dir`; ends the program when it cannot. */
void truth_load(const char *dir, struct truth *ret);

/*
 * Compare `len` bytes that were read at `off` of `f` with what they should be.
 * `*ret_bad` is where in the file the first wrong page is.
 */
enum verdict truth_check(const struct truth_file *f, size_t off,
			 const uint8_t *got, size_t len, size_t *ret_bad);

#endif
