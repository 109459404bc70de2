// SPDX-License-Identifier: Apache-2.0
/*
 * Traces of what a start reads, their merging, and their mapping to the blocks of an
 * image (BootSeer paper, 4.2). Pure: no I/O, no clock, no threads of its own. The encoded
 * form is in docs/formats/trace.md.
 */
#ifndef BOOTSEER_RECORDER_TRACE_H
#define BOOTSEER_RECORDER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"

#define TRACE_MEDIA_TYPE "application/vnd.bootseer.trace.v1"
#define TRACE_ENTRIES_MAX 262144u
#define TRACE_PATH_MAX 4095u           /* bytes of one path */
#define TRACE_BYTES_MAX (16u << 20)    /* encoded */
#define TRACE_DECODED_MAX (128u << 20) /* in memory */
#define TRACE_WORKLOAD_MAX 255u        /* bytes of a workload key */
#define TRACE_REPO_MAX 512u            /* bytes of "host/repository" */
#define TRACE_BLOCK_MAX (4u << 20)     /* bytes of a block, and of a range */
#define TRACE_RUNS_MAX 1000000u
#define TRACE_HEAD_MAX 1024u
#define TRACE_CERTAIN 1000u /* confidence: in every run */
#define TRACE_HOT 500u      /* confidence: worth a prefetch */

/* A part of one file within one block, in the order of its first access. */
struct trace_entry {
	const char *path; /* absolute in the image, any bytes but NUL; the
	                      * trace's */
	uint64_t off;     /* in the file */
	uint32_t len;     /* bytes of the file that were wanted,
	                   * 1..TRACE_BLOCK_MAX */
	uint32_t at_ms;   /* of the first access, since the start */
	uint32_t csize;   /* stored bytes of the block, for planning */
	uint16_t
		confidence; /* share of the runs that had it, 1..TRACE_CERTAIN */
	struct digest block; /* unpacked content of the block it lay in */
};

/* Origin of a trace, and how its start ended. */
struct trace_info {
	struct digest image; /* manifest of the ordinary image */
	char *repo;          /* "host/repository" it came from, "" unknown */
	char *workload;      /* key: printable ASCII without spaces; not "" */
	uint64_t
		created_at; /* seconds since 1970; of a merged one: the newest */
	uint32_t window_ms; /* how long was watched */
	uint32_t ready_ms;  /* time to ready, 0 unknown; merged: the median */
	uint32_t runs;      /* 1 for a recording; ..TRACE_RUNS_MAX */
	bool truncated;     /* a limit was reached; the tail is missing */
};

struct trace {
	struct trace_info info;
	struct trace_entry *entries;
	size_t n;
	void *paths; /* what the entries point to */
	/* Donors that read the path of each entry, in a prediction; else NULL. */
	uint64_t *readers;
};

void trace_free(struct trace *t); /* NULL is allowed */
DEFINE_AUTO(trace)

/* Bytes that it takes in memory. */
uint64_t trace_memory(const struct trace *t);

/* A trace put together entry by entry, which keeps their order; equal paths are
 * stored once. */
struct trace_builder;
int trace_builder_new(const struct trace_info *info, /* copied */
		      struct trace_builder **ret, struct error *err) MUST_CHECK;
/* -ENOSPC beyond a limit: what was added stays.  -EINVAL: bad path or range. */
int trace_builder_add(struct trace_builder *b, const struct trace_entry *e,
		      struct error *err) MUST_CHECK;
int trace_builder_finish(
	struct trace_builder *b, /* takes it, also on failure */
	struct trace **ret, struct error *err) MUST_CHECK;
void trace_builder_free(struct trace_builder *b);
DEFINE_AUTO(trace_builder)

/* The encoded form.  Decoding bounds every count before it allocates: -EINVAL
 * says where and what, -ENOTSUP a version not known here, -EFBIG. */
int trace_encode(const struct trace *t, struct buf *ret,
		 struct error *err) MUST_CHECK;
int trace_decode(const void *data, size_t len, struct trace **ret,
		 struct error *err) MUST_CHECK;
/* The same of a stranger's, with at most so many bytes of memory meanwhile:
 * -EFBIG before it is allocated. */
int trace_decode_within(const void *data, size_t len, uint64_t memory_max,
			struct trace **ret, struct error *err) MUST_CHECK;
/* Only the head, for listings; strings are the caller's.  The first
 * TRACE_HEAD_MAX bytes are enough; without the rest they are not checked
 * against the checksum. */
int trace_decode_info(const void *data, size_t len, struct trace_info *ret,
		      size_t *ret_entries, struct error *err) MUST_CHECK;
void trace_info_fini(struct trace_info *i);

/* For people and other programs: one JSON document (docs/formats/trace.md). */
int trace_to_json(const struct trace *t, struct buf *ret,
		  struct error *err) MUST_CHECK;
int trace_from_json(const char *text, size_t len, struct trace **ret,
		    struct error *err) MUST_CHECK;
/* A path as in that JSON, which is text: what is not UTF-8, and '%', as %XX.  -ENOMEM */
int trace_path_text(const char *path, struct buf *ret) MUST_CHECK;

/* ---------------------------------------------------------------- merging --- */

/* A run that takes part in a merge; a newer one weighs more. */
struct trace_run {
	const struct trace
		*trace;  /* borrowed; a merged one counts as its runs */
	uint32_t weight; /* 1..1000000 */
};

struct trace_merge_config {
	uint16_t min_confidence; /* entries below are left out, 0..1000 */
	size_t entries_max;      /* the most certain, then the earliest stay;
	                          * 0: TRACE_ENTRIES_MAX */
	uint64_t bytes_max; /* stored bytes of distinct blocks; 0 no limit */
};

#define TRACE_MERGE_MAX (4u << 20) /* entries of all runs together */

/*
 * Merge the hot lists of several runs into one: entries of equal path and block are one, its
 * range the union, its time the weighted median, its confidence the weighted
 * share of the runs that have it; in order of time.  (Where a file repeats a
 * block, places further than TRACE_BLOCK_MAX from each other stay apart.)
 * The result names the newest run, has the longest window, and the sum of the
 * runs.  Deterministic, whatever the order of `runs`; n log n.
 *
 * A run that says it stands for many counts as many: whoever takes recordings
 * from outside sets its `runs` to 1.
 *   -EINVAL  runs of several images; none, or more than 4096; a bad weight
 *   -EFBIG   more than TRACE_MERGE_MAX entries
 */
int trace_merge(const struct trace_run *runs, size_t n,
		const struct trace_merge_config *cfg, struct trace **ret,
		struct error *err) MUST_CHECK;

/* ------------------------------------------------------------- predicting --- */

#define PREDICTION_MEDIA_TYPE "application/vnd.bootseer.prediction.v1"
#define PREDICTION_DONORS_MAX 64u
#define PREDICTION_ENTRIES_MAX 32768u
#define PREDICTION_OWNERS_MAX 64u

/* A start of another image. */
struct trace_donor {
	const struct trace *trace; /* borrowed */
	uint32_t owner;            /* whose; below PREDICTION_OWNERS_MAX */
	bool is_own; /* the asker may see this start: all of it is told */
};

/*
 * Predict a trace from the starts of other images, in order of time, for an image that nobody has
 * started.  What only starts that are not the asker's own had is told when they are of
 * `owners_min` owners.  Entries that less than half of a start's runs had do not count.
 * Ranges are those of all starts of one owner, and of several owners the shortest, so that
 * none makes them grow; where there are starts of the asker's own these alone decide.  The
 * asker's own stay, then those of the most owners.  Deterministic; n log n.
 *   -EINVAL  too many donors;  -EFBIG  more than TRACE_MERGE_MAX entries
 */
int trace_predict(const struct trace_donor *donors, size_t n,
		  uint32_t owners_min, struct trace **ret,
		  struct error *err) MUST_CHECK;

/* As trace_encode() and trace_decode(), of a trace with `readers`: docs/formats/trace.md. */
int prediction_encode(const struct trace *t, struct buf *ret,
		      struct error *err) MUST_CHECK;
int prediction_decode(const void *data, size_t len, struct trace **ret,
		      struct error *err) MUST_CHECK;

#endif
