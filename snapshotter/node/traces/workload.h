// SPDX-License-Identifier: Apache-2.0
/*
 * State of the search for traces of an image's workloads. No locks, threads or clock in here:
 * the caller holds the lock and passes the time.
 *
 *                       begin             answer            end
 *     UNKNOWN -------> SEARCHED -------> ANSWERED -------> KNOWN
 *                                             ^                                  |
 *                                             +--- begin, when it is too old ----+
 *
 * The answer is there one step before the search ends: beginning the prefetch takes a while,
 * and a mount must not wait for that.
 */
#ifndef BOOTSEER_NODE_WORKLOAD_H
#define BOOTSEER_NODE_WORKLOAD_H

#include "recorder/recorder.h"

#define WORKLOADS_MAX 16 /* workloads remembered of one image */
/* How long an answer is used: other nodes record too, so a better one may exist later. */
#define WORKLOAD_FOUND_NS (INT64_C(300) * 1000000000)
#define WORKLOAD_NONE_NS (INT64_C(30) * 1000000000)

enum workload_phase {
	WORKLOAD_UNKNOWN,  /* no search was begun */
	WORKLOAD_SEARCHED, /* the stores are being asked */
	/* the stores have answered; the prefetch is being begun */
	WORKLOAD_ANSWERED,
	WORKLOAD_KNOWN, /* the search is over; valid until `expires_ns` */
};

/* Uses of the answer; each one includes those above it. */
enum workload_purpose {
	WORKLOAD_TO_LOOK,  /* only the answer is wanted, no prefetch */
	WORKLOAD_TO_FETCH, /* the hot set is prefetched */
	/* the hot set is prefetched, and a container waits for it */
	WORKLOAD_TO_START,
};

/* How a workload's key is known. */
enum workload_kind {
	WORKLOAD_OF_CONFIG, /* from the image's config, once that is read */
	WORKLOAD_NAMED,     /* the caller gave it */
};

struct workload_entry {
	struct workload_entry *next;
	char *key; /* NULL: not known yet */
	enum workload_kind kind;
	enum workload_phase phase;
	enum workload_purpose
		purpose; /* of the search under way, or the last */
	/* The highest purpose ever wanted, so that a later search for less still knows that a
	 * container has started. */
	enum workload_purpose most;
	/* threads that use this entry, so that it is not removed */
	unsigned int waiters;
	int64_t expires_ns; /* when the answer gets too old */
	/* Set by the answer: */
	bool found, wanted;
	enum trace_match match;
	/* of the found trace: time to ready, else its window */
	uint32_t length_ms;
};

/* The workloads of one image. */
struct image_workloads {
	struct workload_entry *first; /* the newest first */
	/* The workload whose hot set is prefetched; NULL: none. */
	const struct workload_entry *hot;
};

void image_workloads_free(struct image_workloads *w); /* NULL is allowed */

/* Find a workload; `key` NULL: that of the image's config.  Returns NULL if there is none. */
struct workload_entry *workload_find(const struct image_workloads *w,
				     const char *key);
/* Add a workload; the oldest unused one is removed if necessary.  NULL: all are in use, or
 * memory is short. */
struct workload_entry *workload_add(struct image_workloads *w,
				    const char *key) MUST_CHECK;

static inline bool workload_is_searched(const struct workload_entry *e)
{
	return e->phase == WORKLOAD_SEARCHED || e->phase == WORKLOAD_ANSWERED;
}

static inline bool workload_has_answer(const struct workload_entry *e)
{
	return e->phase == WORKLOAD_ANSWERED || e->phase == WORKLOAD_KNOWN;
}

/* Is the workload's trace the one that is prefetched?  Only the workload that was asked for
 * last is. */
bool workload_is_hot(const struct image_workloads *w,
		     const struct workload_entry *e);

/* Must the stores be asked for this purpose? */
bool workload_is_due(const struct image_workloads *w,
		     const struct workload_entry *e,
		     enum workload_purpose purpose, int64_t now_ns);

void workload_begin(struct workload_entry *e, enum workload_purpose purpose);
/* Note the stores' answer; `best` still owns its trace. */
void workload_answer(struct workload_entry *e, const struct trace_found *best);
/* The search is over, and the prefetch has begun.  Takes `key` (or NULL), the key of the config
 * if it was not known. */
void workload_end(struct image_workloads *w, struct workload_entry *e,
		  char *key, int64_t now_ns);

/* The stores may have new traces: mark all answers as too old, also those of searches under way. */
void workload_forget(struct image_workloads *w);

#endif
