// SPDX-License-Identifier: Apache-2.0
/* Internal functions that stage.c, which writes the log, and stage_undo.c, which reads
 * it, share. */
#ifndef BOOTSEER_ENVCACHE_STAGE_PRIV_H
#define BOOTSEER_ENVCACHE_STAGE_PRIV_H

#include "envcache/stage.h"

#define OLD_NAME 16 /* bytes of a name in `old`, with its NUL */

/* Identity of a file by the time when it was made, which no rename changes: numbers of
 * inodes are given again, and on some overlays change. */
struct stage_identity {
	int64_t sec; /* 0 and 0: the file system does not tell */
	uint32_t nsec;
	uint64_t ino;
};

/* Get the identity of `name` in `dir`; or -errno. */
int stage_identify(int dir, const char *name, struct stage_identity *ret);

/* A descriptor of the folder itself, and no link's; -1 with errno. */
int stage_open_folder(int in, const char *name);
/* Close it, if it is open. */
void stage_close_one(int *fd);

#endif
