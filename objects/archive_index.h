// SPDX-License-Identifier: Apache-2.0
/* Where the files of an uncompressed tar lie; private to this folder. */
#ifndef BOOTSEER_OBJECTS_ARCHIVE_INDEX_H
#define BOOTSEER_OBJECTS_ARCHIVE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct archive_entry_place {
	char *name;
	char *target;  /* of a link: the name it stands for; else NULL */
	uint64_t off;  /* byte of the tar where the content starts */
	uint64_t size; /* bytes */
};

struct archive_index {
	struct archive_entry_place *entries;
	size_t n;
};

#define ARCHIVE_INDEX_INIT \
	{ \
		.n = 0 \
	}

/* Walk the headers of the tar in `fd`; content is skipped, not read.  -ENOTSUP
 * when the file is compressed as a whole, -EINVAL when it is no tar. */
int archive_index_load(int fd, const char *path, struct archive_index *ret,
		       struct error *err) MUST_CHECK;
void archive_index_fini(struct archive_index *x);

/* The file of that name, links followed; NULL when there is none.  The last of
 * several wins, as it would when unpacked. */
const struct archive_entry_place *
archive_index_find(const struct archive_index *x, const char *name);

#endif
