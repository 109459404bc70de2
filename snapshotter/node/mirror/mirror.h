// SPDX-License-Identifier: Apache-2.0
/*
 * A registry mirror for this node's containerd (docs/images.md): layers of ordinary images,
 * by ranges from their registry and from other nodes.  It answers no manifest and no tag, so
 * whoever pulls has to show the registry his login; and only to who has the key that
 * bootseerd made, which root alone can read.
 */
#ifndef BOOTSEER_NODE_MIRROR_H
#define BOOTSEER_NODE_MIRROR_H

#include "common/doctor.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/disk_room.h"
#include "snapshotter/node/images/origin.h"

struct image_swarms;
struct mirror;

/* The parts of the node that the mirror needs; all is borrowed. */
struct mirror_of {
	const struct node_config *cfg;
	struct origins *origins;
	struct image_swarms *peers; /* or NULL */
	const struct disk_room *room;
	const atomic_bool *is_ending; /* the node ends */
};

/* *ret is NULL without --mirror. */
int mirror_open(const struct mirror_of *of, struct mirror **ret,
		struct error *err) MUST_CHECK;
/* Before the node's peers are left.  NULL is allowed, as below. */
void mirror_close(struct mirror *m);

/* For `bootseer node doctor`: does it listen, and is its key root's alone? */
void mirror_check(const struct mirror *m, json_t *list);

struct mirror_stats {
	uint64_t layers, layers_bytes; /* kept now, for peers */
	uint64_t served_total, passed_total, failed_total, wrong_total;
	uint64_t served_bytes_total, registry_bytes_total, peers_bytes_total;
};
/* Any thread. */
void mirror_get_stats(const struct mirror *m, struct mirror_stats *ret);

#endif
