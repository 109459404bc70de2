// SPDX-License-Identifier: Apache-2.0
/* Names of files and of their manifests in a store. */
#ifndef BOOTSEER_CKPT_FUSE_NAMES_H
#define BOOTSEER_CKPT_FUSE_NAMES_H

#include "ckpt-fuse/manifest.h"

struct manifest_name {
	char s[OBJECT_NAME_MAX + 1];
};

/* The name of the manifest that a file of this path has; -EINVAL says why none can. */
int manifest_name(const char *path, struct manifest_name *ret,
		  struct error *err) MUST_CHECK;
/* Is it one, and how long is the path of its file? */
bool manifest_is_name(const char *name, size_t *ret_len);

/* Read and check a manifest; -ENOENT: the file is none, or plain. */
int manifest_load(struct object_store *s, const char *name,
		  struct manifest **ret, struct error *err) MUST_CHECK;
/* The file that is there now: its manifest, or the plain object, and the tag of that in
 * `*v`, which is that of a damaged manifest, too.  `head` as object_get_first() has it.
 * -ENOENT, -EISDIR */
int names_open(struct object_store *s, const char *path, size_t head,
	       struct manifest **ret, struct object **ret_plain,
	       struct ckpt_version *v, struct error *err) MUST_CHECK;
/* The manifest and its tag, of one moment; -ENOENT: there is none. */
int manifest_load_tag(struct object_store *s, const char *name,
		      struct manifest **ret, char ret_tag[OBJECT_TAG_MAX],
		      struct error *err) MUST_CHECK;
/* The generation by the manifest's first bytes; 0: none is there, or it is damaged. */
int manifest_load_generation(struct object_store *s, const char *name,
			     uint64_t *ret, struct error *err) MUST_CHECK;

/* `tag` is a version's, or has as many bytes. */
void version_set_tag(char tag[OBJECT_TAG_MAX], const char *from);
/* "": there is none of this name. */
int version_tag_now(struct object_store *s, const char *name,
		    char ret[OBJECT_TAG_MAX], struct error *err) MUST_CHECK;
/* See the plain object that a manifest hides, which only writers want to know. */
int version_see_hidden(struct object_store *s, const char *path,
		       struct ckpt_version *v, struct error *err) MUST_CHECK;
/* Which manifest it is; its tag is set by the caller. */
void version_set_manifest(struct ckpt_version *v, const struct manifest *m);
void manifest_stat(const struct manifest *m, struct ckpt_stat *ret);
void plain_stat(const struct object_stat *o, struct ckpt_stat *ret);

/* The manifest of an opened file, borrowed; NULL: it is plain. */
const struct manifest *ckpt_file_manifest(const struct ckpt_file *f);

/* Open the file of a manifest that nobody has put; takes it, also on failure. */
int ckpt_open_manifest(struct object_store *s, const char *path,
		       struct manifest *m, struct ckpt_file **ret,
		       struct error *err) MUST_CHECK;

/* Marks a folder that has nothing else in it. */
#define FOLDER_MARK ".bootseer-folder"
struct mark_name {
	char s[OBJECT_NAME_MAX + 1];
};
/* The name of a folder's mark; "" is the root. */
int mark_name(const char *folder, struct mark_name *ret,
	      struct error *err) MUST_CHECK;
/* Is the last part of the name that? */
bool name_is_mark(const char *name);

/* For an -ENOENT: -EISDIR where `path` is a folder. */
int names_missing(struct object_store *s, const char *path,
		  struct error *err) MUST_CHECK;

/* Remove what may not be there. */
int name_remove(struct object_store *s, const char *name,
		struct error *err) MUST_CHECK;

/* Names that were listed. */
struct name_list {
	char **all;
	size_t n, cap;
};

/* `len` bytes of it. */
int name_list_add(struct name_list *l, const char *name, size_t len,
		  struct error *err) MUST_CHECK;
void name_list_fini(struct name_list *l);

#endif
