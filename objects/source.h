// SPDX-License-Identifier: Apache-2.0
/*
 * Sources of stored bytes: a registry, a layout folder, an archive, a file, other nodes. A filter
 * is a source that wraps another one. objects/oci.h has the stores that open blobs as sources.
 */
#ifndef BOOTSEER_SOURCE_H
#define BOOTSEER_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pace.h"

enum source_priority {
	SOURCE_DEMAND, /* a reader waits */
	SOURCE_HOT,    /* a recorded start will read it */
	SOURCE_COLD,   /* the rest */
};

/* A contiguous range of one stored object. */
struct source_req {
	uint64_t off;
	uint64_t len;
	enum source_priority priority;
	int64_t deadline_ns; /* CLOCK_MONOTONIC; 0 is none */
	/* Limits its rate, and can stop it; may be NULL. */
	struct pace *pace;
};

/* Takes the stored bytes in order as they arrive; `pos` is their offset in the
 * object.  Returns 0 to go on or -errno, which source_read() then returns. */
struct source_sink {
	int (*put)(struct source_sink *sink, uint64_t pos, const void *data,
		   size_t len, struct error *err);
};

struct source;

/* The functions of a kind of source: one `static const` table per kind. */
struct source_ops {
	const char *name; /* lower case: "registry", "posix" */

	/* Contract of source_read().  Called on any pool thread. */
	int (*read)(struct source *s, const struct source_req *req,
		    struct source_sink *sink, struct error *err);

	/* Release what `s` owns, and `s`.  Never called with reads under way. */
	void (*free)(struct source *s);
};

/* First member of every source.  A filter owns the one it wraps in `next`. */
struct source {
	const struct source_ops *ops;
	struct source *next;
	uint64_t size; /* bytes of the object; 0 when not known */
};

/*
 * Read the range of `req` into `sink`, blocking until all of it was passed on.
 * Safe from several threads on one source.  On failure the sink may have taken
 * a prefix.
 *   -ENOENT     the object does not exist
 *   -EACCES     the credentials do not allow it
 *   -ERANGE     the range lies outside the object
 *   -ECANCELED  its pace became PACE_STOP; an origin sees that soon, also
 *               while no bytes come
 *   -ECONNREFUSED  nobody takes a connection there, as while it is started again
 *   -ETIMEDOUT, -EIO, -EBUSY, -ENOMEM, or what the sink returned
 */
int source_read(struct source *s, const struct source_req *req,
		struct source_sink *sink, struct error *err) MUST_CHECK;

/* May the same read succeed later? Yes if the origin is down, busy, silent or disconnected; no
 * if it refuses for good. */
bool source_may_pass(int rc);

/* Read exactly the range of `req` into `buf`, which has room for it. */
int source_read_into(struct source *s, const struct source_req *req, void *buf,
		     struct error *err) MUST_CHECK;
/* Read exactly `len` bytes at `off` into `buf`. */
int source_read_buf(struct source *s, uint64_t off, void *buf, size_t len,
		    struct error *err) MUST_CHECK;

void source_free(struct source *s); /* NULL is allowed */
DEFINE_AUTO(source)

/* A file on disk. */
int posix_source_new(const char *path, struct source **ret,
		     struct error *err) MUST_CHECK;

#endif
