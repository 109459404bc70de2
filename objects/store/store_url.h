// SPDX-License-Identifier: Apache-2.0
/* URLs of stores: scheme://authority/path?option=value&option=value. */
#ifndef BOOTSEER_OBJECTS_STORE_URL_H
#define BOOTSEER_OBJECTS_STORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

struct store_url_option {
	char *key, *value; /* decoded */
	bool is_taken;
};

struct store_url {
	char *scheme;    /* in lower case */
	char *authority; /* as written; for HDFS, several hosts */
	char *path;      /* decoded, without slashes at its ends */
	struct store_url_option *options;
	size_t n_options;
};

int store_url_parse(const char *text, struct store_url *ret,
		    struct error *err) MUST_CHECK;
void store_url_fini(struct store_url *u);

/* Take an option's value, borrowed; NULL: not given. */
const char *store_url_take(struct store_url *u, const char *key);
/* Take option `key` with value `first` or `second`: `*ret` tells whether it is the first, and
 * is unchanged if not given; -EINVAL: another value. */
int store_url_take_either(struct store_url *u, const char *key,
			  const char *first, const char *second, bool *ret,
			  struct error *err) MUST_CHECK;
/* Check that all options were taken. -EINVAL names one that was not. */
int store_url_check(const struct store_url *u, struct error *err) MUST_CHECK;

/* Append `text` percent-encoded, except unreserved characters (RFC 3986) and those in `keep`.
 * -ENOMEM. */
int store_url_encode(struct buf *b, const char *text,
		     const char *keep) MUST_CHECK;
/* Decode percent-encoding in place; -EINVAL: a % without two digits, or a NUL byte. */
int store_url_decode(char *text) MUST_CHECK;

/* An environment variable; NULL: not set, or empty. */
const char *store_variable(const char *name);

#endif
