// SPDX-License-Identifier: Apache-2.0
/* A mount of a store: the state shared by the handlers of its requests. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_MOUNT_H
#define BOOTSEER_CKPT_FUSE_MOUNT_MOUNT_H

#include <sys/types.h>

#include "ckpt-fuse/disk_cache.h"
#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/listed.h"
#include "ckpt-fuse/mount/folder_lister.h"
#include "ckpt-fuse/mount/nodes.h"
#include "ckpt-fuse/mount/phase.h"
#include "ckpt-fuse/mount/recent_names.h"
#include "fuse/fuse.h"
#include "groupio/blocks.h"
#include "groupio/groupio.h"
#include "groupio/save.h"

struct ckpt_mount_config {
	char *run_dir; /* folder for the mount's log and socket */
	uint64_t memory, tail, readahead;
	uint64_t threads, uid, gid, columns;
	int64_t store_timeout;
	char *ca_file, *close, *compare, *metrics;
	char *group, *group_key; /* see groupio.h; NULL: none */
	char *group_socket;      /* see save.h; NULL: none */
	char *cache;             /* folder, see disk_cache.h; NULL: none */
	char *selinux_context;   /* NULL: the kernel's default for FUSE */
	uint64_t cache_size;
	uint64_t group_nodes, group_memory, group_staging;
	bool group_full;
	uint64_t group_blocks, group_blocks_store;
	int64_t group_wait;
	uint64_t group_rate, group_dscp;
	bool hold, read_only, ranks_only;
};

struct ckpt_mount {
	const struct ckpt_mount_config *cfg;
	struct object_store *store;
	struct group *group;       /* NULL: the mount is in no group */
	struct disk_cache *cache;  /* NULL: no disk cache */
	struct saves *group_saves; /* NULL: ranks save through files only */
	struct blocks *blocks;     /* NULL: no blocks are kept */
	struct budget budget;
	struct pool *senders, *readers;
	struct writings writings;
	struct readings readings;
	struct nodes nodes;
	struct handles handles;
	/*
	 * Names that writers were told (ESTALE) to look up again, because others read the file that
	 * had the name. The kernel retries only once. So a reader that opens such a name in the
	 * meantime must not use cached pages: the writer would get a second ESTALE, and its open
	 * would fail.
	 */
	struct recent_names coming;
	/*
	 * Names that a thread was told do not exist. An open(2) that makes a file is a look-up
	 * followed by a create of the same thread: the create need not ask the store again.
	 */
	struct recent_names absent;
	struct listed *listed; /* names from lists of folders */
	struct folder_lister lister;
	/* save_ns: time that programs waited in write, close and sync; load_ns: in open and
	 * read. */
	atomic_uint_fast64_t save_ns, load_ns;
	struct ckpt_phase saves, loads;
	/* NULL: a close waits until the file is durable */
	struct later *later;
	/* folder of a file: store; NULL: another kind of store */
	const char *local;
	int64_t started_ns; /* since 1970; shown as the time of folders */
	/* the process that started the mount was told that it is ready */
	atomic_bool is_ready;
	/* Thread and operation of the last EOPNOTSUPP in the log. */
	atomic_uint_fast64_t refusal;
};

/* Files in memory that are kept for the next process; borrowed; -1: none. */
struct ckpt_kept {
	int journal_fd; /* journal of nodes.h */
	int life_fd;    /* holds the prefix of the current process's puts */
};
int ckpt_mount_open(const struct ckpt_mount_config *cfg, const char *url,
		    const struct ckpt_kept *kept, struct ckpt_mount **ret,
		    struct error *err) MUST_CHECK;
/* Log and count the files that were closed but not stored when the previous process was killed,
 * from its journal. */
int ckpt_tell_lost(int journal_fd, unsigned int *ret_n,
		   struct error *err) MUST_CHECK;
/* Accept saves that ranks make together, if configured; `path` is the name of the mount for
 * them. */
int ckpt_mount_begin_saves(struct ckpt_mount *m, const char *path,
			   struct error *err) MUST_CHECK;
void ckpt_mount_free(struct ckpt_mount *m);
/* Wait until all closed files are stored; returns how many were lost. */
unsigned int ckpt_mount_settle(struct ckpt_mount *m);

/* Handler of the session that serves a mount; its owner is a struct ckpt_mount. */
extern const struct session_handler ckpt_mount_handler;

/* Sums of the waits of requests and jobs for loading and saving. These run in parallel and ahead of
 * programs, so the sums exceed the time that any program waited. */
struct ckpt_waits {
	struct object_waits load, save;
};
struct ckpt_waits ckpt_mount_waits(struct ckpt_mount *m);

/* Append the mount's metrics in Prometheus' format. */
int ckpt_mount_metrics(struct ckpt_mount *m, struct buf *out) MUST_CHECK;
/* Append the mount's status as JSON. */
int ckpt_mount_status(struct ckpt_mount *m, const char *path, bool is_adopted,
		      struct buf *out) MUST_CHECK;

#endif
