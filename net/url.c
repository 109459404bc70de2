// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Copy a part of the URL for free(); NULL where it is absent. -ENOMEM. */
static int take_part(CURLU *h, CURLUPart part, char **ret)
{
	char *text = NULL;
	CURLUcode code = curl_url_get(h, part, &text, CURLU_DEFAULT_PORT);

	*ret = NULL;
	if (code == CURLUE_OUT_OF_MEMORY)
		return -ENOMEM;
	if (code != CURLUE_OK)
		return 0;
	*ret = strdup(text);
	curl_free(text);
	return *ret ? 0 : -ENOMEM;
}

static int has_part(CURLU *h, CURLUPart part, bool *ret)
{
	char *text;
	int rc = take_part(h, part, &text);

	*ret |= text != NULL;
	free(text);
	return rc;
}

static int take_parts(CURLU *h, const char *text, struct url *u)
{
	CURLUcode code = curl_url_set(h, CURLUPART_URL, text, 0);
	int rc;

	if (code != CURLUE_OK)
		return code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
	rc = take_part(h, CURLUPART_SCHEME, &u->scheme);
	if (rc == 0)
		rc = take_part(h, CURLUPART_HOST, &u->host);
	if (rc == 0)
		rc = take_part(h, CURLUPART_PORT, &u->port);
	if (rc == 0)
		rc = take_part(h, CURLUPART_PATH, &u->path);
	if (rc == 0 && !(u->scheme && u->host && u->port && u->path))
		rc = -EINVAL;
	if (rc == 0)
		rc = take_part(h, CURLUPART_QUERY, &u->query);
	if (rc == 0)
		rc = has_part(h, CURLUPART_USER, &u->has_user);
	if (rc == 0)
		rc = has_part(h, CURLUPART_PASSWORD, &u->has_user);
	return rc < 0 ? rc : has_part(h, CURLUPART_FRAGMENT, &u->has_fragment);
}

int url_parse(const char *text, struct url *ret)
{
	CURLU *h = curl_url();
	struct url u = { .scheme = NULL };
	int rc = h ? take_parts(h, text, &u) : -ENOMEM;

	if (rc < 0)
		url_fini(&u);
	else
		*ret = u;
	curl_url_cleanup(h);
	return rc;
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

static bool url_is_kind(const char *text, bool (*what)(const struct url *u))
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
	return url_is_kind(text, is_http);
}

bool url_is_origin(const char *text)
{
	return url_is_kind(text, is_http_origin);
}

bool url_is_secret(const char *text)
{
	return url_is_kind(text, is_https);
}

bool url_is_loopback(const char *text)
{
	return url_is_kind(text, is_loopback);
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
