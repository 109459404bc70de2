// SPDX-License-Identifier: Apache-2.0
/* A snapshot from one store to another: its blobs, each compared with its digest, then
 * its index. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "envcache/names.h"

#define COPY_BYTES (4 * MIB)

struct env_copying {
	struct object_store *from, *to;
	char *piece; /* COPY_BYTES */
};

/* All bytes of the object, hashed on the way. */
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
		     const char *name, struct error *err)
{
	uint64_t size = object_opened_stat(o)->size;
	const struct object_put_options opts = { .size = size ? size : 1 };
	AUTO(object_put) put = NULL;
	char text[DIGEST_STR_MAX];
	struct digest d;
	int rc = object_put_open(c->to, name, &opts, &put, err);

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

static int copy_blob(void *arg, const struct object_entry *e, struct error *err)
{
	const struct env_copying *c = arg;
	struct object *o;
	int rc = object_open(c->from, e->name, &o, err);

	if (rc < 0)
		return rc;
	rc = copy_open(c, o, e->name, err);
	object_close(o);
	return rc;
}

int env_snapshot_copy(struct object_store *from, struct object_store *to,
		      const struct digest *key, struct error *err)
{
	AUTO_FREE char *piece = malloc(COPY_BYTES);
	struct env_copying c = { .from = from, .to = to, .piece = piece };
	char folder[ENV_NAME_ROOM], name[ENV_NAME_ROOM];
	struct env_snapshot snap;
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
	env_blob_folder(key, snap.folder, folder);
	rc = object_list(from, folder, true, copy_blob, &c, err);
	/* Is it all that the snapshot needs?  Nothing appears before that is known. */
	if (rc == 0)
		rc = env_snapshot_verify(to, &snap, err);
	if (rc == 0)
		rc = env_snapshot_commit(to, &snap, OBJECT_NEW, err);
	if (rc < 0)
		(void)!env_blobs_remove(to, key, snap.folder, NULL);
	env_snapshot_fini(&snap);
	return rc;
}
