// SPDX-License-Identifier: Apache-2.0
#include "profiler/cri_lines.h"

#include <errno.h>
#include <string.h>

#define HEADER_MAX 64u /* "2006-01-02T15:04:05.999999999+07:00 stdout F " */

struct cri_header {
	unsigned int stream; /* 0 stdout, 1 stderr */
	bool is_partial;
	size_t len;
};

void cri_lines_fini(struct cri_lines *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->pieces); i++)
		buf_fini(&c->pieces[i].line);
}

static bool read_header(const char *line, size_t len, struct cri_header *ret)
{
	static const char *const streams[] = { " stdout ", " stderr " };
	size_t most = len < HEADER_MAX ? len : HEADER_MAX;
	const char *p = memchr(line, ' ', most), *tags;
	size_t at;

	if (!p || p == line)
		return false;
	at = (size_t)(p - line);
	if (len - at < 9)
		return false;
	ret->stream = memcmp(p, streams[0], 8) != 0;
	if (ret->stream && memcmp(p, streams[1], 8) != 0)
		return false;
	tags = p + 8;
	if (*tags != 'P' && *tags != 'F')
		return false;
	ret->is_partial = *tags == 'P';
	/* Runtimes may add tags, as in "P:a:b". An empty line has no space after the tags. */
	p = memchr(tags, ' ', len - (size_t)(tags - line));
	ret->len = p ? (size_t)(p - line) + 1 : len;
	return !p || p == tags + 1 || tags[1] == ':';
}

static int hand_over(struct cri_lines *c, struct cri_piece *p,
		     cri_line_fn *each, void *arg)
{
	int rc = each(arg, p->line.data, p->line.len, p->offset);

	c->lines++;
	buf_fini(&p->line);
	p->line.limit = CRI_LINE_MAX;
	p->header = 0;
	return rc;
}

static int add_piece(struct cri_piece *p, const char *line, size_t len,
		     size_t header, uint64_t offset)
{
	int rc = 0;

	if (!p->line.len) {
		p->line.limit = CRI_LINE_MAX;
		p->header = header;
		p->offset = offset;
		rc = buf_append(&p->line, line, header);
	}
	return rc == 0 ? buf_append(&p->line, line + header, len - header) : rc;
}

int cri_lines_feed(struct cri_lines *c, const char *line, size_t len,
		   uint64_t offset, cri_line_fn *each, void *arg)
{
	struct cri_header h;
	struct cri_piece *p;
	int rc;

	if (!read_header(line, len, &h)) {
		c->foreign += len > 0;
		return 0;
	}
	p = &c->pieces[h.stream];
	if (!h.is_partial && !p->line.len) {
		/* A line in one piece needs no copy. */
		c->lines++;
		return each(arg, line, len, offset);
	}
	rc = add_piece(p, line, len, h.len, offset);
	if (rc == -EFBIG && p->line.len) {
		rc = hand_over(c, p, each, arg);
		if (rc == 0)
			rc = add_piece(p, line, len, h.len, offset);
	}
	/* No runtime writes a single piece longer than the limit of a whole line: skip it. */
	if (rc == -EFBIG) {
		c->foreign++;
		buf_reset(&p->line);
		return 0;
	}
	return rc == 0 && !h.is_partial ? hand_over(c, p, each, arg) : rc;
}

uint64_t cri_lines_begin(const struct cri_lines *c, uint64_t offset)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->pieces); i++)
		if (c->pieces[i].line.len && c->pieces[i].offset < offset)
			offset = c->pieces[i].offset;
	return offset;
}
