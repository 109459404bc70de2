// SPDX-License-Identifier: Apache-2.0
/* igzip 2.30 rejects headers with a right checksum as wrong, so the header is read here and
 * igzip gets only the bytes behind it. */
#include "image/spans/gzip_header.h"

#include <errno.h>
#include <zlib.h>

#define FIXED_BYTES 10
#define METHOD_DEFLATE 8

enum { FLAG_CRC = 2, FLAG_EXTRA = 4, FLAG_NAME = 8, FLAG_COMMENT = 16 };
#define FLAGS_RESERVED 0xe0

enum part {
	PART_FIXED,
	PART_EXTRA_LENGTH,
	PART_EXTRA,
	PART_NAME,
	PART_COMMENT,
	PART_CRC,
	PART_DONE
};

static int take_fixed(struct gzip_header *h, uint8_t byte, struct error *err)
{
	static const uint8_t begin[] = { 0x1f, 0x8b, METHOD_DEFLATE };

	if (h->n < 2 && byte != begin[h->n])
		return error_set(err, EBADMSG,
				 "garbage behind its gzip stream");
	if (h->n == 2 && byte != begin[2])
		return error_set(err, EBADMSG,
				 "damaged gzip stream: compression method %u, "
				 "not deflate",
				 byte);
	if (h->n == 3 && byte & FLAGS_RESERVED)
		return error_set(err, EBADMSG,
				 "damaged gzip stream: flags 0x%02x", byte);
	if (h->n == 3)
		h->flags = byte;
	return 0;
}

/* Take the next byte of the current part; `*ret_last` when the part ends with it. */
static int gzip_header_take(struct gzip_header *h, uint8_t byte, bool *ret_last,
			    struct error *err)
{
	int rc = 0;

	switch (h->part) {
	case PART_FIXED:
		rc = take_fixed(h, byte, err);
		*ret_last = h->n + 1 == FIXED_BYTES;
		break;
	case PART_EXTRA_LENGTH:
	case PART_CRC:
		h->length |= (uint32_t)byte << 8 * h->n;
		*ret_last = h->n == 1;
		break;
	case PART_EXTRA:
		*ret_last = h->n + 1 == h->length;
		break;
	default: /* a name or a comment, ended by a zero */
		*ret_last = byte == '\0';
		break;
	}
	if (rc == 0 && h->part == PART_CRC && *ret_last &&
	    h->length != (h->crc & 0xffff))
		rc = error_set(err, EBADMSG, "wrong checksum of a gzip header");
	return rc;
}

/* Do the header's flags say that it has this part? */
static bool has_part(const struct gzip_header *h, int part)
{
	switch (part) {
	case PART_EXTRA_LENGTH:
		return h->flags & FLAG_EXTRA;
	case PART_EXTRA:
		return h->flags & FLAG_EXTRA && h->length;
	case PART_NAME:
		return h->flags & FLAG_NAME;
	case PART_COMMENT:
		return h->flags & FLAG_COMMENT;
	case PART_CRC:
		return h->flags & FLAG_CRC;
	default:
		return true;
	}
}

static void next_part(struct gzip_header *h)
{
	do
		h->part++;
	while (!has_part(h, h->part));
	h->n = 0;
	if (h->part != PART_EXTRA)
		h->length = 0;
}

int gzip_header_read(struct gzip_header *h, const uint8_t **in, size_t *in_len,
		     bool *ret_done, struct error *err)
{
	while (h->part != PART_DONE && *in_len) {
		uint8_t byte = *(*in)++;
		bool last = false;
		int rc = gzip_header_take(h, byte, &last, err);

		if (rc < 0)
			return rc;
		(*in_len)--;
		if (h->part != PART_CRC)
			h->crc = (uint32_t)crc32(h->crc, &byte, 1);
		/* A name may be of any length, so its bytes are not counted. */
		if (last)
			next_part(h);
		else if (h->part < PART_NAME || h->part == PART_CRC)
			h->n++;
	}
	*ret_done = h->part == PART_DONE;
	return 0;
}
