// SPDX-License-Identifier: Apache-2.0
/*
 * The stored form of one block.  Pure.  zstd contexts are kept for each thread:
 * making one costs more than unpacking a small block.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <zstd.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"

struct contexts {
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
};

static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;
static pthread_key_t contexts_key;
static int contexts_rc;

static void contexts_free(void *p)
{
	struct contexts *c = p;

	ZSTD_freeCCtx(c->pack);
	ZSTD_freeDCtx(c->unpack);
	free(c);
}

static void contexts_init(void)
{
	contexts_rc = pthread_key_create(&contexts_key, contexts_free);
}

/* This thread's contexts, freed when it ends; NULL when memory is short. */
static struct contexts *contexts_get(void)
{
	struct contexts *c;

	(void)pthread_once(&contexts_once, contexts_init);
	if (contexts_rc)
		return NULL;
	c = pthread_getspecific(contexts_key);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (c && pthread_setspecific(contexts_key, c)) {
		free(c);
		return NULL;
	}
	return c;
}

int block_pack(const void *data, uint32_t usize, int level, uint32_t max_csize,
	       void *dst, struct block *b, struct error *err)
{
	struct contexts *c;
	size_t n;

	if (!usize || usize > BLOCK_USIZE_MAX)
		return error_set(err, EINVAL, "a block of %u bytes", usize);
	if (max_csize > usize)
		max_csize = usize;
	b->usize = usize;
	if (max_csize) {
		c = contexts_get();
		if (c && !c->pack)
			c->pack = ZSTD_createCCtx();
		if (!c || !c->pack)
			return error_nomem(err);
		/* Too small a destination is how zstd says "does not pay". */
		n = ZSTD_compressCCtx(c->pack, dst, max_csize, data, usize,
				      level);
		if (!ZSTD_isError(n)) {
			b->codec = BLOCK_CODEC_ZSTD;
			b->csize = (uint32_t)n;
			return 0;
		}
	}
	memcpy(dst, data, usize);
	b->codec = BLOCK_CODEC_RAW;
	b->csize = usize;
	return 0;
}

/* Debian's libzstd decodes the formats of before 0.8, too, by code that nobody looks
 * after. */
static bool is_one_frame(const void *stored, size_t len)
{
	return len >= sizeof(uint32_t) &&
	       get_le32(stored) == ZSTD_MAGICNUMBER &&
	       ZSTD_findFrameCompressedSize(stored, len) == len;
}

static int unpack_zstd(const struct block *b, const void *stored, void *dst,
		       struct error *err)
{
	struct contexts *c = contexts_get();
	size_t n;

	if (c && !c->unpack)
		c->unpack = ZSTD_createDCtx();
	if (!c || !c->unpack)
		return error_nomem(err);
	if (!is_one_frame(stored, b->csize))
		return error_set(err, EBADMSG, "unpack: not one zstd frame");
	n = ZSTD_decompressDCtx(c->unpack, dst, b->usize, stored, b->csize);
	if (ZSTD_isError(n))
		return error_set(err, EBADMSG, "unpack: %s",
				 ZSTD_getErrorName(n));
	if (n != b->usize)
		return error_set(err, EBADMSG,
				 "unpacks to %zu bytes instead of %u", n,
				 b->usize);
	return 0;
}

int block_check(const struct block *b, const void *data, struct error *err)
{
	struct digest got;
	char text[DIGEST_STR_MAX];
	int rc = digest_of(data, b->usize, &got);

	if (rc < 0)
		return error_set(err, -rc, "hash: %s", strerror(-rc));
	if (digest_equal(&got, &b->digest))
		return 0;
	digest_format(&got, text);
	return error_set(err, EBADMSG, "content is %s", text);
}

int block_unpack(const struct block *b, const void *stored, void *dst,
		 struct error *err)
{
	int rc = 0;

	if (b->codec == BLOCK_CODEC_ZSTD)
		rc = unpack_zstd(b, stored, dst, err);
	else
		memcpy(dst, stored, b->usize);
	return rc < 0 ? rc : block_check(b, dst, err);
}
