// SPDX-License-Identifier: Apache-2.0
/* How much of a disk the kubelet of this machine wants free: below that it removes images,
 * which gives no byte of our cache back, and then evicts pods. */
#ifndef BOOTSEER_NODE_KUBELET_H
#define BOOTSEER_NODE_KUBELET_H

#include <stdbool.h>
#include <stdint.h>

/* Percent of the disk of `root` that have to be free; 0: there is no kubelet, or it has
 * another disk.  Reads its configuration. */
unsigned int kubelet_wants_free(const char *root);

/* The disks that a configuration is asked about. */
struct kubelet_disk {
	bool has_pods,
		has_images; /* nodefs; imagefs, or what containerd has there */
	uint64_t bytes;
};
/* The same, of the configuration's text (YAML or JSON); NULL: the kubelet's defaults. */
unsigned int kubelet_percent(const char *config,
			     const struct kubelet_disk *disk);

#endif
