// SPDX-License-Identifier: Apache-2.0
#include "image/writer/spill.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "common/temp_file.h"

/* Bytes of the file that one mapping covers; contents never cross its end. Mappings never
 * move. */
#define SEGMENT (64 * MIB)
#define SEGMENTS_MAX (SPILL_BYTES_MAX / SEGMENT)

struct spill {
	int fd;
	uint64_t end; /* bytes put so far */
	uint64_t
		/* bytes of these that are in the file; the rest is in `buf` */
		written;
	uint8_t *segments[SEGMENTS_MAX];
	size_t n_segments;
	uint8_t buf[SPILL_ONE_MAX];
};

int spill_new(const char *dir, struct spill **ret, struct error *err)
{
	AUTO(spill) s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->fd = -1;
	rc = temp_file(dir, &s->fd, err);
	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}

void spill_free(struct spill *s)
{
	if (!s)
		return;
	while (s->n_segments)
		(void)munmap(s->segments[--s->n_segments], SEGMENT);
	cleanup_close(&s->fd);
	free(s);
}

int spill_flush(struct spill *s, struct error *err)
{
	size_t len = (size_t)(s->end - s->written);
	int rc = len ? fs_pwrite_full(s->fd, s->buf, len, s->written) : 0;

	if (rc < 0)
		return fs_refuse_write(s->fd, rc, len, TEMP_CURE, err);
	s->written = s->end;
	return 0;
}

/* Map another segment. The file is extended first, so that no read of the mapping is beyond
 * its end; unwritten parts take no room on the disk. */
static int add_segment(struct spill *s, struct error *err)
{
	uint64_t at = s->n_segments * SEGMENT;
	void *p;

	if (s->n_segments == SEGMENTS_MAX)
		return error_set(err, EFBIG,
				 "its tiny files have more than %llu MiB",
				 (unsigned long long)(SPILL_BYTES_MAX / MIB));
	if (ftruncate(s->fd, (off_t)(at + SEGMENT)) < 0)
		return error_errno(err, errno, "grow a temporary file");
	p = mmap(NULL, SEGMENT, PROT_READ, MAP_SHARED, s->fd, (off_t)at);
	if (p == MAP_FAILED)
		return error_errno(err, errno, "map a temporary file");
	s->segments[s->n_segments++] = p;
	return 0;
}

int spill_put(struct spill *s, const void *data, size_t len,
	      const uint8_t **ret, struct error *err)
{
	uint64_t room = s->n_segments * SEGMENT - s->end;
	int rc = 0;

	if (len > SPILL_ONE_MAX)
		return error_set(err, EINVAL, "%zu bytes at once", len);
	if (len > room || s->end - s->written + len > sizeof(s->buf))
		rc = spill_flush(s, err);
	if (rc == 0 && len > room) {
		rc = add_segment(s, err);
		if (rc == 0)
			s->end = s->written = (s->n_segments - 1) * SEGMENT;
	}
	if (rc < 0)
		return rc;
	memcpy(s->buf + (s->end - s->written), data, len);
	*ret = s->segments[s->end / SEGMENT] + s->end % SEGMENT;
	s->end += len;
	return 0;
}

void spill_forget(struct spill *s)
{
	/* MADV_DONTNEED on a mapped file drops the pages from memory, not their
	 * content. */
	for (size_t i = 0; i < s->n_segments; i++)
		(void)madvise(s->segments[i], SEGMENT, MADV_DONTNEED);
}
