// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A copy that free() takes. */
static bool take_part(CURLU *h, CURLUPart part, char **ret)
{
	char *text = NULL;

	if (curl_url_get(h, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
		return false;
	*ret = strdup(text);
	curl_free(text);
	return *ret;
}

static bool has_part(CURLU *h, CURLUPart part)
{
	char *text = NULL;

	take_part(h, part, &text);
	free(text);
	return text;
}

int url_parse(const char *text, struct url *ret)
{
	CURLU *h = curl_url();
	struct url u = { .scheme = NULL };
	bool ok = h && curl_url_set(h, CURLUPART_URL, text, 0) == CURLUE_OK &&
		  take_part(h, CURLUPART_SCHEME, &u.scheme) &&
		  take_part(h, CURLUPART_HOST, &u.host) &&
		  take_part(h, CURLUPART_PORT, &u.port) &&
		  take_part(h, CURLUPART_PATH, &u.path);

	if (ok) {
		(void)take_part(h, CURLUPART_QUERY, &u.query);
		u.has_user = has_part(h, CURLUPART_USER) ||
			     has_part(h, CURLUPART_PASSWORD);
		u.has_fragment = has_part(h, CURLUPART_FRAGMENT);
		*ret = u;
	} else {
		url_fini(&u);
	}
	curl_url_cleanup(h);
	return ok ? 0 : -EINVAL;
}

void url_fini(struct url *u)
{
	free(u->scheme);
	free(u->host);
	free(u->port);
	free(u->path);
	free(u->query);
	*u = (struct url){ .scheme = NULL };
}

static bool is_http(const struct url *u)
{
	return strcmp(u->scheme, "http") == 0 ||
	       strcmp(u->scheme, "https") == 0;
}

static bool is_http_origin(const struct url *u)
{
	return is_http(u) && strcmp(u->path, "/") == 0 && !u->query &&
	       !u->has_user && !u->has_fragment;
}

static bool is_https(const struct url *u)
{
	return strcmp(u->scheme, "https") == 0;
}

static bool is_loopback(const struct url *u)
{
	char text[INET6_ADDRSTRLEN] = "";
	size_t n = strlen(u->host);
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, u->host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	if (u->host[0] != '[')
		return strcasecmp(u->host, "localhost") == 0;
	if (n >= 2 && n - 2 < sizeof(text))
		memcpy(text, u->host + 1, n - 2);
	return inet_pton(AF_INET6, text, &six) == 1 &&
	       IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is(const char *text, bool (*what)(const struct url *u))
{
	struct url u;
	bool yes = url_parse(text, &u) == 0;

	if (yes) {
		yes = what(&u);
		url_fini(&u);
	}
	return yes;
}

bool url_is_http(const char *text)
{
	return is(text, is_http);
}

bool url_is_origin(const char *text)
{
	return is(text, is_http_origin);
}

bool url_is_secret(const char *text)
{
	return is(text, is_https);
}

bool url_is_loopback(const char *text)
{
	return is(text, is_loopback);
}

bool url_is_same_origin(const char *a, const char *b)
{
	struct url u = { .scheme = NULL }, v = { .scheme = NULL };
	bool same = url_parse(a, &u) == 0 && url_parse(b, &v) == 0 &&
		    strcmp(u.scheme, v.scheme) == 0 &&
		    strcasecmp(u.host, v.host) == 0 &&
		    strcmp(u.port, v.port) == 0;

	url_fini(&u);
	url_fini(&v);
	return same;
}
