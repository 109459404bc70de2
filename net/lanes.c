// SPDX-License-Identifier: Apache-2.0
#include "net/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Names of empty lanes that are remembered. */
#define KEPT_MAX 256

/* Exists while it has turns, or has answered recently. */
struct lane {
	struct lane *next;
	char *name;
	size_t n_inside, n_waiting;
	/* turns that are running, oldest first */
	struct lane_turn *inside;
	struct lane_turn *first, **last; /* turns that wait */
	/* when a turn was last answered quickly */
	int64_t answered_ns;
	bool has_answered;
};

struct lanes {
	struct lanes_config cfg;
	struct lane *first;
	size_t n_good_places; /* taken places of those kept for good names */
};

struct lanes *lanes_new(const struct lanes_config *cfg)
{
	struct lanes *l = calloc(1, sizeof(*l));

	if (l)
		l->cfg = *cfg;
	return l;
}

static void lane_drop(struct lanes *l, struct lane *gone)
{
	struct lane **p;

	for (p = &l->first; *p != gone; p = &(*p)->next)
		;
	*p = gone->next;
	free(gone->name);
	free(gone);
}

void lanes_free(struct lanes *l)
{
	while (l && l->first)
		lane_drop(l, l->first);
	free(l);
}

/* Is the lane good: has it answered recently, and does no turn in it wait too long for an
 * answer? */
static bool lane_is_good(const struct lane *lane, int64_t now_ns)
{
	if (lane->inside && now_ns - lane->inside->begun_ns >= LANES_LATE_NS)
		return false;
	return lane->has_answered && now_ns - lane->answered_ns < LANES_GOOD_NS;
}

static struct lane *lane_get(struct lanes *l, const char *name)
{
	struct lane *i;

	for (i = l->first; i; i = i->next) {
		if (strcmp(i->name, name) == 0)
			return i;
	}
	i = calloc(1, sizeof(*i));
	if (!i)
		return NULL;
	i->name = strdup(name);
	if (!i->name) {
		free(i);
		return NULL;
	}
	i->last = &i->first;
	i->next = l->first;
	l->first = i;
	return i;
}

/* Forget empty lanes that are not good, and of the others the oldest beyond KEPT_MAX. */
static void lanes_sweep(struct lanes *l, int64_t now_ns)
{
	struct lane *i, *next, *oldest = NULL;
	size_t kept = 0;

	for (i = l->first; i; i = next) {
		next = i->next;
		if (i->n_inside || i->n_waiting)
			continue;
		if (!lane_is_good(i, now_ns)) {
			lane_drop(l, i);
			continue;
		}
		kept++;
		if (!oldest || i->answered_ns < oldest->answered_ns)
			oldest = i;
	}
	if (kept > KEPT_MAX)
		lane_drop(l, oldest);
}

static size_t count_inside(const struct lanes *l)
{
	size_t all = 0;

	for (const struct lane *i = l->first; i; i = i->next)
		all += i->n_inside;
	return all;
}

/* Are only the last places, a quarter of all, left? Names with several places leave these to
 * names that have none. */
static bool only_last_quarter_is_left(const struct lanes *l, size_t all)
{
	return all >= l->cfg.all - l->cfg.all / 4;
}

/* Places that are kept for good names and not taken by them yet. */
static size_t count_places_kept_for_good(const struct lanes *l)
{
	size_t kept = l->cfg.all / 8;

	return kept > l->n_good_places ? kept - l->n_good_places : 0;
}

/*
 * May a turn of the lane begin? The first place of a name is easier to get than further ones:
 * names that hold several leave the last quarter of all places to names that hold none. Half of
 * that quarter is for good names, which take it first; the other half is for names that are not
 * good.
 */
static bool has_room(const struct lanes *l, const struct lane *lane,
		     int64_t now_ns)
{
	size_t all = count_inside(l), strange = 0, strange_lanes = 0;
	bool good = lane_is_good(lane, now_ns);

	if (lane->n_inside >= l->cfg.at_once)
		return false;
	for (const struct lane *i = l->first; i; i = i->next) {
		if (i->n_inside == 0 || lane_is_good(i, now_ns))
			continue;
		strange += i->n_inside;
		strange_lanes++;
	}
	if (lane->n_inside > 0)
		return !only_last_quarter_is_left(l, all) &&
		       (good || strange < l->cfg.strange_most);
	if (good)
		return all < l->cfg.all;
	return all < l->cfg.all - count_places_kept_for_good(l) &&
	       strange_lanes < l->cfg.strange_most;
}

static void begin_turn_in_lane(struct lanes *l, struct lane *lane,
			       struct lane_turn *t, int64_t now_ns)
{
	struct lane_turn **p;

	t->has_good_place = lane->n_inside == 0 && lane_is_good(lane, now_ns) &&
			    only_last_quarter_is_left(l, count_inside(l));
	l->n_good_places += t->has_good_place;
	for (p = &lane->inside; *p; p = &(*p)->next)
		;
	*p = t;
	t->next = NULL;
	t->lane = lane;
	t->begun_ns = now_ns;
	lane->n_inside++;
}

static void end_turn_in_lane(struct lanes *l, struct lane *lane,
			     const struct lane_turn *t)
{
	struct lane_turn **p;

	l->n_good_places -= t->has_good_place;
	for (p = &lane->inside; *p != t; p = &(*p)->next)
		;
	*p = t->next;
	lane->n_inside--;
}

int lanes_enter(struct lanes *l, const char *name, struct lane_turn *t,
		int64_t now_ns)
{
	struct lane *lane = lane_get(l, name);

	if (!lane)
		return -ENOMEM;
	/* A turn never overtakes earlier turns of its own lane. */
	t->is_waiting = lane->n_waiting || !has_room(l, lane, now_ns);
	if (!t->is_waiting) {
		begin_turn_in_lane(l, lane, t, now_ns);
		return 0;
	}
	if (lane->n_waiting >= l->cfg.waiting) {
		lanes_sweep(l, now_ns);
		return -EAGAIN;
	}
	t->lane = lane;
	t->next = NULL;
	*lane->last = t;
	lane->last = &t->next;
	lane->n_waiting++;
	return 1;
}

static void stop_waiting(struct lane *lane, struct lane_turn *t)
{
	struct lane_turn **p;

	for (p = &lane->first; *p != t; p = &(*p)->next)
		;
	*p = t->next;
	if (!*p)
		lane->last = p;
	lane->n_waiting--;
	t->is_waiting = false;
}

/* The lane whose first waiting turn may begin next, or NULL. */
static struct lane *next_lane(const struct lanes *l, int64_t now_ns)
{
	struct lane *i, *best = NULL;

	for (i = l->first; i; i = i->next) {
		if (i->n_waiting && (!best || i->n_inside < best->n_inside) &&
		    has_room(l, i, now_ns))
			best = i;
	}
	return best;
}

void lanes_leave(struct lanes *l, struct lane_turn *t, bool is_answered,
		 int64_t now_ns)
{
	struct lane *lane = t->lane;

	t->lane = NULL;
	if (t->is_waiting) {
		stop_waiting(lane, t);
		lanes_sweep(l, now_ns);
		return;
	}
	end_turn_in_lane(l, lane, t);
	if (is_answered && now_ns - t->begun_ns <= LANES_QUICK_NS) {
		lane->answered_ns = now_ns;
		lane->has_answered = true;
	}
	/* begin() may call back into this function, so no state is kept across it. */
	while ((lane = next_lane(l, now_ns))) {
		struct lane_turn *next = lane->first;

		stop_waiting(lane, next);
		begin_turn_in_lane(l, lane, next, now_ns);
		next->begin(next);
	}
	lanes_sweep(l, now_ns);
}
