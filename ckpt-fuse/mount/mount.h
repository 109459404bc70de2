// SPDX-License-Identifier: Apache-2.0
/* A mount of a store, as what answers its requests shares it. */
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
	char *run_dir; /* of the mount, its log and socket */
	uint64_t memory, tail, readahead;
	uint64_t threads, uid, gid, columns;
	int64_t store_timeout;
	char *ca_file, *close, *compare, *metrics;
	char *group, *group_key; /* of groupio.h; NULL: none */
	char *group_socket;      /* of save.h; NULL: none */
	char *cache;             /* of disk_cache.h; NULL: none */
	char *selinux_context;   /* NULL: as the kernel has it for FUSE */
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
	struct group *group;       /* NULL: it reads alone */
	struct disk_cache *cache;  /* NULL: nothing is kept on the disk */
	struct saves *group_saves; /* NULL: ranks save by files alone */
	struct blocks *blocks;     /* NULL: none are kept */
	struct budget budget;
	struct pool *senders, *readers;
	struct writings writings;
	struct readings readings;
	struct nodes nodes;
	struct handles handles;
	/*
	 * Names that writers were told to look up again, because others read the file that had
	 * them.  The kernel does that once: whoever reads such a name meanwhile has no pages of
	 * it, or the writer would be told so once more, and its open would fail.
	 */
	struct recent_names coming;
	/*
	 * Names that a thread was told are not there.  An open(2) that makes a file is a look-up
	 * and a create, one behind the other, by one thread: the create does not ask the store
	 * again.
	 */
	struct recent_names absent;
	struct listed *listed; /* what lists told */
	struct folder_lister lister;
	/* Time that programs waited in write, close and sync, and in open and read. */
	atomic_uint_fast64_t save_ns, load_ns;
	struct ckpt_phase saves, loads;
	struct later *later;  /* NULL: what was closed is durable */
	const char *local;    /* folder of a file: store; NULL: it is another */
	int64_t started_ns;   /* since 1970: what folders say of themselves */
	atomic_bool is_ready; /* whoever started it waits no more */
	/* The last EOPNOTSUPP in the log: its thread and operation. */
	atomic_uint_fast64_t refusal;
};

/* Files in memory that are kept for a successor, borrowed; -1: it knows nothing. */
struct ckpt_kept {
	int journal_fd; /* of nodes.h */
	int life_fd; /* what the puts of the process begin with that has it now */
};
int ckpt_mount_open(const struct ckpt_mount_config *cfg, const char *url,
		    const struct ckpt_kept *kept, struct ckpt_mount **ret,
		    struct error *err) MUST_CHECK;
/* Name in the log, and count, what was closed and not stored when a predecessor was
 * killed whose journal it is. */
int ckpt_tell_lost(int journal_fd, unsigned int *ret_n,
		   struct error *err) MUST_CHECK;
/* Take what ranks save together, where that is wanted; they know the mount by `path`. */
int ckpt_mount_begin_saves(struct ckpt_mount *m, const char *path,
			   struct error *err) MUST_CHECK;
void ckpt_mount_free(struct ckpt_mount *m);
/* Wait until what was closed is in the store; how many files were lost. */
unsigned int ckpt_mount_settle(struct ckpt_mount *m);

/* Handler of the session that serves a mount; its owner is a struct ckpt_mount. */
extern const struct session_handler ckpt_mount_handler;

/* Waits of loading and saving, by the requests and jobs of both. They run beside one
 * another, and ahead of programs: sums are longer than anybody waited. */
struct ckpt_waits {
	struct object_waits load, save;
};
struct ckpt_waits ckpt_mount_waits(struct ckpt_mount *m);

/* Its figures as Prometheus has them. */
int ckpt_mount_metrics(struct ckpt_mount *m, struct buf *out) MUST_CHECK;
/* Its figures, as JSON. */
int ckpt_mount_status(struct ckpt_mount *m, const char *path, bool is_adopted,
		      struct buf *out) MUST_CHECK;

#endif
