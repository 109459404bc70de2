// SPDX-License-Identifier: Apache-2.0
#include "envcache/bases.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "envcache/runs.h"
#include "image/writer/block_table.h"
#include "objects/oci.h"

/* --------------------------------------------------------------------- which ones --- */

struct newest {
	struct digest key;
	int64_t made_ms;
};

struct choice {
	struct newest list[ENV_BASES_NEWEST]; /* the newest first */
	size_t n;
};

static int note_newest(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct choice *c = arg;
	struct newest one = { .made_ms = e->stat.modified_ms };
	size_t at = c->n;

	if (!env_name_digest(e->name, &one.key))
		return 0;
	while (at > 0 && c->list[at - 1].made_ms < one.made_ms)
		at--;
	if (at == ENV_BASES_NEWEST)
		return 0;
	if (c->n < ENV_BASES_NEWEST)
		c->n++;
	memmove(&c->list[at + 1], &c->list[at],
		(c->n - 1 - at) * sizeof(c->list[0]));
	c->list[at] = one;
	return 0;
}

static void count_differing(void *arg, const struct env_item *a,
			    const struct env_item *b)
{
	size_t *n = arg;

	if (a)
		(*n)++;
}

static size_t count_common_items(const struct env_key *a,
				 const struct env_key *b)
{
	size_t n = 0;

	env_key_compare(a, b, count_differing, &n);
	return a->n - n;
}

void env_base_of(const struct env_snapshot *snap, struct env_base *ret)
{
	*ret = (struct env_base){ .key = snap->key.digest,
				  .manifest = snap->manifest };
	memcpy(ret->folder, snap->folder, sizeof(ret->folder));
}

/* Insert a base into the list, sorted by common items; among equals the newer one comes first. */
static void add_base(const struct env_snapshot *snap, size_t common,
		     struct env_base ret[ENV_BASES_MAX],
		     size_t commons[ENV_BASES_MAX], size_t *n)
{
	size_t at = *n;

	while (at > 0 && commons[at - 1] < common)
		at--;
	if (at == ENV_BASES_MAX)
		return;
	if (*n < ENV_BASES_MAX)
		(*n)++;
	memmove(&ret[at + 1], &ret[at], (*n - 1 - at) * sizeof(ret[0]));
	memmove(&commons[at + 1], &commons[at],
		(*n - 1 - at) * sizeof(commons[0]));
	env_base_of(snap, &ret[at]);
	commons[at] = common;
}

int env_bases_choose(struct object_store *s, const struct env_key *key,
		     struct env_base ret[ENV_BASES_MAX], size_t *ret_n,
		     struct error *err)
{
	size_t commons[ENV_BASES_MAX], n = 0;
	struct choice c = { .n = 0 };
	int rc = object_list(s, ENV_INDEX_FOLDER, true, note_newest, &c, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < c.n; i++) {
		struct env_snapshot snap;

		if (env_snapshot_get(s, &c.list[i].key, &snap, NULL) < 0)
			continue;
		if (snap.is_shared)
			add_base(&snap, count_common_items(key, &snap.key), ret,
				 commons, &n);
		env_snapshot_fini(&snap);
	}
	*ret_n = n;
	return 0;
}

/* ------------------------------------------------------------------- their blocks --- */

/* Is the pack in the store, with the size in the manifest, and may it be used? */
enum base_pack { BASE_PACK_UNKNOWN, BASE_PACK_YES, BASE_PACK_NO };

struct bases {
	struct dedup_index index;
	struct object_store *store;
	const struct env_digests *doomed, *bad;
	struct block_table *table;
	enum base_pack *presence; /* for each pack: the result of its only
	                           * request */
	struct block *used;       /* blocks that a capture took */
	size_t n_used, cap_used;
	atomic_bool *has_failed; /* for each pack, during the check */
	struct block_source **packs;
};

static bool is_usable(const struct bases *b, const struct pack *p)
{
	char name[ENV_NAME_ROOM];
	struct object_stat st;

	if (env_digests_has(b->doomed, &p->digest) ||
	    env_digests_has(b->bad, &p->digest))
		return false;
	env_object_name(ENV_PACKS_FOLDER, &p->digest, name);
	return object_stat(b->store, name, &st, NULL) == 0 &&
	       st.size == p->size;
}

static bool bases_find(struct dedup_index *x, const struct digest *d,
		       struct block *ret)
{
	struct bases *b = container_of(x, struct bases, index);
	enum base_pack *known;
	struct block found;
	bool is_own;

	if (!block_table_find(b->table, d, &found, &is_own))
		return false;
	known = &b->presence[found.pack];
	if (*known == BASE_PACK_UNKNOWN)
		*known = is_usable(b, block_table_pack(b->table, found.pack))
				 ? BASE_PACK_YES
				 : BASE_PACK_NO;
	if (*known == BASE_PACK_NO ||
	    array_grow(&b->used, b->n_used, &b->cap_used, 1024) < 0)
		return false;
	b->used[b->n_used++] = found;
	*ret = found;
	return true;
}

static void bases_pack(struct dedup_index *x, uint32_t pack, struct pack *ret)
{
	struct bases *b = container_of(x, struct bases, index);

	*ret = *block_table_pack(b->table, pack);
}

/* Add the blocks of a base to the index.  Errors are ignored: no base is necessary. */
static void add_base_of(struct bases *b, const struct env_base *base)
{
	AUTO(oci_store) blobs = NULL;
	char folder[ENV_NAME_ROOM];
	struct artifact a;

	env_blob_folder(&base->key, base->folder, folder);
	if (oci_objects_new(b->store, folder, NULL, &blobs, NULL) < 0 ||
	    artifact_get(blobs, &base->manifest, &a, NULL) < 0)
		return;
	(void)!block_table_add(b->table, blobs, &a, false, NULL);
	artifact_fini(&a);
}

int bases_new(struct object_store *s, const struct env_base *list, size_t n,
	      const struct env_digests *doomed, const struct env_digests *bad,
	      struct bases **ret, struct error *err)
{
	AUTO(bases) b = calloc(1, sizeof(*b));
	int rc = b ? block_table_new(&b->table, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	b->index.find = bases_find;
	b->index.pack = bases_pack;
	b->store = s;
	b->doomed = doomed;
	b->bad = bad;
	for (size_t i = 0; i < n; i++)
		add_base_of(b, &list[i]);
	b->presence =
		calloc(block_table_n_packs(b->table) + 1, sizeof(*b->presence));
	if (!b->presence)
		return error_nomem(err);
	*ret = steal_ptr(&b);
	return 0;
}

void bases_free(struct bases *b)
{
	if (!b)
		return;
	for (size_t i = 0; b->packs && i < block_table_n_packs(b->table); i++)
		block_source_free(b->packs[i]);
	free((void *)b->packs);
	block_table_free(b->table);
	free(b->presence);
	free(b->used);
	free(b->has_failed);
	free(b);
}

struct dedup_index *bases_index(struct bases *b)
{
	return &b->index;
}

/* --------------------------------------------------------------- are they right? --- */

static int compare_used(const void *a, const void *b)
{
	return runs_compare(a, b);
}

static void used_block_at(const void *arg, size_t i, struct block *ret)
{
	const struct bases *b = arg;

	*ret = b->used[i];
}

static int ignore_block(void *arg, size_t i, const void *data,
			struct error *err)
{
	return 0;
}

static int note_failed_pack(void *arg, uint32_t pack, int rc)
{
	struct bases *b = arg;

	atomic_store(&b->has_failed[pack], true);
	return 0;
}

/* Open the packs that are used.  A pack that cannot be opened shows up when its blocks are read. */
static int open_used(struct bases *b, struct error *err)
{
	size_t n = block_table_n_packs(b->table);
	AUTO(oci_store) blobs = NULL;
	int rc = oci_objects_new(b->store, ENV_PACKS_FOLDER, NULL, &blobs, err);

	if (rc < 0)
		return rc;
	b->has_failed = calloc(n + 1, sizeof(*b->has_failed));
	b->packs =
		(struct block_source **)calloc(n + 1,
					       sizeof(struct block_source *));
	if (!b->has_failed || !b->packs)
		return error_nomem(err);
	for (size_t i = 0; i < b->n_used; i++) {
		uint32_t at = b->used[i].pack;
		const struct pack *p = block_table_pack(b->table, at);
		struct source *s;

		if (!b->packs[at] && (i == 0 || at != b->used[i - 1].pack) &&
		    oci_open_blob(blobs, &p->digest, p->size, &s, NULL) == 0)
			(void)!verify_source_new(s, &b->packs[at], NULL);
	}
	return 0;
}

int bases_check(struct bases *b, unsigned int threads, struct env_digests *bad,
		struct error *err)
{
	struct block_runs runs = { .n = b->n_used,
				   .block = used_block_at,
				   .put = ignore_block,
				   .failed = note_failed_pack,
				   .arg = b };
	size_t n_bad = 0;
	int rc;

	if (b->n_used == 0)
		return 0;
	qsort(b->used, b->n_used, sizeof(*b->used), compare_used);
	rc = open_used(b, err);
	runs.packs = b->packs;
	if (rc == 0)
		rc = runs_read(&runs, threads, err);
	for (size_t i = 0; rc == 0 && i < block_table_n_packs(b->table); i++)
		if (atomic_load(&b->has_failed[i])) {
			rc = env_digests_add(bad,
					     &block_table_pack(b->table, i)
						      ->digest,
					     err);
			n_bad++;
		}
	env_digests_sort(bad);
	return rc == 0 && n_bad
		       ? error_set(err, EAGAIN,
				   "%zu packs of earlier snapshots are damaged",
				   n_bad)
		       : rc;
}
