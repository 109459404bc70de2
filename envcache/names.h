// SPDX-License-Identifier: Apache-2.0
/* Where things lie in the store: docs/formats/environment.md. */
#ifndef BOOTSEER_ENVCACHE_NAMES_H
#define BOOTSEER_ENVCACHE_NAMES_H

#include "common/buf.h"
#include "envcache/envcache.h"

#define ENV_NAME_ROOM 160

#define ENV_FOLDER "env" /* all of it */
/* "env/KIND/HEX": the one object of a key. */
#define ENV_INDEX_FOLDER "env/index"
#define ENV_LEASE_FOLDER "env/lease"
#define ENV_FAILED_FOLDER "env/failed"
#define ENV_PIN_FOLDER "env/pin"
#define ENV_BAD_FOLDER "env/bad"
#define ENV_USED_FOLDER "env/used"
#define ENV_NEAR_FOLDER "env/near" /* of keys without a base */
#define ENV_MADE_FOLDER "env/made" /* of keys without base and inputs */
#define ENV_DATA_FOLDER "env/data"
/* Folders of packs, not of keys: those that snapshots share, and which of them are to go. */
#define ENV_PACKS_FOLDER "env/packs"
#define ENV_DOOMED_FOLDER "env/doomed"
void env_object_name(const char *folder, const struct digest *key,
		     char ret[ENV_NAME_ROOM]);
/* The key, or the digest of a pack, in such a name; false: it is none. */
bool env_name_digest(const char *name, struct digest *ret);
/* The folder of a snapshot's blobs; without `folder` that of all of the key. */
void env_blob_folder(const struct digest *key, const char *folder,
		     char ret[ENV_NAME_ROOM]);

/* The key that `name`, an object of ENV_NEAR_FOLDER, says. */
int env_near_read(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err) MUST_CHECK;

/* An object of ENV_MADE_FOLDER: of which snapshot's key it is; names follow in the text. */
int env_made_read(struct object_store *s, const char *name, struct buf *text,
		  struct digest *ret, struct error *err) MUST_CHECK;

/* The name of a folder that nobody has yet. */
int env_folder_new(char ret[ENV_FOLDER_ROOM], struct error *err) MUST_CHECK;

/* Make the snapshot appear in the store's own index.  With OBJECT_NEW -EEXIST: there is
 * one. */
int env_snapshot_commit(struct object_store *s, const struct env_snapshot *snap,
			const struct object_put_options *opts,
			struct error *err) MUST_CHECK;
/* The commit with OBJECT_NEW failed with `rc`, maybe only its answer was lost: whose index
 * is there?  0: that of `snap`; -EEXIST: for certain another's; else nobody knows whether
 * that of `snap` appears, and its blobs have to stay. */
int env_snapshot_settle(struct object_store *s, const struct env_snapshot *snap,
			int rc, struct error *err) MUST_CHECK;
/* All of an object with the text of an index; the text is the caller's. */
int env_index_text(struct object_store *s, const char *name, char **ret,
		   struct object_stat *ret_stat, struct error *err) MUST_CHECK;
/* -EINVAL: these are no first digits of a key; else they are in *ret, borrowed. */
int env_key_digits(const char *text, const char **ret,
		   struct error *err) MUST_CHECK;
/* Read only the mark that it is bad, which is one request and not three. */
int env_marks_get_bad(struct object_store *s, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err) MUST_CHECK;
/* -EBADMSG: it is marked bad, and the message says by whom. */
int env_marks_check_bad(const struct env_marks *m,
			struct error *err) MUST_CHECK;
/* -EBUSY: there is a snapshot of the key in the store, and it is pinned there. */
int env_snapshot_check_unpinned(struct object_store *s,
				const struct digest *key,
				struct error *err) MUST_CHECK;
/* For whoever would remove it: that it is pinned, and what undoes that; -EBUSY. */
int env_pinned_error(const struct digest *key, struct error *err);
/* Remove all that is noted of a key. */
int env_notes_remove(struct object_store *s, const struct digest *key,
		     struct error *err) MUST_CHECK;
/* Remove blobs, as far as it goes. */
int env_blobs_remove(struct object_store *s, const struct digest *key,
		     const char *folder, struct error *err) MUST_CHECK;

#endif
