// SPDX-License-Identifier: Apache-2.0
#include "profiler/stage_lines.h"

#include <errno.h>
#include <string.h>

int stage_lines_init(struct stage_lines *l, struct error *err)
{
	*l = (struct stage_lines){ .line = malloc(STAGE_LINES_MAX) };
	return l->line ? 0 : error_nomem(err);
}

void stage_lines_fini(struct stage_lines *l)
{
	free(l->line);
	buf_fini(&l->last);
	buf_fini(&l->plain);
	l->line = NULL;
}

/* Under `set -x`, a script's trace and its output contain the same event, one after the other: skip
 * the second. */
static bool is_said_twice(struct stage_lines *l, const struct stage_event *e)
{
	struct stage_event plain = *e;
	AUTO_BUF text = BUF_INIT;
	bool is_same = false;

	/* Compare without times, which come from two different lines. */
	if (e->id >= 0)
		return false;
	plain.ts_ns = STAGE_NONE;
	if (stage_event_format(&plain, &text) < 0)
		return false;
	is_same = e->is_trace != l->last_is_trace && l->last.len == text.len &&
		  memcmp(l->last.data, text.data, text.len) == 0;
	buf_reset(&l->last);
	if (!is_same && buf_append(&l->last, text.data, text.len) < 0)
		buf_reset(&l->last);
	l->last_is_trace = e->is_trace;
	return is_same;
}

static int find_events_in_line(struct stage_lines *l, const char *line,
			       size_t len, stage_lines_fn *each, void *arg)
{
	struct stage_event e;
	struct stage_scan at = { .pos = 0 };
	size_t n = len;
	const char *plain = stage_line_plain(line, &n, &l->plain);
	int rc = plain ? 0 : -ENOMEM;

	while (rc == 0) {
		enum stage_found f = stage_line_next(plain, n, &at, &e);

		if (f == STAGE_FOUND_NONE)
			break;
		l->junk += f == STAGE_FOUND_JUNK;
		if (f == STAGE_FOUND_EVENT && !is_said_twice(l, &e)) {
			l->events++;
			/* The place includes the position within the line, so that several events
			 * of a line have different places. */
			rc = each(arg, &e,
				  l->offset + (size_t)(e.stage.s - plain));
		}
	}
	l->offset += len;
	return rc;
}

int stage_lines_feed(struct stage_lines *l, const char *data, size_t len,
		     stage_lines_fn *each, void *arg)
{
	int rc = 0;

	while (len && rc == 0) {
		const char *nl = memchr(data, '\n', len);
		size_t n = nl ? (size_t)(nl - data) + 1 : len;
		size_t room = STAGE_LINES_MAX - l->len;

		if (n > room)
			n = room;
		if (l->len == 0 && nl && n == (size_t)(nl - data) + 1) {
			/* A whole line in the input need not be copied. */
			rc = find_events_in_line(l, data, n, each, arg);
		} else {
			memcpy(l->line + l->len, data, n);
			l->len += n;
			if (l->len == STAGE_LINES_MAX ||
			    l->line[l->len - 1] == '\n')
				rc = stage_lines_end(l, each, arg);
		}
		data += n;
		len -= n;
	}
	return rc;
}

int stage_lines_end(struct stage_lines *l, stage_lines_fn *each, void *arg)
{
	size_t n = l->len;

	l->len = 0;
	return find_events_in_line(l, l->line, n, each, arg);
}
