// SPDX-License-Identifier: Apache-2.0
/* Codec of ROOT/images/ID/state.json (docs/formats/node-files.md). */
#include "snapshotter/node/images/state.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "net/control.h"

void names_fini(struct names *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct names){ .v = NULL };
}

static size_t names_find(const struct names *l, const char *s)
{
	size_t i;

	for (i = 0; i < l->n && strcmp(l->v[i], s) != 0; i++)
		;
	return i;
}

bool names_has(const struct names *l, const char *s)
{
	return names_find(l, s) < l->n;
}

static void remove_at(struct names *l, size_t i)
{
	free(l->v[i]);
	l->n--;
	memmove(&l->v[i], &l->v[i + 1], (l->n - i) * sizeof(*l->v));
}

bool names_remove(struct names *l, const char *s)
{
	size_t i = names_find(l, s);

	if (i == l->n)
		return false;
	remove_at(l, i);
	return true;
}

int names_add(struct names *l, const char *s, size_t max, bool forget)
{
	char **v;
	char *copy;

	if (names_has(l, s))
		return 0;
	if (strlen(s) > STATE_STRING_MAX)
		return -ENAMETOOLONG;
	if (l->n >= max && !forget)
		return -ENOSPC;
	copy = strdup(s);
	v = copy ? realloc(l->v, (l->n + 1) * sizeof(*v)) : NULL;
	if (!v) {
		free(copy);
		return -ENOMEM;
	}
	l->v = v;
	l->v[l->n++] = copy;
	if (l->n > max)
		remove_at(l, 0);
	return 0;
}

static const char *const prefetch_names[] = {
	[STATE_PREFETCH_NONE] = "none",
	[STATE_PREFETCH_HOT] = "hot",
	[STATE_PREFETCH_ALL] = "all",
};

static int prefetch_parse(const char *name, enum state_prefetch *ret)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(prefetch_names); i++) {
		if (strcmp(name, prefetch_names[i]) == 0) {
			*ret = (enum state_prefetch)i;
			return 0;
		}
	}
	return name ? -EINVAL : 0;
}

void image_state_fini(struct image_state *s)
{
	free(s->host);
	free(s->repo);
	names_fini(&s->names);
	names_fini(&s->users);
	*s = (struct image_state){ .host = NULL };
}

static json_t *names_json(const struct names *l)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; list && i < l->n; i++) {
		if (json_array_append_new(list, json_string(l->v[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int image_state_format(const struct image_state *s, struct buf *ret,
		       struct error *err)
{
	AUTO_JSON *root =
		json_pack("{s:i, s:I, s:s, s:s, s:b, s:b, s:o, s:o}", "format",
			  STATE_FORMAT, "index", (json_int_t)s->index, "host",
			  s->host, "repo", s->repo, "plain_http",
			  (int)s->plain_http, "complete", (int)s->complete,
			  "names", names_json(&s->names), "users",
			  names_json(&s->users));
	AUTO_FREE char *text = NULL;

	/* Left out when there is no prefetch: versions of bootseerd that do not know the member
	 * refuse it. */
	if (root && s->prefetch != STATE_PREFETCH_NONE &&
	    json_object_set_new(root, "prefetch",
				json_string(prefetch_names[s->prefetch])) < 0)
		return error_nomem(err);
	if (root)
		text = json_dumps(root, JSON_INDENT(1));
	if (!text || buf_puts(ret, text) < 0 || buf_puts(ret, "\n") < 0)
		return error_set(err, ENOMEM,
				 "image state: no memory, or not UTF-8");
	return 0;
}

static int names_parse(const json_t *list, size_t max, struct names *ret)
{
	size_t i, n = json_array_size(list);
	const char *s;
	int rc = json_is_array(list) ? 0 : -EINVAL;

	for (i = 0; rc == 0 && i < n; i++) {
		s = json_string_value(json_array_get(list, i));
		rc = s ? names_add(ret, s, max, false) : -EINVAL;
	}
	return rc;
}

int image_state_parse(const char *text, size_t len, struct image_state *ret,
		      struct error *err)
{
	struct image_state s = { .host = NULL };
	AUTO_JSON *root = NULL;
	json_error_t why;
	json_t *names, *users;
	const char *host, *repo, *prefetch = NULL;
	json_int_t index;
	int format, plain, complete, rc;

	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!root ||
	    json_unpack_ex(root, &why, 0, "{s:i}", "format", &format) < 0)
		return error_set(err, EINVAL, "image state: %s", why.text);
	if (format != STATE_FORMAT)
		return error_set(err, ENOTSUP,
				 "image state of format %d, this program knows "
				 "%d",
				 format, STATE_FORMAT);
	if (json_unpack_ex(root, &why, JSON_STRICT,
			   "{s:i, s:I, s:s, s:s, s:b, s:b, s:o, s:o, s?s}",
			   "format", &format, "index", &index, "host", &host,
			   "repo", &repo, "plain_http", &plain, "complete",
			   &complete, "names", &names, "users", &users,
			   "prefetch", &prefetch) < 0)
		return error_set(err, EINVAL, "image state: %s", why.text);
	if (index < 0)
		return error_set(err, EINVAL, "image state: index below 0");
	s.index = (uint64_t)index;
	s.plain_http = plain;
	s.complete = complete;
	s.host = strdup(host);
	s.repo = strdup(repo);
	rc = s.host && s.repo ? prefetch_parse(prefetch, &s.prefetch) : -ENOMEM;
	if (rc == 0)
		rc = names_parse(names, STATE_NAMES_MAX, &s.names);
	if (rc == 0)
		rc = names_parse(users, STATE_USERS_MAX, &s.users);
	if (rc < 0) {
		image_state_fini(&s);
		return error_set(err, -rc,
				 "image state: names, users or prefetch");
	}
	*ret = s;
	return 0;
}
