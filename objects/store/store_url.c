// SPDX-License-Identifier: Apache-2.0
#include "objects/store/store_url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int store_url_encode(struct buf *b, const char *text, const char *keep)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		int rc;

		if (isalnum(c) || strchr("-._~", c) || strchr(keep, c))
			rc = buf_append(b, text, 1);
		else
			rc = buf_printf(b, "%%%02X", c);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int store_url_decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		int hi, lo;

		if (*text != '%') {
			*to++ = *text;
			continue;
		}
		hi = hex_digit(text[1]);
		lo = hi < 0 ? -1 : hex_digit(text[2]);
		if (lo < 0 || hi * 16 + lo == 0)
			return -EINVAL;
		*to++ = (char)(hi * 16 + lo);
		text += 2;
	}
	*to = '\0';
	return 0;
}

static int bad_url(const char *text, const char *why, struct error *err)
{
	return error_set(err, EINVAL, "'%.200s' is not the URL of a store: %s",
			 text, why);
}

static int add_option(struct store_url *u, const char *text, size_t len,
		      struct error *err)
{
	struct store_url_option *more =
		reallocarray(u->options, u->n_options + 1, sizeof(*u->options));
	const char *equals = memchr(text, '=', len);
	struct store_url_option *o;

	if (!more)
		return error_nomem(err);
	u->options = more;
	o = &more[u->n_options];
	if (!equals || equals == text)
		return error_set(err, EINVAL,
				 "option '%.*s' of the URL: want NAME=VALUE",
				 (int)(len < 80 ? len : 80), text);
	o->is_taken = false;
	o->key = strndup(text, (size_t)(equals - text));
	o->value = strndup(equals + 1, len - (size_t)(equals - text) - 1);
	u->n_options++;
	if (!o->key || !o->value)
		return error_nomem(err);
	if (store_url_decode(o->value) < 0)
		return error_set(err, EINVAL,
				 "option '%s' of the URL: a %% needs two hex "
				 "digits after it, and a NUL cannot be",
				 o->key);
	return 0;
}

static int parse_options(struct store_url *u, const char *text,
			 struct error *err)
{
	while (*text) {
		size_t len = strcspn(text, "&");
		int rc = len ? add_option(u, text, len, err) : 0;

		if (rc < 0)
			return rc;
		text += len + (text[len] == '&');
	}
	return 0;
}

static int set_path(struct store_url *u, const char *path, size_t len)
{
	char *end;

	while (len && *path == '/') {
		path++;
		len--;
	}
	u->path = strndup(path, len);
	if (!u->path)
		return -ENOMEM;
	for (end = u->path + len; end > u->path && end[-1] == '/';)
		*--end = '\0';
	return store_url_decode(u->path);
}

static int parse_url(const char *text, struct store_url *u, struct error *err)
{
	size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
	const char *rest = text + scheme + 1, *path;
	/* RFC 8089: file:/DIR is file:///DIR. */
	bool is_short = strncmp(text, "file:/", 6) == 0;
	size_t end;
	int rc;

	if (scheme == 0 || text[scheme] != ':' ||
	    (strncmp(rest, "//", 2) != 0 && !is_short))
		return bad_url(text,
			       "want file:///DIR, s3://BUCKET/PREFIX, "
			       "hdfs://HOST:PORT/DIR or "
			       "docker://REGISTRY/REPOSITORY",
			       err);
	u->scheme = strndup(text, scheme);
	if (strncmp(rest, "//", 2) == 0)
		rest += 2;
	end = strcspn(rest, "/?");
	u->authority = strndup(rest, end);
	if (!u->scheme || !u->authority)
		return error_nomem(err);
	if (strchr(u->authority, '@'))
		return bad_url(text,
			       "no user or password can be in it: "
			       "docs/objects.md says where credentials go",
			       err);
	path = rest + end;
	end = strcspn(path, "?");
	rc = set_path(u, path, end);
	if (rc == -EINVAL)
		return bad_url(text, "a % needs two hex digits after it", err);
	if (rc < 0)
		return error_nomem(err);
	return path[end] ? parse_options(u, path + end + 1, err) : 0;
}

int store_url_parse(const char *text, struct store_url *ret, struct error *err)
{
	int rc;

	*ret = (struct store_url){ .scheme = NULL };
	rc = parse_url(text, ret, err);
	if (rc < 0)
		store_url_fini(ret);
	return rc;
}

void store_url_fini(struct store_url *u)
{
	for (size_t i = 0; i < u->n_options; i++) {
		free(u->options[i].key);
		free(u->options[i].value);
	}
	free(u->options);
	free(u->scheme);
	free(u->authority);
	free(u->path);
	*u = (struct store_url){ .scheme = NULL };
}

const char *store_url_take(struct store_url *u, const char *key)
{
	const char *value = NULL;

	for (size_t i = 0; i < u->n_options; i++)
		if (strcmp(u->options[i].key, key) == 0) {
			u->options[i].is_taken = true;
			value = u->options[i].value;
		}
	return value;
}

int store_url_take_either(struct store_url *u, const char *key,
			  const char *first, const char *second, bool *ret,
			  struct error *err)
{
	const char *value = store_url_take(u, key);

	if (value && strcmp(value, first) != 0 && strcmp(value, second) != 0)
		return error_set(err, EINVAL,
				 "option '%s=%.40s' of the URL: want '%s' or "
				 "'%s'",
				 key, value, first, second);
	if (value)
		*ret = strcmp(value, first) == 0;
	return 0;
}

const char *store_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int store_url_check(const struct store_url *u, struct error *err)
{
	for (size_t i = 0; i < u->n_options; i++)
		if (!u->options[i].is_taken)
			return error_set(err, EINVAL,
					 "%s: stores have no option '%.80s': "
					 "docs/objects.md lists them",
					 u->scheme, u->options[i].key);
	return 0;
}
