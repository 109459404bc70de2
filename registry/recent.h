// SPDX-License-Identifier: Apache-2.0
/*
 * Caches answers of the database for a second, so that a thousand nodes with the same question cost
 * one query. A change by this process is visible at once, one by another replica within a second.
 * An answer belongs to an image and a repository, and only changes of these remove it: a node that
 * keeps sending recordings does not remove answers about other images.
 */
#ifndef BOOTSEER_REGISTRY_RECENT_H
#define BOOTSEER_REGISTRY_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RECENT_MAX 4096u     /* answers in the cache */
#define RECENT_VALUE_MAX 64u /* bytes of an answer */
#define RECENT_NS INT64_C(1000000000)

/* The cache. Any thread may use it. */
struct recent;
int recent_new(struct recent **ret, struct error *err) MUST_CHECK;
void recent_free(struct recent *r);

/* A question to the database; texts are borrowed. */
struct recent_key {
	/* the whole question, including image and repository */
	const char *text;
	const char *image;
	const char *repo; /* "": unknown */
};

/* Copy the cached answer to `key`, if there is one at `now_ns`. Otherwise set `*ret_age`, which the
 * caller passes to recent_put() as `asked_at`. */
bool recent_get(struct recent *r, const struct recent_key *key, int64_t now_ns,
		void *value, size_t size, uint64_t *ret_age);

/* Store an answer, unless it was made invalid since recent_get(). `now_ns` is the time before the
 * database was asked. */
void recent_put(struct recent *r, const struct recent_key *key, int64_t now_ns,
		const void *value, size_t size, uint64_t asked_at);

/* Remove the answers about this image or this repository ("": none); both NULL: all answers. */
void recent_forget(struct recent *r, const char *image, const char *repo);

#endif
