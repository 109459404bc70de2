// SPDX-License-Identifier: Apache-2.0
/* Room on the disk of --root for rooms below control, which has the account (control/disk.h). */
#ifndef BOOTSEER_NODE_DISK_ROOM_H
#define BOOTSEER_NODE_DISK_ROOM_H

#include <stdint.h>

#include "common/error.h"

struct disk;

/* Bytes are set aside before they are written; settled once they are, or are not wanted. */
struct disk_room {
	struct disk *disk;
	int (*reserve)(struct disk *d, uint64_t bytes, struct error *err);
	void (*settle)(struct disk *d, uint64_t bytes, const char *path);
};

#endif
