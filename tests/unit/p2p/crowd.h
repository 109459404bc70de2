// SPDX-License-Identifier: Apache-2.0
/* Nodes of one process that share an image over the loopback network. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_CROWD_H
#define BOOTSEER_TESTS_UNIT_P2P_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "p2p/p2p.h"
#include "tests/fakes/fault_source.h"
#include "tests/unit/blockstore/cache_dir.h"

#define CROWD_MAX 16
#define CROWD_PACKS_MAX 4

struct crowd;

struct crowd_node {
	struct crowd *crowd;
	unsigned int number;
	struct cache_dir cache_dir, dir;
	struct cache *cache;
	struct p2p *p2p;
	struct p2p_image *image;
	const char *repo;
	struct p2p_image *metadata; /* of crowd_open_metadata(), or NULL */
	struct fault_source *origin[CROWD_PACKS_MAX];
	const struct fault_plan *metadata_plan; /* NULL: no origin has it */
	/* As of struct p2p_image_config, with the node; NULL: nothing is asked. */
	char *(*authorization)(void *arg, struct pace *pace);
	atomic_bool is_asked; /* for it to say */
	pthread_t thread;
	bool is_fetching;
	volatile bool cancel;
	uint32_t *order; /* blocks, as fetched; NULL: as in the map */
	enum source_priority priority;
	atomic_size_t n_have; /* calls of have() */
	atomic_uint_fast64_t n_bytes;
	int64_t (*pause)(void *arg, uint64_t next_bytes); /* or NULL */
	atomic_uint n_pauses;
	int rc;
	struct error err;
};

struct crowd {
	struct image img;
	struct digest digest;
	unsigned int n;
	struct crowd_node node[CROWD_MAX];
};

struct crowd_config {
	unsigned int nodes;
	size_t blocks, per_pack;
	uint32_t usize;
	bool hollow;             /* blocks that pack to next to nothing */
	uint64_t quota;          /* of each cache; 0: plenty */
	uint64_t relay;          /* 0: no relay */
	uint64_t upload_rate;    /* 0: none */
	const char *tracker;     /* its URL, or NULL */
	const char *keys;        /* PEM: a right to the image is wanted */
	const char *repo;        /* where it has it from; NULL: CROWD_REPO */
	bool alone;              /* nobody knows anybody */
	bool chain;              /* who comes knows the last one only */
	unsigned int neighbours; /* that it looks for; 0: all */
	const char *address; /* somebody of another kind that all know, too */
};

/* Two nodes, with a relay. */
#define CROWD_TWO_BLOCKS 60
extern const struct crowd_config crowd_two;

/* What every crowd shares: an image, where it is from, and what nodes call the swarm
 * of its blocks. */
#define CROWD_REPO "registry.example/crowd"
void crowd_image(struct digest *ret);
void crowd_swarm(struct digest *ret);

/* All nodes are there, know the first, and have opened the image; none has
 * anything of it. */
void crowd_make(struct crowd *c, const struct crowd_config *cfg);
void crowd_remove(struct crowd *c);
/* One more, that knows all of those before. */
struct crowd_node *crowd_add(struct crowd *c, const struct crowd_config *cfg);
/* It goes away, without a word when it is fetching. */
void crowd_kill(struct crowd_node *n);

/* Fetch the whole image, in a thread of its own. */
void crowd_fetch(struct crowd_node *n);
/* Until it has ended; its result. */
int crowd_join(struct crowd_node *n);
/* All at once, until all have the whole image. */
void crowd_fetch_all(struct crowd *c);
/* The cache has every block, and right. */
void crowd_expect_whole(struct crowd_node *n);
/* Put blocks [first, first + n) into a cache. */
void crowd_put(struct crowd_node *n, size_t first, size_t count);
/* Close the image and open it anew. */
void crowd_reopen(struct crowd_node *n);
/* Open the same map as the image's metadata, whose origin fails. */
void crowd_open_metadata(struct crowd_node *n);
/* A device over the node's image; with the fetcher that is returned too. */
struct device *crowd_device(struct crowd_node *n, struct fetcher **ret_fetcher);
/* Read the block of the device, and hold it against the image. */
int crowd_read_block(struct crowd_node *n, struct device *dev, size_t k,
		     struct error *err);
/* Until it has come so far. */
void crowd_wait_have(struct crowd_node *n, size_t blocks);
/* Bytes that were read from the origins of all nodes. */
uint64_t crowd_origin_bytes(struct crowd *c);
uint64_t crowd_stored_bytes(const struct crowd *c);
/* The first as so many of the second. */
double crowd_copies(struct crowd *c);
/* From now on the origin fails whatever is read of it. */
void crowd_origin_dies(struct crowd_node *n);
/* The same with this -errno. */
void crowd_origin_refuses(struct crowd_node *n, int rc);
/* Nodes that it has a link to. */
void crowd_wait_peers(struct crowd_node *n, unsigned int peers);
/* Nodes with which it has an image open, which comes after the link; summed over images. */
void crowd_wait_neighbours(struct crowd_node *n, unsigned int neighbours);

#endif
