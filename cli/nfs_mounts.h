// SPDX-License-Identifier: Apache-2.0
/* Mounts of NFS, and what holds back large files on them. */
#ifndef BOOTSEER_CLI_NFS_MOUNTS_H
#define BOOTSEER_CLI_NFS_MOUNTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* A mount, as /proc/self/mountstats tells of it. */
struct nfs_mount {
	const char *device, *path; /* as there: a space is \040 */
	char version[8];           /* "3", "4.2" */
	bool is_rdma;
	uint32_t connections;
	uint64_t rsize;    /* bytes of a request */
	uint64_t requests; /* READ and WRITE since the mount */
	double queue_s,
		rtt_s; /* their time before they were sent, and until the answer */
};

typedef int nfs_mount_fn(void *arg, const struct nfs_mount *m);

/* Call `fn` for each mount of a file's text, which is cut here, until it returns other than
 * 0, which is returned. */
int nfs_mounts_parse(char *text, nfs_mount_fn *fn, void *arg);

/* Limits of the machine for a mount; 0: unknown. */
struct nfs_limits {
	uint64_t tcp_slots, rdma_slots; /* sunrpc.*, of a connection */
	uint64_t session_slots;    /* nfs.max_session_slots, of NFS 4.1 on */
	uint64_t read_ahead;       /* of the mount, bytes */
	unsigned int major, minor; /* of the mount */
};

/* The findings on a mount, and the settings that help ("": none does). */
int nfs_mount_judge(const struct nfs_mount *m, const struct nfs_limits *l,
		    struct buf *detail, struct buf *cure,
		    struct error *err) MUST_CHECK;

/* Append a check of each mount of NFS of this machine; of `path`'s alone where it is not
 * NULL. */
void nfs_mounts_check(json_t *list, const char *path);

/* Where `path` lies on NFS that has something to set: a line on it. */
void nfs_mounts_advise(const char *path);

#endif
