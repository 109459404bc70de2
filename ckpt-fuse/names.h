// SPDX-License-Identifier: Apache-2.0
/* Names of files and of their manifests in a store. */
#ifndef BOOTSEER_CKPT_FUSE_NAMES_H
#define BOOTSEER_CKPT_FUSE_NAMES_H

#include "ckpt-fuse/manifest.h"

struct manifest_name {
	char s[OBJECT_NAME_MAX + 1];
};

/* Make the manifest's name for a file's path. -EINVAL: the message says why the path is not
 * valid. */
int manifest_name(const char *path, struct manifest_name *ret,
		  struct error *err) MUST_CHECK;
/* Is it a manifest's name? *ret_len is the length of its file's path. */
bool manifest_is_name(const char *name, size_t *ret_len);

/* Read and check a manifest; -ENOENT: no file, or a plain one. */
int manifest_load(struct object_store *s, const char *name,
		  struct manifest **ret, struct error *err) MUST_CHECK;
/* Open the current version of a file: its manifest or the plain object. `*v` gets the tag, also of
 * a damaged manifest. `head`: see object_get_first(). -ENOENT, -EISDIR */
int names_open(struct object_store *s, const char *path, size_t head,
	       struct manifest **ret, struct object **ret_plain,
	       struct ckpt_version *v, struct error *err) MUST_CHECK;
/* Read a manifest and its tag consistently; -ENOENT: there is none. */
int manifest_load_tag(struct object_store *s, const char *name,
		      struct manifest **ret, char ret_tag[OBJECT_TAG_MAX],
		      struct error *err) MUST_CHECK;
/* Read the generation from the manifest's first bytes; 0: there is no manifest, or it is
 * damaged. */
int manifest_load_generation(struct object_store *s, const char *name,
			     uint64_t *ret, struct error *err) MUST_CHECK;

/* Copy a tag to `tag`, which has OBJECT_TAG_MAX bytes. */
void version_set_tag(char tag[OBJECT_TAG_MAX], const char *from);
/* Get the current tag of an object; "": there is no such object. */
int version_tag_now(struct object_store *s, const char *name,
		    char ret[OBJECT_TAG_MAX], struct error *err) MUST_CHECK;
/* Add to the version the plain object that a manifest hides; only writers need it. */
int version_see_hidden(struct object_store *s, const char *path,
		       struct ckpt_version *v, struct error *err) MUST_CHECK;
/* Set the version's attributes from a manifest; the caller sets the tag. */
void version_set_manifest(struct ckpt_version *v, const struct manifest *m);
void manifest_stat(const struct manifest *m, struct ckpt_stat *ret);
void plain_stat(const struct object_stat *o, struct ckpt_stat *ret);

/* The manifest of an open file, borrowed; NULL: a plain file. */
const struct manifest *ckpt_file_manifest(const struct ckpt_file *f);

/* Open a file by a manifest that is not in the store; takes the manifest, also on failure. */
int ckpt_open_manifest(struct object_store *s, const char *path,
		       struct manifest *m, struct ckpt_file **ret,
		       struct error *err) MUST_CHECK;

/* Name of the object that marks an otherwise empty folder. */
#define FOLDER_MARK ".bootseer-folder"
struct mark_name {
	char s[OBJECT_NAME_MAX + 1];
};
/* Make the name of a folder's marker; "": the root. */
int mark_name(const char *folder, struct mark_name *ret,
	      struct error *err) MUST_CHECK;
/* Is the last part of the name FOLDER_MARK? */
bool name_is_mark(const char *name);

/* The error for a missing file: -EISDIR if `path` is a folder, else -ENOENT. */
int names_missing(struct object_store *s, const char *path,
		  struct error *err) MUST_CHECK;

/* Remove an object; succeeds also if it does not exist. */
int name_remove(struct object_store *s, const char *name,
		struct error *err) MUST_CHECK;

/* A list of names. */
struct name_list {
	char **all;
	size_t n, cap;
};

/* Add the first `len` bytes of `name`. */
int name_list_add(struct name_list *l, const char *name, size_t len,
		  struct error *err) MUST_CHECK;
void name_list_fini(struct name_list *l);

#endif
