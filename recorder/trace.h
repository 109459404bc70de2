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
#define TRACE_DECODED_MAX (128u << 20) /* bytes in memory */
#define TRACE_WORKLOAD_MAX 255u        /* bytes of a workload key */
#define TRACE_REPO_MAX 512u            /* bytes of "host/repository" */
#define TRACE_BLOCK_MAX (4u << 20)     /* bytes of a block or a range */
#define TRACE_RUNS_MAX 1000000u
#define TRACE_HEAD_MAX 1024u
#define TRACE_CERTAIN 1000u /* confidence: in every run */
#define TRACE_HOT 500u      /* confidence: worth a prefetch */

/* A part of one file within one block, in the order of its first access. */
struct trace_entry {
	/* absolute path in the image, any bytes but NUL; owned by the trace */
	const char *path;
	uint64_t off; /* in the file */
	/* bytes of the file that were read, 1..TRACE_BLOCK_MAX */
	uint32_t len;
	uint32_t at_ms; /* time of the first access, since the start */
	uint32_t csize; /* stored bytes of the block, to plan requests */
	uint16_t
		/* share of the runs that had the entry, 1..TRACE_CERTAIN */
		confidence;
	struct digest block; /* digest of the block's unpacked content */
};

/* Origin of a trace, and how its start ended. */
struct trace_info {
	struct digest image; /* manifest of the ordinary image */
	char *repo;          /* "host/repository" of the image, "" if unknown */
	char *workload;      /* key: printable ASCII without spaces; not "" */
	uint64_t created_at; /* seconds since 1970; merged: of the newest run */
	uint32_t window_ms;  /* how long the start was watched */
	uint32_t ready_ms;   /* time to ready, 0 unknown; merged: the median */
	/* 1 for a recording; merged: number of runs, up to TRACE_RUNS_MAX */
	uint32_t runs;
	bool truncated; /* a limit was reached; the tail is missing */
};

struct trace {
	struct trace_info info;
	struct trace_entry *entries;
	size_t n;
	void *paths; /* memory of the entries' paths */
	/* In a prediction: for each entry a bit mask of the donors that read its path; else
	 * NULL. */
	uint64_t *readers;
};

void trace_free(struct trace *t); /* NULL is allowed */
DEFINE_AUTO(trace)

/* Memory that the trace takes, in bytes. */
uint64_t trace_memory(const struct trace *t);

/* Builds a trace by adding entries, in their order; equal paths are stored once. */
struct trace_builder;
int trace_builder_new(const struct trace_info *info, /* copied */
		      struct trace_builder **ret, struct error *err) MUST_CHECK;
/* Add an entry. -ENOSPC: a limit was reached; entries added before stay. -EINVAL: bad path
 * or range. */
int trace_builder_add(struct trace_builder *b, const struct trace_entry *e,
		      struct error *err) MUST_CHECK;
int trace_builder_finish(
	struct trace_builder *b, /* frees it, also on failure */
	struct trace **ret, struct error *err) MUST_CHECK;
void trace_builder_free(struct trace_builder *b);
DEFINE_AUTO(trace_builder)

/* Encode and decode traces. Decoding checks every count before it allocates memory: -EINVAL
 * says what is wrong and where, -ENOTSUP: an unknown version, -EFBIG. */
int trace_encode(const struct trace *t, struct buf *ret,
		 struct error *err) MUST_CHECK;
int trace_decode(const void *data, size_t len, struct trace **ret,
		 struct error *err) MUST_CHECK;
/* As trace_decode(), for untrusted input: uses at most `memory_max` bytes of memory, else
 * -EFBIG before allocating them. */
int trace_decode_within(const void *data, size_t len, uint64_t memory_max,
			struct trace **ret, struct error *err) MUST_CHECK;
/* Decode only the head, for listings; the caller owns the strings. The first TRACE_HEAD_MAX
 * bytes suffice, but without the rest the checksum is not verified. */
int trace_decode_info(const void *data, size_t len, struct trace_info *ret,
		      size_t *ret_entries, struct error *err) MUST_CHECK;
void trace_info_fini(struct trace_info *i);

/* Convert to and from JSON, for people and other programs (docs/formats/trace.md). */
int trace_to_json(const struct trace *t, struct buf *ret,
		  struct error *err) MUST_CHECK;
int trace_from_json(const char *text, size_t len, struct trace **ret,
		    struct error *err) MUST_CHECK;
/* Write a path as in the JSON, which is text: bytes that are not UTF-8, and '%', become %XX.
 * -ENOMEM */
int trace_path_text(const char *path, struct buf *ret) MUST_CHECK;

/* ---------------------------------------------------------------- merging --- */

/* A run to be merged; newer runs should weigh more. */
struct trace_run {
	const struct trace
		*trace;  /* borrowed; a merged trace counts as all its runs */
	uint32_t weight; /* 1..1000000 */
};

struct trace_merge_config {
	uint16_t min_confidence; /* entries below are left out, 0..1000 */
	/* limit of entries: the most certain, then the earliest stay; 0: TRACE_ENTRIES_MAX */
	size_t entries_max;
	/* limit of stored bytes of distinct blocks; 0: none */
	uint64_t bytes_max;
};

#define TRACE_MERGE_MAX (4u << 20) /* entries of all runs together */

/*
 * Merge several runs into one trace. Entries with equal path and block become one: its range is
 * the union, its time the weighted median, its confidence the weighted share of the runs that
 * have it. Ordered by time. (If a file repeats a block, places further than TRACE_BLOCK_MAX from
 * each other stay separate.) The result has the newest run's name, the longest window, and the
 * sum of the runs. Deterministic, whatever the order of `runs`; takes n log n steps.
 *
 * A run that claims to stand for many counts as many, so set `runs` of untrusted recordings to
 * 1.
 *
 *   -EINVAL  runs of several images; none, or more than 4096; a bad weight
 *
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

/* A start of another image that a prediction uses. */
struct trace_donor {
	const struct trace *trace; /* borrowed */
	/* number of the start's owner, below PREDICTION_OWNERS_MAX */
	uint32_t owner;
	bool is_own; /* the requester may see this start in full */
};

/*
 * Predict a trace, in order of time, for an image that was never started, from the starts of
 * other images. Entries that only starts of other users have are included if these belong to at
 * least `owners_min` owners. Entries that less than half of a start's runs had do not count. The
 * range of an entry is the union over the starts of one owner, and of several owners' ranges the
 * shortest, so that none can enlarge it; if the requester's own starts have the entry, these
 * alone decide. When there are too many entries, the requester's own stay, then those of most
 * owners. Deterministic; takes n log n steps.
 *
 *   -EINVAL  too many donors;  -EFBIG  more than TRACE_MERGE_MAX entries
 */
int trace_predict(const struct trace_donor *donors, size_t n,
		  uint32_t owners_min, struct trace **ret,
		  struct error *err) MUST_CHECK;

/* As trace_encode() and trace_decode(), for a trace with `readers`: docs/formats/trace.md. */
int prediction_encode(const struct trace *t, struct buf *ret,
		      struct error *err) MUST_CHECK;
int prediction_decode(const void *data, size_t len, struct trace **ret,
		      struct error *err) MUST_CHECK;

#endif
