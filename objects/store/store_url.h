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
	char *authority; /* as written: HDFS has several hosts in it */
	char *path;      /* decoded, with no slash at either end */
	struct store_url_option *options;
	size_t n_options;
};

int store_url_parse(const char *text, struct store_url *ret,
		    struct error *err) MUST_CHECK;
void store_url_fini(struct store_url *u);

/* The option's value, borrowed; NULL: it is not given. */
const char *store_url_take(struct store_url *u, const char *key);
/* Option `key`, which is `first` or `second`: is it the first?  `*ret` stays as it is where
 * the option is not given; -EINVAL: it is neither. */
int store_url_take_either(struct store_url *u, const char *key,
			  const char *first, const char *second, bool *ret,
			  struct error *err) MUST_CHECK;
/* Is every option taken?  -EINVAL names one that is not. */
int store_url_check(const struct store_url *u, struct error *err) MUST_CHECK;

/* Append it percent-encoded, but for unreserved characters (RFC 3986) and those of
 * `keep`.  -ENOMEM. */
int store_url_encode(struct buf *b, const char *text,
		     const char *keep) MUST_CHECK;
/* The reverse, in place; -EINVAL: a % without two digits, or a NUL byte. */
int store_url_decode(char *text) MUST_CHECK;

/* A variable of the environment; NULL: it is not set, or empty. */
const char *store_variable(const char *name);

#endif
