// SPDX-License-Identifier: Apache-2.0
/*
 * The only place that decides whether a start's reads become a trace.  No I/O.
 *
 *   recording_begin()        recording_end()           recording_judge()
 *
 *   UNSEEN    (nothing is seen, or is to be kept: stays so)
 *   FIGURES   (seen for the figures alone: stays so)
 *   OFFERED ----+----> NAMELESS, MIXED
 *   ORDERED ----+----> KEPT, EMPTY
 *               +----> OFFERED_ASK ------------> KEPT, EMPTY, FRAGMENT, KNOWN
 *               +----> ORDERED_ASK ------------> KEPT, EMPTY, FRAGMENT
 *
 * What is KEPT goes to the stores (trace_keep()); nothing else does.
 */
#ifndef BOOTSEER_NODE_RECORDING_STATE_H
#define BOOTSEER_NODE_RECORDING_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Which reads of a start this node can see. */
enum recording_sight {
	RECORDING_BLIND, /* none: a complete mount, or no memory */
	/* reads that the page cache cannot answer from before */
	RECORDING_STALE,
	RECORDING_FRESH, /* all: the mount is new */
};

/* The mode of --record; image.record, which has its own mount, always records. */
enum recording_mode {
	RECORDING_MODE_OFF,
	RECORDING_MODE_AUTO, /* while the stores want more */
	RECORDING_MODE_ALWAYS,
};

/* How a start ended. */
enum start_end {
	START_UNDER_WAY,
	START_READY,
	START_WINDOW, /* the time of --record ended */
	START_GONE,   /* the container or the mount ended */
};

/* Is the key by which the trace was looked up the key of the recording? */
enum start_words {
	START_WORDS_ASKED, /* it is the same */
	/* not known: the bundle, which names the program, is not there yet */
	START_WORDS_PENDING,
	START_WORDS_OTHER, /* the bundle named another program */
};

enum recording_state {
	RECORDING_UNSEEN,
	RECORDING_FIGURES,
	RECORDING_OFFERED,     /* becomes a trace if it tells something new */
	RECORDING_ORDERED,     /* becomes a trace, whatever is known already */
	RECORDING_OFFERED_ASK, /* the start is over: the known traces decide */
	/* the start is over: it is kept unless it is a fragment */
	RECORDING_ORDERED_ASK,
	RECORDING_KEPT,
	RECORDING_EMPTY, /* not kept: nothing ran, or it has no key */
	/* not kept: it ended before its workload was read */
	RECORDING_NAMELESS,
	/* not kept: another workload read the same mount too soon */
	RECORDING_MIXED,
	/* not kept: much shorter than known starts, so a crash */
	RECORDING_FRAGMENT,
	RECORDING_KNOWN, /* not kept: it tells nothing new */
};

/* `is_wanted`: no trace of this image and workload is known, or the stores want more. */
enum recording_state recording_begin(enum recording_sight sight,
				     enum recording_mode mode, bool is_wanted);

/* A --record. */
struct recording_policy {
	enum recording_mode mode;
	/* how long a start without a sign of readiness is watched */
	int64_t window_ns;
};

/* "auto", "always" or "off", with or without ":TIME", 1s to 1h.  -EINVAL. */
int recording_policy_parse(const char *text, struct recording_policy *ret,
			   struct error *err) MUST_CHECK;

/* Shown to users: is the start being recorded, or was it? */
bool recording_is_on(enum recording_state s);

struct recording_end {
	enum start_end end;
	enum start_words words;
	uint32_t watched_ms;
	bool has_key;     /* its workload's key is known */
	size_t n_entries; /* of the trace */
	/* How long no other workload used the mount; INT64_MAX: all the time. */
	int64_t alone_ns;
};
enum recording_state recording_end(enum recording_state s,
				   const struct recording_end *e);

/* Must the stores be asked which traces they have? */
bool recording_has_to_ask(enum recording_state s);

/* The stores' knowledge of traces of this start. */
struct recording_known {
	/* they have a trace of this image and workload; else the rest is unset */
	bool is_own;
	bool is_wanted;     /* the stores want another trace */
	uint32_t length_ms; /* length of the known starts; 0: not known */
};
/* `known` NULL: no store answered. */
enum recording_state recording_judge(enum recording_state s,
				     const struct recording_end *e,
				     const struct recording_known *known);

#endif
