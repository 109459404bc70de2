// SPDX-License-Identifier: Apache-2.0
/* The layers of an image, while they are read: where their decoding can begin, the windows
 * for that, and which file each part of a layer belongs to. */
#include "image/spans/span_set.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <string.h>
#include <zstd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "common/temp_file.h"

/* Unpacked bytes of a span that needs a window: docs/decisions/0026-index.md. */
#define SPAN_BYTES (512 * KIB)
/* Unpacked bytes of a span that needs no window. */
#define SPAN_BYTES_LEAST (64 * KIB)
#define WINDOW_LEVEL 3 /* of zstd */
#define PARTS_MAX (16u << 20)

struct span_set {
	struct pack *packs;
	size_t n_packs, cap_packs;
	struct span *spans;
	size_t n_spans, cap_spans;
	uint32_t crc; /* of the unpacked bytes of the last span, so far */
	struct file_part *parts;
	size_t n_parts, cap_parts;
	int fd; /* file that the windows are written to */
	uint64_t windows;
	struct hasher *hash; /* of the windows */
	ZSTD_CCtx *zstd;
};

int span_set_new(const char *temp_dir, struct span_set **ret, struct error *err)
{
	AUTO(span_set) s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->fd = -1;
	s->hash = hasher_new();
	s->zstd = ZSTD_createCCtx();
	if (!s->hash || !s->zstd ||
	    ZSTD_isError(
		    ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(s->zstd,
						ZSTD_c_compressionLevel,
						WINDOW_LEVEL)))
		return error_nomem(err);
	rc = temp_file(temp_dir, &s->fd, err);
	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}

void span_set_free(struct span_set *s)
{
	if (!s)
		return;
	cleanup_close(&s->fd);
	hasher_free(s->hash);
	ZSTD_freeCCtx(s->zstd);
	free(s->packs);
	free(s->spans);
	free(s->parts);
	free(s);
}

/* ------------------------------------------------------------------- spans --- */

static const struct span *last_span(const struct span_set *s)
{
	return s->n_spans && s->spans[s->n_spans - 1].kind != SPAN_END
		       ? &s->spans[s->n_spans - 1]
		       : NULL;
}

uint64_t span_set_due(const struct span_set *s, uint64_t plain)
{
	const struct span *last = last_span(s);
	uint64_t at = last ? last->plain + SPAN_BYTES : 0;

	return at > plain ? at - plain : 0;
}

void span_set_count(struct span_set *s, const void *data, size_t len)
{
	s->crc = crc32_gzip_refl(s->crc, data, len);
}

int span_set_add(struct span_set *s, const struct span *span, struct error *err)
{
	const struct span *last = last_span(s);
	struct span *now;

	if (last && (span->plain - last->plain > SPAN_PLAIN_MAX ||
		     span->stored - last->stored >= SPAN_STORED_MAX))
		return error_set(err, ENOTSUP,
				 "it cannot be indexed: %llu bytes of it can "
				 "only be unpacked together; convert the image "
				 "without --form index, or compress the layer "
				 "with gzip or in zstd frames",
				 (unsigned long long)(span->plain -
						      last->plain));
	if (array_grow(&s->spans, s->n_spans, &s->cap_spans, 1024) < 0)
		return error_nomem(err);
	if (last)
		s->spans[s->n_spans - 1].crc = s->crc;
	s->crc = 0;
	now = &s->spans[s->n_spans++];
	*now = *span;
	now->pack = (uint32_t)s->n_packs - 1;
	return 0;
}

static int add_windows(struct span_set *s, const void *data, size_t len,
		       struct error *err)
{
	int rc = fs_pwrite_full(s->fd, data, len, s->windows);

	if (rc < 0)
		return fs_refuse_write(s->fd, rc, len, TEMP_CURE, err);
	if (hasher_update(s->hash, data, len) < 0)
		return error_nomem(err);
	s->windows += len;
	return 0;
}

int span_set_keep_window(struct span_set *s, const uint8_t *window,
			 struct error *err)
{
	struct span *span = &s->spans[s->n_spans - 1];
	uint8_t packed[SPAN_WINDOW_STORED_MAX];
	size_t n;

	if (window[0] == 0 &&
	    memcmp(window, window + 1, SPAN_WINDOW_BYTES - 1) == 0)
		return 0;
	n = ZSTD_compress2(s->zstd, packed, sizeof(packed), window,
			   SPAN_WINDOW_BYTES);
	if (ZSTD_isError(n))
		return error_set(err, EIO, "zstd: %s", ZSTD_getErrorName(n));
	span->window = s->windows;
	span->window_len = (uint32_t)n;
	return add_windows(s, packed, n, err);
}

int span_set_enter(struct span_set *s, enum span_kind kind, uint64_t stored,
		   uint64_t plain, struct error *err)
{
	const struct span span = { .kind = kind,
				   .stored = stored,
				   .plain = plain };
	const struct span *last = last_span(s);

	if (last && plain - last->plain < SPAN_BYTES_LEAST)
		return 0;
	return span_set_add(s, &span, err);
}

int span_set_begin_layer(struct span_set *s, const struct digest *blob,
			 uint64_t size, struct error *err)
{
	if (array_grow(&s->packs, s->n_packs, &s->cap_packs, 16) < 0)
		return error_nomem(err);
	s->packs[s->n_packs++] = (struct pack){ .digest = *blob, .size = size };
	return 0;
}

int span_set_end_layer(struct span_set *s, uint64_t plain, struct error *err)
{
	const struct span end = { .kind = SPAN_END,
				  .stored = s->packs[s->n_packs - 1].size,
				  .plain = plain };
	const struct span *last = last_span(s);

	/* Nothing was unpacked since the last span began, so it is dropped. */
	if (last && last->plain == plain)
		s->n_spans--;
	return last_span(s) ? span_set_add(s, &end, err) : 0;
}

static int cannot_read(int rc, struct error *err)
{
	return error_errno(err, -rc, "read a temporary file");
}

static int append_windows(struct span_set *s, int fd, uint64_t off,
			  uint64_t len, struct error *err)
{
	uint8_t buf[16 * KIB];
	size_t n;
	int rc = 0;

	for (; rc == 0 && len; off += n, len -= n) {
		n = len < sizeof(buf) ? (size_t)len : sizeof(buf);
		rc = fs_pread_full(fd, buf, n, off);
		if (rc < 0)
			return cannot_read(rc, err);
		rc = add_windows(s, buf, n, err);
	}
	return rc;
}

int span_set_append(struct span_set *s, const struct span_set *from,
		    struct error *err)
{
	uint32_t pack = (uint32_t)s->n_packs;
	uint64_t windows = s->windows;

	for (size_t i = 0; i < from->n_packs; i++) {
		if (array_grow(&s->packs, s->n_packs, &s->cap_packs, 16) < 0)
			return error_nomem(err);
		s->packs[s->n_packs++] = from->packs[i];
	}
	for (size_t i = 0; i < from->n_spans; i++) {
		struct span *now;

		if (array_grow(&s->spans, s->n_spans, &s->cap_spans, 1024) < 0)
			return error_nomem(err);
		now = &s->spans[s->n_spans++];
		*now = from->spans[i];
		now->pack += pack;
		if (now->window_len)
			now->window += windows;
	}
	return append_windows(s, from->fd, 0, from->windows, err);
}

int span_set_save(const struct span_set *s, int fd, uint64_t off,
		  struct error *err)
{
	const uint64_t head[2] = { s->n_spans, s->windows };
	uint64_t windows = off + sizeof(head) + s->n_spans * sizeof(*s->spans);
	uint8_t buf[16 * KIB];
	size_t n;
	int rc = fs_pwrite_full(fd, head, sizeof(head), off);

	if (rc == 0)
		rc = fs_pwrite_full(fd, s->spans,
				    s->n_spans * sizeof(*s->spans),
				    off + sizeof(head));
	for (uint64_t at = 0; rc == 0 && at < s->windows; at += n) {
		n = s->windows - at < sizeof(buf) ? (size_t)(s->windows - at)
						  : sizeof(buf);
		rc = fs_pread_full(s->fd, buf, n, at);
		if (rc == 0)
			rc = fs_pwrite_full(fd, buf, n, windows + at);
	}
	return rc < 0 ? error_errno(err, -rc, "write a temporary file") : 0;
}

int span_set_load(struct span_set *s, int fd, uint64_t off, struct error *err)
{
	uint64_t head[2];
	int rc = fs_pread_full(fd, head, sizeof(head), off);

	if (rc < 0)
		return cannot_read(rc, err);
	s->spans = calloc(head[0] + 1, sizeof(*s->spans));
	if (!s->spans)
		return error_nomem(err);
	s->cap_spans = head[0] + 1;
	s->n_spans = head[0];
	off += sizeof(head);
	rc = fs_pread_full(fd, s->spans, s->n_spans * sizeof(*s->spans), off);
	if (rc < 0)
		return cannot_read(rc, err);
	return append_windows(s, fd, off + s->n_spans * sizeof(*s->spans),
			      head[1], err);
}

/* ------------------------------------------------------------------ content --- */

int span_set_add_file(struct span_set *s, struct inode *i, uint64_t off,
		      uint64_t len, size_t layer, uint64_t plain,
		      struct error *err)
{
	struct file_part *last = s->n_parts ? &s->parts[s->n_parts - 1] : NULL;

	if (last && last->inode == i && last->off + last->len == off &&
	    last->plain + last->len == plain && last->pack == layer) {
		last->len += len;
		return 0;
	}
	if (s->n_parts == PARTS_MAX)
		return error_set(err, E2BIG,
				 "its files are in more than %u parts",
				 PARTS_MAX);
	if (array_grow(&s->parts, s->n_parts, &s->cap_parts, 1024) < 0)
		return error_nomem(err);
	s->parts[s->n_parts++] = (struct file_part){ .inode = i,
						     .off = off,
						     .len = len,
						     .plain = plain,
						     .pack = (uint32_t)layer };
	return 0;
}

int span_set_windows(struct span_set *s, struct pack *ret, int *ret_fd,
		     struct error *err)
{
	*ret = (struct pack){ .size = s->windows };
	*ret_fd = s->fd;
	if (s->windows == 0)
		return 0;
	if (hasher_final(s->hash, &ret->digest) < 0)
		return error_nomem(err);
	return span_set_begin_layer(s, &ret->digest, ret->size, err);
}

int span_set_finish(struct span_set *s, struct blockmap_writer *w,
		    const struct block *first, size_t n_first,
		    struct error *err)
{
	uint32_t index;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n_packs; i++)
		rc = blockmap_writer_pack(w, &s->packs[i], &index, err);
	for (size_t i = 0; rc == 0 && i < s->n_spans; i++)
		rc = blockmap_writer_span(w, &s->spans[i], err);
	return rc < 0 ? rc
		      : places_write(s->parts, s->n_parts, first, n_first, w,
				     err);
}
