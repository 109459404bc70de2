// SPDX-License-Identifier: Apache-2.0
/* Manifests of striped files, as they are and with their checksum made right, and
 * names of columns. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/manifest.h"
#include "common/bytes.h"
#include "common/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FOOTER 16u

static void check_places(const struct manifest *m)
{
	uint64_t chunks = 0, end = 0;

	for (size_t i = 0; i < m->n_segments; i++) {
		const struct ckpt_segment *s = &m->segments[i];
		uint64_t n = segment_chunks(m, s), sum = 0, columns = 0;

		assert(s->start >= end && s->first_chunk == chunks);
		assert(manifest_find(m, s->start) == i);
		assert(manifest_find(m, s->start + s->length - 1) == i);
		for (uint64_t c = 0; c < n; c++) {
			struct chunk_place p = chunk_place(m, s, c);

			assert(p.len > 0 && p.len <= m->chunk_size);
			assert(p.column < s->columns);
			assert(segment_has_column(m, s, p.column));
			assert(s->place ||
			       p.off + p.len <=
				       segment_column_size(m, s, p.column));
			sum += p.len;
		}
		for (uint32_t c = 0; c < s->columns; c++)
			columns += segment_column_size(m, s, c);
		assert(sum == s->length && (s->place || columns == s->length));
		chunks += n;
		end = s->start + s->length;
	}
	assert(chunks == m->n_chunks);
	assert(manifest_find(m, end) == m->n_segments);
}

/* What is taken is what we would write. */
static void check_manifest(const void *data, size_t size)
{
	struct manifest head = { .size = 0 };
	AUTO(manifest) m = NULL;
	AUTO_BUF again = BUF_INIT;
	uint64_t len = 0;
	int rc = manifest_decode(data, size, &m, NULL);

	assert(rc == 0 || rc == -EBADMSG || rc == -ENOTSUP || rc == -ENOMEM);
	if (rc < 0)
		return;
	assert(manifest_decode_header(data, MANIFEST_HEADER, &head, &len,
				      NULL) == 0 &&
	       len == size && head.size == m->size);
	/* What is behind the file's end was cut off. */
	if (head.n_chunks != m->n_chunks ||
	    manifest_encode(m, &again, NULL) < 0)
		return;
	assert(again.len == size && memcmp(again.data, data, size) == 0);
	check_places(m);
}

static void check_name(const uint8_t *data, size_t size)
{
	AUTO_FREE char *name = strndup((const char *)data, size);
	struct ckpt_segment s = { .start = 0 };
	char same[COLUMN_NAME_MAX];
	bool is_there = false;

	if (!name || !column_parse(name, s.id))
		return;
	for (uint32_t c = 0; c < COLUMNS_MAX; c++) {
		column_name(&s, c, same);
		is_there |= strcmp(same, name) == 0;
	}
	assert(is_there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE uint8_t *sealed = malloc(size ? size : 1);

	check_name(data, size);
	check_manifest(data, size);
	if (!sealed || size < MANIFEST_HEADER + FOOTER)
		return 0;
	memcpy(sealed, data, size);
	put_le32(sealed + size - FOOTER, crc32c(0, sealed, size - FOOTER));
	put_le32(sealed + size - FOOTER + 4, 0);
	put_le64(sealed + size - FOOTER + 8, size);
	check_manifest(sealed, size);
	return 0;
}
