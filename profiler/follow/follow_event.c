// SPDX-License-Identifier: Apache-2.0
/*
 * Finds events in the lines of a log, and sets their owner. A container can write anything into its
 * log. Therefore the node, the namespace and the ids of its events are derived from the place of
 * the log, never from its lines.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "profiler/follow/follower.h"

/* Free room wanted for one more line, which may give three events (note_training()). */
#define LATER_MARGIN (3u * STAGE_LINE_MAX)
/* bits for the position within a line; no line is longer */
#define PLACE_SHIFT 18
#define STAGE_MODEL "model"
#define MARK_TRAIN "train"

int follow_add(struct event_follower *f, int lane, const struct stage_event *e)
{
	struct stage_event own = *e;

	own.node = stage_text(f->node);
	return stage_event_format(&own, &f->pending[lane]);
}

/* ---------------------------------------------------------------------- kinds --- */

/* May the log's pod add an event? A pod must not fill the spool, or use the node's whole share of
 * the service. */
static bool has_room(struct event_follower *f, struct followed_log *l)
{
	uint64_t later = f->pending[SPOOL_LATER].len;

	if (f->spools[SPOOL_LATER])
		later += event_spool_bytes(f->spools[SPOOL_LATER]);
	switch (allowance_take(&f->allowance, &l->share,
			       later + LATER_MARGIN <
				       f->cfg->spool_max / SPOOLS)) {
	case ALLOWANCE_FIRST:
		l->lane = SPOOL_FIRST;
		return true;
	case ALLOWANCE_LATER:
		l->lane = SPOOL_LATER;
		return true;
	default:
		f->stats.limited++;
		return false;
	}
}

static int complete_pod_event(struct event_follower *f, struct followed_log *l,
			      struct stage_event *e, uint64_t place)
{
	struct stage_text said = e->job;
	int rc;

	if (!has_room(f, l))
		return 0;
	e->id = pod_event_id(&l->pod, l->container, l->restart, e, place);
	if (e->id == STAGE_NONE)
		return -ENOMEM;
	if (said.n || !*l->job) {
		rc = pod_job(&l->pod, said, l->job);
		if (rc < 0)
			return rc;
	}
	e->job = stage_text(l->job);
	if (e->attempt >= 0)
		l->attempt = e->attempt;
	e->attempt = l->attempt;
	if (e->rank >= 0)
		l->rank = e->rank;
	if (e->ev == STAGE_END && e->ts_ns > l->stage_end_ns)
		l->stage_end_ns = e->ts_ns;
	/* A program that writes the mark itself needs no pattern for it. */
	if (e->stage.n == strlen(MARK_TRAIN) &&
	    memcmp(e->stage.s, MARK_TRAIN, e->stage.n) == 0)
		l->is_training = true;
	return 1;
}

static int complete_file_event(struct event_follower *f, struct followed_log *l,
			       struct stage_event *e, uint64_t place)
{
	if (e->id < 0)
		e->id = stage_event_make_id(e, place ^ l->at.salt);
	if (e->id == STAGE_NONE)
		return -ENOMEM;
	if (!e->job.n)
		e->job = stage_text(f->cfg->job);
	if (e->attempt == STAGE_NONE)
		e->attempt = f->own_attempt;
	if (!e->job.n)
		f->stats.no_job++;
	if (e->ts_ns == STAGE_NONE)
		e->ts_ns = clock_wall_ns();
	/* has_room() always accepts an event without a pod, and counts it against what pods may
	 * have. */
	return e->job.n && has_room(f, l) ? 1 : 0;
}

const struct log_kind log_kind_pod = { .name = "pod",
				       .is_cri = true,
				       .has_rotated_times = true,
				       .own = complete_pod_event };
/* Logs of this node's own processes, whose events name their job. */
const struct log_kind log_kind_own = { .name = "own",
				       .own = complete_file_event };
const struct log_kind log_kind_file = { .name = "file",
					.own = complete_file_event };

/* ---------------------------------------------------------------------- lines --- */

static int add_model(struct event_follower *f, const struct followed_log *l,
		     const char *stage, enum stage_ev ev, int64_t ts_ns,
		     uint64_t place)
{
	struct stage_event e = STAGE_EVENT_INIT;

	e.stage = stage_text(stage);
	e.ev = ev;
	e.ts_ns = ts_ns;
	e.job = stage_text(l->job);
	e.attempt = l->attempt;
	e.rank = l->rank;
	e.id = pod_event_id(&l->pod, l->container, l->restart, &e, place);
	f->stats.events++;
	return e.id == STAGE_NONE ? -ENOMEM : follow_add(f, l->lane, &e);
}

/*
 * Add events for the initialisation of the model, for a program that writes none. It lasts from the
 * end of the last stage, or from the container's first line, to the line that matches the pattern
 * of a first training step.
 */
static int note_training(struct event_follower *f, struct followed_log *l,
			 int64_t ts_ns, uint64_t place)
{
	int64_t begin = l->stage_end_ns >= 0 ? l->stage_end_ns : l->begin_ns;
	int rc = 0;

	l->is_training = true;
	if (!*l->job)
		rc = pod_job(&l->pod, stage_text(NULL), l->job);
	if (rc == 0 && begin >= 0 && begin <= ts_ns) {
		rc = add_model(f, l, STAGE_MODEL, STAGE_BEGIN, begin, place);
		if (rc == 0)
			rc = add_model(f, l, STAGE_MODEL, STAGE_END, ts_ns,
				       place);
	}
	return rc == 0 ? add_model(f, l, MARK_TRAIN, STAGE_MARK, ts_ns, place)
		       : rc;
}

static int look_for_training(struct event_follower *f, struct followed_log *l,
			     const char *line, size_t len, uint64_t place)
{
	int64_t ts;

	if (l->begin_ns == STAGE_NONE)
		l->begin_ns = stage_logged_at(line, len);
	if (!train_line_is(f->train, line, len))
		return 0;
	ts = stage_logged_at(line, len);
	return ts >= 0 && has_room(f, l) ? note_training(f, l, ts, place) : 0;
}

int follow_line(struct event_follower *f, struct followed_log *l,
		const char *line, size_t len, uint64_t offset)
{
	const char *raw = line;
	struct stage_scan at = { .pos = 0 };
	size_t raw_len = len;
	struct stage_event e;
	int rc = 0;

	line = stage_line_plain(raw, &len, &f->plain);
	if (!line)
		return -ENOMEM;
	f->stats.lines++;
	while (rc >= 0) {
		enum stage_found found = stage_line_next(line, len, &at, &e);
		uint64_t place;

		if (found == STAGE_FOUND_NONE)
			break;
		f->stats.junk += found == STAGE_FOUND_JUNK;
		/* Skip a line of the shell's trace: the traced command writes the event itself. */
		if (found == STAGE_FOUND_JUNK || e.is_trace)
			continue;
		place = offset << PLACE_SHIFT | (uint64_t)(e.stage.s - line);
		rc = l->kind->own(f, l, &e, place);
		if (rc > 0 && e.ts_ns == STAGE_NONE) {
			f->stats.no_time++;
			continue;
		}
		f->stats.events += rc > 0;
		if (rc > 0)
			rc = follow_add(f, l->lane, &e);
	}
	if (rc >= 0 && f->train && l->kind->is_cri && !l->is_training)
		rc = look_for_training(f, l, raw, raw_len,
				       offset << PLACE_SHIFT);
	return rc < 0 ? rc : 0;
}
