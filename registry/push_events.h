// SPDX-License-Identifier: Apache-2.0
/*
 * Parses the push notifications of CNCF distribution and Harbor, and finds the images that the
 * operator wants converted (--convert). Pure.
 */
#ifndef BOOTSEER_REGISTRY_PUSH_EVENTS_H
#define BOOTSEER_REGISTRY_PUSH_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define PUSH_REPO_MAX 512  /* bytes of HOST/REPOSITORY, NUL included */
#define PUSH_EVENTS_MAX 64 /* pushes of one body; further ones are dropped */

/* An image that was pushed with a tag; texts are borrowed for the call. */
struct push_event {
	const char *repository; /* without the host */
	const char *digest, *tag;
};

struct push_events {
	size_t n_pushes;  /* pushes that `each` was called for */
	size_t n_dropped; /* pushes beyond PUSH_EVENTS_MAX */
	/* other events: pulls, layers, artifacts, malformed ones */
	size_t n_others;
};

/*
 * Call `each` for the pushes of images in a body.  Manifests without a tag are none: the
 * artifacts, signatures and traces of images are pushed so, ours too, and so are the images
 * that an index names, which is pushed last.  A negative result of `each` ends, and is returned.
 *   -EINVAL  it is no body of these registries
 */
int push_events_parse(const void *body, size_t len,
		      int (*each)(void *arg, const struct push_event *e),
		      void *arg, struct push_events *ret,
		      struct error *err) MUST_CHECK;

/* Rules of --convert, "PREFIX=FORM".  -EINVAL names the wrong one. */
int convert_rules_check(char *const *rules, struct error *err) MUST_CHECK;

/* The form for images pushed to HOST/REPOSITORY, by the rule of the longest prefix. NULL: no
 * rule. */
const char *convert_rules_find(char *const *rules, const char *repo);

/* Does any rule name the registry `host`? */
bool convert_rules_have_host(char *const *rules, const char *host);

#endif
