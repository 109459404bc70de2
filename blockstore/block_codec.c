// SPDX-License-Identifier: Apache-2.0
/*
 * Unpacks blocks from their stored form. Pure. A zstd context is kept for each thread: making
 * one costs more than unpacking a small block.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <zstd.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"

static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static pthread_key_t context_key;
static int context_rc;

static void context_free(void *p)
{
	ZSTD_freeDCtx(p);
}

static void context_init(void)
{
	context_rc = pthread_key_create(&context_key, context_free);
}

/* This thread's context, freed when the thread ends; NULL when memory is short. */
static ZSTD_DCtx *context_get(void)
{
	ZSTD_DCtx *c;

	(void)pthread_once(&context_once, context_init);
	if (context_rc)
		return NULL;
	c = pthread_getspecific(context_key);
	if (c)
		return c;
	c = ZSTD_createDCtx();
	if (c && pthread_setspecific(context_key, c)) {
		ZSTD_freeDCtx(c);
		return NULL;
	}
	return c;
}

/* Is it a single frame of the present format? Debian's libzstd also decodes formats from
 * before version 0.8, with code that nobody maintains. */
static bool is_one_frame(const void *stored, size_t len)
{
	return len >= sizeof(uint32_t) &&
	       get_le32(stored) == ZSTD_MAGICNUMBER &&
	       ZSTD_findFrameCompressedSize(stored, len) == len;
}

static int unpack_zstd(const struct block *b, const void *stored, void *dst,
		       struct error *err)
{
	ZSTD_DCtx *c = context_get();
	size_t n;

	if (!c)
		return error_nomem(err);
	if (!is_one_frame(stored, b->csize))
		return error_set(err, EBADMSG, "unpack: not one zstd frame");
	n = ZSTD_decompressDCtx(c, dst, b->usize, stored, b->csize);
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
		return error_errno(err, -rc, "hash");
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
