// SPDX-License-Identifier: Apache-2.0
/*
 * System calls on names below the store's directory: each returns what the call of its name does,
 * -1 and errno on failure. Symbolic links are not followed in any part of a name (ELOOP): a user
 * who may write to one of the folders could otherwise lead another user of the store, maybe root,
 * to other files.
 */
#ifndef BOOTSEER_OBJECTS_FILE_PATH_H
#define BOOTSEER_OBJECTS_FILE_PATH_H

#include <sys/types.h>

#include "objects/file/file_store_priv.h"

int file_path_open(const struct file_store *f, const char *name, int flags,
		   mode_t mode);
/* "." is the directory itself. */
int file_path_open_folder(const struct file_store *f, const char *folder);
/* stat(2) of the name; of a symbolic link itself, not of its target. */
int file_path_stat(const struct file_store *f, const char *name,
		   struct stat *ret);
/* Open a folder without permission to read it. */
int file_path_enter(const struct file_store *f, const char *folder);
int file_path_mkdir(const struct file_store *f, const char *name, mode_t mode);
/* AT_REMOVEDIR, or 0. */
int file_path_unlink(const struct file_store *f, const char *name, int flags);
/* `flags`: as renameat2(2) has them. */
int file_path_rename(const struct file_store *f, const char *from,
		     const char *to, unsigned int flags);
int file_path_link(const struct file_store *f, const char *from,
		   const char *to);

#endif
