// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes of the pods of this node.  What is there is asked of the kernel, of bootseerd and
 * of --state each time, so that nothing is lost with this process.  Every function blocks,
 * on any thread; two calls for one volume do not run at once (-EALREADY).
 */
#ifndef BOOTSEER_CSI_VOLUMES_H
#define BOOTSEER_CSI_VOLUMES_H

#include "csi/messages.h"
#include "csi/policy.h"

struct volumes;

/* The texts are borrowed, as long as the volumes are there. */
struct volumes_config {
	const char *kubelet_dir, *state;
	const char *node_socket;
	const char *programs; /* a folder */
	const char *audience;
	int64_t node_timeout_ns;
};

/* Takes the policy. */
int volumes_new(const struct volumes_config *cfg, struct volume_policy *policy,
		struct volumes **ret, struct error *err) MUST_CHECK;
void volumes_free(struct volumes *v);

/* A volume that was published already is looked after: a process that died is started again,
 * a token renewed. */
int volumes_publish(struct volumes *v, const struct csi_publish *p,
		    struct error *err) MUST_CHECK;
/* A volume that is not there (any more) is no error. */
int volumes_unpublish(struct volumes *v, const char *target_path,
		      struct error *err) MUST_CHECK;

struct volume_stats {
	struct csi_usage bytes, files;
	bool is_abnormal;
	struct error why; /* it is abnormal */
};
/* -ENOENT: no volume is there. */
int volumes_stats(struct volumes *v, const char *path, struct volume_stats *ret,
		  struct error *err) MUST_CHECK;

/* End what is left of volumes whose pod's folder is gone: of pods that were removed while
 * nobody was asked, because the node was off. */
void volumes_sweep(struct volumes *v);

#endif
