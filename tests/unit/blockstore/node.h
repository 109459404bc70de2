// SPDX-License-Identifier: Apache-2.0
/* A cache, a fetcher and devices over sources that can be held or spoilt. */
#ifndef BOOTSEER_TESTS_UNIT_BLOCKSTORE_NODE_H
#define BOOTSEER_TESTS_UNIT_BLOCKSTORE_NODE_H

#include <pthread.h>

#include "blockstore/device.h"
#include "tests/fakes/fault_source.h"
#include "tests/unit/blockstore/cache_dir.h"

#define NODE_DEVICES 2
#define NODE_DEVICES_MAX 16
#define NODE_PACKS_MAX 4

struct node {
	struct cache_dir dir;
	struct cache *cache;
	struct fetcher *fetcher;
	unsigned int threads;
	struct image img;
	unsigned int n_devices;
	struct device *dev[NODE_DEVICES_MAX]; /* of the same image */
	struct fault_source *fault[NODE_DEVICES_MAX][NODE_PACKS_MAX];
};

struct node_config {
	size_t n_blocks, per_pack;
	uint32_t usize;
	unsigned int threads;
	uint32_t window, window_max;
	int64_t timeout_ms; /* 0: a minute */
	uint64_t quota;     /* 0: plenty */
	bool hollow;        /* blocks that pack to next to nothing */
	unsigned int width; /* requests that a list begins with; 0: plenty */
	unsigned int of_one_host; /* devices; 0: two, of a host each */
};

void node_make(struct node *n, const struct node_config *cfg);
void node_remove(struct node *n);
/* One more device, of this host. */
void node_add_device(struct node *n, const char *host);

/* Read and compare with the image. */
void expect_read(struct node *n, int dev, uint64_t off, size_t len);
int try_read(struct node *n, int dev, uint64_t off, size_t len,
	     struct error *err);
/* Fetch blocks [first, first + n) in that order. */
int fetch_blocks(struct node *n, int dev, size_t first, size_t count,
		 enum source_priority priority, const volatile bool *cancel,
		 struct error *err);
/* Requests to the sources of a device so far. */
size_t count_reads(struct node *n, int dev);

/* A read that is waited for later. */
struct later {
	struct device_read base;
	uint8_t *buf;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned int n_done;
	int rc;
	struct error err;
};
void later_start(struct later *l, struct node *n, int dev, uint64_t off,
		 size_t len);
int later_wait(struct later *l);
/* Compare with the image and release. */
void later_fini(struct later *l, struct node *n);

#endif
