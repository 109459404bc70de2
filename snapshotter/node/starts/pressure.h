// SPDX-License-Identifier: Apache-2.0
/* When the node is too short of disk or memory for bulk transfers. */
#ifndef BOOTSEER_NODE_PRESSURE_H
#define BOOTSEER_NODE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "blockstore/blockstore.h"

/* Facts that decide about pressure, in bytes. Unknown ones are 0, and no
 * pressure. */
struct pressure_facts {
	uint64_t disk_free;    /* of the cache's disk */
	uint64_t disk_reserve; /* --cache-min-free of it */
	uint64_t quota, cached, pinned;
	uint64_t memory, memory_available;
	/* Share of the last 10 s in which all tasks waited for memory, in
	 * hundredths of a percent (/proc/pressure/memory, "full"). */
	unsigned int memory_stall;
};

/* Bulk waits while there is less room than this in the cache, */
#define PRESSURE_ROOM_MIN (UINT64_C(16) << 20)
#define PRESSURE_ROOM_SHARE 20 /* or than a 20th of it, */
/* less than a 30th of the memory is available, or so much of the time is lost
 * to waiting for memory: */
#define PRESSURE_MEMORY_SHARE 30
#define PRESSURE_STALL_MAX 1000 /* 10 % */

/* Bytes that the cache may have in all as the disk is now; pure. */
uint64_t pressure_limit(const struct pressure_facts *f);
/* Those that are not pinned; pure. */
uint64_t pressure_room(const struct pressure_facts *f);
/* Why bulk must wait; pure. */
bool pressure_judge(const struct pressure_facts *f, struct error *why);

/* Parts of /proc; what is not there leaves `f` alone.  Pure. */
void pressure_parse_meminfo(const char *text, struct pressure_facts *f);
void pressure_parse_stall(const char *text, struct pressure_facts *f);

/* `root` is on the cache's disk; `min_free` is the percentage of --cache-min-free. */
void pressure_gather(const char *root, uint64_t min_free, struct cache *c,
		     struct pressure_facts *ret);

#endif
