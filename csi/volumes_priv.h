// SPDX-License-Identifier: Apache-2.0
/* Private parts of volumes.c and of the files for each kind of volume. */
#ifndef BOOTSEER_CSI_VOLUMES_PRIV_H
#define BOOTSEER_CSI_VOLUMES_PRIV_H

#include <pthread.h>

#include "common/bytes.h"
#include "csi/helper.h"
#include "csi/login.h"
#include "csi/target.h"
#include "csi/volumes.h"
#include "snapshotter/client.h"

/* bootseerd knows a volume as an image user with this prefix and the target's name. */
#define VOLUME_USER_PREFIX "csi:"

/* Memory of a volume's control group beside the requested memory: for programs, names and
 * lists.  A process that needs more is killed, and its mount is made again. */
#define VOLUME_MEMORY_SLACK GIB

struct busy_volume {
	const char *id;
	/* the pod's namespace; NULL when an image volume ends */
	const char *namespace;
	struct busy_volume *next;
};

struct volumes {
	struct volumes_config cfg;
	struct volume_policy *policy;
	pthread_mutex_t lock; /* protects `busy` */
	struct busy_volume *busy;
	/* protects the files of charge.h while they are read and written */
	pthread_mutex_t charges;
};

/* A volume that is being published; all borrowed. */
struct volume_job {
	struct volumes *volumes;
	const struct csi_publish *publish;
	const struct volume_request *request;
	const struct volume_grant *grant;
	const struct target *target;
	const char *dir; /* STATE/ID; NULL for kinds without a process */
};

/* volume_parts.c.  Connect to bootseerd; wait up to `wait_ms` if it is being restarted. */
int volume_node_open(const struct volumes *v, uint32_t wait_ms,
		     struct node_client **ret, struct error *err) MUST_CHECK;
/* The path STATE/ID; owned. */
int volume_dir(const struct volumes *v, const char *id, char **ret,
	       struct error *err) MUST_CHECK;

/* Is something mounted at `path`?  1: yes.  Sends no request to the file system. */
int volume_is_mounted(const char *path, struct error *err) MUST_CHECK;

/*
 * For each kind: prepare the folder that is to be bound at the target, and store its path in
 * *ret, which the caller frees.  Idempotent.
 */
int volume_image_open(const struct volume_job *j, char **ret,
		      struct error *err) MUST_CHECK;
int volume_env_open(const struct volume_job *j, char **ret,
		    struct error *err) MUST_CHECK;
int volume_ckpt_open(const struct volume_job *j, char **ret,
		     struct error *err) MUST_CHECK;

/* Does a process serve the volume's socket?  0: yes, or the volume is of another kind. */
int volume_env_check(const char *dir, struct error *err) MUST_CHECK;

/* End the volume's processes below `dir`, or its use at bootseerd; it is no error if there are
 * none. */
int volume_image_close(const struct volumes *v, const char *name,
		       struct error *err) MUST_CHECK;
int volume_env_close(const struct volumes *v, const char *dir, const char *id,
		     struct error *err) MUST_CHECK;
int volume_ckpt_close(const struct volumes *v, const char *dir, const char *id,
		      struct error *err) MUST_CHECK;

#endif
