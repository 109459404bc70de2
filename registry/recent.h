// SPDX-License-Identifier: Apache-2.0
/*
 * Answers of the database within the last second, so that a thousand nodes that ask the
 * same in one second cost one question. A change by this process is seen at once, one by
 * another replica within the second. An answer is of an image and a repository, and
 * depends on what is known of these alone: a node that sends recordings all the time has
 * no others forgotten.
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

/* A question; borrowed. */
struct recent_key {
	const char *
		text; /* all that is asked, its image and repository included */
	const char *image;
	const char *repo; /* "" unknown */
};

/* Copy the answer to `key`, if it is known at `now_ns`.  Otherwise `*ret_age` is
 * recent_put()'s `asked_at`. */
bool recent_get(struct recent *r, const struct recent_key *key, int64_t now_ns,
		void *value, size_t size, uint64_t *ret_age);

/* Remember it, unless something that it depends on was forgotten since recent_get().
 * `now_ns` is of before the database was asked. */
void recent_put(struct recent *r, const struct recent_key *key, int64_t now_ns,
		const void *value, size_t size, uint64_t asked_at);

/* Something was changed here: of this image or this repository ("" is none), or, if
 * both are NULL, anything. */
void recent_forget(struct recent *r, const char *image, const char *repo);

#endif
