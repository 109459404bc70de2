// SPDX-License-Identifier: Apache-2.0
/* The kubelet of this machine.  How much of a disk it wants free: below that it removes
 * images, which gives no byte of our cache back, and then evicts pods.  And how it pulls. */
#ifndef BOOTSEER_NODE_KUBELET_H
#define BOOTSEER_NODE_KUBELET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

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

/* For the doctor: do logins of pods reach bootseerd?  Nothing without a kubelet.  `has_secrets`:
 * the chart's pod reads some from the API server. */
void kubelet_check_images(json_t *list, bool has_secrets);
/* The path of its image service's socket, by its configuration and kubeadm's flags (either may
 * be NULL); the caller's, NULL: it is the runtime's. */
char *kubelet_image_service(const char *config, const char *flags);

#endif
