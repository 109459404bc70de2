// SPDX-License-Identifier: Apache-2.0
#include "envcache/gc_packs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "envcache/names.h"
#include "image/artifact/artifact.h"

/* --------------------------------------------------------------------------- list --- */

static int compare_packs_by_digest(const void *a, const void *b)
{
	const struct gc_pack *x = a, *y = b;

	return memcmp(x->digest.b, y->digest.b, sizeof(x->digest.b));
}

static int add_pack(struct gc_packs *p, const struct gc_pack *one,
		    struct error *err)
{
	if (array_grow(&p->list, p->n, &p->cap, 64) < 0)
		return error_nomem(err);
	p->list[p->n++] = *one;
	return 0;
}

static int note_doomed(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct gc_pack one = { .doomed_ms = e->stat.modified_ms };

	return env_name_digest(e->name, &one.digest) ? add_pack(arg, &one, err)
						     : 0;
}

static int note_pack(void *arg, const struct object_entry *e, struct error *err)
{
	struct gc_pack one = { .size = e->stat.size,
			       .put_ms = e->stat.modified_ms,
			       .is_there = true };

	return env_name_digest(e->name, &one.digest) ? add_pack(arg, &one, err)
						     : 0;
}

/* Merge the list entries of a pack and its deletion mark. */
static void merge_marks(struct gc_packs *p)
{
	size_t n = 0;

	if (p->n)
		qsort(p->list, p->n, sizeof(*p->list), compare_packs_by_digest);
	for (size_t i = 0; i < p->n; i++) {
		const struct gc_pack *one = &p->list[i];
		struct gc_pack *last = n ? &p->list[n - 1] : NULL;

		if (!last || compare_packs_by_digest(last, one) != 0) {
			p->list[n++] = *one;
		} else if (one->is_there) {
			last->is_there = true;
			last->size = one->size;
			last->put_ms = one->put_ms;
		} else {
			last->doomed_ms = one->doomed_ms;
		}
	}
	p->n = n;
}

int gc_packs_list(struct object_store *s, struct gc_packs *ret,
		  struct error *err)
{
	int rc = object_list(s, ENV_DOOMED_FOLDER, true, note_doomed, ret, err);

	if (rc == 0)
		rc = object_list(s, ENV_PACKS_FOLDER, true, note_pack, ret,
				 err);
	merge_marks(ret);
	return rc;
}

void gc_packs_fini(struct gc_packs *p)
{
	free(p->list);
	*p = (struct gc_packs){ .n = 0 };
}

/* ---------------------------------------------------------------------- references --- */

static struct gc_pack *find_pack(const struct gc_packs *p,
				 const struct digest *d)
{
	const struct gc_pack want = { .digest = *d };

	return p->n ? bsearch(&want, p->list, p->n, sizeof(want),
			      compare_packs_by_digest)
		    : NULL;
}

static int count_refs(struct gc_packs *p, const struct artifact *a,
		      struct gc_refs *ret, struct error *err)
{
	ret->packs = calloc(a->n_packs + 1, sizeof(*ret->packs));
	if (!ret->packs)
		return error_nomem(err);
	ret->own_bytes = a->meta.size + a->map.size;
	for (size_t i = 0; i < a->n_packs; i++) {
		struct gc_pack *one = find_pack(p, &a->packs[i].digest);

		if (one) {
			one->n_refs++;
			ret->packs[ret->n++] = (uint32_t)(one - p->list);
		}
		if (!one || !one->is_there)
			ret->own_bytes += a->packs[i].size;
	}
	return 0;
}

/* Was the snapshot removed since it was listed? */
static bool is_snapshot_gone(struct object_store *s,
			     const struct env_snapshot *snap)
{
	char name[ENV_NAME_ROOM];
	struct object_stat st;
	int rc;

	env_object_name(ENV_INDEX_FOLDER, &snap->key.digest, name);
	rc = object_stat(s, name, &st, NULL);
	return rc == -ENOENT || (rc == 0 && strcmp(st.tag, snap->tag) != 0);
}

int gc_packs_refer(struct gc_packs *p, struct object_store *s,
		   const struct env_snapshot *snap, struct gc_refs *ret,
		   struct error *err)
{
	AUTO(oci_store) blobs = NULL;
	char folder[ENV_NAME_ROOM];
	struct error why = ERROR_INIT;
	char hex[ENV_KEY_HEX];
	struct artifact a;
	int rc;

	ret->own_bytes = snap->stored;
	if (!snap->is_shared)
		return 0;
	env_blob_folder(&snap->key.digest, snap->folder, folder);
	rc = oci_objects_new(s, folder, NULL, &blobs, err);
	if (rc < 0)
		return rc;
	rc = artifact_get(blobs, &snap->manifest, &a, &why);
	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc < 0) {
		/* If the folder has a new snapshot, it was captured after the packs were listed. */
		if (p->unknown.code == 0 && !is_snapshot_gone(s, snap)) {
			env_key_hex(&snap->key.digest, hex);
			(void)error_wrap(&why, rc, "snapshot %.12s", hex);
			p->unknown = why;
		}
		return 0;
	}
	rc = count_refs(p, &a, ret, err);
	artifact_fini(&a);
	return rc;
}

uint64_t gc_packs_unrefer(struct gc_packs *p, const struct gc_refs *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (--p->list[r->packs[i]].n_refs == 0)
			n += p->list[r->packs[i]].size;
	return n;
}

uint64_t gc_packs_bytes(const struct gc_packs *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].n_refs)
			n += p->list[i].size;
	return n;
}

/* ------------------------------------------------------------------------ collect --- */

static int remove_object(struct object_store *s, const char *folder,
			 const struct digest *d, struct error *err)
{
	char name[ENV_NAME_ROOM];
	int rc;

	env_object_name(folder, d, name);
	rc = object_delete(s, name, NULL, err);
	return rc == -ENOENT ? 0 : rc;
}

/* Mark the pack for deletion; an existing mark keeps its age, whoever made it. */
static int mark_pack_for_deletion(struct object_store *s,
				  const struct digest *d, struct error *err)
{
	const struct object_put_options opts = { .condition = OBJECT_NEW };
	char name[ENV_NAME_ROOM];
	int rc;

	env_object_name(ENV_DOOMED_FOLDER, d, name);
	rc = object_put(s, name, "doomed\n", 7, &opts, NULL, err);
	return rc == -EEXIST ? 0 : rc;
}

/* Renew the mark just before the deletion: a capture must see the mark as long as the deletion may
 * still be carried out.  -ESTALE: another collection removed or renewed it. */
static int renew_mark(struct object_store *s, const struct gc_pack *p,
		      struct error *err)
{
	struct object_put_options opts = { .condition = OBJECT_MATCH };
	char name[ENV_NAME_ROOM];
	struct object_stat st;
	int rc;

	env_object_name(ENV_DOOMED_FOLDER, &p->digest, name);
	rc = object_stat(s, name, &st, err);
	if (rc < 0)
		return rc == -ENOENT ? -ESTALE : rc;
	if (st.modified_ms != p->doomed_ms)
		return -ESTALE;
	opts.tag = st.tag;
	rc = object_put(s, name, "doomed\n", 7, &opts, NULL, err);
	return rc == -ENOENT ? -ESTALE : rc;
}

static int delete_pack(const struct gc_pack *p, struct object_store *s,
		       struct env_gc *gc, struct error *err)
{
	int rc = gc->dry_run ? 0 : renew_mark(s, p, err);

	if (rc == 0 && !gc->dry_run)
		rc = remove_object(s, ENV_PACKS_FOLDER, &p->digest, err);
	if (rc == 0) {
		gc->n_leftovers++;
		gc->bytes += p->size;
	}
	return rc == -ESTALE ? 0 : rc;
}

/* Is `at_ms` longer ago than ENV_GRACE_MS?  False for 0, an unknown time. */
static bool is_old(const struct env_gc *gc, int64_t at_ms)
{
	return at_ms > 0 && at_ms <= gc->now_ms - ENV_GRACE_MS;
}

/* Mark, delete or keep a pack that nothing refers to. */
static int collect_unused(const struct gc_pack *p, struct object_store *s,
			  struct env_gc *gc, struct error *err)
{
	bool is_doomed = p->doomed_ms != 0;

	if (is_doomed && is_old(gc, p->doomed_ms)) {
		if (p->is_there)
			return delete_pack(p, s, gc, err);
		return gc->dry_run ? 0
				   : remove_object(s, ENV_DOOMED_FOLDER,
						   &p->digest, err);
	}
	/* A recent pack may belong to a capture under way. */
	if (!p->is_there)
		return 0;
	if (!is_doomed && !is_old(gc, p->put_ms)) {
		gc->n_young++;
		gc->young_bytes += p->size;
		return 0;
	}
	gc->n_doomed++;
	gc->doomed_bytes += p->size;
	return is_doomed || gc->dry_run
		       ? 0
		       : mark_pack_for_deletion(s, &p->digest, err);
}

int gc_packs_collect(const struct gc_packs *p, struct object_store *s,
		     struct env_gc *gc, struct error *err)
{
	int rc = 0;

	gc->unknown = p->unknown;
	for (size_t i = 0; rc == 0 && i < p->n; i++) {
		const struct gc_pack *one = &p->list[i];

		if (one->n_refs == 0 && p->unknown.code == 0)
			rc = collect_unused(one, s, gc, err);
		else if (one->n_refs && one->doomed_ms && !gc->dry_run)
			rc = remove_object(s, ENV_DOOMED_FOLDER, &one->digest,
					   err);
	}
	return rc;
}
