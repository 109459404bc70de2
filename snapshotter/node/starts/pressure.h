// SPDX-License-Identifier: Apache-2.0
/* When the node is too short of disk or memory for bulk transfers. */
#ifndef BOOTSEER_NODE_PRESSURE_H
#define BOOTSEER_NODE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "blockstore/blockstore.h"

/* Facts that decide about pressure, in bytes. A fact that is 0 is not known and causes no
 * pressure. */
struct pressure_facts {
	uint64_t disk_free;    /* free bytes of the cache's disk */
	uint64_t disk_reserve; /* bytes that --cache-min-free keeps free */
	uint64_t quota, cached, pinned;
	uint64_t memory, memory_available;
	/* Share of the last 10 s in which all tasks waited for memory, in
	 * hundredths of a percent (/proc/pressure/memory, "full"). */
	unsigned int memory_stall;
};

/* Bulk transfers wait while the cache has less room than this, ... */
#define PRESSURE_ROOM_MIN (UINT64_C(16) << 20)
#define PRESSURE_ROOM_SHARE 20 /* ... or less than a 20th of its limit, ... */
/* ... while less than a 30th of the memory is available, or while tasks waited for memory for
 * this share of the last 10 s: */
#define PRESSURE_MEMORY_SHARE 30
#define PRESSURE_STALL_MAX 1000 /* 10 % */

/* Bytes that the cache may have in total with the disk as it is now. */
uint64_t pressure_limit(const struct pressure_facts *f);
/* Bytes that the cache may still take or replace: those that are not pinned. */
uint64_t pressure_room(const struct pressure_facts *f);
/* Must bulk transfers wait?  `why` says the reason. */
bool pressure_judge(const struct pressure_facts *f, struct error *why);

/* Read facts from texts of /proc; a fact that is missing there stays as it is. */
void pressure_parse_meminfo(const char *text, struct pressure_facts *f);
void pressure_parse_stall(const char *text, struct pressure_facts *f);

/* `root` is on the cache's disk; `min_free` is the percentage of --cache-min-free. */
void pressure_gather(const char *root, uint64_t min_free, struct cache *c,
		     struct pressure_facts *ret);

#endif
