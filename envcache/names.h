// SPDX-License-Identifier: Apache-2.0
/* Names of objects in the store: docs/formats/environment.md. */
#ifndef BOOTSEER_ENVCACHE_NAMES_H
#define BOOTSEER_ENVCACHE_NAMES_H

#include "common/buf.h"
#include "envcache/envcache.h"

#define ENV_NAME_ROOM 160

#define ENV_FOLDER "env" /* all objects are below it */
/* "env/KIND/HEX": a single object for each key. */
#define ENV_INDEX_FOLDER "env/index"
#define ENV_LEASE_FOLDER "env/lease"
#define ENV_FAILED_FOLDER "env/failed"
#define ENV_PIN_FOLDER "env/pin"
#define ENV_BAD_FOLDER "env/bad"
#define ENV_USED_FOLDER "env/used"
#define ENV_NEAR_FOLDER "env/near" /* by keys without a base */
#define ENV_MADE_FOLDER "env/made" /* by keys without base and inputs */
#define ENV_DATA_FOLDER "env/data"
/* Folders with objects by pack: the shared packs, and marks of those to be deleted. */
#define ENV_PACKS_FOLDER "env/packs"
#define ENV_DOOMED_FOLDER "env/doomed"
void env_object_name(const char *folder, const struct digest *key,
		     char ret[ENV_NAME_ROOM]);
/* Get the digest (of a key or pack) in an object's name; false: there is none. */
bool env_name_digest(const char *name, struct digest *ret);
/* The folder of a snapshot's blobs; with `folder` NULL, the parent of all such folders of the
 * key. */
void env_blob_folder(const struct digest *key, const char *folder,
		     char ret[ENV_NAME_ROOM]);

/* Read the key that an object of ENV_NEAR_FOLDER contains. */
int env_near_read(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err) MUST_CHECK;

/* Read an object of ENV_MADE_FOLDER: *ret is the key of the snapshot that it belongs to; the file
 * names follow in `text`. */
int env_made_read(struct object_store *s, const char *name, struct buf *text,
		  struct digest *ret, struct error *err) MUST_CHECK;

/* Make a new unique folder name. */
int env_folder_new(char ret[ENV_FOLDER_ROOM], struct error *err) MUST_CHECK;

/* Publish the snapshot in the store's own index.  With OBJECT_NEW, -EEXIST: the key has one. */
int env_snapshot_commit(struct object_store *s, const struct env_snapshot *snap,
			const struct object_put_options *opts,
			struct error *err) MUST_CHECK;
/* Called after a commit with OBJECT_NEW failed with `rc`, as only its reply may have been lost. 0:
 * the index is that of `snap`; -EEXIST: certainly another's; other errors: unknown, so the blobs
 * of `snap` have to stay. */
int env_snapshot_settle(struct object_store *s, const struct env_snapshot *snap,
			int rc, struct error *err) MUST_CHECK;
/* Read an object with the text of an index; the caller owns the text. */
int env_index_text(struct object_store *s, const char *name, char **ret,
		   struct object_stat *ret_stat, struct error *err) MUST_CHECK;
/* Check the first digits of a key. *ret (borrowed) is set to them; -EINVAL: malformed. */
int env_key_digits(const char *text, const char **ret,
		   struct error *err) MUST_CHECK;
/* Read only the mark of a bad snapshot, which takes one request, not three. */
int env_marks_get_bad(struct object_store *s, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err) MUST_CHECK;
/* -EBADMSG: it is marked bad; the message says by which host. */
int env_marks_check_bad(const struct env_marks *m,
			struct error *err) MUST_CHECK;
/* -EBUSY: the store has a snapshot of this key, which is pinned there. */
int env_snapshot_check_unpinned(struct object_store *s,
				const struct digest *key,
				struct error *err) MUST_CHECK;
/* Set the error of removing a pinned snapshot, with the cure; returns -EBUSY. */
int env_pinned_error(const struct digest *key, struct error *err);
/* Remove all marks and notes of a key. */
int env_notes_remove(struct object_store *s, const struct digest *key,
		     struct error *err) MUST_CHECK;
/* Remove blobs; goes on after failures. */
int env_blobs_remove(struct object_store *s, const struct digest *key,
		     const char *folder, struct error *err) MUST_CHECK;

#endif
