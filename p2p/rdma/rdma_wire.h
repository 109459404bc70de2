// SPDX-License-Identifier: Apache-2.0
/* Bodies of the RDMA messages: docs/formats/p2p.md.  No I/O and no state. */
#ifndef BOOTSEER_P2P_RDMA_RDMA_WIRE_H
#define BOOTSEER_P2P_RDMA_RDMA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "p2p/rdma/rdma.h"
#include "p2p/rdma/verbs.h"

#define RDMA_WIRE_VERSION 1u
#define RDMA_DEVICE_MAX 63u /* bytes of a device's name */

/* Kind of network; both ends must have the same. */
enum rdma_fabric {
	RDMA_INFINIBAND = 1,
	RDMA_ROCE2 = 2,
};

/* OFFER and ACCEPT: what the other end's queue pair must know of this one. */
struct rdma_end {
	uint8_t gid[16];
	uint32_t qpn, psn; /* 24 bits */
	uint16_t lid;      /* InfiniBand */
	uint8_t mtu;       /* enum ibv_mtu */
	uint8_t rd_atomic; /* READs that it serves at a time, from 1 */
	enum rdma_fabric fabric;
	char device[RDMA_DEVICE_MAX + 1]; /* for log lines */
};

struct rdma_grant {
	uint32_t id;
	uint32_t len; /* 1.. */
	uint64_t addr;
	uint32_t rkey;
	uint32_t lease_ms;
	uint64_t stamp; /* follows the bytes, at the next multiple of 8 */
	uint8_t n_about;
	uint8_t about[RDMA_ABOUT_MAX];
};

enum rdma_done {
	RDMA_DONE_OK,
	RDMA_DONE_BUSY,  /* not read: no memory */
	RDMA_DONE_STALE, /* read too late: the memory has another piece */
};

enum rdma_close {
	RDMA_CLOSE_FAILED, /* a fault */
	RDMA_CLOSE_BUSY,   /* too many handshakes or links: retry later */
	RDMA_CLOSE_IDLE,   /* another link needs the memory */
	RDMA_CLOSE_UNFIT,  /* the two ends do not fit together */
};

struct rdma_msg {
	enum rdma_type type;
	uint32_t epoch; /* number of the attempt that it belongs to */
	union {
		struct rdma_end end;
		struct rdma_grant grant;
		struct {
			uint32_t id;
			enum rdma_done status;
		} done;
		struct {
			enum rdma_close why;
			uint32_t retry_ms;
		} close;
	};
};

/* Returns the number of bytes written. */
size_t rdma_wire_put(uint8_t out[RDMA_BODY_MAX], const struct rdma_msg *m);
/* -EPROTONOSUPPORT: another version, so only `type` and `epoch` are set; -EINVAL. */
int rdma_wire_get(unsigned int type, const void *body, size_t len,
		  struct rdma_msg *ret, struct error *err) MUST_CHECK;

#endif
