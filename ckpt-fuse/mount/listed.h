// SPDX-License-Identifier: Apache-2.0
/*
 * Caches the names that lists of folders returned, for as long as the kernel may cache a name. `ls
 * -l` lists a folder and then looks up each name; the store is then not asked for each. Missing
 * names are not cached, because an open must see the current state of the store. Bounded; any
 * thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_LISTED_H
#define BOOTSEER_CKPT_FUSE_MOUNT_LISTED_H

#include "ckpt-fuse/ckpt.h"
#include "common/clock.h"

/* Changes by other nodes are seen after this time; an open looks at the store. */
#define LISTED_VALID_NS NS_PER_S
/* Most names of a folder that is listed because of many look-ups; a longer list costs more than the
 * look-ups. */
#define LISTED_SHORT 2000u
/* Striped files whose attributes are read together. */
#define LISTED_STRIPED_MOST 256u

struct listed;
struct listed_list; /* a running list */

struct listed_name {
	bool is_folder, is_striped;
	/* always set for a plain file; for a striped one after listed_tell() */
	bool has_stat;
	struct ckpt_stat stat;
	int64_t asked_ns; /* time at or after which the store was asked */
};

/* A striped file whose attributes should be read. */
struct listed_striped {
	char *name;       /* the caller frees it */
	int64_t asked_ns; /* when the store was asked for the list */
};

int listed_new(struct listed **ret, struct error *err) MUST_CHECK;
void listed_free(struct listed *t); /* no list may be running */

/* Begin a list of the folder. NULL: memory is short, and the names are not cached; the functions
 * below accept NULL. */
struct listed_list *listed_begin(struct listed *t,
				 const char *folder) MUST_CHECK;
/* Add an entry, in the order of ckpt_list(). */
void listed_add(struct listed_list *l, const struct ckpt_entry *e);
/* End the list with its result `rc`, and free `l`. The names are cached unless something was
 * changed during the list. */
void listed_end(struct listed *t, struct listed_list *l, int rc,
		int64_t now_ns);

/* Find a name in a list that is young enough. */
bool listed_find(struct listed *t, const char *folder, const char *name,
		 int64_t now_ns, struct listed_name *ret) MUST_CHECK;
/* Called when a striped file is looked up that a list showed without attributes: how many files,
 * from this one on in the order of names, to ask for together. 1 at first, then more and more, so
 * that at most twice as many are read as are needed. */
size_t listed_n_striped(struct listed *t, const char *folder) MUST_CHECK;
/* Get up to `most` striped files of the list, from the name `from` on; returns their number. */
size_t listed_striped(struct listed *t, const char *folder, const char *from,
		      int64_t now_ns, struct listed_striped *ret,
		      size_t most) MUST_CHECK;
/* Store the attributes of a file, read at `asked_ns`, if the list that showed the file is still
 * valid. */
void listed_tell(struct listed *t, const char *folder,
		 const struct listed_striped *file, const struct ckpt_stat *st,
		 int64_t asked_ns);
/* Did a young list show anything in `folder`, so that it is a folder? */
bool listed_has_folder(struct listed *t, const char *folder, int64_t now_ns,
		       int64_t *ret_asked_ns) MUST_CHECK;
/* Count a look-up of a name that exists. */
void listed_count(struct listed *t, const char *folder, int64_t now_ns);
/* Called before the store is asked for a name in `folder`. True: so many look-ups came lately that
 * a list is less work. The caller then makes a list of at most LISTED_SHORT names, and calls
 * listed_end() with -E2BIG if there are more. */
bool listed_is_wanted(struct listed *t, const char *folder,
		      int64_t now_ns) MUST_CHECK;

/* This mount has changed `path`: invalidate the lists of its folder, and of itself if it is one. */
void listed_change(struct listed *t, const char *path);
void listed_change_all(struct listed *t);

#endif
