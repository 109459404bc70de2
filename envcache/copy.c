// SPDX-License-Identifier: Apache-2.0
/* Copy a snapshot to another store: its blobs to a new folder, and its shared packs, each compared
 * with its digest; the index comes last. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "envcache/shared.h"
#include "objects/oci.h"

#define COPY_BYTES (4 * MIB)

struct env_copying {
	struct object_store *from, *to;
	char *piece;                     /* COPY_BYTES */
	const struct env_snapshot *snap; /* as it will be in the store `to` */
	char from_folder[ENV_NAME_ROOM], to_folder[ENV_NAME_ROOM];
	bool may_be_there;         /* the reply to the index's write was lost */
	struct env_digests doomed; /* packs that `to` is going to delete */
	struct oci_descriptor *shared; /* packs also used by other snapshots */
	size_t n_shared, cap_shared;
};

/* Copy all bytes of the object, and compute their digest. */
static int copy_bytes(const struct env_copying *c, struct object *o,
		      struct object_put *put, struct digest *ret,
		      struct error *err)
{
	uint64_t size = object_opened_stat(o)->size;
	AUTO(hasher) h = hasher_new();
	int rc = h ? 0 : error_nomem(err);

	for (uint64_t off = 0; rc == 0 && off < size;) {
		struct object_range r = { .off = off,
					  .len = size - off < COPY_BYTES
							 ? (size_t)(size - off)
							 : COPY_BYTES,
					  .buf = c->piece };

		rc = object_read(o, &r, 1, 0, err);
		if (rc == 0 && hasher_update(h, c->piece, r.len) < 0)
			rc = error_set(err, EIO, "hash: it failed");
		if (rc == 0)
			rc = object_put_write(put, c->piece, r.len, err);
		off += r.len;
	}
	if (rc == 0 && hasher_final(h, ret) < 0)
		rc = error_set(err, EIO, "hash: it failed");
	return rc;
}

static int copy_open(const struct env_copying *c, struct object *o,
		     const char *name, const char *as, struct error *err)
{
	uint64_t size = object_opened_stat(o)->size;
	const struct object_put_options opts = { .size = size ? size : 1 };
	AUTO(object_put) put = NULL;
	char text[DIGEST_STR_MAX];
	struct digest d;
	int rc = object_put_open(c->to, as, &opts, &put, err);

	if (rc == 0)
		rc = copy_bytes(c, o, put, &d, err);
	if (rc < 0)
		return rc;
	digest_format(&d, text);
	if (strcmp(strchr(text, ':') + 1, strrchr(name, '/') + 1) != 0)
		return error_set(err, EBADMSG,
				 "the snapshot is damaged: '%.200s' has other "
				 "bytes than its name says",
				 name);
	return object_put_commit(put, NULL, err);
}

static int copy_object(const struct env_copying *c, const char *name,
		       const char *as, struct error *err)
{
	struct object *o;
	int rc = object_open(c->from, name, &o, err);

	if (rc < 0)
		return rc;
	rc = copy_open(c, o, name, as, err);
	object_close(o);
	return rc;
}

static int copy_blob(void *arg, const struct object_entry *e, struct error *err)
{
	const struct env_copying *c = arg;
	AUTO_BUF as = BUF_INIT;

	return buf_printf(&as, "%s%s", c->to_folder,
			  e->name + strlen(c->from_folder)) < 0
		       ? error_nomem(err)
		       : copy_object(c, e->name, as.data, err);
}

/* A shared pack stays shared in `to`, unless `to` is going to delete it; then it is copied into
 * the snapshot's folder. */
static int copy_pack(struct env_copying *c, const struct oci_descriptor *p,
		     struct error *err)
{
	char name[ENV_NAME_ROOM];
	AUTO_BUF own = BUF_INIT;
	AUTO_BUF copied = BUF_INIT;
	struct object_stat st;
	int rc;

	env_object_name(ENV_PACKS_FOLDER, &p->digest, name);
	if (buf_printf(&own, "%s%s", c->from_folder, strrchr(name, '/')) < 0 ||
	    buf_printf(&copied, "%s%s", c->to_folder, strrchr(name, '/')) < 0)
		return error_nomem(err);
	rc = object_stat(c->from, own.data, &st, err);
	if (rc != -ENOENT)
		return rc;
	if (env_digests_has(&c->doomed, &p->digest))
		return copy_object(c, name, copied.data, err);
	if (array_grow(&c->shared, c->n_shared, &c->cap_shared, 16) < 0)
		return error_nomem(err);
	c->shared[c->n_shared++] = *p;
	return env_pack_is_there(c->to, &p->digest, p->size)
		       ? 0
		       : copy_object(c, name, name, err);
}

static int copy_packs(struct env_copying *c, struct error *err)
{
	AUTO(oci_store) blobs = NULL;
	struct artifact a;
	int rc = env_doomed_list(c->to, &c->doomed, err);

	if (rc == 0)
		rc = oci_objects_new(c->from, c->from_folder, NULL, &blobs,
				     err);
	if (rc == 0)
		rc = artifact_get(blobs, &c->snap->manifest, &a, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < a.n_packs; i++)
		rc = copy_pack(c, &a.packs[i], err);
	artifact_fini(&a);
	return rc;
}

/* Check that none of the packs was marked for deletion while others were copied. */
static int check_packs(const struct env_copying *c, struct error *err)
{
	AUTO_FINI(env_digests) now = { .n = 0 };
	int rc = c->n_shared ? env_doomed_list(c->to, &now, err) : 0;

	for (size_t i = 0; rc == 0 && i < c->n_shared; i++)
		rc = env_pack_check(c->to, &now, &c->shared[i], err);
	return rc;
}

static int copy_and_publish(struct env_copying *c, struct error *err)
{
	const struct object_put_options new = { .condition = OBJECT_NEW };
	int rc = object_list(c->from, c->from_folder, true, copy_blob, c, err);

	if (rc == 0 && c->snap->is_shared)
		rc = copy_packs(c, err);
	/* Verify that the copy is complete before it is published. */
	if (rc == 0)
		rc = env_snapshot_verify(c->to, c->snap, err);
	if (rc == 0)
		rc = check_packs(c, err);
	if (rc == 0) {
		rc = env_snapshot_commit(c->to, c->snap, &new, err);
		c->may_be_there = rc < 0 && rc != -EEXIST;
	}
	return rc;
}

static int copy_to_new_folder(struct env_copying *c, struct env_snapshot *snap,
			      struct error *err)
{
	const struct digest *key = &snap->key.digest;
	int rc;

	env_blob_folder(key, snap->folder, c->from_folder);
	rc = env_folder_new(snap->folder, err);
	if (rc < 0)
		return rc;
	env_blob_folder(key, snap->folder, c->to_folder);
	rc = copy_and_publish(c, err);
	/* If the blobs cannot be removed now, env_gc() will do so later. */
	if (rc < 0 && !c->may_be_there)
		(void)!env_blobs_remove(c->to, key, snap->folder, NULL);
	return rc;
}

int env_snapshot_copy(struct object_store *from, struct object_store *to,
		      const struct digest *key, struct error *err)
{
	AUTO_FREE char *piece = malloc(COPY_BYTES);
	struct env_snapshot snap;
	struct env_copying c = {
		.from = from, .to = to, .piece = piece, .snap = &snap
	};
	char name[ENV_NAME_ROOM];
	struct object_stat st;
	int rc = piece ? 0 : error_nomem(err);

	env_object_name(ENV_INDEX_FOLDER, key, name);
	if (rc == 0 && object_stat(to, name, &st, NULL) == 0)
		rc = error_set(err, EEXIST, "%s has that snapshot",
			       object_store_url(to));
	if (rc == 0)
		rc = env_snapshot_get(from, key, &snap, err);
	if (rc < 0)
		return rc;
	rc = copy_to_new_folder(&c, &snap, err);
	env_digests_fini(&c.doomed);
	free(c.shared);
	env_snapshot_fini(&snap);
	return rc;
}
