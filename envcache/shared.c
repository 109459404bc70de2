// SPDX-License-Identifier: Apache-2.0
#include "envcache/shared.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/digest.h"
#include "objects/oci.h"

#define PIECE_BYTES (4 * MIB)
#define DOOMED_MAX (1u << 20) /* packs; each takes 32 bytes of memory */

/* -------------------------------------------------------------------- digests --- */

int env_digests_add(struct env_digests *d, const struct digest *one,
		    struct error *err)
{
	if (array_grow(&d->list, d->n, &d->cap, 64) < 0)
		return error_nomem(err);
	d->list[d->n++] = *one;
	return 0;
}

void env_digests_sort(struct env_digests *d)
{
	if (d->n)
		qsort(d->list, d->n, sizeof(*d->list), compare_digests);
}

bool env_digests_has(const struct env_digests *d, const struct digest *one)
{
	return d->n && bsearch(one, d->list, d->n, sizeof(*d->list),
			       compare_digests) != NULL;
}

void env_digests_fini(struct env_digests *d)
{
	free(d->list);
	*d = (struct env_digests){ .n = 0 };
}

static int note_doomed(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct env_digests *d = arg;
	struct digest one;

	if (!env_name_digest(e->name, &one))
		return 0;
	if (d->n >= DOOMED_MAX)
		return error_set(err, E2BIG,
				 "more than %u packs in '" ENV_DOOMED_FOLDER
				 "' wait for 'bootseer env gc'",
				 DOOMED_MAX);
	return env_digests_add(d, &one, err);
}

int env_doomed_list(struct object_store *s, struct env_digests *ret,
		    struct error *err)
{
	int rc = object_list(s, ENV_DOOMED_FOLDER, true, note_doomed, ret, err);

	env_digests_sort(ret);
	return rc;
}

/* ------------------------------------------------------------------------ put --- */

/* Do the object's bytes have the digest?  An unreadable object counts as wrong, and is stored
 * again. */
static bool has_object_digest(struct object *o, const struct digest *want)
{
	uint64_t size = object_opened_stat(o)->size;
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	AUTO(hasher) h = hasher_new();
	struct digest d;
	int rc = piece && h ? 0 : -ENOMEM;

	for (uint64_t off = 0; rc == 0 && off < size;) {
		struct object_range r = { .off = off,
					  .len = size - off < PIECE_BYTES
							 ? (size_t)(size - off)
							 : PIECE_BYTES,
					  .buf = piece };

		rc = object_read(o, &r, 1, 0, NULL);
		if (rc == 0)
			rc = hasher_update(h, piece, r.len);
		off += r.len;
	}
	return rc == 0 && hasher_final(h, &d) == 0 && digest_equal(&d, want);
}

bool env_pack_is_there(struct object_store *s, const struct digest *d,
		       uint64_t size)
{
	char name[ENV_NAME_ROOM];
	struct object *o;
	bool is;

	env_object_name(ENV_PACKS_FOLDER, d, name);
	if (object_open(s, name, &o, NULL) < 0)
		return false;
	is = object_opened_stat(o)->size == size && has_object_digest(o, d);
	object_close(o);
	return is;
}

int env_pack_check(struct object_store *s, const struct env_digests *doomed,
		   const struct oci_descriptor *p, struct error *err)
{
	char name[ENV_NAME_ROOM];
	struct object_stat st;

	env_object_name(ENV_PACKS_FOLDER, &p->digest, name);
	return !env_digests_has(doomed, &p->digest) &&
			       object_stat(s, name, &st, NULL) == 0 &&
			       st.size == p->size
		       ? 0
		       : error_set(err, EAGAIN,
				   "a pack of it was given up meanwhile");
}

static int put_shared(struct shared_target *t, const struct digest *d,
		      uint64_t size, int fd, struct error *err)
{
	const struct object_put_options opts = { .size = size ? size : 1 };
	AUTO(object_put) put = NULL;
	char name[ENV_NAME_ROOM];
	int rc;

	env_object_name(ENV_PACKS_FOLDER, d, name);
	if (env_pack_is_there(t->store, d, size))
		return 0;
	rc = object_put_open(t->store, name, &opts, &put, err);
	if (rc == 0)
		rc = object_put_fd(put, fd, size, err);
	if (rc == 0)
		rc = object_put_commit(put, NULL, err);
	if (rc == 0)
		t->added += size;
	return rc;
}

static int shared_store(struct upload_target *target, const struct digest *d,
			uint64_t size, int fd, struct error *err)
{
	struct shared_target *t =
		container_of(target, struct shared_target, target);
	int rc;

	if (!env_digests_has(t->doomed, d))
		return put_shared(t, d, size, fd, err);
	rc = env_digests_add(&t->kept, d, err);
	if (rc == 0)
		rc = oci_put_blob(t->own, d, size, fd, NULL, err);
	if (rc == 0)
		t->added += size;
	return rc;
}

void shared_target_init(struct shared_target *t, struct object_store *s,
			struct oci_store *own, const struct env_digests *doomed)
{
	*t = (struct shared_target){ .target.store = shared_store,
				     .store = s,
				     .own = own,
				     .doomed = doomed };
}

void shared_target_fini(struct shared_target *t)
{
	env_digests_fini(&t->kept);
}

bool shared_target_is_own(const struct shared_target *t, const struct digest *d)
{
	for (size_t i = 0; i < t->kept.n; i++)
		if (digest_equal(&t->kept.list[i], d))
			return true;
	return false;
}

bool shared_target_shares(const struct shared_target *t,
			  const struct artifact *a)
{
	for (size_t i = 0; i < a->n_packs; i++)
		if (!shared_target_is_own(t, &a->packs[i].digest))
			return true;
	return false;
}

int shared_target_check(const struct shared_target *t, const struct artifact *a,
			struct error *err)
{
	AUTO_FINI(env_digests) now = { .n = 0 };
	int rc = env_doomed_list(t->store, &now, err);

	for (size_t i = 0; rc == 0 && i < a->n_packs; i++)
		if (!shared_target_is_own(t, &a->packs[i].digest))
			rc = env_pack_check(t->store, &now, &a->packs[i], err);
	return rc;
}
