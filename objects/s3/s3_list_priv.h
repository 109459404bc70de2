// SPDX-License-Identifier: Apache-2.0
/* Pages of lists: XML in, entries out. */
#ifndef BOOTSEER_OBJECTS_S3_LIST_PRIV_H
#define BOOTSEER_OBJECTS_S3_LIST_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

/* An object, a folder, or an upload that is under way. */
struct s3_entry {
	const char *key;
	const char *tag;    /* "" where there is none */
	const char *upload; /* NULL: it is none */
	uint64_t size;
	int64_t modified_ms; /* -1: unknown */
	bool is_folder;
};

/* Returns 0, or -errno, which s3_page_parse() then returns. */
typedef int s3_list_fn(void *arg, const struct s3_entry *e);

/* Where the next page begins; key NULL: this was the last. */
struct s3_next {
	char *key, *upload;
};

void s3_next_fini(struct s3_next *n);

/* -EBADMSG: it is no page. */
int s3_page_parse(const char *data, size_t len, s3_list_fn *fn, void *arg,
		  struct s3_next *ret) MUST_CHECK;

/* May a sweep delete it: is it an upload of this store below the folder, or an object of a
 * probe, and old?  `prefix` is what the store's keys begin with. */
bool s3_is_left(const char *prefix, const char *folder,
		const struct s3_entry *e, int64_t before_ms);

#endif
