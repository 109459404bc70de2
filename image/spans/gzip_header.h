// SPDX-License-Identifier: Apache-2.0
/* The header of a gzip member (RFC 1952, 2.3), in pieces of any size. */
#ifndef BOOTSEER_IMAGE_SPANS_GZIP_HEADER_H
#define BOOTSEER_IMAGE_SPANS_GZIP_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* All zeros before the first byte. */
struct gzip_header {
	int part; /* being read */
	uint8_t flags;
	uint32_t n;      /* bytes of the part so far */
	uint32_t length; /* of the extra field; the checksum as stored */
	uint32_t crc;    /* of all bytes before the checksum */
};

/*
 * Take the bytes of the header from `*in`, which is advanced; `*ret_done`: that
 * was all of it.  -EBADMSG: no header, or damaged.
 */
int gzip_header_read(struct gzip_header *h, const uint8_t **in, size_t *in_len,
		     bool *ret_done, struct error *err) MUST_CHECK;

#endif
