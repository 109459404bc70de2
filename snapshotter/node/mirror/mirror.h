// SPDX-License-Identifier: Apache-2.0
/*
 * A registry mirror for this node's containerd (docs/images.md): serves layers of ordinary
 * images, by ranges from their registry and from other nodes.  It serves no manifest and no
 * tag, so a client that pulls has to show the registry a login.  It serves only clients with
 * the key that bootseerd made, which root alone can read.
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
	struct image_swarms *peers; /* NULL: no peers */
	const struct disk_room *room;
	const atomic_bool *is_ending; /* true: the node is ending */
};

/* *ret is NULL without --mirror. */
int mirror_open(const struct mirror_of *of, struct mirror **ret,
		struct error *err) MUST_CHECK;
/* Close the mirror before the node leaves its swarms.  NULL is allowed, as below. */
void mirror_close(struct mirror *m);

/* For `bootseer node doctor`: does the mirror listen, and can only root read its key? */
void mirror_check(const struct mirror *m, json_t *list);

struct mirror_stats {
	uint64_t layers, layers_bytes; /* layers that are kept for peers now */
	uint64_t served_total, passed_total, failed_total, wrong_total;
	uint64_t served_bytes_total, registry_bytes_total, peers_bytes_total;
};
/* Any thread. */
void mirror_get_stats(const struct mirror *m, struct mirror_stats *ret);

#endif
