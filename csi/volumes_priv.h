// SPDX-License-Identifier: Apache-2.0
/* The kinds of volumes, for volumes.c. */
#ifndef BOOTSEER_CSI_VOLUMES_PRIV_H
#define BOOTSEER_CSI_VOLUMES_PRIV_H

#include <pthread.h>

#include "common/bytes.h"
#include "csi/helper.h"
#include "csi/login.h"
#include "csi/target.h"
#include "csi/volumes.h"
#include "snapshotter/client.h"

/* bootseerd knows a volume's need by this and the target's name. */
#define VOLUME_USER_PREFIX "csi:"

/* Room of a volume's control group beside the memory that it asked for: programs, names and
 * lists.  A process that needs more is killed, and its mount begun anew. */
#define VOLUME_MEMORY_SLACK GIB

struct busy_volume {
	const char *id;
	const char *namespace; /* of its pod; NULL: an image's end has none */
	struct busy_volume *next;
};

struct volumes {
	struct volumes_config cfg;
	struct volume_policy *policy;
	pthread_mutex_t lock; /* of `busy` */
	struct busy_volume *busy;
	pthread_mutex_t
		charges; /* of the files of charge.h, over I/O in memory */
};

/* A volume that is to be there: all borrowed. */
struct volume_job {
	struct volumes *volumes;
	const struct csi_publish *publish;
	const struct volume_request *request;
	const struct volume_grant *grant;
	const struct target *target;
	const char *dir; /* STATE/ID; kinds with a process have one */
};

/* volume_parts.c.  Wait `wait_ms` for one that is being started again. */
int volume_node_open(const struct volumes *v, uint32_t wait_ms,
		     struct node_client **ret, struct error *err) MUST_CHECK;
/* STATE/ID; owned. */
int volume_dir(const struct volumes *v, const char *id, char **ret,
	       struct error *err) MUST_CHECK;

/* 1: something is mounted at `path`; 0: nothing is.  Asks no file system. */
int volume_is_mounted(const char *path, struct error *err) MUST_CHECK;

/*
 * For each kind: have what is to be bound at the target, and store its path in *ret, the
 * caller's.  Idempotent.
 */
int volume_image_open(const struct volume_job *j, char **ret,
		      struct error *err) MUST_CHECK;
int volume_env_open(const struct volume_job *j, char **ret,
		    struct error *err) MUST_CHECK;
int volume_ckpt_open(const struct volume_job *j, char **ret,
		     struct error *err) MUST_CHECK;

/* Does anybody serve the socket?  0: somebody does, or the volume is of another kind. */
int volume_env_check(const char *dir, struct error *err) MUST_CHECK;

/* End what the kind has below `dir`, or at bootseerd; nothing there is no error. */
int volume_image_close(const struct volumes *v, const char *name,
		       struct error *err) MUST_CHECK;
int volume_env_close(const struct volumes *v, const char *dir, const char *id,
		     struct error *err) MUST_CHECK;
int volume_ckpt_close(const struct volumes *v, const char *dir, const char *id,
		      struct error *err) MUST_CHECK;

#endif
