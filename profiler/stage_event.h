// SPDX-License-Identifier: Apache-2.0
/*
 * Stage events: a line of text in any log says that a stage of a start begins or
 * ends (docs/formats/stage-events.md).  Pure: no I/O, no clock, any thread.
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
/* Times end here, so that sums and differences of them do not overflow: the year 2043,
 * and 18 years after the boot. */
#define STAGE_TS_MAX (INT64_C(1) << 61)
#define STAGE_MONO_MAX (INT64_C(1) << 59)
#define STAGE_IMAGE_MAX 255u
#define STAGE_FACT_MAX (INT64_C(1) << 50)
#define STAGE_NONE (-1) /* a number that the event does not have */

enum stage_ev {
	STAGE_BEGIN,
	STAGE_END,
	STAGE_MARK,
};

/*
 * Facts that a stage counted while it ran; an event says it as KEY=NUMBER. The causes of
 * stragglers are found from these (profiler/start_blame.h). Times are those that the
 * stage's own work waited.
 */
enum stage_fact {
	STAGE_FACT_GPUS,        /* of the node */
	STAGE_FACT_CACHE_BYTES, /* that were on the node already */
	STAGE_FACT_PEER_BYTES,  /* that other nodes gave */
	STAGE_FACT_ORIGIN_BYTES, /* of the registry, the store, the package index */
	STAGE_FACT_MISSES,       /* reads that the prefetch was too late for */
	STAGE_FACT_MISS_MS,
	STAGE_FACT_RETRIES, /* requests that failed and were made again */
	STAGE_FACT_RETRY_MS,
	STAGE_FACT_THROTTLED_MS, /* by a limit, or told to by an origin */
	STAGE_FACT_DISK_MS,      /* for the node's own disk */
	STAGE_FACT_SAVED_BYTES,  /* that were written to the store */
	STAGE_FACT_WAIT_MS, /* in which some program waited for the stage */
	/* Waits of requests, each of those that ran beside one another: sums. */
	STAGE_FACT_QUEUE_MS,   /* memory, a thread */
	STAGE_FACT_STORAGE_MS, /* the server */
	STAGE_FACT_NETWORK_MS, /* the way to it */
	STAGE_FACTS,
};

/* A piece of the line that was parsed; `n` 0: the event does not have it. */
struct stage_text {
	const char *s; /* borrowed, without NUL */
	size_t n;
};

struct stage_event {
	struct stage_text stage, job, node;
	struct stage_text image, label; /* of the job */
	enum stage_ev ev;
	uint64_t facts[STAGE_FACTS]; /* 0 where it says none */
	int64_t ts_ns;               /* wall clock, since 1970; STAGE_NONE */
	int64_t mono_ns; /* CLOCK_MONOTONIC of the node; STAGE_NONE */
	int64_t attempt; /* of the job; STAGE_NONE */
	int64_t rank;    /* STAGE_NONE: of the node as a whole */
	int64_t id;      /* no other event of the node has it; STAGE_NONE */
	int64_t status;  /* exit status of what a stage ran; STAGE_NONE */
	uint64_t boot;   /* the boot that mono_ns counts from; 0: unknown */
	struct stage_text
		source; /* the pod or host that the line names, if no node */
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

/* May it be the name of a stage, of a job, of a node? */
bool stage_is_name(struct stage_text t);
bool stage_is_job(struct stage_text t);
bool stage_is_node(struct stage_text t);
bool stage_is_image(struct stage_text t);

/* The facts as in a line, "misses=3 disk_ms=20"; without any nothing.  -ENOMEM */
int stage_facts_format(const uint64_t facts[STAGE_FACTS],
		       struct buf *ret) MUST_CHECK;
/* Such a text; what is none is left out.  Were there any? */
bool stage_facts_parse(const char *text, uint64_t ret[STAGE_FACTS]);

/* The kind of thing that the next marker of a line begins. */
enum stage_found {
	STAGE_FOUND_NONE, /* there is no other marker */
	STAGE_FOUND_EVENT,
	STAGE_FOUND_JUNK, /* cut off, mixed with other text, or no event */
};

/* How far a line was looked through, and what stands before its first event: that is read
 * once, since a program may write thousands of events into a line. */
struct stage_scan {
	size_t pos;
	bool has_head;
	int64_t ts_ns;            /* STAGE_NONE */
	struct stage_text source; /* as in the event */
	bool is_trace;
};

/*
 * Look for the next event of a line (without its newline) from `at` on, which is all
 * zeros at first; a line may hold several, with other text around them.  Texts of
 * `*ret` point into the line, which has no colours (stage_line_plain()).  An event without
 * `ts` gets the time of the line, one without `rank` that of torchrun's prefix.
 */
enum stage_found stage_line_next(const char *line, size_t len,
				 struct stage_scan *at,
				 struct stage_event *ret);

/*
 * The line without colours (terminal sequences, written as they are or escaped as in JSON), and
 * of journald's JSON the message as a text where it is a list of bytes.
 * It is `line` itself where there are none, or no marker; else it is in `room`, and `*len` is
 * its length.  NULL: memory is short.
 */
const char *stage_line_plain(const char *line, size_t *len, struct buf *room);

/* The time that a line of a log has (profiler/log_line.h), or STAGE_NONE. */
int64_t stage_logged_at(const char *line, size_t len);

/* Append the event as a line with newline; with its checksum if it has an id.
 * What is not allowed in a line is the caller's to refuse.  -ENOMEM, -EFBIG. */
int stage_event_format(const struct stage_event *e, struct buf *ret) MUST_CHECK;

/* An id for an event that was written without one: the same line at the same
 * `place` (a byte offset, say) has the same id. */
int64_t stage_event_make_id(const struct stage_event *e, uint64_t place);

#endif
