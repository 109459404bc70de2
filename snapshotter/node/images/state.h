// SPDX-License-Identifier: Apache-2.0
/* The state of an image that the node remembers beside its files; no I/O in
 * here. */
#ifndef BOOTSEER_NODE_STATE_H
#define BOOTSEER_NODE_STATE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

#define STATE_FORMAT 1
#define STATE_BYTES_MAX (8u << 20)
#define STATE_NAMES_MAX 64
#define STATE_USERS_MAX 4096
#define STATE_STRING_MAX 1024 /* bytes of a name or user */

/* A list of distinct strings in the order of their adding. */
struct names {
	char **v;
	size_t n;
};

void names_fini(struct names *l);
bool names_has(const struct names *l, const char *s);
/* Add a string; a string that is there already is no error.  -ENOMEM, -ENAMETOOLONG; beyond
 * `max` -ENOSPC, or with `forget` the oldest string is removed. */
int names_add(struct names *l, const char *s, size_t max,
	      bool forget) MUST_CHECK;
/* Remove a string; returns whether it was there. */
bool names_remove(struct names *l, const char *s);

/* The image's prefetch that has not finished. */
enum state_prefetch {
	STATE_PREFETCH_NONE,
	STATE_PREFETCH_HOT,
	STATE_PREFETCH_ALL,
};

struct image_state {
	uint64_t index;    /* datapath_image.index */
	char *host, *repo; /* the repository of its packs */
	bool plain_http;
	bool complete; /* its last mount was one without a daemon */
	enum state_prefetch prefetch;
	/* names that lead to the image: "host/repo:tag", digests */
	struct names names;
	struct names users; /* users that need the mount */
};

void image_state_fini(struct image_state *s);

int image_state_format(const struct image_state *s, struct buf *ret,
		       struct error *err) MUST_CHECK;
int image_state_parse(const char *text, size_t len, struct image_state *ret,
		      struct error *err) MUST_CHECK;

#endif
