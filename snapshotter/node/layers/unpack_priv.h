// SPDX-License-Identifier: Apache-2.0
/* Parts that the files unpack*.c share. */
#ifndef BOOTSEER_NODE_UNPACK_PRIV_H
#define BOOTSEER_NODE_UNPACK_PRIV_H

#include <sys/stat.h>
#include <time.h>

#include "common/buf.h"
#include "common/pace.h"
#include "snapshotter/node/layers/unpack.h"

#define OPAQUE_XATTR "trusted.overlay.opaque"
#define OVERLAY_PREFIX \
	"trusted.overlay." /* xattrs of overlayfs itself, never of a layer */

/* The folder of an entry, and the entry's name in it. */
struct unpack_place {
	char *name;       /* of the entry, cleaned */
	const char *base; /* its last part, in `name` */
	struct buf path;  /* of the folder, below the root, without symlinks */
	int folder;
};
#define PLACE_INIT \
	{ \
		.path = BUF_INIT, .folder = -1 \
	}

/* The lower layers' view of one folder of the layer. */
struct layer_view {
	struct buf path; /* of that folder, without symlinks */
	int upper;       /* the folder in the layer itself; -1 if `n` is 0 */
	/* the folder in each lower layer, from the top down; at the root unused: unpack.lower
	 * has them */
	int *folders;
	size_t n;
	bool is_valid;
};

struct unpack {
	struct tar_visitor visitor;
	int root;
	struct pace *pace;
	uint64_t steps, steps_max;
	bool knows_lower, keeps_root;
	int *lower; /* folders of the layers below, from the top down */
	size_t n_lower;
	/* the folder that was last looked at */
	struct layer_view view;
	/* place of the last entry; folder -1: none */
	struct unpack_place last;
	bool has_whiteouts; /* at least one whiteout was made */
	bool has_moved;     /* this entry removed something */
	/* the file that is being written; -1: none */
	int file;
	const struct layer_entry *entry; /* entry of `file` */
};

/* ---- unpack.c ---- */

/* Count steps.  -ECANCELED: the caller stops the work; -E2BIG: too many steps. */
int unpack_spend(struct unpack *u, uint64_t steps,
		 struct error *err) MUST_CHECK;

/* ---- unpack_path.c ---- */

/* Find the place of the entry `name`.  Missing folders on the path are made for the entry
 * `implied_by` (NULL: they must exist).  -EISDIR: `name` is the root. */
int place_open(struct unpack *u, const char *name,
	       const struct layer_entry *implied_by, struct unpack_place *ret,
	       struct error *err) MUST_CHECK;
void place_fini(struct unpack_place *p);
#define AUTO_PLACE __attribute__((cleanup(place_fini))) struct unpack_place

/* Something that a path may lead through was removed: forget the last entry's place and the
 * view of the lower layers. */
void unpack_forget(struct unpack *u);

/* ---- unpack_attributes.c ---- */

bool unpack_is_whiteout(const struct stat *st);
int unpack_set_opaque(struct unpack *u, int folder,
		      struct error *err) MUST_CHECK;
int unpack_is_opaque(int folder, bool *ret, struct error *err) MUST_CHECK;

/* Give the file of `fd` (O_PATH will do) the owner, mode, xattrs and time of the header.  Other
 * xattrs are removed, unless the header is a hard link's. */
int unpack_set_attributes(int fd, const struct layer_entry *e,
			  struct error *err) MUST_CHECK;

/* A folder keeps the time of its entry although files are added to it: its time is read before,
 * and set again after. */
int unpack_get_time(int folder, struct timespec *ret,
		    struct error *err) MUST_CHECK;
int unpack_set_time(int folder, const struct timespec *mtime,
		    struct error *err) MUST_CHECK;

/* ---- unpack_whiteouts.c ---- */

/* Remove all whiteouts below the folder, however many and deep; folders keep their times. */
int unpack_drop_whiteouts(struct unpack *u, int folder,
			  struct error *err) MUST_CHECK;

/* Give the new folder `fd`, at `path`, what the layers below show there: owner, mode, xattrs
 * and time.  0 also if they show no folder there. */
int unpack_copy_lower(struct unpack *u, const char *path, int fd,
		      struct error *err) MUST_CHECK;

/* Do the layers below show `name` in the folder at `path`? */
int unpack_is_shown(struct unpack *u, const char *path, const char *name,
		    bool *ret, struct error *err) MUST_CHECK;

void layer_view_fini(struct layer_view *v);

#endif
