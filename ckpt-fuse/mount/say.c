// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/say.h"

#include <stdlib.h>

#include "common/clock.h"

#define INTERVAL_MS 1000
#define QUIET_NS (5 * NS_PER_S)

void ckpt_say_init(struct ckpt_say *s)
{
	const char *dir = getenv("BOOTSEER_EVENTS");
	struct stage_event e = STAGE_EVENT_INIT;

	*s = (struct ckpt_say){ .to = NULL };
	stage_own_by_env(&e);
	if (e.job.n && stage_emitter_new(dir ? dir : STAGE_EMIT_DIR, "ckpt",
					 &s->to, NULL) < 0)
		s->to = NULL;
}

void ckpt_say_fini(struct ckpt_say *s)
{
	stage_emitter_free(s->to);
	s->to = NULL;
}

int ckpt_say_interval(const struct ckpt_say *s)
{
	return s->to ? INTERVAL_MS : -1;
}

void ckpt_say_open(struct ckpt_say *s, enum stage_ev ev, int64_t status)
{
	struct stage_event e;

	stage_make("ckpt.open", ev, 0, &e);
	stage_own_by_env(&e);
	e.status = status;
	(void)stage_emit(s->to, &e);
}

/* The increase since the last call; `*before` becomes `now`. */
static uint64_t count_since(uint64_t *before, uint64_t now)
{
	uint64_t n = now - *before;

	*before = now;
	return n;
}

static void emit_stage_begin(struct ckpt_say *s, const char *stage, int64_t ns)
{
	struct stage_event e;

	stage_make(stage, STAGE_BEGIN, ns, &e);
	stage_own_by_env(&e);
	(void)stage_emit(s->to, &e);
}

static void emit_stage_end(struct ckpt_say *s, const char *stage,
			   const struct ckpt_phase_news *news,
			   enum stage_fact fact, uint64_t bytes,
			   struct object_waits *before,
			   const struct object_waits *now)
{
	struct stage_event e;

	stage_make(stage, STAGE_END, news->end_ns, &e);
	stage_own_by_env(&e);
	e.facts[fact] = bytes;
	e.facts[STAGE_FACT_WAIT_MS] = news->waited_ns / NS_PER_MS;
	e.facts[STAGE_FACT_QUEUE_MS] =
		count_since(&before->queue_ns, now->queue_ns) / NS_PER_MS;
	e.facts[STAGE_FACT_STORAGE_MS] =
		count_since(&before->storage_ns, now->storage_ns) / NS_PER_MS;
	e.facts[STAGE_FACT_NETWORK_MS] =
		count_since(&before->network_ns, now->network_ns) / NS_PER_MS;
	(void)stage_emit(s->to, &e);
}

/* Emit a save of ranks as a sequence of stages. */
static void say_group_save(struct ckpt_say *s, const struct save_report *r)
{
	static const char *const stages[] = {
		[SAVE_PHASE_RANKS] = "ckpt.save.ranks",
		[SAVE_PHASE_PLAN] = "ckpt.save.plan",
		[SAVE_PHASE_BUFFER] = "ckpt.save.buffer",
		[SAVE_PHASE_STORE] = "ckpt.save.store",
	};
	int64_t begin_ns = r->begin_ns;

	for (size_t i = 0; i < SAVE_PHASES && r->end_ns[i]; i++) {
		const bool is_last = i + 1 == SAVE_PHASES || !r->end_ns[i + 1];
		struct stage_event e;

		emit_stage_begin(s, stages[i], begin_ns);
		begin_ns = r->end_ns[i];
		stage_make(stages[i], STAGE_END, begin_ns, &e);
		stage_own_by_env(&e);
		e.status = is_last && !r->is_durable;
		if (i == SAVE_PHASE_BUFFER)
			e.facts[STAGE_FACT_PEER_BYTES] = r->copied_bytes;
		if (i == SAVE_PHASE_STORE)
			e.facts[STAGE_FACT_SAVED_BYTES] = r->stored_bytes;
		(void)stage_emit(s->to, &e);
	}
}

void ckpt_say_phases(struct ckpt_say *s, struct ckpt_mount *m, bool is_last)
{
	int64_t now = clock_now_ns(), quiet = is_last ? 0 : QUIET_NS;
	struct ckpt_phase_news load, save;
	struct ckpt_waits waits;
	struct save_report report;

	if (!s->to)
		return;
	while (m->group_saves && saves_take_report(m->group_saves, &report))
		say_group_save(s, &report);
	load = ckpt_phase_look(&m->loads, now, quiet);
	save = ckpt_phase_look(&m->saves, now, quiet);
	if (!load.begin_ns && !load.end_ns && !save.begin_ns && !save.end_ns)
		return;
	waits = ckpt_mount_waits(m);
	if (load.begin_ns)
		emit_stage_begin(s, "ckpt.load", load.begin_ns);
	if (load.end_ns)
		emit_stage_end(s, "ckpt.load", &load, STAGE_FACT_ORIGIN_BYTES,
			       count_since(&s->loaded,
					   atomic_load(
						   &m->readings.bytes_read)),
			       &s->waits.load, &waits.load);
	if (save.begin_ns)
		emit_stage_begin(s, "ckpt.save", save.begin_ns);
	if (save.end_ns)
		emit_stage_end(s, "ckpt.save", &save, STAGE_FACT_SAVED_BYTES,
			       count_since(&s->saved,
					   atomic_load(
						   &m->writings.bytes_written)),
			       &s->waits.save, &waits.save);
}
