// SPDX-License-Identifier: Apache-2.0
/*
 * Parses URLs with libcurl, so that code which checks a URL sees the host to which libcurl will
 * connect. No name is looked up.
 */
#ifndef BOOTSEER_NET_URL_H
#define BOOTSEER_NET_URL_H

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

/* The parts of a URL; only `query` may be NULL. */
struct url {
	char *scheme; /* in lower case */
	char *host;   /* IPv6 in brackets */
	char *port;   /* that of the scheme if none is given */
	char *path;   /* at least "/" */
	char *query;
	bool has_user, has_fragment;
};

/* -EINVAL: not a whole URL of a scheme that libcurl knows; -ENOMEM. */
int url_parse(const char *text, struct url *ret) MUST_CHECK;
void url_fini(struct url *u);

/* Each of these returns false when memory is short. */

/* Is it http://HOST or https://HOST, with anything behind? */
bool url_is_http(const char *text);
/* Is it http://HOST[:PORT] or https://HOST[:PORT], with at most a / behind? */
bool url_is_origin(const char *text);
/* Is it https://, so that data sent there is encrypted? */
bool url_is_secret(const char *text);
/* Is its host this machine: 127.0.0.0/8, ::1 or localhost? */
bool url_is_loopback(const char *text);
/* Have both the same scheme, host and port? */
bool url_is_same_origin(const char *a, const char *b);

#endif
