// SPDX-License-Identifier: Apache-2.0
/*
 * Stage events in any log.  An event that is found is one that can be written, and
 * what was written is found again, the same; where the log is cut does not matter.
 */
#include <string.h>

#include "profiler/stage_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static bool is_same(struct stage_text a, struct stage_text b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

static int each(void *arg, const struct stage_event *found, uint64_t offset)
{
	struct stage_event own = *found, again;
	const struct stage_event *e = &own;
	AUTO_BUF line = BUF_INIT;
	uint64_t *sum = arg;
	struct stage_scan at = { .pos = 0 };

	/* What is written has an id, and so a checksum as its last word: the last value of a
	 * line without one has no period or colon at its end. */
	if (own.id == STAGE_NONE)
		own.id = stage_event_make_id(found, offset);
	must(stage_is_name(e->stage));
	must(!e->job.n || stage_is_job(e->job));
	must(!e->node.n || stage_is_node(e->node));
	if (stage_event_format(e, &line) < 0)
		return 0;
	must(stage_line_next(line.data, line.len - 1, &at, &again) ==
	     STAGE_FOUND_EVENT);
	must(is_same(e->stage, again.stage) && is_same(e->job, again.job) &&
	     is_same(e->node, again.node) && e->ev == again.ev);
	must(e->ts_ns == again.ts_ns && e->mono_ns == again.mono_ns &&
	     e->attempt == again.attempt && e->rank == again.rank &&
	     e->id == again.id && e->boot == again.boot &&
	     e->status == again.status);
	must(is_same(e->image, again.image) && is_same(e->label, again.label));
	must(memcmp(e->facts, again.facts, sizeof(e->facts)) == 0);
	must(stage_line_next(line.data, line.len - 1, &at, &again) ==
	     STAGE_FOUND_NONE);
	*sum = *sum * 31 + offset +
	       (uint64_t)stage_event_make_id(found, offset);
	return 0;
}

/* The log in pieces of `step` bytes. */
static uint64_t read_log(const uint8_t *data, size_t len, size_t step)
{
	struct stage_lines l;
	uint64_t sum = 0;

	if (stage_lines_init(&l, NULL) < 0)
		return 0;
	for (size_t i = 0; i < len; i += step)
		must(stage_lines_feed(&l, (const char *)data + i,
				      len - i < step ? len - i : step, each,
				      &sum) == 0);
	must(stage_lines_end(&l, each, &sum) == 0);
	must(l.offset == len);
	sum = sum * 31 + l.events * 7 + l.junk;
	stage_lines_fini(&l);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len || len > STAGE_LINES_MAX)
		return 0;
	must(read_log(data, len, len) == read_log(data, len, 1 + len / 3));
	return 0;
}
