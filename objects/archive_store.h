// SPDX-License-Identifier: Apache-2.0
/* A docker archive's images and where their blobs lie; private. */
#ifndef BOOTSEER_OBJECTS_ARCHIVE_STORE_H
#define BOOTSEER_OBJECTS_ARCHIVE_STORE_H

#include <jansson.h>

#include "objects/archive_index.h"
#include "objects/oci_store.h"

/* A blob's digest and its place in the archive. */
struct archive_extent {
	struct digest digest;
	uint64_t off, size;
};

struct archive_image {
	json_t *names; /* array of "repository:tag" */
	struct digest digest;
	char *made_up; /* manifest made here, if the archive has none */
};

struct archive_store {
	struct oci_store base;
	int fd;
	char *path;
	struct archive_index index;
	struct archive_extent *places;
	size_t n_places;
	struct archive_image *images;
	size_t n_images;
};

/* Open a->path and find its images; what was found stays in `a` on failure. */
int archive_load(struct archive_store *a, struct error *err) MUST_CHECK;

/* Find where a blob lies; -ENOENT. */
int archive_find(const struct archive_store *a, const struct digest *d,
		 struct archive_extent *ret, struct error *err) MUST_CHECK;

#endif
