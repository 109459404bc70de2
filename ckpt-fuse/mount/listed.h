// SPDX-License-Identifier: Apache-2.0
/*
 * Names that lists of folders told, for as long as the kernel may keep a name: so that
 * `ls -l`, which lists a folder and then looks each name up, does not ask the store again
 * for each. That a name is not there is not kept: an open is to see what is in the store
 * at that moment. Bounded; any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_LISTED_H
#define BOOTSEER_CKPT_FUSE_MOUNT_LISTED_H

#include "ckpt-fuse/ckpt.h"
#include "common/clock.h"

/* Changes of other nodes are seen after this; an open looks at once. */
#define LISTED_VALID_NS NS_PER_S
/* Names of a folder that is listed though nobody asked for a list: more are more work
 * than to ask for each. */
#define LISTED_SHORT 2000u
/* Striped files that are asked for at once. */
#define LISTED_STRIPED_MOST 256u

struct listed;
struct listed_list; /* a list under way */

struct listed_name {
	bool is_folder, is_striped;
	bool has_stat; /* always of a plain file; of a striped one: listed_tell() */
	struct ckpt_stat stat;
	int64_t asked_ns; /* the store was, no earlier */
};

/* A striped file whose attributes are worth asking for. */
struct listed_striped {
	char *name;       /* the caller frees it */
	int64_t asked_ns; /* the store was for the list */
};

int listed_new(struct listed **ret, struct error *err) MUST_CHECK;
void listed_free(struct listed *t); /* with no list under way */

/* A list of the folder begins.  NULL: no memory, and nothing will be kept, which the
 * functions below bear. */
struct listed_list *listed_begin(struct listed *t,
				 const char *folder) MUST_CHECK;
/* In the order of ckpt_list(). */
void listed_add(struct listed_list *l, const struct ckpt_entry *e);
/* End the list with what it returned; `l` is freed. What it told is kept, unless
 * something was changed meanwhile. */
void listed_end(struct listed *t, struct listed_list *l, int rc,
		int64_t now_ns);

/* Was the name in a list that is young enough? */
bool listed_find(struct listed *t, const char *folder, const char *name,
		 int64_t now_ns, struct listed_name *ret) MUST_CHECK;
/* A striped file was looked up that a list showed without attributes: how many of those
 * from it on, in the order of names, are worth asking for at once.  1, it alone, for the
 * first, then more and more, so that no more than twice as many are asked for as are
 * wanted. */
size_t listed_n_striped(struct listed *t, const char *folder) MUST_CHECK;
/* Striped files of the list from the name on, `most` at most; returns how many they are. */
size_t listed_striped(struct listed *t, const char *folder, const char *from,
		      int64_t now_ns, struct listed_striped *ret,
		      size_t most) MUST_CHECK;
/* Note what the store said of a file, which was asked at `asked_ns`. It is kept if the
 * list that showed the file is still believed. */
void listed_tell(struct listed *t, const char *folder,
		 const struct listed_striped *file, const struct ckpt_stat *st,
		 int64_t asked_ns);
/* Did a young list of `folder` show anything in it?  Then it is a folder. */
bool listed_has_folder(struct listed *t, const char *folder, int64_t now_ns,
		       int64_t *ret_asked_ns) MUST_CHECK;
/* The store was asked for a name, which is there. */
void listed_count(struct listed *t, const char *folder, int64_t now_ns);
/* The store has to be asked for a name in `folder`.  True: that happened so often lately that a
 * list of the folder is less work.  The caller then makes one of LISTED_SHORT names at most, and
 * calls listed_end() with -E2BIG if there are more. */
bool listed_is_wanted(struct listed *t, const char *folder,
		      int64_t now_ns) MUST_CHECK;

/* This mount has changed what `path` is, just now: the folder that it is in, and itself
 * if it is one, are listed anew. */
void listed_change(struct listed *t, const char *path);
void listed_change_all(struct listed *t);

#endif
