// SPDX-License-Identifier: Apache-2.0
/*
 * URLs, read by libcurl: whoever judges a URL has to see in it the host that
 * libcurl will connect to.  No name is looked up.
 */
#ifndef BOOTSEER_NET_URL_H
#define BOOTSEER_NET_URL_H

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

/* The parts of a URL; all but `query` are there. */
struct url {
	char *scheme; /* in lower case */
	char *host;   /* IPv6 in brackets */
	char *port;   /* the scheme's, where none is given */
	char *path;   /* "/" at least */
	char *query;
	bool has_user, has_fragment;
};

/* -EINVAL: not a whole URL of a scheme that libcurl knows; -ENOMEM. */
int url_parse(const char *text, struct url *ret) MUST_CHECK;
void url_fini(struct url *u);

/* When memory is short the answer to each of these is no. */

/* Is it http://HOST or https://HOST, with whatever follows? */
bool url_is_http(const char *text);
/* Is it http://HOST[:PORT] or https://HOST[:PORT], and nothing more but a /? */
bool url_is_origin(const char *text);
/* Is it https://, so that what is sent there is secret? */
bool url_is_secret(const char *text);
/* Is its host this machine itself: 127.0.0.0/8, ::1 or localhost? */
bool url_is_loopback(const char *text);
/* Have both the same scheme, host and port? */
bool url_is_same_origin(const char *a, const char *b);

#endif
