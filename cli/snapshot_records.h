// SPDX-License-Identifier: Apache-2.0
/*
 * containerd's records of the plugin's snapshots.  An unpacked image has a label on the blob of
 * its configuration that names its top snapshot. containerd keeps snapshots that labels,
 * containers and leases refer to, and removes all others, children first.  Records of snapshots
 * that the plugin does not know are not listed, yet make pulls succeed.
 */
#ifndef BOOTSEER_CLI_SNAPSHOT_RECORDS_H
#define BOOTSEER_CLI_SNAPSHOT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

struct snapshot_label {
	char *namespace, *blob; /* the blob's digest */
};

struct snapshot_labels {
	struct snapshot_label *list;
	size_t n, cap;
};

void snapshot_labels_free(struct snapshot_labels *l);
DEFINE_AUTO(snapshot_labels)

/*
 * Find the labels in every namespace of the containerd at `socket` (NULL: ctr's default); with
 * `lost` only those whose snapshot the plugin does not know.  Fails if the plugin does not answer.
 */
int snapshot_labels_find(const char *socket, bool lost,
			 struct snapshot_labels **ret,
			 struct error *err) MUST_CHECK;

/* Remove these labels, and wait until containerd has removed the snapshots that nothing refers
 * to. */
int snapshot_labels_remove(const char *socket, const struct snapshot_labels *l,
			   struct error *err) MUST_CHECK;

/*
 * Count the snapshots that both the plugin and containerd know; with `used` only those of
 * containers and pods (active or view).  `ret_names` gets the first names, "NAMESPACE/KEY, ...".
 */
int snapshots_count(const char *socket, bool used, size_t *ret_n,
		    struct buf *ret_names, struct error *err) MUST_CHECK;

#endif
