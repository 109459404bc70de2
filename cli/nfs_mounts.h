// SPDX-License-Identifier: Apache-2.0
/* NFS mounts, and the settings that slow down large files on them. */
#ifndef BOOTSEER_CLI_NFS_MOUNTS_H
#define BOOTSEER_CLI_NFS_MOUNTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* A mount, as /proc/self/mountstats describes it. */
struct nfs_mount {
	const char *device, *path; /* with escapes: a space is \040 */
	char version[8];           /* "3", "4.2" */
	bool is_rdma;
	uint32_t connections;
	uint64_t rsize;    /* bytes of a request */
	uint64_t requests; /* number of READs and WRITEs since the mount */
	double queue_s,
		rtt_s; /* sum of their times: in the queue, and from sending
		        * to the reply */
};

typedef int nfs_mount_fn(void *arg, const struct nfs_mount *m);

/* Call `fn` for each mount in a file's text, which is modified, until it returns other than 0,
 * which is then returned. */
int nfs_mounts_parse(char *text, nfs_mount_fn *fn, void *arg);

/* The machine's limits for a mount; 0: unknown. */
struct nfs_limits {
	uint64_t tcp_slots, rdma_slots; /* sunrpc.*, of each connection */
	uint64_t session_slots;    /* nfs.max_session_slots, since NFS 4.1 */
	uint64_t read_ahead;       /* bytes that the mount reads ahead */
	unsigned int major, minor; /* device number of the mount */
};

/* Append the findings on a mount to `detail`, and settings that help to `cure` ("": none). */
int nfs_mount_judge(const struct nfs_mount *m, const struct nfs_limits *l,
		    struct buf *detail, struct buf *cure,
		    struct error *err) MUST_CHECK;

/* Append a check of each NFS mount of this machine; with `path`, only of its mount. */
void nfs_mounts_check(json_t *list, const char *path);

/* If `path` is on NFS with settings to improve, print a line of advice. */
void nfs_mounts_advise(const char *path);

#endif
