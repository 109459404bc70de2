// SPDX-License-Identifier: Apache-2.0
/*
 * Marks on a snapshot, stored beside its index, which never changes: pinned, found bad by a smoke
 * test, last use.  Each is a small object; an unreadable mark does not prevent a restore.
 */
#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "envcache/names.h"

#define HOUR_MS INT64_C(3600000)
#define NOTE_MAX 1024u

static int put_note(struct object_store *s, const char *folder,
		    const struct digest *key, const char *text,
		    struct error *err)
{
	char name[ENV_NAME_ROOM];

	env_object_name(folder, key, name);
	return object_put(s, name, text, strlen(text), NULL, NULL, err);
}

static int remove_note(struct object_store *s, const char *folder,
		       const struct digest *key, struct error *err)
{
	char name[ENV_NAME_ROOM];
	int rc;

	env_object_name(folder, key, name);
	rc = object_delete(s, name, NULL, err);
	return rc == -ENOENT ? 0 : rc;
}

static int find_note(struct object_store *s, const char *folder,
		     const struct digest *key, struct object_stat *ret,
		     struct error *err)
{
	char name[ENV_NAME_ROOM];

	env_object_name(folder, key, name);
	return object_stat(s, name, ret, err);
}

int env_notes_remove(struct object_store *s, const struct digest *key,
		     struct error *err)
{
	static const char *const folders[] = { ENV_PIN_FOLDER, ENV_BAD_FOLDER,
					       ENV_USED_FOLDER,
					       ENV_FAILED_FOLDER };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(folders); i++)
		rc = remove_note(s, folders[i], key, err);
	return rc;
}

/* ------------------------------------------------------------------------- pin, use --- */

int env_snapshot_pin(struct object_store *s, const struct digest *key,
		     bool is_pinned, struct error *err)
{
	return is_pinned ? put_note(s, ENV_PIN_FOLDER, key, "pinned\n", err)
			 : remove_note(s, ENV_PIN_FOLDER, key, err);
}

int env_pinned_error(const struct digest *key, struct error *err)
{
	char hex[ENV_KEY_HEX];

	env_key_hex(key, hex);
	return error_set(err, EBUSY,
			 "snapshot %.12s is pinned and stays: to remove it, "
			 "run 'bootseer env unpin' with the same store and "
			 "options first",
			 hex);
}

int env_snapshot_check_unpinned(struct object_store *s,
				const struct digest *key, struct error *err)
{
	struct object_stat st;
	int rc = find_note(s, ENV_PIN_FOLDER, key, &st, err);

	/* The pin of a removed snapshot has no effect, and 'env unpin' would not find it. */
	if (rc == 0)
		rc = find_note(s, ENV_INDEX_FOLDER, key, &st, err);
	if (rc == -ENOENT)
		return 0;
	return rc < 0 ? rc : env_pinned_error(key, err);
}

void env_snapshot_touch(struct object_store *s, const struct digest *key,
			int64_t now_ms)
{
	struct object_stat st;
	int rc = find_note(s, ENV_USED_FOLDER, key, &st, NULL);

	/* Written at most once an hour, whatever the number of nodes. */
	if (rc == -ENOENT || (rc == 0 && now_ms - st.modified_ms > HOUR_MS))
		(void)!put_note(s, ENV_USED_FOLDER, key, "used\n", NULL);
}

/* ------------------------------------------------------------------------------ bad --- */

/* Write "ID by HOST: WHY", with the id of the capture, so that the key's next capture is not
 * bad. */
int env_snapshot_mark_bad(struct object_store *s,
			  const struct env_snapshot *snap, const char *host,
			  const char *why, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	if (buf_printf(&text, "%s by %.100s: %.200s\n", snap->folder, host,
		       why) < 0)
		return error_nomem(err);
	return put_note(s, ENV_BAD_FOLDER, &snap->key.digest, text.data, err);
}

/* Read the mark of a bad snapshot, if it is for this capture. */
static int read_bad(struct object_store *s, const struct env_snapshot *snap,
		    struct env_marks *ret, struct error *err)
{
	char name[ENV_NAME_ROOM], text[NOTE_MAX];
	struct object_range all = { .buf = text };
	struct object *o;
	int rc;

	env_object_name(ENV_BAD_FOLDER, &snap->key.digest, name);
	rc = object_open(s, name, &o, err);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	all.len = object_opened_stat(o)->size < NOTE_MAX - 1
			  ? (size_t)object_opened_stat(o)->size
			  : NOTE_MAX - 1;
	rc = object_read(o, &all, 1, 0, err);
	object_close(o);
	if (rc < 0)
		return rc;
	text[all.len] = '\0';
	if (strncmp(text, snap->folder, strlen(snap->folder)) != 0)
		return 0;
	ret->is_bad = true;
	(void)snprintf(ret->bad_why, sizeof(ret->bad_why), "%.160s",
		       text + strlen(snap->folder));
	/* Any writer to the store can choose this text, so make it printable. */
	for (char *p = ret->bad_why; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = p[1] ? '?' : '\0';
	return 0;
}

int env_marks_get(struct object_store *s, const struct env_snapshot *snap,
		  struct env_marks *ret, struct error *err)
{
	const struct digest *key = &snap->key.digest;
	struct object_stat st;
	int rc;

	*ret = (struct env_marks){ .used_ms = snap->made_ms };
	rc = find_note(s, ENV_PIN_FOLDER, key, &st, err);
	ret->is_pinned = rc == 0;
	if (rc == 0 || rc == -ENOENT)
		rc = find_note(s, ENV_USED_FOLDER, key, &st, err);
	if (rc == 0 && st.modified_ms > ret->used_ms)
		ret->used_ms = st.modified_ms;
	return rc < 0 && rc != -ENOENT ? rc : read_bad(s, snap, ret, err);
}

int env_marks_get_bad(struct object_store *s, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err)
{
	*ret = (struct env_marks){ .used_ms = snap->made_ms };
	return read_bad(s, snap, ret, err);
}

int env_marks_check_bad(const struct env_marks *m, struct error *err)
{
	return m->is_bad ? error_set(err, EBADMSG,
				     "the snapshot was found bad%s", m->bad_why)
			 : 0;
}

int env_snapshot_expire(struct object_store *s, const struct env_snapshot *snap,
			struct error *err)
{
	char name[ENV_NAME_ROOM];
	int rc;

	env_object_name(ENV_INDEX_FOLDER, &snap->key.digest, name);
	rc = object_delete(s, name, snap->tag, err);
	/* Another process removed it, and there may be a new one already. */
	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}
