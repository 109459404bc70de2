// SPDX-License-Identifier: Apache-2.0
/*
 * Messages of the Snapshots and Diff services to and from our structs.  No I/O.  Reading
 * gives -EINVAL for what is no such message; results are the caller's.
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

/* Prepare, View, Commit.  Strings are never NULL after reading. */
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

/* Mounts, Remove, Stat, Usage. */
int msg_key_read(const uint8_t *data, size_t len, char **ret,
		 struct error *err) MUST_CHECK;

/* Update; List, whose filters are `paths`. */
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

/* Apply of the Diff service. */
struct msg_apply {
	struct node_layer layer; /* borrows the texts */
	char *media_type, *dir, *lower;
};

/* -ENOSYS: the mounts are of a kind that containerd's own code has to write to. */
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

/* Append one more snapshot to the message of List. */
int msg_list_add(const struct snapshot *s, struct buf *ret,
		 struct error *err) MUST_CHECK;

#endif
