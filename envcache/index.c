// SPDX-License-Identifier: Apache-2.0
#include "envcache/index.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/json.h"
#include "envcache/key.h"

#define BY_MAX 255u

void env_snapshot_fini(struct env_snapshot *s)
{
	env_key_fini(&s->key);
	env_targets_fini(&s->targets);
	free(s->by);
	free(s->program);
	*s = (struct env_snapshot){ .n_changed = 0 };
}

/* ---------------------------------------------------------------------- encode --- */

static json_t *items_json(const struct env_key *k)
{
	json_t *list = json_array();
	int bad = 0;

	for (size_t i = 0; i < k->n; i++) {
		const struct env_item *it = &k->items[i];
		json_t *o =
			json_pack("{s:s, s:s, s:o}", "kind", it->kind, "name",
				  it->name, "value", json_digest(&it->value));

		if (o && it->shown && env_kind_is_public(it->kind))
			bad |= json_object_set_new(o, "shown",
						   json_string(it->shown));
		bad |= json_array_append_new(list, o);
	}
	if (!bad)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *targets_json(const struct env_targets *t)
{
	json_t *list = json_array();
	int bad = 0;

	for (size_t i = 0; i < t->n; i++)
		bad |= json_array_append_new(list, json_string(t->paths[i]));
	if (!bad)
		return list;
	json_decref(list);
	return NULL;
}

static int version_of(const struct env_snapshot *s)
{
	if (s->key.form == 1)
		return s->is_shared ? ENV_INDEX_SHARED_1 : ENV_INDEX_ALONE_1;
	return s->is_shared ? ENV_INDEX_SHARED : ENV_INDEX_ALONE;
}

int env_index_encode(const struct env_snapshot *s, struct buf *ret,
		     struct error *err)
{
	json_t *j = json_pack(
		"{s:i, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I}",
		"version", version_of(s), "key", json_digest(&s->key.digest),
		"items", items_json(&s->key), "targets",
		targets_json(&s->targets), "manifest",
		json_digest(&s->manifest), "folder", s->folder, "by", s->by,
		"program", s->program, "changed", (json_int_t)s->n_changed,
		"deleted", (json_int_t)s->n_deleted, "bytes",
		(json_int_t)s->bytes, "stored", (json_int_t)s->stored);
	AUTO_FREE char *text = NULL;

	if (j && s->has_after &&
	    json_object_set_new(j, "after", json_digest(&s->after)) < 0) {
		json_decref(j);
		return error_nomem(err);
	}
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (!text)
		return error_set(err, EINVAL,
				 "the names in its key are not UTF-8");
	if (strlen(text) > ENV_INDEX_MAX)
		return error_set(err, E2BIG, "its key has too many parts");
	return buf_puts(ret, text) < 0 ? error_nomem(err) : 0;
}

/* ---------------------------------------------------------------------- decode --- */

static int index_error(struct error *err, const char *what)
{
	return error_set(err, EBADMSG, "the index is damaged: %s", what);
}

static int get_text(const json_t *o, const char *name, size_t max, char **ret,
		    struct error *err)
{
	const json_t *v = json_object_get(o, name);
	const char *text = json_string_value(v);

	if (!text || strlen(text) != json_string_length(v) ||
	    strlen(text) > max)
		return index_error(err, name);
	*ret = strdup(text);
	return *ret ? 0 : error_nomem(err);
}

static int get_digest(const json_t *o, const char *name, struct digest *ret,
		      struct error *err)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text && digest_parse(text, ret, NULL) == 0
		       ? 0
		       : index_error(err, name);
}

static int get_number(const json_t *o, const char *name, uint64_t *ret,
		      struct error *err)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return index_error(err, name);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int get_item(const json_t *o, struct env_item *it, struct error *err)
{
	int rc = get_text(o, "kind", ENV_KIND_MAX, &it->kind, err);

	if (rc == 0 &&
	    strspn(it->kind, "abcdefghijklmnopqrstuvwxyz") != strlen(it->kind))
		rc = index_error(err, "kind");
	if (rc == 0)
		rc = get_text(o, "name", ENV_NAME_MAX, &it->name, err);
	if (rc == 0)
		rc = get_digest(o, "value", &it->value, err);
	if (rc == 0 && json_object_get(o, "shown"))
		rc = get_text(o, "shown", ENV_NAME_MAX, &it->shown, err);
	return rc;
}

/* Decode the items, and check that the key is their digest. */
static int get_key(const json_t *o, struct env_key *k, struct error *err)
{
	const json_t *list = json_object_get(o, "items");
	size_t n = json_array_size(list);
	struct digest said;
	int rc = get_digest(o, "key", &said, err);

	if (rc == 0 && (n < 1 || n > ENV_ITEMS_MAX))
		rc = index_error(err, "items");
	if (rc < 0)
		return rc;
	k->items = calloc(n, sizeof(*k->items));
	if (!k->items)
		return error_nomem(err);
	while (rc == 0 && k->n < n) {
		k->n++;
		rc = get_item(json_array_get(list, k->n - 1),
			      &k->items[k->n - 1], err);
	}
	if (rc == 0 &&
	    (env_key_finish(k, NULL) < 0 || !digest_equal(&k->digest, &said)))
		rc = index_error(err, "its items have another key");
	return rc;
}

/* Is it a path in the form that env_targets_make() makes? */
static bool is_target(const char *p)
{
	if (p[0] != '/' || !p[1])
		return false;
	while (*p) {
		size_t len = strcspn(++p, "/");

		if (len == 0 || (len == 1 && p[0] == '.') ||
		    (len == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += len;
	}
	return true;
}

static int get_targets(const json_t *o, struct env_targets *t,
		       struct error *err)
{
	const json_t *list = json_object_get(o, "targets");
	size_t n = json_array_size(list);

	if (n < 1 || n > ENV_TARGETS_MAX)
		return index_error(err, "targets");
	t->paths = (char **)calloc(n, sizeof(char *));
	if (!t->paths)
		return error_nomem(err);
	for (; t->n < n; t->n++) {
		const json_t *v = json_array_get(list, t->n);
		const char *text = json_string_value(v);

		if (!text || strlen(text) != json_string_length(v) ||
		    strlen(text) >= PATH_MAX || !is_target(text) ||
		    (t->n && strcmp(t->paths[t->n - 1], text) >= 0))
			return index_error(err, "targets");
		t->paths[t->n] = strdup(text);
		if (!t->paths[t->n])
			return error_nomem(err);
	}
	return 0;
}

static int get_folder(const json_t *o, char ret[33], struct error *err)
{
	const char *text = json_string_value(json_object_get(o, "folder"));

	if (!text || strlen(text) != 32 ||
	    strspn(text, "0123456789abcdef") != 32)
		return index_error(err, "folder");
	memcpy(ret, text, 33);
	return 0;
}

static int decode_members(const json_t *o, struct env_snapshot *s,
			  struct error *err)
{
	int rc = get_key(o, &s->key, err);

	if (rc == 0)
		rc = get_targets(o, &s->targets, err);
	if (rc == 0)
		rc = get_digest(o, "manifest", &s->manifest, err);
	s->has_after = json_object_get(o, "after") != NULL;
	if (rc == 0 && s->has_after)
		rc = get_digest(o, "after", &s->after, err);
	if (rc == 0)
		rc = get_folder(o, s->folder, err);
	if (rc == 0)
		rc = get_text(o, "by", BY_MAX, &s->by, err);
	if (rc == 0)
		rc = get_text(o, "program", BY_MAX, &s->program, err);
	if (rc == 0)
		rc = get_number(o, "changed", &s->n_changed, err);
	if (rc == 0)
		rc = get_number(o, "deleted", &s->n_deleted, err);
	if (rc == 0)
		rc = get_number(o, "bytes", &s->bytes, err);
	return rc < 0 ? rc : get_number(o, "stored", &s->stored, err);
}

int env_index_decode(const void *data, size_t len, struct env_snapshot *ret,
		     struct error *err)
{
	struct env_snapshot s = { .n_changed = 0 };
	json_t *o = NULL;
	uint64_t version;
	int rc = len > ENV_INDEX_MAX
			 ? index_error(err, "it is too long")
			 : bounded_json_load(data, len, "the index", &o, err);

	if (rc == -EINVAL) {
		rc = -EBADMSG;
		if (err)
			err->code = EBADMSG;
	}
	if (rc == 0)
		rc = get_number(o, "version", &version, err);
	if (rc == 0 &&
	    (version < ENV_INDEX_ALONE_1 || version > ENV_INDEX_SHARED))
		rc = error_set(err, ENOTSUP,
			       "the index has version %llu, of a newer "
			       "bootseer",
			       (unsigned long long)version);
	if (rc == 0)
		s.key.form = version < ENV_INDEX_ALONE ? 1 : ENV_KEY_FORM;
	if (rc == 0)
		rc = decode_members(o, &s, err);
	s.is_shared = rc == 0 && (version == ENV_INDEX_SHARED_1 ||
				  version == ENV_INDEX_SHARED);
	json_decref(o);
	if (rc < 0)
		env_snapshot_fini(&s);
	else
		*ret = s;
	return rc;
}
