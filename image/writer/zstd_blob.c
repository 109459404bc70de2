// SPDX-License-Identifier: Apache-2.0
#include "image/writer/zstd_blob.h"

#include <errno.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "common/temp_file.h"
#include "image/writer/upload.h"

/* A high level is worth its time: metadata is read whole before a mount. */
#define LEVEL 12

struct zstd_blob {
	ZSTD_CCtx *zstd;
	struct hasher *plain, *stored;
	int fd;
	uint64_t n_plain, n_stored;
	uint8_t out[128 * KIB];
};

int zstd_blob_new(const char *temp_dir, int level, struct zstd_blob **ret,
		  struct error *err)
{
	AUTO(zstd_blob) b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return error_nomem(err);
	b->fd = -1;
	b->zstd = ZSTD_createCCtx();
	b->plain = hasher_new();
	b->stored = hasher_new();
	if (!b->zstd || !b->plain || !b->stored ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(b->zstd,
						ZSTD_c_compressionLevel,
						level ? level : LEVEL)))
		return error_nomem(err);
	rc = temp_file(temp_dir, &b->fd, err);
	if (rc == 0)
		*ret = steal_ptr(&b);
	return rc;
}

void zstd_blob_free(struct zstd_blob *b)
{
	if (!b)
		return;
	ZSTD_freeCCtx(b->zstd);
	hasher_free(b->plain);
	hasher_free(b->stored);
	cleanup_close(&b->fd);
	free(b);
}

static int write_out(struct zstd_blob *b, size_t len, struct error *err)
{
	int rc = fs_pwrite_full(b->fd, b->out, len, b->n_stored);

	if (rc == 0)
		rc = hasher_update(b->stored, b->out, len);
	b->n_stored += len;
	return rc < 0 ? fs_refuse_write(b->fd, rc, len, TEMP_CURE, err) : 0;
}

static int zstd_blob_compress(struct zstd_blob *b, const void *data, size_t len,
			      ZSTD_EndDirective how, struct error *err)
{
	ZSTD_inBuffer in = { .src = data, .size = len };
	size_t left;

	do {
		ZSTD_outBuffer out = { .dst = b->out, .size = sizeof(b->out) };
		int rc;

		left = ZSTD_compressStream2(b->zstd, &out, &in, how);
		if (ZSTD_isError(left))
			return error_set(err, EIO, "zstd: %s",
					 ZSTD_getErrorName(left));
		rc = write_out(b, out.pos, err);
		if (rc < 0)
			return rc;
	} while (in.pos < in.size || (how == ZSTD_e_end && left));
	return 0;
}

int zstd_blob_put(struct zstd_blob *b, uint64_t whole, const void *data,
		  size_t len, struct error *err)
{
	if (b->n_plain == 0 &&
	    ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(b->zstd, whole)))
		return error_set(err, EIO, "zstd: a size");
	if (hasher_update(b->plain, data, len) < 0)
		return error_nomem(err);
	b->n_plain += len;
	return zstd_blob_compress(b, data, len, ZSTD_e_continue, err);
}

static int digest_part(int fd, uint64_t off, size_t len, void *room,
		       struct digest *ret, struct error *err)
{
	int rc = fs_pread_full(fd, room, len, off);

	if (rc < 0)
		return error_errno(err, -rc, "read a temporary file");
	return digest_of(room, len, ret) < 0 ? error_nomem(err) : 0;
}

/* Compute the digests of the blob's parts by reading it again: the size of a part depends on
 * the blob's length, known only at the end. */
static int make_parts(const struct zstd_blob *b, struct parts *ret,
		      struct error *err)
{
	uint32_t size = parts_size(b->n_stored);
	AUTO_FREE struct digest *digests = NULL;
	AUTO_FREE void *room = NULL;
	uint32_t n = 0;

	if (!size)
		return 0;
	digests = calloc(PARTS_MAX, sizeof(*digests));
	room = malloc(size);
	if (!digests || !room)
		return error_nomem(err);
	for (uint64_t off = 0; off < b->n_stored; off += size, n++) {
		uint64_t left = b->n_stored - off;
		int rc = digest_part(b->fd, off, left < size ? left : size,
				     room, &digests[n], err);

		if (rc < 0)
			return rc;
	}
	*ret = (struct parts){ .digests = steal_ptr(&digests),
			       .n = n,
			       .size = size };
	return 0;
}

int zstd_blob_store(struct zstd_blob *b, struct upload_target *to,
		    struct zstd_blob_stored *ret, struct error *err)
{
	struct zstd_blob_stored s = { .plain_size = b->n_plain };
	int rc = zstd_blob_compress(b, "", 0, ZSTD_e_end, err);

	if (rc < 0)
		return rc;
	s.blob.size = b->n_stored;
	if (hasher_final(b->plain, &s.plain) < 0 ||
	    hasher_final(b->stored, &s.blob.digest) < 0)
		return error_nomem(err);
	rc = make_parts(b, &s.parts, err);
	if (rc == 0)
		rc = to->store(to, &s.blob.digest, s.blob.size, b->fd, err);
	if (rc < 0)
		parts_fini(&s.parts);
	else
		*ret = s;
	return rc;
}
