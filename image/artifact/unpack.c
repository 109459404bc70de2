// SPDX-License-Identifier: Apache-2.0
/* Unpacks a zstd blob into a file as its bytes arrive. The caller checks the digest. */
#include <errno.h>
#include <zstd.h>

#include "common/fs.h"
#include "image/artifact/artifact.h"

struct artifact_unpack {
	ZSTD_DStream *zstd;
	int fd;
	uint64_t done, size; /* bytes unpacked, and how many there must be */
	bool inside;         /* a frame has begun and not ended */
	uint8_t out[131072];
};

int artifact_unpack_new(int fd, uint64_t size, struct artifact_unpack **ret,
			struct error *err)
{
	struct artifact_unpack *u = calloc(1, sizeof(*u));

	if (!u)
		return error_nomem(err);
	u->fd = fd;
	u->size = size;
	u->zstd = ZSTD_createDStream();
	if (!u->zstd) {
		free(u);
		return error_nomem(err);
	}
	*ret = u;
	return 0;
}

int artifact_unpack_put(struct artifact_unpack *u, const void *data, size_t len,
			struct error *err)
{
	ZSTD_inBuffer in = { .src = data, .size = len };
	bool more = true;

	while (in.pos < in.size || more) {
		ZSTD_outBuffer out = { .dst = u->out, .size = sizeof(u->out) };
		size_t n = ZSTD_decompressStream(u->zstd, &out, &in);
		int rc;

		if (ZSTD_isError(n))
			return error_set(err, EBADMSG, "damaged zstd: %s",
					 ZSTD_getErrorName(n));
		u->inside = n != 0;
		if (out.pos > u->size - u->done)
			return error_set(err, EBADMSG,
					 "it unpacks to more than %llu bytes",
					 (unsigned long long)u->size);
		rc = fs_write_full(u->fd, out.dst, out.pos);
		if (rc < 0)
			return error_errno(err, -rc, "write");
		u->done += out.pos;
		/* With no input left, another call after a frame's end would begin a new
		 * frame. */
		more = out.pos == out.size && u->inside;
	}
	return 0;
}

int artifact_unpack_end(const struct artifact_unpack *u, struct error *err)
{
	if (u->inside || u->done != u->size)
		return error_set(err, EBADMSG,
				 "its content is not what the artifact names");
	return 0;
}

void artifact_unpack_free(struct artifact_unpack *u)
{
	if (!u)
		return;
	ZSTD_freeDStream(u->zstd);
	free(u);
}
