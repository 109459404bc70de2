// SPDX-License-Identifier: Apache-2.0
/* Fixture: a layer that is unpacked entry by entry, as root, like bootseerd. */
#ifndef BOOTSEER_TESTS_LAYER_FIXTURE_H
#define BOOTSEER_TESTS_LAYER_FIXTURE_H

#include "snapshotter/node/layers/unpack.h"

/* temporary folder on a disk, which overlayfs' xattrs need */
extern char layer_base[40];
/* folder below it into which the layer is unpacked */
extern char layer_dir[64];
extern struct unpack *layer_unpack;

void layer_setup(void);
void layer_teardown(void);

/* Unpack one entry; returns the result of the first call that fails. */
int layer_add(const struct layer_entry *e, const char *content,
	      struct error *err);
int layer_add_kind(const char *path, uint32_t mode, const char *link,
		   bool hard);
int layer_add_file(const char *path, const char *content);
int layer_add_folder(const char *path);

/* Look at the unpacked layer; a returned path is valid until the next call. */
char *layer_path(const char *path);
bool layer_has(const char *path);
bool layer_is_whiteout(const char *path);
bool layer_is_opaque(const char *path);
ssize_t layer_xattr(const char *path, const char *name);

#endif
