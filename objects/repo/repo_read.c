// SPDX-License-Identifier: Apache-2.0
/* An object that is read is a blob, which never changes: one that was replaced stays
 * readable until the registry collects it. */
#include <errno.h>

#include "objects/repo/repo_store_priv.h"

struct repo_object {
	struct object base;
	struct source *blob; /* NULL: it has no bytes */
};

static struct repo_object *repo_object_of(struct object *o)
{
	return container_of(o, struct repo_object, base);
}

static int open_blob(struct repo_object *o, const char *name, struct error *err)
{
	struct repo_store *s = repo_store_of(o->base.store);
	struct object_stat *st = &o->base.stat;
	struct repo_manifest m;
	int rc = repo_store_find(s, name, &m, st->tag, err);

	if (rc < 0)
		return rc;
	st->size = m.size;
	st->modified_ms = m.modified_ms;
	return m.size ? oci_open_blob(s->oci, &m.blob, m.size, &o->blob, err)
		      : 0;
}

int repo_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err)
{
	struct repo_object *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return error_nomem(err);
	rc = store_object_init(&o->base, s, name, err);
	if (rc == 0)
		rc = open_blob(o, name, err);
	if (rc < 0)
		repo_store_close(&o->base);
	else
		*ret = &o->base;
	return rc;
}

void repo_store_close(struct object *base)
{
	struct repo_object *o = repo_object_of(base);

	source_free(o->blob);
	store_object_fini(base);
	free(o);
}

struct try_sink {
	struct source_sink base;
	struct fetch_try *try;
};

static int take_bytes(struct source_sink *base, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	struct try_sink *s = container_of(base, struct try_sink, base);

	(void)pos;
	return fetch_put(s->try, data, len, err);
}

/* The source tries again by itself, and goes on where it was. */
static int fetch_blob(struct fetch_try *t, struct retry_verdict *v,
		      struct error *err)
{
	struct repo_object *o = repo_object_of(t->object);
	struct try_sink sink = { .base.put = take_bytes, .try = t };
	struct source_req req = {
		.off = t->pos,
		.len = t->end - t->pos,
		.deadline_ns = t->until_ns,
		.pace = &t->pace,
	};
	int rc = source_read(o->blob, &req, &sink.base, err);

	atomic_fetch_add(&t->object->store->count.n_requests, 1);
	v->can_retry = rc == -EIO || rc == -EBUSY;
	if (rc == -ENOENT)
		return error_set(err, ESTALE,
				 "it was replaced, and the registry has "
				 "removed its bytes");
	return rc;
}

int repo_store_read(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err)
{
	return fetch_ranges(o, repo_store_of(o->store)->history, fetch_blob,
			    ranges, n, deadline_ns, err);
}
