// SPDX-License-Identifier: Apache-2.0
/*
 * Bounds by name: of what has one name, so many go on at once and so many wait, in
 * their order.  So one slow registry has some of the threads, never all.
 *
 * A second bound is for all names together that are strange: that have not answered
 * lately, or have something inside that waits too long.  And names that hold several
 * places leave some to names that hold none, so that a few names which all turn slow
 * at once keep nobody else waiting.
 *
 * On one thread, the loop's.  Reads no clock: `now_ns` never goes back.
 */
#ifndef BOOTSEER_NET_LANES_H
#define BOOTSEER_NET_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A name that answers within the first is trusted with more for the second, unless
 * something inside waits for longer than the third. */
#define LANES_QUICK_NS INT64_C(10000000000)
#define LANES_GOOD_NS INT64_C(60000000000)
#define LANES_LATE_NS INT64_C(1000000000)

struct lanes;
struct lane;

struct lanes_config {
	size_t all;          /* at once, of all names */
	size_t at_once;      /* calls of one name that run */
	size_t waiting;      /* calls of one name that wait */
	size_t strange_most; /* at once, of all strange names; names with one each
			      * are as many at most */
};

/* Embedded by its user, who keeps it from lanes_enter() until lanes_leave(). */
struct lane_turn {
	void (*begin)(struct lane_turn *t); /* it was waiting; now it may go */
	struct lane *lane;                  /* the lanes', as the rest */
	struct lane_turn *next;
	int64_t begun_ns;
	bool is_waiting;
	bool has_good_place; /* one of those that are kept for good names */
};

struct lanes *lanes_new(const struct lanes_config *cfg) MUST_CHECK;
void lanes_free(struct lanes *l); /* NULL is allowed; with nobody inside */

/* 0: go.  1: wait until t->begin() is called.  -EAGAIN: too many wait already.
 * -ENOMEM. */
int lanes_enter(struct lanes *l, const char *name, struct lane_turn *t,
		int64_t now_ns) MUST_CHECK;

/* The turn is done, or does not want to wait any more. `is_answered`: it came
 * to its own end, good or bad. Waiting turns may begin by this: the first of
 * the name that has least. */
void lanes_leave(struct lanes *l, struct lane_turn *t, bool is_answered,
		 int64_t now_ns);

#endif
