// SPDX-License-Identifier: Apache-2.0
/* Reservations on ROOT's disk for code that must not depend on control/disk.h, which accounts
 * for them. */
#ifndef BOOTSEER_NODE_DISK_ROOM_H
#define BOOTSEER_NODE_DISK_ROOM_H

#include <stdint.h>

#include "common/error.h"

struct disk;

/* Reserve bytes before they are written; settle them when they are written or not wanted any
 * more. */
struct disk_room {
	struct disk *disk;
	int (*reserve)(struct disk *d, uint64_t bytes, struct error *err);
	void (*settle)(struct disk *d, uint64_t bytes, const char *path);
};

#endif
