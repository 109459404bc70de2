// SPDX-License-Identifier: Apache-2.0
/*
 * State of the search for traces of an image's workloads.
 * Pure: no lock, no thread, no clock; the caller has the lock and says what time it is.
 *
 *            begin             answer            end
 *   UNKNOWN -------> SEARCHED -------> ANSWERED -------> KNOWN
 *                       ^                                  |
 *                       +------ begin, when it is old -----+
 *
 * An answer is there one step before the search ends, since the prefetch that follows
 * from it takes a while to set up, and a mount must not wait for that.
 */
#ifndef BOOTSEER_NODE_WORKLOAD_H
#define BOOTSEER_NODE_WORKLOAD_H

#include "recorder/recorder.h"

#define WORKLOADS_MAX 16 /* remembered of one image */
/* For how long an answer is used: other nodes record, too. */
#define WORKLOAD_FOUND_NS (INT64_C(300) * 1000000000)
#define WORKLOAD_NONE_NS (INT64_C(30) * 1000000000)

enum workload_phase {
	WORKLOAD_UNKNOWN,  /* nobody has searched */
	WORKLOAD_SEARCHED, /* the stores are being asked */
	WORKLOAD_ANSWERED, /* they have answered; what follows is being set up */
	WORKLOAD_KNOWN,    /* and that is done; good until `expires_ns` */
};

/* Uses of the answer; each includes those before it. */
enum workload_purpose {
	WORKLOAD_TO_LOOK,  /* nothing is prefetched */
	WORKLOAD_TO_FETCH, /* the hot set is */
	WORKLOAD_TO_START, /* and a container waits for it */
};

/* Where the words come from that a workload's key is made of. */
enum workload_kind {
	WORKLOAD_OF_CONFIG, /* the image's own; the key is not known at first */
	WORKLOAD_NAMED,     /* those that were asked for */
};

struct workload_entry {
	struct workload_entry *next;
	char *key; /* NULL: not known yet */
	enum workload_kind kind;
	enum workload_phase phase;
	enum workload_purpose
		purpose; /* of the search under way, or the last */
	/* The most that anybody has wanted: that a container once started on it
	 * is not forgotten. */
	enum workload_purpose most;
	unsigned int waiters; /* threads that look at it: it is not dropped */
	int64_t expires_ns;   /* of what is known */
	/* Once it is answered: */
	bool found, wanted;
	enum trace_match match;
	uint32_t length_ms; /* of the found one: to ready, else its window */
};

/* Those of one image. */
struct image_workloads {
	struct workload_entry *first; /* the newest first */
	/* The workload whose hot set is prefetched; NULL: none. */
	const struct workload_entry *hot;
};

void image_workloads_free(struct image_workloads *w); /* NULL is allowed */

/* `key` NULL: of the image's config.  NULL: it is not there. */
struct workload_entry *workload_find(const struct image_workloads *w,
				     const char *key);
/* A new one; the oldest that nobody uses makes room.  NULL: all are in use, or memory
 * is short. */
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

/* Is what was found prefetched, as far as it can be?  Only one workload's is: that
 * which was asked for last. */
bool workload_is_hot(const struct image_workloads *w,
		     const struct workload_entry *e);

/* Must the stores be asked for this purpose? */
bool workload_is_due(const struct image_workloads *w,
		     const struct workload_entry *e,
		     enum workload_purpose purpose, int64_t now_ns);

void workload_begin(struct workload_entry *e, enum workload_purpose purpose);
/* The stores answered; `best` keeps its trace. */
void workload_answer(struct workload_entry *e, const struct trace_found *best);
/* The search is over and what followed is under way.  Takes `key` (or NULL), which is
 * that of the config when it was not known. */
void workload_end(struct image_workloads *w, struct workload_entry *e,
		  char *key, int64_t now_ns);

/* More may be there than was found: all are searched again, also those that are being
 * searched, whose answer is old already. */
void workload_forget(struct image_workloads *w);

#endif
