// SPDX-License-Identifier: Apache-2.0
/*
 * Usage of ROOT beside the blocks of the cache.  The cache gets smaller as this usage grows, so
 * that all of ROOT together keeps to --cache-quota and --cache-min-free.
 */
#ifndef BOOTSEER_NODE_DISK_H
#define BOOTSEER_NODE_DISK_H

#include <stdint.h>

#include "common/error.h"
#include "snapshotter/node/config.h"

struct cache;
struct disk;
struct gc;

/* Bytes on ROOT's disk, by purpose. */
struct disk_usage {
	uint64_t images; /* metadata, block maps and states of images */
	uint64_t stages; /* images that are being fetched or removed */
	uint64_t traces; /* recordings, kept or to be sent */
	uint64_t peers;  /* compressed blocks that are kept for peers */
	uint64_t index;  /* the cache's index */
	uint64_t mounts; /* files of complete mounts */
	/* room of the file systems that take writes into mounted environments */
	uint64_t environments;
	uint64_t other;
};

/* Measure the usage below `root` now. Unreadable files, mounts and folders more than 32 levels
 * deep count as nothing. Never waits for a file server. */
void disk_look(const char *root, struct disk_usage *ret);
/* Sum of the parts without `mounts`: the cache itself counts files of complete mounts as they
 * are made. */
uint64_t disk_sum(const struct disk_usage *u);

/* Find the value of --cache-min-free, which may be "auto": called once, after ROOT was created. */
int disk_choose_min_free(const struct node_config *cfg, unsigned int *ret,
			 struct error *err) MUST_CHECK;

/* The parts of the node that the account of the disk needs; all is borrowed. */
struct disk_of {
	const struct node_config *cfg;
	unsigned int min_free; /* percent, disk_choose_min_free() */
	struct cache *cache;
	const struct gc *gc;
};
/* Measure ROOT, and limit the cache to what is left. */
int disk_open(const struct disk_of *of, struct disk **ret,
	      struct error *err) MUST_CHECK;
void disk_close(struct disk *d); /* NULL is allowed */

/* Measure ROOT again.  Any thread, as all functions below. */
void disk_refresh(struct disk *d);
void disk_get(struct disk *d, struct disk_usage *ret);

/* Evict blocks that no mount needs until --cache-min-free of the disk is free and --cache-quota
 * is kept, no matter whose files filled the disk. */
void disk_give_way(struct disk *d);

/*
 * Set `bytes` aside for files that are about to be written.  Unused images are removed for it,
 * least recently used first, then blocks of the cache that no mount needs.
 * -ENOSPC: the images and blocks in use leave no room.
 */
int disk_reserve(struct disk *d, uint64_t bytes, struct error *err) MUST_CHECK;
/* End a reservation: the files were written into the folder `path`, or (NULL) will not be. */
void disk_settle(struct disk *d, uint64_t bytes, const char *path);

/* Set `bytes` aside for writes into one environment.  All environments together take half of
 * --cache-quota at most, so that images have the other half: else -EDQUOT. */
int disk_reserve_environment(struct disk *d, uint64_t bytes,
			     struct error *err) MUST_CHECK;
/* End the reservation: the environment's file has been written, or will not be. */
void disk_settle_environment(struct disk *d, uint64_t bytes);

#endif
