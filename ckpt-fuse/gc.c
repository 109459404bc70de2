// SPDX-License-Identifier: Apache-2.0
/*
 * Columns that no manifest names.  They are listed before the manifests are read: a
 * file that appears meanwhile has its manifest by then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/hash.h"

#define DATA_FOLDER ".bootseer/data"

/* What is there of a segment. */
struct found_segment {
	UT_hash_handle hh;
	uint8_t id[SEGMENT_ID];
	uint64_t columns; /* bits */
	int64_t newest_ms;
	uint64_t bytes;
};

struct collection {
	struct object_store *store;
	struct found_segment *found;
	struct name_list manifests; /* paths of files, sorted */
	struct name_list hidden;    /* plain objects ... */
	struct name_list tags;      /* ... and which versions of them */
	int64_t before_ms;          /* only what is older; the store's clock */
};

static void collection_fini(struct collection *c)
{
	struct found_segment *f, *next;

	HASH_ITER(hh, c->found, f, next)
	{
		HASH_DEL(c->found, f);
		free(f);
	}
	name_list_fini(&c->manifests);
	name_list_fini(&c->hidden);
	name_list_fini(&c->tags);
}

/* ------------------------------------------------------------------ what is there --- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct found_segment *found_of(struct collection *c, const uint8_t *id)
{
	struct found_segment *f;

	HASH_FIND(hh, c->found, id, SEGMENT_ID, f);
	return f;
}

static int column_found(void *arg, const struct object_entry *e,
			struct error *err)
{
	struct collection *c = arg;
	/* Of unknown time: younger than all but where all is old. */
	int64_t modified_ms =
		e->stat.modified_ms < 0 ? INT64_MAX - 1 : e->stat.modified_ms;
	uint8_t id[SEGMENT_ID];
	struct found_segment *f;

	if (!column_parse(e->name, id))
		return 0; /* not ours: it stays */
	f = found_of(c, id);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return error_nomem(err);
		memcpy(f->id, id, sizeof(id));
		HASH_ADD(hh, c->found, id, SEGMENT_ID, f);
		if (!hash_has_added(f)) {
			free(f);
			return error_nomem(err);
		}
	}
	f->columns |= UINT64_C(1)
		      << strtoul(strrchr(e->name, 'c') + 1, NULL, 10);
	f->bytes += e->stat.size;
	if (modified_ms > f->newest_ms)
		f->newest_ms = modified_ms;
	return 0;
}

static int manifest_found(void *arg, const struct object_entry *e,
			  struct error *err)
{
	struct collection *c = arg;
	size_t len;

	if (!manifest_is_name(e->name, &len))
		return 0;
	return name_list_add(&c->manifests, e->name, len, err);
}

static int hidden_found(void *arg, const struct object_entry *e,
			struct error *err)
{
	struct collection *c = arg;
	const char *name = e->name;
	size_t len;
	int rc;

	if (!object_is_old(e->stat.modified_ms, c->before_ms) ||
	    manifest_is_name(name, &len) || !c->manifests.n ||
	    !bsearch(&name, c->manifests.all, c->manifests.n, sizeof(name),
		     by_name))
		return 0;
	rc = name_list_add(&c->tags, e->stat.tag, strlen(e->stat.tag), err);
	return rc == 0 ? name_list_add(&c->hidden, name, strlen(name), err)
		       : rc;
}

/* ------------------------------------------------------------------ what is needed --- */

static int keep_named(struct collection *c, const char *path, struct error *err)
{
	AUTO(manifest) m = NULL;
	struct manifest_name name;
	int rc = manifest_name(path, &name, err);

	if (rc == 0)
		rc = manifest_load(c->store, name.s, &m, err);
	if (rc == -ENOENT)
		return 0; /* removed since */
	if (rc < 0)
		return error_wrap(err, rc,
				  "nothing was removed: which data '%.200s' "
				  "needs is not known (remove it, if nobody "
				  "wants it)",
				  path);
	for (size_t i = 0; i < m->n_segments; i++) {
		struct found_segment *f = found_of(c, m->segments[i].id);

		if (f) {
			HASH_DEL(c->found, f);
			free(f);
		}
	}
	return 0;
}

static int collect(struct collection *c, struct error *err)
{
	int rc = object_list(c->store, DATA_FOLDER, true, column_found, c, err);

	if (rc == 0)
		rc = object_list(c->store, "", true, manifest_found, c, err);
	if (rc == 0 && c->manifests.n)
		qsort((void *)c->manifests.all, c->manifests.n,
		      sizeof(*c->manifests.all), by_name);
	for (size_t i = 0; i < c->manifests.n && rc == 0; i++)
		rc = keep_named(c, c->manifests.all[i], err);
	if (rc == 0)
		rc = object_list(c->store, "", true, hidden_found, c, err);
	return rc;
}

/* -------------------------------------------------------------------- the removal --- */

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
	gc->n_segments++;
	gc->bytes += f->bytes;
	return rc;
}

/* Unless it was written again: then it is a file that is about to appear. */
static int remove_hidden(struct collection *c, size_t i, struct error *err)
{
	int rc = object_delete(c->store, c->hidden.all[i], c->tags.all[i], err);

	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

static int remove_all(struct collection *c, struct ckpt_gc *gc,
		      struct error *err)
{
	struct found_segment *f, *next;
	int rc = 0;

	HASH_ITER(hh, c->found, f, next)
	{
		if (rc == 0 && f->newest_ms < c->before_ms)
			rc = remove_segment(c, f, gc, err);
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
	struct collection c = { .store = s };
	int rc = too_young(s, gc->older_ms, &c.before_ms, err);

	gc->n_segments = gc->n_objects = 0;
	gc->bytes = 0;
	if (rc == 0)
		rc = collect(&c, err);
	if (rc == 0)
		rc = remove_all(&c, gc, err);
	collection_fini(&c);
	return rc;
}
