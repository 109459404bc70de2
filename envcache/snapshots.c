// SPDX-License-Identifier: Apache-2.0
/* Snapshots in their store: each key's index object, and its blobs. */
#include <errno.h>
#include <string.h>

#include "envcache/index.h"
#include "envcache/names.h"
#include "objects/object_get.h"

#define PREFIX_MIN 4u /* fewest hex digits of a key that users must type */
#define HEX_DIGITS (ENV_KEY_HEX - 1)

/* ------------------------------------------------------------------------ index --- */

int env_index_text(struct object_store *s, const char *name, char **ret,
		   struct object_stat *ret_stat, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = object_get(s, name, ENV_INDEX_MAX, &text, ret_stat, err);

	if (rc == -EFBIG)
		return error_set(err, EBADMSG, "the index is too long");
	if (rc < 0)
		return rc;
	*ret = buf_steal(&text);
	return *ret ? 0 : error_nomem(err);
}

int env_snapshot_get(struct object_store *s, const struct digest *key,
		     struct env_snapshot *ret, struct error *err)
{
	AUTO_FREE char *text = NULL;
	char name[ENV_NAME_ROOM];
	struct object_stat st;
	int rc;

	env_object_name(ENV_INDEX_FOLDER, key, name);
	rc = env_index_text(s, name, &text, &st, err);
	if (rc == -ENOENT)
		return rc;
	if (rc == 0)
		rc = env_index_decode(text, (size_t)st.size, ret, err);
	if (rc == 0) {
		ret->made_ms = st.modified_ms;
		memcpy(ret->tag, st.tag, OBJECT_TAG_MAX);
	}
	if (rc == 0 && !digest_equal(&ret->key.digest, key)) {
		env_snapshot_fini(ret);
		rc = error_set(err, EBADMSG,
			       "the index is damaged: it is another key's");
	}
	return rc < 0 ? error_wrap(err, rc, "snapshot %.12s",
				   strrchr(name, '/') + 1)
		      : 0;
}

int env_snapshot_commit(struct object_store *s, const struct env_snapshot *snap,
			const struct object_put_options *opts,
			struct error *err)
{
	char name[ENV_NAME_ROOM];
	AUTO_BUF text = BUF_INIT;
	int rc = env_index_encode(snap, &text, err);

	env_object_name(ENV_INDEX_FOLDER, &snap->key.digest, name);
	return rc < 0 ? rc
		      : object_put(s, name, text.data, text.len, opts, NULL,
				   err);
}

int env_snapshot_settle(struct object_store *s, const struct env_snapshot *snap,
			int rc, struct error *err)
{
	struct env_snapshot now;
	bool is_ours;

	if (env_snapshot_get(s, &snap->key.digest, &now, NULL) < 0)
		return rc == -EEXIST ? error_set(err, EIO,
						 "an index is there, and "
						 "cannot be read")
				     : rc;
	is_ours = strcmp(now.folder, snap->folder) == 0;
	env_snapshot_fini(&now);
	return is_ours ? 0 : rc;
}

/* ------------------------------------------------------------------------- list --- */

bool env_name_digest(const char *name, struct digest *ret)
{
	const char *slash = strrchr(name, '/');
	char text[DIGEST_STR_MAX];

	if (!slash || strlen(slash + 1) != HEX_DIGITS)
		return false;
	(void)snprintf(text, sizeof(text), "sha256:%.64s", slash + 1);
	return digest_parse(text, ret, NULL) == 0;
}

struct env_listing {
	struct object_store *store;
	env_list_fn *fn;
	void *arg;
};

static int list_index_object(void *arg, const struct object_entry *e,
			     struct error *err)
{
	const struct env_listing *l = arg;
	struct env_snapshot snap;
	struct error why = ERROR_INIT;
	struct digest key;
	int rc;

	if (!env_name_digest(e->name, &key))
		return 0;
	rc = env_snapshot_get(l->store, &key, &snap, &why);
	if (rc == -ENOENT)
		return 0; /* it was removed since it was listed */
	if (rc < 0)
		return l->fn(l->arg, &key, NULL, &why, err);
	rc = l->fn(l->arg, &key, &snap, NULL, err);
	env_snapshot_fini(&snap);
	return rc;
}

int env_snapshot_list(struct object_store *s, env_list_fn *fn, void *arg,
		      struct error *err)
{
	struct env_listing l = { .store = s, .fn = fn, .arg = arg };

	return object_list(s, ENV_INDEX_FOLDER, true, list_index_object, &l,
			   err);
}

struct key_search {
	const char *prefix;
	struct digest found;
	unsigned int n;
};

static int match_key_digits(void *arg, const struct object_entry *e,
			    struct error *err)
{
	struct key_search *f = arg;
	struct digest key;

	if (!env_name_digest(e->name, &key) ||
	    strncmp(strrchr(e->name, '/') + 1, f->prefix, strlen(f->prefix)) !=
		    0)
		return 0;
	f->found = key;
	f->n++;
	return 0;
}

int env_key_digits(const char *text, const char **ret, struct error *err)
{
	const char *hex = text;

	if (strncmp(text, "sha256:", strlen("sha256:")) == 0)
		hex += strlen("sha256:");
	if (strlen(hex) < PREFIX_MIN || strlen(hex) > HEX_DIGITS ||
	    strspn(hex, "0123456789abcdef") != strlen(hex))
		return error_set(err, EINVAL,
				 "'%.80s' is no key: give %u or more of its "
				 "hex digits",
				 text, PREFIX_MIN);
	*ret = hex;
	return 0;
}

int env_key_find(struct object_store *s, const char *text, struct digest *ret,
		 struct error *err)
{
	struct key_search f = { .prefix = text };
	int rc = env_key_digits(text, &f.prefix, err);

	if (rc < 0)
		return rc;
	rc = object_list(s, ENV_INDEX_FOLDER, true, match_key_digits, &f, err);
	if (rc < 0)
		return rc;
	if (f.n == 0)
		return error_set(err, ENOENT,
				 "no snapshot in %.200s has a key that begins "
				 "with %.64s: 'bootseer env ls' lists them",
				 object_store_url(s), f.prefix);
	if (f.n > 1)
		return error_set(err, EINVAL,
				 "%u snapshots have a key that begins with "
				 "%.64s: give more of it",
				 f.n, f.prefix);
	*ret = f.found;
	return 0;
}

/* ----------------------------------------------------------------------- remove --- */

static int remove_object(struct object_store *s, const char *name,
			 struct error *err)
{
	int rc = object_delete(s, name, NULL, err);

	return rc == -ENOENT ? 0 : rc;
}

static int remove_listed_object(void *arg, const struct object_entry *e,
				struct error *err)
{
	return remove_object(arg, e->name, err);
}

int env_blobs_remove(struct object_store *s, const struct digest *key,
		     const char *folder, struct error *err)
{
	char name[ENV_NAME_ROOM];

	env_blob_folder(key, folder, name);
	return object_list(s, name, true, remove_listed_object, s, err);
}

int env_snapshot_remove(struct object_store *s, const struct digest *key,
			struct error *err)
{
	char name[ENV_NAME_ROOM];
	int rc;

	/* The index goes first: as long as it exists, its blobs must exist. */
	env_object_name(ENV_INDEX_FOLDER, key, name);
	rc = remove_object(s, name, err);
	if (rc == 0)
		rc = env_notes_remove(s, key, err);
	return rc < 0 ? rc : env_blobs_remove(s, key, NULL, err);
}
