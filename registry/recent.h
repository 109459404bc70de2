// SPDX-License-Identifier: Apache-2.0
/*
 * What the database said within the last second, so that a thousand nodes that ask
 * the same in one second cost one question.  A change by this process is seen at
 * once, one by another replica within the second.
 */
#ifndef BOOTSEER_REGISTRY_RECENT_H
#define BOOTSEER_REGISTRY_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RECENT_MAX 4096u     /* answers kept */
#define RECENT_VALUE_MAX 64u /* bytes of one */
#define RECENT_NS INT64_C(1000000000)

/* Any thread. */
struct recent;
int recent_new(struct recent **ret, struct error *err) MUST_CHECK;
void recent_free(struct recent *r);

/* Copy the answer to `key`, if it is known at `now_ns`.  Otherwise `*ret_age` is
 * for recent_put(). */
bool recent_get(struct recent *r, const char *key, int64_t now_ns, void *value,
		size_t size, uint64_t *ret_age);

/* Remember it, unless recent_forget() was called since recent_get().  `now_ns` is
 * of before the database was asked. */
void recent_put(struct recent *r, const char *key, int64_t now_ns,
		const void *value, size_t size, uint64_t age);

/* Something was changed here. */
void recent_forget(struct recent *r);

#endif
