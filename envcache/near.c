// SPDX-License-Identifier: Apache-2.0
/*
 * Which snapshot a command last had, whatever the targets contained before.  It is a guess that
 * saves the time to find the real key; the snapshot is only used if it turns out to have that key.
 */
#include <string.h>

#include "common/buf.h"
#include "envcache/names.h"
#include "objects/object_get.h"

int env_near_read(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct object_stat st;
	int rc = object_get(s, name, DIGEST_STR_MAX, &text, &st, err);

	if (rc == 0 && buf_append(&text, "", 1) < 0)
		rc = error_nomem(err);
	return rc < 0 ? rc : digest_parse(text.data, ret, err);
}

int env_near_get(struct object_store *s, const struct env_key *near,
		 struct digest *ret, struct error *err)
{
	char name[ENV_NAME_ROOM];

	env_object_name(ENV_NEAR_FOLDER, &near->digest, name);
	return env_near_read(s, name, ret, err);
}

void env_near_put(struct object_store *s, const struct env_key *near,
		  const struct digest *key)
{
	char name[ENV_NAME_ROOM], text[DIGEST_STR_MAX];

	env_object_name(ENV_NEAR_FOLDER, &near->digest, name);
	digest_format(key, text);
	(void)!object_put(s, name, text, strlen(text), NULL, NULL, NULL);
}

/* The object's name for a named key.  Its hashed text begins differently from those of keys, so
 * the names cannot collide. */
static int name_object(const char *name, char ret[ENV_NAME_ROOM],
		       struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct digest d;

	if (buf_printf(&text, "bootseer environment name 1\n%s", name) < 0 ||
	    digest_of(text.data, text.len, &d) < 0)
		return error_nomem(err);
	env_object_name(ENV_NEAR_FOLDER, &d, ret);
	return 0;
}

int env_named_get(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err)
{
	char object[ENV_NAME_ROOM];
	int rc = name_object(name, object, err);

	return rc < 0 ? rc : env_near_read(s, object, ret, err);
}

void env_named_put(struct object_store *s, const char *name,
		   const struct digest *key)
{
	char object[ENV_NAME_ROOM], text[DIGEST_STR_MAX];
	struct digest was;

	if (name_object(name, object, NULL) < 0 ||
	    (env_near_read(s, object, &was, NULL) == 0 &&
	     digest_equal(&was, key)))
		return;
	digest_format(key, text);
	(void)!object_put(s, object, text, strlen(text), NULL, NULL, NULL);
}

static void note_item_not_base(void *arg, const struct env_item *a,
			       const struct env_item *b)
{
	bool *is_near = arg;

	*is_near = *is_near && !a && strcmp(b->kind, "base") == 0;
}

bool env_key_is_near(const struct env_key *key, const struct env_key *near)
{
	bool is_near = true;

	env_key_compare(near, key, note_item_not_base, &is_near);
	return is_near;
}
