// SPDX-License-Identifier: Apache-2.0
#include "image/artifact/parts.h"
#include "blockstore/blockstore.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HEX 64u /* digits of a digest */
#define PREFIX "sha256:"

void parts_fini(struct parts *p)
{
	free(p->digests);
	*p = (struct parts){ .digests = NULL };
}

static uint64_t parts_count(uint64_t blob, uint32_t size)
{
	return blob / size + (blob % size != 0);
}

uint32_t parts_size(uint64_t blob)
{
	uint32_t size = PARTS_SIZE_MIN;

	while (size < PARTS_SIZE_MAX && blob > (uint64_t)size * PARTS_MAX)
		size *= 2;
	return blob < PARTS_SIZE_MIN || blob > (uint64_t)size * PARTS_MAX
		       ? 0
		       : size;
}

int parts_format(const struct parts *p, struct buf *ret, struct error *err)
{
	int rc = buf_printf(ret, "%" PRIu32 ":", p->size);

	for (uint32_t k = 0; k < p->n && rc == 0; k++) {
		char text[DIGEST_STR_MAX];

		digest_format(&p->digests[k], text);
		rc = buf_puts(ret, text + strlen(PREFIX));
	}
	return rc < 0 ? error_nomem(err) : 0;
}

/* Parse the size of a part, before the colon: a power of two in decimal digits. */
static int parse_size(const char *text, uint32_t *ret, struct error *err)
{
	for (uint32_t size = PARTS_SIZE_MIN; size <= PARTS_SIZE_MAX;
	     size *= 2) {
		char want[16];
		int len = snprintf(want, sizeof(want), "%" PRIu32 ":", size);

		if (strncmp(text, want, (size_t)len) == 0) {
			*ret = size;
			return len;
		}
	}
	return error_set(err, EINVAL,
			 "parts: they begin with '%.12s', not with a size from "
			 "%u to %u",
			 text, PARTS_SIZE_MIN, PARTS_SIZE_MAX);
}

static int parse_digest(const char *hex, uint32_t k, struct digest *ret,
			struct error *err)
{
	char text[DIGEST_STR_MAX] = PREFIX;
	int rc;

	memcpy(text + strlen(PREFIX), hex, HEX);
	text[strlen(PREFIX) + HEX] = '\0';
	rc = digest_parse(text, ret, err);
	return rc < 0 ? error_wrap(err, rc, "parts: part %" PRIu32, k) : 0;
}

int parts_parse(const char *text, uint64_t blob, struct parts *ret,
		struct error *err)
{
	AUTO_FREE struct digest *digests = NULL;
	uint32_t size = 0, n;
	int rc = parse_size(text, &size, err);
	uint64_t wanted;
	size_t len;

	if (rc < 0)
		return rc;
	text += rc;
	wanted = parts_count(blob, size);
	if (wanted < 1 || wanted > PARTS_MAX)
		return error_set(err, EINVAL,
				 "parts: a blob of %" PRIu64
				 " bytes has %" PRIu64 " of %" PRIu32
				 ", not 1 to %u",
				 blob, wanted, size, PARTS_MAX);
	n = (uint32_t)wanted;
	len = strnlen(text, HEX * PARTS_MAX + 1);
	if (len != (size_t)n * HEX)
		return error_set(err, EINVAL,
				 "parts: %zu digits or more, not %u for each "
				 "of %" PRIu32,
				 len, HEX, n);
	digests = calloc(n, sizeof(*digests));
	if (!digests)
		return error_nomem(err);
	for (uint32_t k = 0; k < n; k++) {
		rc = parse_digest(text + (size_t)k * HEX, k, &digests[k], err);
		if (rc < 0)
			return rc;
	}
	*ret = (struct parts){ .digests = steal_ptr(&digests),
			       .n = n,
			       .size = size };
	return 0;
}

struct parts parts_passed(const struct parts *p,
			  const struct oci_descriptor *blob,
			  struct digest *room)
{
	if (p->n || blob->size == 0 || blob->size >= PARTS_SIZE_MIN)
		return *p;
	*room = blob->digest;
	return (struct parts){ .digests = room,
			       .n = 1,
			       .size = PARTS_SIZE_MIN };
}

static int add_blob(struct blockmap_writer *w, const struct parts_blob *b,
		    uint64_t *voff, struct error *err)
{
	const struct parts *p = b->parts;
	struct pack pack = { .digest = b->blob->digest, .size = b->blob->size };
	struct block block = { .codec = BLOCK_CODEC_RAW };
	int rc;

	if (p->n == 0)
		return 0;
	rc = blockmap_writer_pack(w, &pack, &block.pack, err);
	for (uint32_t k = 0; k < p->n && rc == 0; k++) {
		uint64_t left = pack.size - (uint64_t)k * p->size;

		block.digest = p->digests[k];
		block.voff = *voff;
		block.poff = (uint64_t)k * p->size;
		block.usize = left < p->size ? (uint32_t)left : p->size;
		block.csize = block.usize;
		*voff += (block.usize + BLOCK_ALIGN - 1) / BLOCK_ALIGN *
			 BLOCK_ALIGN;
		rc = blockmap_writer_block(w, &block, err);
	}
	return rc;
}

int parts_map(const struct parts_blob *blobs, size_t n, void **ret,
	      size_t *ret_len, struct error *err)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	uint64_t voff = 0;
	int rc = 0;

	if (!w)
		return error_nomem(err);
	for (size_t k = 0; k < n && rc == 0; k++)
		rc = add_blob(w, &blobs[k], &voff, err);
	if (rc == 0 && voff == 0)
		rc = error_set(err, EINVAL, "parts: no blob has any");
	return rc < 0 ? rc : blockmap_writer_finish(w, voff, ret, ret_len, err);
}
