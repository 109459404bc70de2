// SPDX-License-Identifier: Apache-2.0
/* Comparison functions for qsort() and bsearch() on arrays of plain values, ascending. */
#ifndef BOOTSEER_COMMON_COMPARE_H
#define BOOTSEER_COMMON_COMPARE_H

#include <stdint.h>
#include <string.h>

/* -1, 0 or 1, as a is less than, equal to or greater than b. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static inline int compare_u64(const void *a, const void *b)
{
	return ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int compare_i64(const void *a, const void *b)
{
	return ORDER(*(const int64_t *)a, *(const int64_t *)b);
}

static inline int compare_doubles(const void *a, const void *b)
{
	return ORDER(*(const double *)a, *(const double *)b);
}

static inline int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
