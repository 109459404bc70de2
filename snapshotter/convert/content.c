// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/content.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"

#define CONTENT_BLOCK 4096u

struct content_hash {
	struct hasher *hash;
	uint64_t end;       /* end of the bytes that were added */
	uint64_t block_off; /* offset of `block` in the file */
	bool has_block;     /* it holds bytes */
	uint8_t block[CONTENT_BLOCK];
};

struct content_hash *content_hash_new(void)
{
	AUTO(content_hash) h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->hash = hasher_new();
	return h->hash ? steal_ptr(&h) : NULL;
}

void content_hash_free(struct content_hash *h)
{
	if (!h)
		return;
	hasher_free(h->hash);
	free(h);
}

static int end_block(struct content_hash *h)
{
	static const uint8_t zeros[CONTENT_BLOCK];
	uint8_t place[8];
	int rc = 0;

	if (h->has_block && memcmp(h->block, zeros, sizeof(zeros)) != 0) {
		put_le64(place, h->block_off);
		rc = hasher_update(h->hash, place, sizeof(place));
		if (rc == 0)
			rc = hasher_update(h->hash, h->block, sizeof(h->block));
	}
	h->has_block = false;
	return rc;
}

static int begin_block(struct content_hash *h, uint64_t off)
{
	int rc = end_block(h);

	memset(h->block, 0, sizeof(h->block));
	h->block_off = off;
	h->has_block = true;
	return rc;
}

int content_hash_add(struct content_hash *h, uint64_t off, const void *data,
		     size_t len)
{
	const uint8_t *p = data;
	int rc = 0;

	if (off < h->end || len > UINT64_MAX - off)
		return -EINVAL;
	h->end = off + len;
	while (rc == 0 && len) {
		size_t in = off % CONTENT_BLOCK, n = CONTENT_BLOCK - in;

		if (n > len)
			n = len;
		if (!h->has_block || h->block_off != off - in)
			rc = begin_block(h, off - in);
		memcpy(h->block + in, p, n);
		p += n;
		off += n;
		len -= n;
	}
	return rc;
}

int content_hash_final(struct content_hash *h, struct digest *ret)
{
	int rc = end_block(h);

	h->end = 0;
	return rc < 0 ? rc : hasher_final(h->hash, ret);
}
