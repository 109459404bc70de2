// SPDX-License-Identifier: Apache-2.0
/* A layer that is unpacked entry by entry; as root, as bootseerd runs. */
#ifndef BOOTSEER_TESTS_LAYER_FIXTURE_H
#define BOOTSEER_TESTS_LAYER_FIXTURE_H

#include "snapshotter/node/layers/unpack.h"

extern char layer_base[40]; /* on a disk: overlayfs' xattrs need one */
extern char layer_dir[64];  /* below it: where the layer is unpacked to */
extern struct unpack *layer_unpack;

void layer_setup(void);
void layer_teardown(void);

/* The next entry; the result of the first of the unpacking's calls that fails. */
int layer_add(const struct layer_entry *e, const char *content,
	      struct error *err);
int layer_add_kind(const char *path, uint32_t mode, const char *link,
		   bool hard);
int layer_add_file(const char *path, const char *content);
int layer_add_folder(const char *path);

/* What was made of it; a path is good until the next call. */
char *layer_path(const char *path);
bool layer_has(const char *path);
bool layer_is_whiteout(const char *path);
bool layer_is_opaque(const char *path);
ssize_t layer_xattr(const char *path, const char *name);

#endif
