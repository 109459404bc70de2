// SPDX-License-Identifier: Apache-2.0
/* Encodes and decodes messages of CSI and of the kubelet's registration: csi.proto.  No I/O. */
#ifndef BOOTSEER_CSI_MESSAGES_H
#define BOOTSEER_CSI_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define CSI_PAIRS_MAX 64    /* attributes of a volume, entries of a secret */
#define CSI_VALUE_MAX 65536 /* bytes of a value; tokens are the longest */
/* bytes of all flags together, by the CSI specification */
#define CSI_MOUNT_FLAGS_MAX 4096

/* Values of csi.v1.VolumeCapability.AccessMode.Mode. */
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

/* A NodePublishVolume request; the texts are borrowed from `message`. */
struct csi_publish {
	void *message;
	const char *volume_id, *target_path;
	/* "" when the request does not have them */
	const char *fs_type, *group;
	char **mount_flags;
	size_t n_mount_flags;
	enum csi_access access;
	bool is_read_only;
	struct csi_pair *attributes, *secrets;
	size_t n_attributes, n_secrets;
};

/* Decode a request.  -EINVAL: it is invalid, lacks what CSI requires, or exceeds a limit. */
int csi_publish_read(const uint8_t *data, size_t len, struct csi_publish *ret,
		     struct error *err) MUST_CHECK;
/* Free the request, and wipe its secrets. */
void csi_publish_fini(struct csi_publish *p);

/* Get the path of a NodeUnpublishVolume or (`is_stats`) NodeGetVolumeStats request; the caller
 * frees it. */
int csi_path_read(const uint8_t *data, size_t len, bool is_stats, char **ret,
		  struct error *err) MUST_CHECK;

/* Decode NotifyRegistrationStatus: *ret_is true with "", or false with the kubelet's reason,
 * which the caller frees. */
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
/* `why`: the reason that the volume does not work, or NULL; with a reason `bytes` and `files`
 * are not known. */
int csi_stats_write(const struct csi_usage *bytes,
		    const struct csi_usage *files, const char *why,
		    struct buf *ret, struct error *err) MUST_CHECK;
int csi_registration_write(const char *name, const char *endpoint,
			   struct buf *ret, struct error *err) MUST_CHECK;

#endif
