// SPDX-License-Identifier: Apache-2.0
/* Reading objects with fewer requests than object_open() and object_read() make. */
#ifndef BOOTSEER_OBJECTS_OBJECT_GET_H
#define BOOTSEER_OBJECTS_OBJECT_GET_H

#include "common/buf.h"
#include "objects/store.h"

/* Read a whole small object, in one request if the store can: into `ret`, which is empty, with
 * its status. -EFBIG: it is longer than `max`. On failure `ret` is undefined. */
int object_get(struct object_store *s, const char *name, size_t max,
	       struct buf *ret, struct object_stat *ret_stat,
	       struct error *err) MUST_CHECK;

/* Open the first of two names that exists; a remote server is asked for both at once. -ENOENT:
 * neither exists. */
int object_open_first(struct object_store *s, const char *first,
		      const char *second, bool *ret_is_second,
		      struct object **ret, struct error *err) MUST_CHECK;

/* The version that a name had when it was asked for together with another name. */
struct object_seen {
	bool is_known;
	char tag[OBJECT_TAG_MAX]; /* "": it did not exist */
};

/* object_get() of `small`; or 1, with `other` opened, if only that exists. A remote server is
 * asked for both at once. -ENOENT: neither exists. If `other` is to be read, a bucket sends its
 * first `head` bytes at once; 0: none. `ret_seen` is set for `other` if `small` exists. */
int object_get_first(struct object_store *s, const char *small, size_t max,
		     struct buf *ret, struct object_stat *ret_stat,
		     const char *other, size_t head, struct object **ret_other,
		     struct object_seen *ret_seen,
		     struct error *err) MUST_CHECK;

/* Open an object that is never replaced: no request is made before the first read, which
 * returns -ENOENT if it does not exist. object_opened_stat() has no data for it. */
int object_open_unasked(struct object_store *s, const char *name,
			struct object **ret, struct error *err) MUST_CHECK;

#endif
