// SPDX-License-Identifier: Apache-2.0
/*
 * Limits for each name: so many calls with one name run at once, and so many wait, in their
 * order. So one slow registry occupies some of the threads, never all.
 *
 * A second limit applies to all strange names together: names that have not answered recently,
 * or have a call that waits too long. And names with several places leave some to names that
 * have none, so that a few names which become slow at the same time keep nobody else waiting.
 *
 * For one thread, the loop's. Reads no clock: `now_ns` must never go back.
 */
#ifndef BOOTSEER_NET_LANES_H
#define BOOTSEER_NET_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A name that has answered within LANES_QUICK_NS counts as good for LANES_GOOD_NS, unless
 * one of its calls waits longer than LANES_LATE_NS. */
#define LANES_QUICK_NS INT64_C(10000000000)
#define LANES_GOOD_NS INT64_C(60000000000)
#define LANES_LATE_NS INT64_C(1000000000)

struct lanes;
struct lane;

struct lanes_config {
	size_t all;     /* running calls of all names */
	size_t at_once; /* running calls of one name */
	size_t waiting; /* waiting calls of one name */
	/* running calls of all strange names; also the limit of names with one call each */
	size_t strange_most;
};

/* Embedded by the user, and kept from lanes_enter() until lanes_leave(). */
struct lane_turn {
	/* called when it no longer has to wait */
	void (*begin)(struct lane_turn *t);
	/* used by lanes.c, as the members below */
	struct lane *lane;
	struct lane_turn *next;
	int64_t begun_ns;
	bool is_waiting;
	/* it holds one of the places kept for good names */
	bool has_good_place;
};

struct lanes *lanes_new(const struct lanes_config *cfg) MUST_CHECK;
void lanes_free(struct lanes *l); /* NULL is allowed; no turn may be inside */

/* Enter the lane. 0: go on; 1: wait until t->begin() is called; -EAGAIN: too many wait
 * already; -ENOMEM. */
int lanes_enter(struct lanes *l, const char *name, struct lane_turn *t,
		int64_t now_ns) MUST_CHECK;

/* End the turn, also one that still waits. `is_answered`: the call ended by itself,
 * successful or not. May call begin() of waiting turns, first of the name that holds least. */
void lanes_leave(struct lanes *l, struct lane_turn *t, bool is_answered,
		 int64_t now_ns);

#endif
