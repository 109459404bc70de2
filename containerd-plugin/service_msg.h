// SPDX-License-Identifier: Apache-2.0
/*
 * Converts messages of the Snapshots and Diff services to and from this program's structs. No
 * I/O. Reading returns -EINVAL for an invalid message; the caller owns the results.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SERVICE_MSG_H
#define BOOTSEER_CONTAINERD_PLUGIN_SERVICE_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "containerd-plugin/labels.h"
#include "containerd-plugin/snapshots.h"
#include "snapshotter/client.h"

/* Request of Prepare, View or Commit. After reading, no string is NULL. */
struct msg_create {
	char *key;
	char *name; /* of Commit */
	char *parent;
	struct labels labels;
};

int msg_create_read(const uint8_t *data, size_t len, struct msg_create *ret,
		    struct error *err) MUST_CHECK;
int msg_commit_read(const uint8_t *data, size_t len, struct msg_create *ret,
		    struct error *err) MUST_CHECK;
void msg_create_fini(struct msg_create *m);

/* Read the request of Mounts, Remove, Stat or Usage. */
int msg_key_read(const uint8_t *data, size_t len, char **ret,
		 struct error *err) MUST_CHECK;

/* Request of Update, or of List, whose filters are in `paths`. */
struct msg_update {
	char *name;
	struct labels labels;
	char **paths;
	size_t n_paths;
};

int msg_update_read(const uint8_t *data, size_t len, struct msg_update *ret,
		    struct error *err) MUST_CHECK;
int msg_list_read(const uint8_t *data, size_t len, struct msg_update *ret,
		  struct error *err) MUST_CHECK;
void msg_update_fini(struct msg_update *m);

/* Request of the Diff service's Apply. */
struct msg_apply {
	struct node_layer layer; /* its texts are the ones below */
	char *media_type, *dir, *lower;
};

/* -ENOSYS: containerd's own code must write to such mounts. */
int msg_apply_read(const uint8_t *data, size_t len, struct msg_apply *ret,
		   struct error *err) MUST_CHECK;
void msg_apply_fini(struct msg_apply *m);
/* Append the message of a reply. */
int msg_mount_write(const struct mount *m, struct buf *ret,
		    struct error *err) MUST_CHECK;
int msg_info_write(const struct snapshot *s, struct buf *ret,
		   struct error *err) MUST_CHECK;
int msg_usage_write(int64_t size, int64_t inodes, struct buf *ret,
		    struct error *err) MUST_CHECK;
int msg_applied_write(const struct node_layer_content *c, struct buf *ret,
		      struct error *err) MUST_CHECK;

/* Append another snapshot to the message of List. */
int msg_list_add(const struct snapshot *s, struct buf *ret,
		 struct error *err) MUST_CHECK;

#endif
