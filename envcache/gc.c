// SPDX-License-Identifier: Apache-2.0
/*
 * Find snapshots that have expired, by last use or because all together take too much space, and
 * leftovers of captures.  Packs and blobs are listed before the indexes: an object that appears in
 * between belongs to a listed index or is not listed itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "envcache/gc.h"
#include "envcache/gc_packs.h"
#include "envcache/names.h"

#define CAPTURE_MAX 97u /* "HEX/ID" */

/* A snapshot in the store. */
struct gc_snapshot {
	struct env_snapshot snap; /* only key, folder, tag and creation time */
	char capture[CAPTURE_MAX + 1]; /* "HEX/" if its index cannot be read */
	struct gc_refs refs;
	int64_t used_ms;
	bool is_read; /* its index was decoded */
	bool is_pinned;
	bool is_bad;
};

/* A blob; garbage unless it belongs to a snapshot, or is of a capture under way. */
struct gc_blob {
	char *name;
	uint64_t size;
	bool is_young;
};

struct collector {
	struct object_store *store;
	struct env_gc *gc;
	struct gc_snapshot *list;
	size_t n, cap;
	struct gc_blob *blobs;
	size_t n_blobs, cap_blobs;
	struct gc_packs packs;
};

static int grow_array(void **array, size_t n, size_t *cap, size_t size,
		      struct error *err)
{
	size_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return 0;
	p = realloc(*array, want * size);
	if (!p)
		return error_nomem(err);
	*array = p;
	*cap = want;
	return 0;
}

static int note_blob(void *arg, const struct object_entry *e, struct error *err)
{
	struct collector *c = arg;
	/* A recent blob may be of a capture under way, or of a machine with another clock. */
	struct gc_blob b = { .size = e->stat.size,
			     .is_young = !object_is_old(e->stat.modified_ms,
							c->gc->now_ms -
								ENV_GRACE_MS) };
	int rc = grow_array((void **)&c->blobs, c->n_blobs, &c->cap_blobs,
			    sizeof(b), err);

	if (rc < 0)
		return rc;
	b.name = strdup(e->name);
	if (!b.name)
		return error_nomem(err);
	c->blobs[c->n_blobs++] = b;
	return 0;
}

static int note_snapshot(void *arg, const struct digest *key,
			 const struct env_snapshot *snap,
			 const struct error *why, struct error *err)
{
	struct collector *c = arg;
	struct gc_snapshot one = { .snap.key.digest = *key };
	struct env_marks m;
	char hex[ENV_KEY_HEX];
	int rc = grow_array((void **)&c->list, c->n, &c->cap, sizeof(one), err);

	env_key_hex(key, hex);
	(void)snprintf(one.capture, sizeof(one.capture), "%s/%s", hex,
		       snap ? snap->folder : "");
	if (rc == 0 && !snap && c->packs.unknown.code == 0)
		c->packs.unknown = *why;
	if (rc == 0 && snap) {
		rc = env_marks_get(c->store, snap, &m, err);
		if (rc == 0)
			rc = gc_packs_refer(&c->packs, c->store, snap,
					    &one.refs, err);
		if (rc < 0)
			return rc;
		one.snap.made_ms = snap->made_ms;
		memcpy(one.snap.folder, snap->folder, sizeof(snap->folder));
		memcpy(one.snap.tag, snap->tag, sizeof(snap->tag));
		one.used_ms = m.used_ms;
		one.is_read = true;
		one.is_pinned = m.is_pinned;
		one.is_bad = m.is_bad;
	}
	if (rc == 0)
		c->list[c->n++] = one;
	return rc;
}

static int compare_use(const void *a, const void *b)
{
	const struct gc_snapshot *x = a, *y = b;

	if (x->used_ms != y->used_ms)
		return x->used_ms < y->used_ms ? -1 : 1;
	return memcmp(x->snap.key.digest.b, y->snap.key.digest.b,
		      sizeof(x->snap.key.digest.b));
}

/* Remove exactly the listed snapshot and its own blobs: another capture of the key may be under
 * way.  -ESTALE: it was pinned, used, removed or replaced since it was listed. */
static int remove_listed(struct object_store *s, const struct gc_snapshot *one,
			 struct error *err)
{
	const struct digest *key = &one->snap.key.digest;
	char name[ENV_NAME_ROOM];
	struct env_marks m;
	int rc = env_marks_get(s, &one->snap, &m, err);

	if (rc == 0 && (m.is_pinned || m.used_ms > one->used_ms))
		return -ESTALE;
	env_object_name(ENV_INDEX_FOLDER, key, name);
	if (rc == 0)
		rc = object_delete(s, name, one->snap.tag, err);
	if (rc == -ENOSPC) /* raised by a lock; a full store accepts no new
	                    * snapshot, so no lock is needed */
		rc = object_delete(s, name, NULL, err);
	if (rc == -ENOENT)
		return -ESTALE;
	if (rc == 0)
		rc = env_notes_remove(s, key, err);
	return rc < 0 ? rc : env_blobs_remove(s, key, one->snap.folder, err);
}

/* Remove a snapshot; *fate becomes ENV_GC_CHANGED if it was changed meanwhile, and stays. */
static int remove_snapshot(struct collector *c, const struct gc_snapshot *one,
			   enum env_gc_fate *fate, struct error *err)
{
	int rc = c->gc->dry_run ? 0 : remove_listed(c->store, one, err);

	if (rc == -ESTALE) {
		*fate = ENV_GC_CHANGED;
		return 0;
	}
	if (rc < 0)
		return rc;
	c->gc->n_snapshots++;
	c->gc->bytes += one->refs.own_bytes;
	c->gc->kept_bytes -=
		one->refs.own_bytes + gc_packs_unrefer(&c->packs, &one->refs);
	return 0;
}

static enum env_gc_fate fate_of(const struct env_gc *gc,
				const struct gc_snapshot *one)
{
	if (!one->is_read)
		return ENV_GC_UNREADABLE;
	if (one->is_pinned)
		return ENV_GC_PINNED;
	if (one->is_bad)
		return ENV_GC_BAD;
	if (gc->older_ms >= 0 && one->used_ms <= gc->now_ms - gc->older_ms)
		return ENV_GC_UNUSED;
	return gc->kept_bytes > gc->keep_bytes ? ENV_GC_SPACE : ENV_GC_IN_USE;
}

/* Remove expired snapshots, the longest unused first. */
static int remove_expired(struct collector *c, struct error *err)
{
	struct env_gc *gc = c->gc;
	int rc = 0;

	if (c->n)
		qsort(c->list, c->n, sizeof(*c->list), compare_use);
	gc->kept_bytes = gc_packs_bytes(&c->packs);
	for (size_t i = 0; i < c->n; i++)
		gc->kept_bytes += c->list[i].refs.own_bytes;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		const struct gc_snapshot *one = &c->list[i];
		struct env_gc_told t = { .key = &one->snap.key.digest,
					 .fate = fate_of(gc, one),
					 .used_ms = one->used_ms };

		if (t.fate < ENV_GC_FIRST_KEPT)
			rc = remove_snapshot(c, one, &t.fate, err);
		if (rc == 0 && gc->told)
			gc->told(gc->arg, &t);
	}
	return rc;
}

/* Does the blob belong to a snapshot? */
static bool has_index(const struct collector *c, const char *name)
{
	const char *at = name + strlen(ENV_DATA_FOLDER "/");

	for (size_t i = 0; i < c->n; i++)
		if (strncmp(at, c->list[i].capture,
			    strlen(c->list[i].capture)) == 0)
			return true;
	return false;
}

static int remove_leftovers(struct collector *c, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->n_blobs; i++) {
		if (has_index(c, c->blobs[i].name))
			continue;
		if (c->blobs[i].is_young) {
			c->gc->n_young++;
			c->gc->young_bytes += c->blobs[i].size;
			continue;
		}
		if (!c->gc->dry_run)
			rc = object_delete(c->store, c->blobs[i].name, NULL,
					   err);
		if (rc == -ENOENT)
			rc = 0;
		c->gc->n_leftovers++;
		c->gc->bytes += c->blobs[i].size;
	}
	return rc;
}

static bool is_old_note(const struct collector *c, const struct object_entry *e)
{
	return object_is_old(e->stat.modified_ms, c->gc->now_ms - ENV_GRACE_MS);
}

/* Remove an object of this key, unless the key has a snapshot, or the object was replaced. */
static int remove_object_of_key(const struct collector *c,
				const struct object_entry *e,
				const struct digest *key, struct error *err)
{
	int rc;

	for (size_t i = 0; i < c->n; i++)
		if (digest_equal(key, &c->list[i].snap.key.digest))
			return 0;
	rc = object_delete(c->store, e->name, e->stat.tag, err);
	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

/* Remove a mark or lease of a removed snapshot.  A lease in use is renewed, so it is never old. */
static int remove_note(void *arg, const struct object_entry *e,
		       struct error *err)
{
	const struct collector *c = arg;
	struct digest key;

	if (!is_old_note(c, e) || !env_name_digest(e->name, &key))
		return 0;
	return remove_object_of_key(c, e, &key, err);
}

/* Remove a guess (env_near_get()) for a removed snapshot; an unreadable one is kept. */
static int remove_guess_of_key(void *arg, const struct object_entry *e,
			       struct error *err)
{
	const struct collector *c = arg;
	struct digest key;

	if (!is_old_note(c, e) ||
	    env_near_read(c->store, e->name, &key, NULL) < 0)
		return 0;
	return remove_object_of_key(c, e, &key, err);
}

/* Remove the note on which files a command makes once its snapshot is gone. */
static int remove_made_files_note(void *arg, const struct object_entry *e,
				  struct error *err)
{
	const struct collector *c = arg;
	AUTO_BUF text = BUF_INIT;
	struct digest key;

	if (!is_old_note(c, e) ||
	    env_made_read(c->store, e->name, &text, &key, NULL) < 0)
		return 0;
	return remove_object_of_key(c, e, &key, err);
}

static int remove_notes(struct collector *c, struct error *err)
{
	static const char *const folders[] = { ENV_LEASE_FOLDER,
					       ENV_FAILED_FOLDER,
					       ENV_BAD_FOLDER,
					       ENV_USED_FOLDER };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(folders); i++)
		rc = object_list(c->store, folders[i], true, remove_note, c,
				 err);
	if (rc == 0)
		rc = object_list(c->store, ENV_NEAR_FOLDER, true,
				 remove_guess_of_key, c, err);
	return rc < 0 ? rc
		      : object_list(c->store, ENV_MADE_FOLDER, true,
				    remove_made_files_note, c, err);
}

/* Remove unfinished uploads and locks.  This may need extra rights, so its failure does not end
 * the collection. */
static int sweep_leftovers(struct collector *c, struct error *err)
{
	struct env_gc *gc = c->gc;
	size_t n = 0;
	int rc = object_store_sweep_folder(c->store, ENV_FOLDER,
					   gc->now_ms - ENV_GRACE_MS, &n,
					   &gc->unswept);

	gc->n_leftovers += n;
	if (rc == 0 || rc == -EACCES || rc == -EPERM || rc == -ENOTSUP)
		return 0;
	return error_set(err, -rc, "%s", gc->unswept.msg);
}

int env_gc(struct object_store *s, struct env_gc *gc, struct error *err)
{
	struct collector c = { .store = s, .gc = gc };
	int rc = gc_packs_list(s, &c.packs, err);

	if (rc == 0)
		rc = object_list(s, ENV_DATA_FOLDER, true, note_blob, &c, err);
	if (rc == 0)
		rc = env_snapshot_list(s, note_snapshot, &c, err);
	if (rc == 0)
		rc = remove_expired(&c, err);
	if (rc == 0)
		rc = remove_leftovers(&c, err);
	if (rc == 0 && !gc->dry_run)
		rc = remove_notes(&c, err);
	if (rc == 0)
		rc = gc_packs_collect(&c.packs, s, gc, err);
	if (rc == 0 && !gc->dry_run)
		rc = sweep_leftovers(&c, err);
	for (size_t i = 0; i < c.n_blobs; i++)
		free(c.blobs[i].name);
	free(c.blobs);
	for (size_t i = 0; i < c.n; i++)
		free(c.list[i].refs.packs);
	free(c.list);
	gc_packs_fini(&c.packs);
	return rc;
}
