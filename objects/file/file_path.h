// SPDX-License-Identifier: Apache-2.0
/*
 * Names below the store's directory, as the calls of the same names take them: -1 and
 * errno.  No symbolic link is followed, in whatever part of a name: whoever may write
 * into the directory, or into a folder of it, would lead whoever uses the store, who may
 * be root, to files elsewhere.  ELOOP: there is one.
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
/* The same, not for reading. */
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
