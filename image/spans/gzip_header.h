// SPDX-License-Identifier: Apache-2.0
/* The header of a gzip member (RFC 1952, 2.3), in pieces of any size. */
#ifndef BOOTSEER_IMAGE_SPANS_GZIP_HEADER_H
#define BOOTSEER_IMAGE_SPANS_GZIP_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* State of reading a header; all zeros before the first byte. */
struct gzip_header {
	int part; /* the part that is read now */
	uint8_t flags;
	uint32_t n; /* bytes of the part so far */
	/* of the extra field; in the part PART_CRC the stored checksum */
	uint32_t length;
	uint32_t crc; /* of all bytes before the checksum */
};

/*
 * Take bytes of the header from `*in`, which is advanced; `*ret_done` when the header is
 * complete. -EBADMSG: no header, or damaged.
 */
int gzip_header_read(struct gzip_header *h, const uint8_t **in, size_t *in_len,
		     bool *ret_done, struct error *err) MUST_CHECK;

#endif
