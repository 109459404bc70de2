// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_OPS_OPS_PRIV_H
#define BOOTSEER_PROFILER_OPS_OPS_PRIV_H

#include "common/hash.h"
#include "profiler/ops/saves.h"

/* The largest time: the year 5138. Sums of a million lengths below it fit into int64_t. */
#define OPS_TIME_MAX INT64_C(100000000000)
#define OPS_GPUS_MAX 1000000u

/* Maps a node's name to its number while a set is read. */
struct ops_place_name {
	uint32_t number;
	UT_hash_handle hh;
	char name[];
};

struct ops_places {
	struct ops_set *set;
	struct ops_place_name *names;
	size_t cap_nodes, cap_places;
	/* numbers of ranges expanded so far, bounded against huge lists */
	size_t steps;
};

/*
 * Append the nodes of `list` ("gpu[071-074,080],login1"; "None assigned") to the set's places, and
 * set the range in `session`. A malformed list adds no node. -EFBIG, -ENOMEM.
 */
int ops_places_add(struct ops_places *p, const char *list,
		   struct ops_session *session, struct error *err) MUST_CHECK;
void ops_places_fini(struct ops_places *p);
/* For qsort() and bsearch() on a session's places, which are sorted by number. */
int ops_places_compare(const void *x, const void *y);

/* Read seconds since 1970 or a local time. False: no time. */
bool ops_sacct_time(const char *s, int64_t *ret);

/* The 95 % bounds for the mean of events that happened `n` times (Poisson). */
void ops_bound_events(size_t n, double *low, double *high);

/* Group saves by the job's configuration (their interval). -ENOMEM. */
int ops_find_settings(struct ops_phases *p, struct error *err) MUST_CHECK;

#endif
