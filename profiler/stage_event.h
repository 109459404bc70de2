// SPDX-License-Identifier: Apache-2.0
/*
 * Stage events: a line of text, in any log, that says that a stage of a start begins or ends
 * (docs/formats/stage-events.md). Pure: no I/O, no clock, any thread.
 */
#ifndef BOOTSEER_PROFILER_STAGE_EVENT_H
#define BOOTSEER_PROFILER_STAGE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define STAGE_MARKER "BOOTSEER"
#define STAGE_LINE_MAX 2048u /* bytes of an event from its marker on */
#define STAGE_NAME_MAX 64u
#define STAGE_JOB_MAX 128u
#define STAGE_NODE_MAX 255u
/* Limits of times, so that sums and differences do not overflow: the year 2043, and 18 years after
 * boot. */
#define STAGE_TS_MAX (INT64_C(1) << 61)
#define STAGE_MONO_MAX (INT64_C(1) << 59)
#define STAGE_IMAGE_MAX 255u
#define STAGE_FACT_MAX (INT64_C(1) << 50)
#define STAGE_NONE (-1) /* stands for a number that the event does not have */

enum stage_ev {
	STAGE_BEGIN,
	STAGE_END,
	STAGE_MARK,
};

/*
 * Facts that a stage counted while it ran; an event has them as KEY=NUMBER. The causes of
 * stragglers are derived from them (profiler/start_blame.h). Times are those for which the stage's
 * own work waited.
 */
enum stage_fact {
	STAGE_FACT_GPUS,        /* GPUs of the node */
	STAGE_FACT_CACHE_BYTES, /* bytes that the node had in its cache */
	STAGE_FACT_PEER_BYTES,  /* bytes from other nodes */
	/* bytes from the registry, the store, the package index */
	STAGE_FACT_ORIGIN_BYTES,
	/* reads of data that was not prefetched in time */
	STAGE_FACT_MISSES,
	STAGE_FACT_MISS_MS,
	STAGE_FACT_RETRIES, /* requests that failed and were repeated */
	STAGE_FACT_RETRY_MS,
	/* wait because of a limit, or because an origin asked for it */
	STAGE_FACT_THROTTLED_MS,
	STAGE_FACT_DISK_MS,     /* wait for the node's own disk */
	STAGE_FACT_SAVED_BYTES, /* bytes written to the store */
	/* time in which some program waited for the stage */
	STAGE_FACT_WAIT_MS,
	/* Sums over requests, which ran in parallel, of their waits. */
	STAGE_FACT_QUEUE_MS,   /* wait for memory or a thread */
	STAGE_FACT_STORAGE_MS, /* wait for the storage server */
	STAGE_FACT_NETWORK_MS, /* time in the network */
	STAGE_FACTS,
};

/* A part of the parsed line; `n` 0: the event does not have it. */
struct stage_text {
	const char *s; /* borrowed, without NUL */
	size_t n;
};

struct stage_event {
	struct stage_text stage, job, node;
	struct stage_text image, label; /* image and label of the job */
	enum stage_ev ev;
	uint64_t facts[STAGE_FACTS]; /* 0: not in the event */
	int64_t ts_ns;               /* wall clock, since 1970; STAGE_NONE */
	int64_t mono_ns; /* CLOCK_MONOTONIC of the node; STAGE_NONE */
	int64_t attempt; /* attempt of the job; STAGE_NONE: not given */
	/* STAGE_NONE: the event is about the node as a whole */
	int64_t rank;
	/* unique among the node's events; STAGE_NONE: not given */
	int64_t id;
	/* exit status of the stage's command; STAGE_NONE: not given */
	int64_t status;
	uint64_t boot; /* the boot that mono_ns counts from; 0: unknown */
	/* pod or host that the line names, if the event has no node */
	struct stage_text source;
	/* The line is the shell's trace ("set -x") of the command that prints it. */
	bool is_trace;
};
#define STAGE_EVENT_INIT \
	{ \
		.ts_ns = STAGE_NONE, .mono_ns = STAGE_NONE, \
		.attempt = STAGE_NONE, .rank = STAGE_NONE, .id = STAGE_NONE, \
		.status = STAGE_NONE \
	}

struct stage_text stage_text(const char *s); /* NULL is "" */

/* Is the text a valid name of a stage, job, node or image? */
bool stage_is_name(struct stage_text t);
bool stage_is_job(struct stage_text t);
bool stage_is_node(struct stage_text t);
bool stage_is_image(struct stage_text t);

/* Write the facts as in a line, "misses=3 disk_ms=20"; no facts: nothing. -ENOMEM */
int stage_facts_format(const uint64_t facts[STAGE_FACTS],
		       struct buf *ret) MUST_CHECK;
/* Parse such a text, skipping malformed words. Returns whether there were facts. */
bool stage_facts_parse(const char *text, uint64_t ret[STAGE_FACTS]);

/* The thing found at the next marker of a line. */
enum stage_found {
	STAGE_FOUND_NONE, /* there is no other marker */
	STAGE_FOUND_EVENT,
	STAGE_FOUND_JUNK, /* cut off, mixed with other text, or no event */
};

/* How far a line was searched, and the values found before its first event. These are read only
 * once, since a program may write thousands of events into a line. */
struct stage_scan {
	size_t pos;
	bool has_head;
	int64_t ts_ns;            /* STAGE_NONE */
	struct stage_text source; /* source, as in stage_event */
	bool is_trace;
};

/*
 * Find the next event of a line (without its newline) after `at`, which is all zeros at first. A
 * line may hold several events with other text around them. Texts of `*ret` point into the line,
 * which must have no colours (stage_line_plain()). An event without `ts` gets the time of the line,
 * one without `rank` that of torchrun's prefix.
 */
enum stage_found stage_line_next(const char *line, size_t len,
				 struct stage_scan *at,
				 struct stage_event *ret);

/*
 * Remove colours from the line (terminal sequences, raw or escaped as in JSON); if journald's JSON
 * has the message as a list of bytes, replace the list by text. Returns `line` itself if there is
 * nothing to change or no marker; else the result is in `room`, and `*len` is its length. NULL:
 * memory is short.
 */
const char *stage_line_plain(const char *line, size_t *len, struct buf *room);

/* The time of a log line (profiler/log_line.h), or STAGE_NONE. */
int64_t stage_logged_at(const char *line, size_t len);

/* Append the event as a line with newline; with a checksum if it has an id. The caller must refuse
 * texts that are not allowed in a line. -ENOMEM, -EFBIG. */
int stage_event_format(const struct stage_event *e, struct buf *ret) MUST_CHECK;

/* Make an id for an event that was written without one. The same line at the same `place` (a byte
 * offset, say) always gets the same id. */
int64_t stage_event_make_id(const struct stage_event *e, uint64_t place);

#endif
