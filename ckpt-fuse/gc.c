// SPDX-License-Identifier: Apache-2.0
/*
 * Removes columns that no manifest names. Columns are listed before the manifests are read, so that
 * a file whose columns are in the list has its manifest by then.
 *
 * A list is not a snapshot: a file that is renamed during the list may be missing under both names.
 * So manifests are listed again until a list shows nothing new about the columns that were found. A
 * segment that no manifest names is then marked, and removed by a later call that finds it still
 * unnamed. A reader of a replaced file, or a writer that extends it, has all the time in between.
 * The later call writes into the mark that it is about to remove the segment, and then reads the
 * manifests again. A writer that names the segment looks at the mark after its commit (commit.c),
 * so one of the two sees the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/hash.h"

#define DATA_FOLDER ".bootseer/data"
/* Passes over the manifests: a further one is needed if a file was renamed, or a folder is being
 * renamed. */
#define PASSES_MAX 16u
/* content of the mark of a segment that is about to be removed */
#define DOOMED "removed\n"

/* A segment whose columns were found. */
struct found_segment {
	UT_hash_handle hh;
	uint8_t id[SEGMENT_ID];
	uint64_t columns; /* one bit for each column found */
	int64_t newest_ms;
	uint64_t bytes;
	bool is_named, is_marked;
	/* the mark says that the segment is about to be removed */
	bool is_doomed;
	int64_t marked_ms;
};

/* A manifest that was read already. */
struct seen_manifest {
	UT_hash_handle hh;
	char *path; /* path of the file */
	char tag[OBJECT_TAG_MAX];
};

struct collection {
	struct object_store *store;
	struct found_segment *found;
	struct seen_manifest *seen;
	/* paths of files whose manifests must be read */
	struct name_list fresh;
	/* plain objects hidden by manifests, from the last list */
	struct name_list hidden;
	struct name_list tags; /* versions of the objects in `hidden` */
	bool is_moving;        /* the last list may have been incomplete */
	/* remove only older objects; time of the store's clock */
	int64_t before_ms;
};

static void collection_fini(struct collection *c)
{
	struct found_segment *f, *next;
	struct seen_manifest *m, *next_m;

	HASH_ITER(hh, c->found, f, next)
	{
		HASH_DEL(c->found, f);
		free(f);
	}
	HASH_ITER(hh, c->seen, m, next_m)
	{
		HASH_DEL(c->seen, m);
		free(m->path);
		free(m);
	}
	name_list_fini(&c->fresh);
	name_list_fini(&c->hidden);
	name_list_fini(&c->tags);
}

/* ------------------------------------------------------------------ what is there --- */

static struct found_segment *find_found_segment(struct collection *c,
						const uint8_t *id)
{
	struct found_segment *f;

	HASH_FIND(hh, c->found, id, SEGMENT_ID, f);
	return f;
}

static struct found_segment *find_or_add_segment(struct collection *c,
						 const uint8_t *id)
{
	struct found_segment *f = find_found_segment(c, id);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	memcpy(f->id, id, sizeof(f->id));
	HASH_ADD(hh, c->found, id, SEGMENT_ID, f);
	if (hash_has_added(f))
		return f;
	free(f);
	return NULL;
}

static int note_data_object(void *arg, const struct object_entry *e,
			    struct error *err)
{
	struct collection *c = arg;
	/* Treat an object of unknown time as young, unless all ages are removed. */
	int64_t modified_ms =
		e->stat.modified_ms < 0 ? INT64_MAX - 1 : e->stat.modified_ms;
	uint8_t id[SEGMENT_ID];
	struct found_segment *f;
	bool is_mark = segment_mark_parse(e->name, id);

	if (!is_mark && !column_parse(e->name, id))
		return 0; /* not one of our objects: keep it */
	f = find_or_add_segment(c, id);
	if (!f)
		return error_nomem(err);
	if (is_mark) {
		f->is_marked = true;
		f->is_doomed = e->stat.size > 0;
		f->marked_ms = modified_ms;
		return 0;
	}
	f->columns |= UINT64_C(1)
		      << strtoul(strrchr(e->name, 'c') + 1, NULL, 10);
	f->bytes += e->stat.size;
	if (modified_ms > f->newest_ms)
		f->newest_ms = modified_ms;
	return 0;
}

static struct seen_manifest *find_seen_manifest(struct collection *c,
						const char *path, size_t len)
{
	struct seen_manifest *m;

	HASH_FIND(hh, c->seen, path, len, m);
	return m;
}

/* Note a plain object that is hidden by a manifest of an earlier list. */
static int note_hidden_object(struct collection *c,
			      const struct object_entry *e, struct error *err)
{
	const char *name = e->name;
	int rc;

	if (!object_is_old(e->stat.modified_ms, c->before_ms) ||
	    !find_seen_manifest(c, name, strlen(name)))
		return 0;
	rc = name_list_add(&c->tags, e->stat.tag, strlen(e->stat.tag), err);
	return rc == 0 ? name_list_add(&c->hidden, name, strlen(name), err)
		       : rc;
}

static int note_named_object(void *arg, const struct object_entry *e,
			     struct error *err)
{
	struct collection *c = arg;
	const struct seen_manifest *m;
	size_t len;

	if (!manifest_is_name(e->name, &len))
		return note_hidden_object(c, e, err);
	m = find_seen_manifest(c, e->name, len);
	if (m && strcmp(m->tag, e->stat.tag) == 0)
		return 0;
	return name_list_add(&c->fresh, e->name, len, err);
}

/* ------------------------------------------------------------------ what is needed --- */

static bool is_segment_old(const struct collection *c,
			   const struct found_segment *f)
{
	return f->newest_ms < c->before_ms;
}

/* Is there an unnamed segment, which could be removed by mistake? */
static bool has_old_unnamed_segment(const struct collection *c)
{
	const struct found_segment *f, *next;

	HASH_ITER(hh, c->found, f, next)
	{
		if (!f->is_named && f->columns && is_segment_old(c, f))
			return true;
	}
	return false;
}

/* Keep the segments that a manifest names. A manifest that was written just now tells nothing about
 * files that are being renamed, so it does not end the passes. */
static void keep_segments(struct collection *c, const struct manifest *m)
{
	for (size_t i = 0; i < m->n_segments; i++) {
		struct found_segment *f =
			find_found_segment(c, m->segments[i].id);

		if (!f || f->is_named)
			continue;
		f->is_named = true;
		c->is_moving = c->is_moving || is_segment_old(c, f);
	}
}

static int note_seen_manifest(struct collection *c, const char *path,
			      const char *tag, struct error *err)
{
	struct seen_manifest *m = find_seen_manifest(c, path, strlen(path));

	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return error_nomem(err);
		m->path = strdup(path);
		if (m->path)
			HASH_ADD_KEYPTR(hh, c->seen, m->path, strlen(m->path),
					m);
		if (!m->path || !hash_has_added(m)) {
			free(m->path);
			free(m);
			return error_nomem(err);
		}
	}
	version_set_tag(m->tag, tag);
	return 0;
}

static int keep_segments_of_file(struct collection *c, const char *path,
				 struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	AUTO(manifest) m = NULL;
	struct manifest_name name;
	int rc = manifest_name(path, &name, err);

	if (rc == 0)
		rc = manifest_load_tag(c->store, name.s, &m, tag, err);
	/* The file was removed, or renamed to a name that the list had passed already. */
	if (rc == -ENOENT) {
		c->is_moving = c->is_moving || has_old_unnamed_segment(c);
		return 0;
	}
	if (rc < 0)
		return error_wrap(err, rc,
				  "nothing was removed: which data '%.200s' "
				  "needs is not known (remove it, if nobody "
				  "wants it)",
				  path);
	keep_segments(c, m);
	return note_seen_manifest(c, path, tag, err);
}

/* Forget the names of the previous list. */
static void forget_listed_names(struct collection *c)
{
	name_list_fini(&c->fresh);
	name_list_fini(&c->hidden);
	name_list_fini(&c->tags);
	c->fresh = c->hidden = c->tags = (struct name_list){ .n = 0 };
}

/* List and read the manifests once. One that was read before is read again only if the list shows
 * another version. */
static int read_manifests_once(struct collection *c, struct error *err)
{
	int rc;

	c->is_moving = false;
	forget_listed_names(c);
	rc = object_list(c->store, "", true, note_named_object, c, err);
	for (size_t i = 0; i < c->fresh.n && rc == 0; i++)
		rc = keep_segments_of_file(c, c->fresh.all[i], err);
	return rc;
}

static int look_at_manifests(struct collection *c, struct error *err)
{
	for (unsigned int i = 0; i < PASSES_MAX; i++) {
		int rc = read_manifests_once(c, err);

		if (rc < 0 || (i && !c->is_moving))
			return rc;
	}
	return error_set(err, EBUSY,
			 "nothing was removed: files get other names all the "
			 "time, so that it is not known which data they need; "
			 "run it again when less is renamed");
}

static int collect_names(struct collection *c, struct error *err)
{
	int rc = object_list(c->store, DATA_FOLDER, true, note_data_object, c,
			     err);

	return rc == 0 ? look_at_manifests(c, err) : rc;
}

/* -------------------------------------------------------------------- the removal --- */

static int remove_mark(struct collection *c, const struct found_segment *f,
		       struct error *err)
{
	char name[COLUMN_NAME_MAX];

	segment_mark_name(f->id, name);
	return name_remove(c->store, name, err);
}

/* Remove the mark last: otherwise, after an interruption, the remaining columns would be marked
 * anew and wait again. */
static int remove_segment(struct collection *c, const struct found_segment *f,
			  struct ckpt_gc *gc, struct error *err)
{
	struct ckpt_segment s = { .start = 0 };
	char name[COLUMN_NAME_MAX];
	int rc = 0;

	memcpy(s.id, f->id, sizeof(s.id));
	for (uint32_t i = 0; i < COLUMNS_MAX && rc == 0; i++) {
		if (!(f->columns >> i & 1))
			continue;
		column_name(&s, i, name);
		if (!gc->dry_run)
			rc = name_remove(c->store, name, err);
		gc->n_objects++;
	}
	if (rc == 0 && f->is_marked && !gc->dry_run)
		rc = remove_mark(c, f, err);
	gc->n_segments++;
	gc->bytes += f->bytes;
	return rc;
}

static int put_mark(struct collection *c, const struct found_segment *f,
		    const char *text, struct error *err)
{
	char name[COLUMN_NAME_MAX];

	segment_mark_name(f->id, name);
	return object_put(c->store, name, text, strlen(text), NULL, NULL, err);
}

/* A mark older than a column is invalid, because no column is written after it: the store's clock
 * was wrong. */
static bool is_removal_mark_valid(const struct found_segment *f)
{
	return f->is_marked && f->marked_ms >= f->newest_ms;
}

/* Mark a segment as unnamed. The time since then is measured by the store's time of the mark. */
static int mark_segment(struct collection *c, const struct found_segment *f,
			struct ckpt_gc *gc, struct error *err)
{
	gc->n_waiting += (size_t)__builtin_popcountll(f->columns);
	gc->bytes_waiting += f->bytes;
	return is_removal_mark_valid(f) || gc->dry_run
		       ? 0
		       : put_mark(c, f, "", err);
}

static bool is_segment_removable(const struct collection *c,
				 const struct found_segment *f,
				 const struct ckpt_gc *gc)
{
	if (f->is_named || !f->columns || !is_segment_old(c, f))
		return false;
	return gc->older_ms == 0 || f->is_doomed ||
	       (is_removal_mark_valid(f) && f->marked_ms < c->before_ms);
}

static int unmark_or_remove_segment(struct collection *c,
				    const struct found_segment *f,
				    struct ckpt_gc *gc, struct error *err)
{
	/* The segment is named again by a slow writer, or only its mark is left of a removal. */
	if (f->is_named || !f->columns)
		return f->is_marked && !gc->dry_run ? remove_mark(c, f, err)
						    : 0;
	/* The segment may belong to a file that is about to be committed. */
	if (!is_segment_old(c, f)) {
		gc->n_young += (size_t)__builtin_popcountll(f->columns);
		gc->bytes_young += f->bytes;
		return 0;
	}
	return is_segment_removable(c, f, gc) ? remove_segment(c, f, gc, err)
					      : mark_segment(c, f, gc, err);
}

/* Write into the marks of all segments to be removed, so that a writer that names one from now on
 * sees it. */
static int announce_removals(struct collection *c, const struct ckpt_gc *gc,
			     size_t *ret_n, struct error *err)
{
	struct found_segment *f, *next;
	int rc = 0;

	*ret_n = 0;
	HASH_ITER(hh, c->found, f, next)
	{
		if (rc < 0 || !is_segment_removable(c, f, gc))
			continue;
		rc = f->is_doomed ? 0 : put_mark(c, f, DOOMED, err);
		f->is_doomed = f->is_doomed || rc == 0;
		*ret_n += f->is_doomed;
	}
	return rc;
}

/* Reset the marks: it is not known which segments are needed, so writers must be able to name
 * all. */
static void reset_marks(struct collection *c)
{
	struct found_segment *f, *next;
	struct error ignored = ERROR_INIT;

	HASH_ITER(hh, c->found, f, next)
	{
		if (f->is_doomed)
			(void)!put_mark(c, f, "", &ignored);
	}
}

/* Write into the marks, unless all ages are removed: then no other process may use the store. */
static int write_removal_marks(struct collection *c, const struct ckpt_gc *gc,
			       struct error *err)
{
	size_t n;
	int rc;

	if (gc->dry_run || gc->older_ms == 0)
		return 0;
	rc = announce_removals(c, gc, &n, err);
	if (rc == 0 && n)
		rc = look_at_manifests(c, err);
	if (rc < 0)
		reset_marks(c);
	return rc;
}

/* Remove a hidden plain object. Not if it was written again, since it belongs to a file that is
 * about to appear; and not if it is no longer hidden. The version from before that check is
 * removed, so that another file put there since stays. */
static int remove_hidden(struct collection *c, size_t i, struct error *err)
{
	const char *path = c->hidden.all[i];
	struct manifest_name name;
	struct object_stat o;
	int rc = manifest_name(path, &name, err);

	if (rc == 0)
		rc = object_stat(c->store, name.s, &o, err);
	if (rc == 0)
		rc = object_delete(c->store, path, c->tags.all[i], err);
	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

static int remove_unused_objects(struct collection *c, struct ckpt_gc *gc,
				 struct error *err)
{
	struct found_segment *f, *next;
	int rc = 0;

	HASH_ITER(hh, c->found, f, next)
	{
		if (rc == 0)
			rc = unmark_or_remove_segment(c, f, gc, err);
	}
	for (size_t i = 0; i < c->hidden.n && rc == 0; i++) {
		if (!gc->dry_run)
			rc = remove_hidden(c, i, err);
		gc->n_objects++;
	}
	return rc;
}

/* Compute from which time on objects are too young. With age 0 nothing is: a store with times in
 * whole seconds may date a new object to the next second. */
static int get_age_limit_ms(struct object_store *s, uint64_t older_ms,
			    int64_t *ret, struct error *err)
{
	int64_t now = 0;
	int rc;

	*ret = INT64_MAX;
	if (older_ms == 0)
		return 0;
	rc = object_store_now(s, &now, err);
	*ret = now > 0 && older_ms < (uint64_t)now ? now - (int64_t)older_ms
						   : 0;
	return rc;
}

int ckpt_gc(struct object_store *s, struct ckpt_gc *gc, struct error *err)
{
	AUTO_FINI(collection) c = { .store = s };
	int rc = get_age_limit_ms(s, gc->older_ms, &c.before_ms, err);

	gc->n_segments = gc->n_objects = gc->n_waiting = gc->n_young = 0;
	gc->bytes = gc->bytes_waiting = gc->bytes_young = 0;
	if (rc == 0)
		rc = collect_names(&c, err);
	if (rc == 0)
		rc = write_removal_marks(&c, gc, err);
	if (rc == 0)
		rc = remove_unused_objects(&c, gc, err);
	return rc;
}
