// SPDX-License-Identifier: Apache-2.0
/*
 * Columns that no manifest names.  They are listed before the manifests are read: a file that
 * appears meanwhile has its manifest by then.
 *
 * A list is not of one moment: a file that is renamed while it runs may be in it by neither
 * name.  So manifests are listed until a list has nothing new of the columns that were found.
 * What nobody names then is marked, and removed by a later call that finds it still so: who
 * has opened a file that was replaced, or goes on where it ended, has all of that time.  That
 * one says in the mark that it is going to, and looks at the manifests once more: a writer who
 * names it meanwhile looks at the mark behind that (commit.c), so one of the two sees the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/hash.h"

#define DATA_FOLDER ".bootseer/data"
/* Each is a file renamed just then, or a folder that is on its way. */
#define PASSES_MAX 16u
#define DOOMED "removed\n" /* what a mark has in it then */

/* A segment's columns that are there. */
struct found_segment {
	UT_hash_handle hh;
	uint8_t id[SEGMENT_ID];
	uint64_t columns; /* bits */
	int64_t newest_ms;
	uint64_t bytes;
	bool is_named, is_marked;
	bool is_doomed; /* the mark says that it is about to be removed */
	int64_t marked_ms;
};

/* A manifest that was read. */
struct seen_manifest {
	UT_hash_handle hh;
	char *path; /* of the file */
	char tag[OBJECT_TAG_MAX];
};

struct collection {
	struct object_store *store;
	struct found_segment *found;
	struct seen_manifest *seen;
	struct name_list
		fresh; /* paths of files whose manifests are to be read */
	struct name_list hidden; /* plain objects of the last list */
	struct name_list tags;   /* versions of the objects of `hidden` */
	bool is_moving;    /* this list was not all, or may not have been */
	int64_t before_ms; /* only what is older; the store's clock */
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

static struct found_segment *found_of(struct collection *c, const uint8_t *id)
{
	struct found_segment *f;

	HASH_FIND(hh, c->found, id, SEGMENT_ID, f);
	return f;
}

static struct found_segment *found_make(struct collection *c, const uint8_t *id)
{
	struct found_segment *f = found_of(c, id);

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

static int data_found(void *arg, const struct object_entry *e,
		      struct error *err)
{
	struct collection *c = arg;
	/* An object of unknown time is younger than all but where all is old. */
	int64_t modified_ms =
		e->stat.modified_ms < 0 ? INT64_MAX - 1 : e->stat.modified_ms;
	uint8_t id[SEGMENT_ID];
	struct found_segment *f;
	bool is_mark = segment_mark_parse(e->name, id);

	if (!is_mark && !column_parse(e->name, id))
		return 0; /* not ours: it stays */
	f = found_make(c, id);
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

static struct seen_manifest *seen_of(struct collection *c, const char *path,
				     size_t len)
{
	struct seen_manifest *m;

	HASH_FIND(hh, c->seen, path, len, m);
	return m;
}

/* A plain object that is hidden by a manifest which a list before this one showed. */
static int hidden_found(struct collection *c, const struct object_entry *e,
			struct error *err)
{
	const char *name = e->name;
	int rc;

	if (!object_is_old(e->stat.modified_ms, c->before_ms) ||
	    !seen_of(c, name, strlen(name)))
		return 0;
	rc = name_list_add(&c->tags, e->stat.tag, strlen(e->stat.tag), err);
	return rc == 0 ? name_list_add(&c->hidden, name, strlen(name), err)
		       : rc;
}

static int name_found(void *arg, const struct object_entry *e,
		      struct error *err)
{
	struct collection *c = arg;
	const struct seen_manifest *m;
	size_t len;

	if (!manifest_is_name(e->name, &len))
		return hidden_found(c, e, err);
	m = seen_of(c, e->name, len);
	if (m && strcmp(m->tag, e->stat.tag) == 0)
		return 0;
	return name_list_add(&c->fresh, e->name, len, err);
}

/* ------------------------------------------------------------------ what is needed --- */

static bool is_old(const struct collection *c, const struct found_segment *f)
{
	return f->newest_ms < c->before_ms;
}

/* Is there anything that could be removed by mistake? */
static bool has_unnamed(const struct collection *c)
{
	const struct found_segment *f, *next;

	HASH_ITER(hh, c->found, f, next)
	{
		if (!f->is_named && f->columns && is_old(c, f))
			return true;
	}
	return false;
}

/* Keep the segments that a manifest names.  A manifest that was just written says nothing about
 * a file that is being renamed. */
static void keep_segments(struct collection *c, const struct manifest *m)
{
	for (size_t i = 0; i < m->n_segments; i++) {
		struct found_segment *f = found_of(c, m->segments[i].id);

		if (!f || f->is_named)
			continue;
		f->is_named = true;
		c->is_moving = c->is_moving || is_old(c, f);
	}
}

static int note_seen(struct collection *c, const char *path, const char *tag,
		     struct error *err)
{
	struct seen_manifest *m = seen_of(c, path, strlen(path));

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

static int keep_named(struct collection *c, const char *path, struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	AUTO(manifest) m = NULL;
	struct manifest_name name;
	int rc = manifest_name(path, &name, err);

	if (rc == 0)
		rc = manifest_load_tag(c->store, name.s, &m, tag, err);
	/* Removed since, or renamed to what the list had been past already. */
	if (rc == -ENOENT) {
		c->is_moving = c->is_moving || has_unnamed(c);
		return 0;
	}
	if (rc < 0)
		return error_wrap(err, rc,
				  "nothing was removed: which data '%.200s' "
				  "needs is not known (remove it, if nobody "
				  "wants it)",
				  path);
	keep_segments(c, m);
	return note_seen(c, path, tag, err);
}

/* Forget the names of the list before. */
static void forget_names(struct collection *c)
{
	name_list_fini(&c->fresh);
	name_list_fini(&c->hidden);
	name_list_fini(&c->tags);
	c->fresh = c->hidden = c->tags = (struct name_list){ .n = 0 };
}

/* Look once. A manifest that was read before is read again only where the list says that
 * it is another. */
static int look_once(struct collection *c, struct error *err)
{
	int rc;

	c->is_moving = false;
	forget_names(c);
	rc = object_list(c->store, "", true, name_found, c, err);
	for (size_t i = 0; i < c->fresh.n && rc == 0; i++)
		rc = keep_named(c, c->fresh.all[i], err);
	return rc;
}

static int look_at_manifests(struct collection *c, struct error *err)
{
	for (unsigned int i = 0; i < PASSES_MAX; i++) {
		int rc = look_once(c, err);

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
	int rc = object_list(c->store, DATA_FOLDER, true, data_found, c, err);

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

/* The mark is last: were it first, what is left would be marked anew. */
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

/* No column is written behind its mark: the store's clock was wrong when it was put. */
static bool is_mark_true(const struct found_segment *f)
{
	return f->is_marked && f->marked_ms >= f->newest_ms;
}

/* Mark a segment. Its age counts from now, by the time that the store gives the mark. */
static int mark_segment(struct collection *c, const struct found_segment *f,
			struct ckpt_gc *gc, struct error *err)
{
	gc->n_waiting += (size_t)__builtin_popcountll(f->columns);
	gc->bytes_waiting += f->bytes;
	return is_mark_true(f) || gc->dry_run ? 0 : put_mark(c, f, "", err);
}

static bool is_due(const struct collection *c, const struct found_segment *f,
		   const struct ckpt_gc *gc)
{
	if (f->is_named || !f->columns || !is_old(c, f))
		return false;
	return gc->older_ms == 0 || f->is_doomed ||
	       (is_mark_true(f) && f->marked_ms < c->before_ms);
}

static int end_segment(struct collection *c, const struct found_segment *f,
		       struct ckpt_gc *gc, struct error *err)
{
	/* Named again, by a writer that took its time, or the end of a removal. */
	if (f->is_named || !f->columns)
		return f->is_marked && !gc->dry_run ? remove_mark(c, f, err)
						    : 0;
	/* The segment may be of a file that is about to appear. */
	if (!is_old(c, f)) {
		gc->n_young += (size_t)__builtin_popcountll(f->columns);
		gc->bytes_young += f->bytes;
		return 0;
	}
	return is_due(c, f, gc) ? remove_segment(c, f, gc, err)
				: mark_segment(c, f, gc, err);
}

/* Doom all segments: whoever names one of these from now on sees that. */
static int doom_all(struct collection *c, const struct ckpt_gc *gc,
		    size_t *ret_n, struct error *err)
{
	struct found_segment *f, *next;
	int rc = 0;

	*ret_n = 0;
	HASH_ITER(hh, c->found, f, next)
	{
		if (rc < 0 || !is_due(c, f, gc))
			continue;
		rc = f->is_doomed ? 0 : put_mark(c, f, DOOMED, err);
		f->is_doomed = f->is_doomed || rc == 0;
		*ret_n += f->is_doomed;
	}
	return rc;
}

/* Take the marks back, as it is not known which segments files need: none is to be
 * refused to those who name it. */
static void take_marks_back(struct collection *c)
{
	struct found_segment *f, *next;
	struct error ignored = ERROR_INIT;

	HASH_ITER(hh, c->found, f, next)
	{
		if (f->is_doomed)
			(void)!put_mark(c, f, "", &ignored);
	}
}

/* A store that nobody uses needs no such care, and has its marks as they are. */
static int doom_segments(struct collection *c, const struct ckpt_gc *gc,
			 struct error *err)
{
	size_t n;
	int rc;

	if (gc->dry_run || gc->older_ms == 0)
		return 0;
	rc = doom_all(c, gc, &n, err);
	if (rc == 0 && n)
		rc = look_at_manifests(c, err);
	if (rc < 0)
		take_marks_back(c);
	return rc;
}

/* Unless it was written again: then it is a file that is about to appear.  Nor when nothing
 * hides it any more: its version is of before we looked, so that whoever has put another file
 * there since keeps it. */
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

static int remove_all(struct collection *c, struct ckpt_gc *gc,
		      struct error *err)
{
	struct found_segment *f, *next;
	int rc = 0;

	HASH_ITER(hh, c->found, f, next)
	{
		if (rc == 0)
			rc = end_segment(c, f, gc, err);
	}
	for (size_t i = 0; i < c->hidden.n && rc == 0; i++) {
		if (!gc->dry_run)
			rc = remove_hidden(c, i, err);
		gc->n_objects++;
	}
	return rc;
}

/* From when on things are too young.  Of age 0 is all: a store that knows the time to
 * the second only may say that what was written just now is of the next one. */
static int too_young(struct object_store *s, uint64_t older_ms, int64_t *ret,
		     struct error *err)
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
	int rc = too_young(s, gc->older_ms, &c.before_ms, err);

	gc->n_segments = gc->n_objects = gc->n_waiting = gc->n_young = 0;
	gc->bytes = gc->bytes_waiting = gc->bytes_young = 0;
	if (rc == 0)
		rc = collect_names(&c, err);
	if (rc == 0)
		rc = doom_segments(&c, gc, err);
	if (rc == 0)
		rc = remove_all(&c, gc, err);
	return rc;
}
