// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a start's reads become a trace: decided here and nowhere else.  Pure.
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

/* Reads of a start that this node can see. */
enum recording_sight {
	RECORDING_BLIND, /* nothing: a complete mount, or no memory */
	RECORDING_STALE, /* not what the page cache has of earlier reads */
	RECORDING_FRESH, /* everything: the mount is new */
};

/* --record; for image.record, whose mount is its own, always. */
enum recording_mode {
	RECORDING_MODE_OFF,
	RECORDING_MODE_AUTO, /* while the stores want more */
	RECORDING_MODE_ALWAYS,
};

/* How a start was over. */
enum start_end {
	START_UNDER_WAY,
	START_READY,
	START_WINDOW, /* the window ended */
	START_GONE,   /* the container, or the mount, did */
};

/* Under which key the trace was looked up, and will be kept. */
enum start_words {
	START_WORDS_ASKED,   /* both are the same */
	START_WORDS_PENDING, /* the bundle, which says what runs, is not there */
	START_WORDS_OTHER,   /* the bundle said something else */
};

enum recording_state {
	RECORDING_UNSEEN,
	RECORDING_FIGURES,
	RECORDING_OFFERED,     /* a trace, if it is news */
	RECORDING_ORDERED,     /* a trace, whatever is known already */
	RECORDING_OFFERED_ASK, /* over: what is known decides */
	RECORDING_ORDERED_ASK, /* the same; only a fragment is not kept */
	RECORDING_KEPT,
	RECORDING_EMPTY,    /* would be, but nothing ran, or it has no key */
	RECORDING_NAMELESS, /* gone before its words were read */
	RECORDING_MIXED,    /* another workload read the same mount too soon */
	RECORDING_FRAGMENT, /* a crash, by what others take */
	RECORDING_KNOWN,    /* nothing new, or too short to be */
};

/* `is_wanted`: no trace is known of this very start, or the stores want more. */
enum recording_state recording_begin(enum recording_sight sight,
				     enum recording_mode mode, bool is_wanted);

/* A --record. */
struct recording_policy {
	enum recording_mode mode;
	int64_t window_ns; /* a start that nobody says to be ready lasts so long */
};

/* "auto", "always" or "off", with or without ":TIME", 1s to 1h.  -EINVAL. */
int recording_policy_parse(const char *text, struct recording_policy *ret,
			   struct error *err) MUST_CHECK;

/* Is a trace being made, or was one?  What users are told. */
bool recording_is_on(enum recording_state s);

struct recording_end {
	enum start_end end;
	enum start_words words;
	uint32_t watched_ms;
	bool has_key;     /* of its workload */
	size_t n_entries; /* of the trace */
	/* How long no other workload was on the mount; INT64_MAX: all the time. */
	int64_t alone_ns;
};
enum recording_state recording_end(enum recording_state s,
				   const struct recording_end *e);

/* Has somebody who knows traces to be asked? */
bool recording_has_to_ask(enum recording_state s);

/* Traces that the stores have of this start. */
struct recording_known {
	bool is_own;    /* a trace of this image and workload; else no more */
	bool is_wanted; /* and they want another one */
	uint32_t length_ms; /* how long those took; 0: not known */
};
/* `known` NULL: nobody could be asked. */
enum recording_state recording_judge(enum recording_state s,
				     const struct recording_end *e,
				     const struct recording_known *known);

#endif
