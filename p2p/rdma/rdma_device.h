// SPDX-License-Identifier: Apache-2.0
/* A device, its completion queue, and memory cut into lanes. */
#ifndef BOOTSEER_P2P_RDMA_RDMA_DEVICE_H
#define BOOTSEER_P2P_RDMA_RDMA_DEVICE_H

#include "p2p/rdma/rdma_wire.h"

#define RDMA_READS_MAX 16u /* outstanding READs of a queue pair */
#define RDMA_STAMP_SIZE 8u
#define RDMA_RUNS 64u /* parts that half a lane is divided into */

/*
 * Half of a lane: memory given out in parts of 1/64, for many small pieces or a few large ones.
 */
struct rdma_half {
	char *mem;
	struct ibv_mr *mr;
	uint64_t used; /* a bit for each part */
};

/* Memory and protection domain of one link's queue pair, shared with no other link. */
struct rdma_lane {
	struct ibv_pd *pd;
	struct rdma_half serve; /* read by the peer */
	struct rdma_half pull;  /* written by our READs */
	bool taken;
};

struct rdma_port {
	uint8_t number;
	uint8_t gid_index;
	uint8_t reads;  /* READs served at a time */
	uint8_t begins; /* READs begun at a time */
	enum ibv_mtu mtu;
	uint16_t lid;
	enum rdma_fabric fabric;
	union ibv_gid gid;
};

struct rdma_device {
	const struct verbs_ops *ops;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct rdma_port port;
	char name[RDMA_DEVICE_MAX + 1];
	char text[160];
	char *slab;
	size_t slab_len;
	size_t half;        /* bytes of half a lane */
	unsigned int sends; /* work requests of a queue pair */
	unsigned int n_lanes;
	struct rdma_lane lanes[RDMA_LINKS_MAX];
};

/* `d` must be zeroed, with `d->ops` set; undone on failure. */
int rdma_device_open(struct rdma_device *d, const char *name, const char *addr,
		     uint64_t slab, struct error *err) MUST_CHECK;
/* Call when no queue pair is left. */
void rdma_device_close(struct rdma_device *d);

/* A lane with clean memory, or NULL. */
struct rdma_lane *rdma_lane_take(struct rdma_device *d);
void rdma_lane_give(struct rdma_lane *lane);

/* Find room for `len` bytes and a stamp; returns a bit for each part, or 0. */
uint64_t rdma_half_take(const struct rdma_device *d, struct rdma_half *h,
			uint32_t len);
void rdma_half_give(struct rdma_half *h, uint64_t bits);
char *rdma_half_at(const struct rdma_device *d, const struct rdma_half *h,
		   uint64_t bits);
/* Offset of the stamp after `len` bytes. */
static inline size_t rdma_stamp_at(uint32_t len)
{
	return ((size_t)len + 7) & ~(size_t)7;
}

/* rdma_qp_new(): a queue pair in state INIT; rdma_qp_connect(): make it ready to serve and
 * READ. */
int rdma_qp_new(struct rdma_device *d, struct rdma_lane *lane,
		struct ibv_qp **ret, struct error *err) MUST_CHECK;
int rdma_qp_connect(struct rdma_device *d, struct ibv_qp *qp, uint32_t psn,
		    const struct rdma_end *peer, struct error *err) MUST_CHECK;

#endif
