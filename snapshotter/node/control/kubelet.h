// SPDX-License-Identifier: Apache-2.0
/* The kubelet of this machine: how it pulls images, and how much free disk it wants.  If there
 * is less, it removes images, which frees no byte of our cache, and then evicts pods. */
#ifndef BOOTSEER_NODE_KUBELET_H
#define BOOTSEER_NODE_KUBELET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

/* Percent of `root`'s disk that the kubelet wants free; 0: there is no kubelet, or it uses
 * another disk.  Reads its configuration. */
unsigned int kubelet_wants_free(const char *root);

/* The kubelet's use of a disk. */
struct kubelet_disk {
	bool has_pods,
		/* pods: nodefs; images: imagefs, or containerd's folder */
		has_images;
	uint64_t bytes;
};
/* Percent of a disk that the configuration `config` (YAML or JSON) wants free; NULL: the
 * kubelet's defaults. */
unsigned int kubelet_percent(const char *config,
			     const struct kubelet_disk *disk);

/* For `node doctor`: do logins of pods reach bootseerd?  Adds nothing without a kubelet.
 * `has_secrets`: the chart's pod reads pull secrets from the API server. */
void kubelet_check_images(json_t *list, bool has_secrets);
/* The socket path of the kubelet's image service, by its configuration and kubeadm's flags
 * (each may be NULL).  The caller frees it; NULL: the kubelet uses its container runtime. */
char *kubelet_image_service(const char *config, const char *flags);

#endif
