// SPDX-License-Identifier: Apache-2.0
/* Messages of CSI and of the kubelet's registration: csi.proto.  No I/O. */
#ifndef BOOTSEER_CSI_MESSAGES_H
#define BOOTSEER_CSI_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define CSI_PAIRS_MAX 64    /* attributes of a volume, entries of a secret */
#define CSI_VALUE_MAX 65536 /* bytes of one of them; tokens are the longest */
#define CSI_MOUNT_FLAGS_MAX 4096 /* bytes of all, as CSI has it */

/* csi.v1.VolumeCapability.AccessMode.Mode */
enum csi_access {
	CSI_ACCESS_UNKNOWN = 0,
	CSI_ACCESS_NODE_WRITER = 1,
	CSI_ACCESS_NODE_READER = 2,
	CSI_ACCESS_NODES_READER = 3,
	CSI_ACCESS_NODES_ONE_WRITER = 4,
	CSI_ACCESS_NODES_WRITER = 5,
	CSI_ACCESS_POD_WRITER = 6,
	CSI_ACCESS_NODE_WRITERS = 7,
};

struct csi_pair {
	const char *key, *value;
};

/* NodePublishVolume; the texts are borrowed from `message`. */
struct csi_publish {
	void *message;
	const char *volume_id, *target_path;
	const char *fs_type, *group; /* "" when they are not said */
	char **mount_flags;
	size_t n_mount_flags;
	enum csi_access access;
	bool is_read_only;
	struct csi_pair *attributes, *secrets;
	size_t n_attributes, n_secrets;
};

/* -EINVAL: it is no such message, or lacks what CSI wants, or has more than is bounded. */
int csi_publish_read(const uint8_t *data, size_t len, struct csi_publish *ret,
		     struct error *err) MUST_CHECK;
/* Wipes the secrets, too. */
void csi_publish_fini(struct csi_publish *p);

/* NodeUnpublishVolume, and NodeGetVolumeStats, which differ in nothing that is read here:
 * the path is the caller's. */
int csi_path_read(const uint8_t *data, size_t len, bool is_stats, char **ret,
		  struct error *err) MUST_CHECK;

/* NotifyRegistrationStatus: true and "", or why the kubelet refused, the caller's. */
int csi_registered_read(const uint8_t *data, size_t len, bool *ret_is,
			char **ret_why, struct error *err) MUST_CHECK;

/* ---- answers, appended ---- */

struct csi_usage {
	uint64_t available, total, used;
};

int csi_plugin_info_write(const char *name, struct buf *ret,
			  struct error *err) MUST_CHECK;
int csi_node_info_write(const char *node, struct buf *ret,
			struct error *err) MUST_CHECK;
int csi_capabilities_write(struct buf *ret, struct error *err) MUST_CHECK;
/* `why` it does not work, or NULL; then `bytes` and `files` are not known. */
int csi_stats_write(const struct csi_usage *bytes,
		    const struct csi_usage *files, const char *why,
		    struct buf *ret, struct error *err) MUST_CHECK;
int csi_registration_write(const char *name, const char *endpoint,
			   struct buf *ret, struct error *err) MUST_CHECK;

#endif
