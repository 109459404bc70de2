// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the headers of a tar's entry, as Go's archive/tar reads them: by it
 * containerd and umoci unpack, and scanners of images look.  Another reader, which
 * takes one record or dialect otherwise, would find other files in a layer than they
 * do; so what Go refuses is refused, and what common readers take in different ways.
 * No I/O.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_TAR_HEAD_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_TAR_HEAD_H

#include "common/error.h"
#include "snapshotter/convert/pax.h"

#define TAR_BLOCK 512u

enum tar_sparse {
	TAR_DENSE,
	TAR_SPARSE_OLD, /* GNU: the map is in the header, and blocks behind it */
	TAR_SPARSE_RECORDS, /* PAX 0.0 and 0.1: in records */
	TAR_SPARSE_CONTENT, /* PAX 1.0: before the content */
};

/* Texts are borrowed from the headers. */
struct tar_head {
	char type; /* its flag, '0' to '6' or 'S'; or 'g': for the whole archive */
	enum tar_sparse sparse;
	uint64_t size; /* of the file */
	uint64_t
		stored; /* bytes of content, without what fills its last block */
	uint32_t mode;  /* permission bits */
	uint32_t uid, gid, major, minor;
	int64_t mtime; /* seconds since 1970, rounded down */
	uint32_t mtime_nsec;
	struct pax_text prefix; /* of the name, a slash between; or none */
	struct pax_text name, link;
	struct pax_text records; /* all of its extended header, or none */
	const uint8_t *header;   /* its own; blocks of its map follow */
};

/* How many bytes of headers the entry at `headers` has, as far as `len` bytes tell:
 * no more than `len` when all are there.  -EBADMSG. */
int tar_head_len(const uint8_t *headers, size_t len, uint64_t *ret,
		 struct error *err) MUST_CHECK;

/*
 * Read the headers of one entry, the extended ones first; all must be there.
 *   -EBADMSG  Go refuses it, or the tar is damaged
 *   -EINVAL   Go reads it, but no honest writer makes it: programs differ
 *   -ENOTSUP  a type that containerd does not unpack either
 */
int tar_head_parse(const uint8_t *headers, size_t len, struct tar_head *ret,
		   struct error *err) MUST_CHECK;

/* The one name that a header for the whole archive may have: git archive's. */
bool tar_is_global_name(const struct pax_text *name);

/* Octal digits between spaces and NULs, or a binary number: as parseNumeric() of Go.
 * -EBADMSG, also for a negative one. */
int tar_number(const uint8_t *field, size_t len, uint64_t *ret,
	       struct error *err) MUST_CHECK;

/* A decimal of digits alone. -EBADMSG names `what`. */
int tar_decimal(const struct pax_text *t, const char *what, uint64_t *ret,
		struct error *err) MUST_CHECK;

#endif
