// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes of the pods of this node.  Their state is read from the kernel, bootseerd and --state
 * each time, so nothing is lost when this process ends.  Every function blocks, on any thread;
 * two calls for one volume do not run at once (-EALREADY).
 */
#ifndef BOOTSEER_CSI_VOLUMES_H
#define BOOTSEER_CSI_VOLUMES_H

#include "csi/messages.h"
#include "csi/policy.h"

struct volumes;

/* The texts are borrowed as long as the volumes exist. */
struct volumes_config {
	const char *kubelet_dir, *state;
	const char *node_socket;
	const char *programs; /* folder of the programs */
	const char *audience;
	int64_t node_timeout_ns;
};

/* Make the table of volumes; takes the policy. */
int volumes_new(const struct volumes_config *cfg, struct volume_policy *policy,
		struct volumes **ret, struct error *err) MUST_CHECK;
void volumes_free(struct volumes *v);

/* Publish a volume.  If it is published already, its process is started again if it died, and
 * its token renewed. */
int volumes_publish(struct volumes *v, const struct csi_publish *p,
		    struct error *err) MUST_CHECK;
/* Unpublish a volume; it is no error if there is none. */
int volumes_unpublish(struct volumes *v, const char *target_path,
		      struct error *err) MUST_CHECK;

struct volume_stats {
	struct csi_usage bytes, files;
	bool is_abnormal;
	struct error why; /* why it is abnormal */
};
/* Get a volume's statistics.  -ENOENT: there is no volume. */
int volumes_stats(struct volumes *v, const char *path, struct volume_stats *ret,
		  struct error *err) MUST_CHECK;

/* End volumes whose pod's folder is gone: those of pods that were removed while the node was
 * off and the kubelet made no call. */
void volumes_sweep(struct volumes *v);

#endif
