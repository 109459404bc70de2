// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_OPS_OPS_PRIV_H
#define BOOTSEER_PROFILER_OPS_OPS_PRIV_H

#include "common/hash.h"
#include "profiler/ops/saves.h"

/* The year 5138; sums of a million lengths below it fit into int64_t. */
#define OPS_TIME_MAX INT64_C(100000000000)
#define OPS_GPUS_MAX 1000000u

/* Names of nodes that have a number, while a set is read. */
struct ops_place_name {
	uint32_t number;
	UT_hash_handle hh;
	char name[];
};

struct ops_places {
	struct ops_set *set;
	struct ops_place_name *names;
	size_t cap_nodes, cap_places;
	size_t steps; /* numbers of ranges that were looked at */
};

/*
 * Put the nodes of `list` ("gpu[071-074,080],login1"; "None assigned") behind the set's
 * places, and which they are into `session`.  A list that is none adds no node.
 * -EFBIG, -ENOMEM.
 */
int ops_places_add(struct ops_places *p, const char *list,
		   struct ops_session *session, struct error *err) MUST_CHECK;
void ops_places_fini(struct ops_places *p);
/* For qsort() and bsearch(): a session's places are in the order of their numbers. */
int ops_places_compare(const void *x, const void *y);

/* Seconds since 1970, or a time of this machine's zone.  False: it says none. */
bool ops_sacct_time(const char *s, int64_t *ret);

/* Between which numbers the mean of what happened `n` times is in 95 of 100 cases (Poisson). */
void ops_bound_events(size_t n, double *low, double *high);

/* Divide saves into configurations.  -ENOMEM. */
int ops_find_settings(struct ops_phases *p, struct error *err) MUST_CHECK;

#endif
