// SPDX-License-Identifier: Apache-2.0
/*
 * Usage of ROOT beside the blocks of the cache, which gives way to it: all of
 * ROOT together keeps to --cache-quota and --cache-min-free.
 */
#ifndef BOOTSEER_NODE_DISK_H
#define BOOTSEER_NODE_DISK_H

#include <stdint.h>

#include "common/error.h"
#include "snapshotter/node/config.h"

struct cache;
struct disk;
struct gc;

/* Bytes on the disk, by what they are of. */
struct disk_usage {
	uint64_t images; /* their metadata, block maps, states */
	uint64_t stages; /* images that are being fetched, or go */
	uint64_t traces; /* recordings, kept or to be sent */
	uint64_t peers;  /* blocks kept to be passed on */
	uint64_t index;  /* of the cache */
	uint64_t mounts; /* files of complete mounts */
	uint64_t
		environments; /* what may be written into those that are mounted */
	uint64_t other;
};

/* Measure what is below `root` now. Unreadable files, mounts and folders more
 * than 32 deep count as nothing. Waits for no server of a file system. */
void disk_look(const char *root, struct disk_usage *ret);
/* Without files of complete mounts, which the cache counts itself, as they come. */
uint64_t disk_sum(const struct disk_usage *u);

/* Decide what --cache-min-free is: once, when ROOT is there. */
int disk_choose_min_free(const struct node_config *cfg, unsigned int *ret,
			 struct error *err) MUST_CHECK;

/* The parts of the node that the account of the disk needs; all is borrowed. */
struct disk_of {
	const struct node_config *cfg;
	unsigned int min_free; /* percent, disk_choose_min_free() */
	struct cache *cache;
	const struct gc *gc;
};
/* Looks at ROOT, and has the cache keep to what is left. */
int disk_open(const struct disk_of *of, struct disk **ret,
	      struct error *err) MUST_CHECK;
void disk_close(struct disk *d); /* NULL is allowed */

/* Look again.  Any thread, as all below. */
void disk_refresh(struct disk *d);
void disk_get(struct disk *d, struct disk_usage *ret);

/* Blocks that no mount needs go until --cache-min-free of the disk is free, whoever took
 * it, and --cache-quota is kept to. */
void disk_give_way(struct disk *d);

/*
 * Set `bytes` aside for files that are about to be written.  Unused images go for it,
 * least recently used first, then blocks of the cache that no mount needs.  -ENOSPC:
 * what is in use leaves no room.
 */
int disk_reserve(struct disk *d, uint64_t bytes, struct error *err) MUST_CHECK;
/* They are written (`path` is the folder that has them), or will not be (NULL). */
void disk_settle(struct disk *d, uint64_t bytes, const char *path);

/* Set `bytes` aside for what is written into one environment.  All environments together
 * take half of --cache-quota at most, so that images have the other half: else -EDQUOT. */
int disk_reserve_environment(struct disk *d, uint64_t bytes,
			     struct error *err) MUST_CHECK;
/* The file that takes it is there, or will not be. */
void disk_settle_environment(struct disk *d, uint64_t bytes);

#endif
