// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the headers of a tar entry exactly as Go's archive/tar, with which containerd and umoci
 * unpack and scanners read images.  A reader that takes one record or dialect differently would
 * find other files in a layer.  So headers that Go refuses are refused, and headers that common
 * readers take in different ways. No I/O.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_TAR_HEAD_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_TAR_HEAD_H

#include "common/error.h"
#include "snapshotter/convert/pax.h"

#define TAR_BLOCK 512u

enum tar_sparse {
	TAR_DENSE,
	/* GNU: the map is in the header and the blocks after it */
	TAR_SPARSE_OLD,
	TAR_SPARSE_RECORDS, /* PAX 0.0 and 0.1: the map is in records */
	TAR_SPARSE_CONTENT, /* PAX 1.0: the map is before the content */
};

/* Texts are borrowed from the headers. */
struct tar_head {
	/* type flag, '0' to '6' or 'S'; 'g': a header for the whole archive */
	char type;
	enum tar_sparse sparse;
	uint64_t size; /* of the file */
	/* bytes of content, without the padding of the last block */
	uint64_t stored;
	uint32_t mode; /* permission bits */
	uint32_t uid, gid, major, minor;
	int64_t mtime; /* seconds since 1970, rounded down */
	uint32_t mtime_nsec;
	/* first part of the name, before a slash; or none */
	struct pax_text prefix;
	struct pax_text name, link;
	/* all records of its extended header, or none */
	struct pax_text records;
	/* the entry's own header; blocks of a sparse map follow */
	const uint8_t *header;
};

/* Number of header bytes of the entry at `headers`, as far as `len` bytes tell; at most `len`
 * if all are there.  -EBADMSG. */
int tar_head_len(const uint8_t *headers, size_t len, uint64_t *ret,
		 struct error *err) MUST_CHECK;

/*
 * Read the headers of one entry, beginning with the extended ones; all must be there.
 *   -EBADMSG  Go refuses it, or the tar is damaged
 *   -EINVAL   Go reads it, but no honest writer makes it: programs differ
 *   -ENOTSUP  a type that containerd does not unpack either
 */
int tar_head_parse(const uint8_t *headers, size_t len, struct tar_head *ret,
		   struct error *err) MUST_CHECK;

/* Is it the only name that a global header may have, that of git archive? */
bool tar_is_global_name(const struct pax_text *name);

/* Read octal digits between spaces and NULs, or a binary number, as parseNumeric() of Go.
 * -EBADMSG, also for a negative number. */
int tar_number(const uint8_t *field, size_t len, uint64_t *ret,
	       struct error *err) MUST_CHECK;

/* Read a decimal number of digits only. -EBADMSG names `what`. */
int tar_decimal(const struct pax_text *t, const char *what, uint64_t *ret,
		struct error *err) MUST_CHECK;

#endif
