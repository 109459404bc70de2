// SPDX-License-Identifier: Apache-2.0
/* Opening a device: which one, its memory, its completion queue. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/bytes.h"
#include "p2p/rdma/rdma_device.h"

#define SENDS_WANTED 128u
#define SENDS_MIN 24u /* READs of the largest piece, and of its stamp */
#define LANE_MIN (4 * MIB)
#define LANE_MAX (16 * MIB)

/* -------------------------------------------------------------- the port --- */

static bool is_v4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* Rank of a GID entry; 0: unusable. */
static int rank_gid(const struct ibv_gid_entry *e, const union ibv_gid *wanted)
{
	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (wanted && memcmp(&e->gid, wanted, sizeof(*wanted)) == 0)
		return 4;
	if (is_v4(&e->gid))
		return 3;
	return e->gid.raw[0] == 0xfe ? 1 : 2;
}

/* The best GID of an Ethernet port; returns its rank. */
static int choose_gid(const struct rdma_device *d, struct ibv_context *c,
		      const struct ibv_port_attr *attr,
		      const union ibv_gid *wanted, struct rdma_port *p)
{
	int best = 0;

	for (int i = 0; i < attr->gid_tbl_len && i <= UINT8_MAX; i++) {
		struct ibv_gid_entry e = { .gid_index = 0 };
		int rank;

		if (d->ops->query_gid(c, p->number, (uint32_t)i, &e, 0,
				      sizeof(e)) != 0)
			continue;
		rank = rank_gid(&e, wanted);
		if (rank > best) {
			best = rank;
			p->gid = e.gid;
			p->gid_index = (uint8_t)i;
		}
	}
	return best;
}

/* Rank of a port; 0: unusable. */
static int rank_port(const struct rdma_device *d, struct ibv_context *c,
		     const union ibv_gid *wanted, struct rdma_port *p)
{
	struct ibv_port_attr attr = { .state = IBV_PORT_NOP };
	struct ibv_gid_entry e = { .gid_index = 0 };

	if (d->ops->query_port(c, p->number, &attr) != 0 ||
	    attr.state != IBV_PORT_ACTIVE)
		return 0;
	p->mtu = attr.active_mtu;
	p->lid = attr.lid;
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		p->fabric = RDMA_ROCE2;
		return choose_gid(d, c, &attr, wanted, p);
	}
	p->fabric = RDMA_INFINIBAND;
	p->gid_index = 0;
	if (d->ops->query_gid(c, p->number, 0, &e, 0, sizeof(e)) != 0)
		return 0;
	p->gid = e.gid;
	return 3;
}

static uint8_t clip_reads(int n)
{
	return (uint8_t)(n > (int)RDMA_READS_MAX ? (int)RDMA_READS_MAX : n);
}

/* Take over the best port of device `c` if it is better than that of `d`. */
static void gid_consider(struct rdma_device *d, struct ibv_context *c,
			 const char *name, const union ibv_gid *wanted,
			 int *best)
{
	struct ibv_device_attr attr;
	bool taken = false;

	if (d->ops->query_device(c, &attr) != 0 || attr.max_qp_rd_atom < 1 ||
	    attr.max_qp_init_rd_atom < 1) {
		d->ops->close_device(c);
		return;
	}
	for (unsigned int i = 1; i <= attr.phys_port_cnt; i++) {
		struct rdma_port p = { .number = (uint8_t)i };
		int rank = rank_port(d, c, wanted, &p);

		if (rank <= *best)
			continue;
		*best = rank;
		p.reads = clip_reads(attr.max_qp_rd_atom);
		p.begins = clip_reads(attr.max_qp_init_rd_atom);
		d->port = p;
		taken = true;
	}
	if (!taken) {
		d->ops->close_device(c);
		return;
	}
	if (d->context)
		d->ops->close_device(d->context);
	d->context = c;
	snprintf(d->name, sizeof(d->name), "%s", name);
}

static int gid_choose(struct rdma_device *d, const char *name, const char *addr,
		      struct error *err)
{
	union ibv_gid gid = { .raw = { 0 } };
	const union ibv_gid *wanted = NULL;
	struct ibv_device **list;
	int n = 0, best = 0;

	if (addr && (inet_pton(AF_INET6, addr, gid.raw) == 1 ||
		     inet_pton(AF_INET, addr, gid.raw + 12) == 1)) {
		if (!strchr(addr, ':'))
			gid.raw[10] = gid.raw[11] = 0xff;
		wanted = &gid;
	}
	list = d->ops->get_device_list(&n);
	if (!list)
		return error_set(err, ENODEV, "no RDMA devices: %s",
				 strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *of = d->ops->get_device_name(list[i]);
		struct ibv_context *c;

		if (!of || (name && strcmp(of, name) != 0))
			continue;
		c = d->ops->open_device(list[i]);
		if (c)
			gid_consider(d, c, of, wanted, &best);
	}
	d->ops->free_device_list(list);
	if (d->context)
		return 0;
	if (name)
		return error_set(err, ENODEV,
				 "no RDMA device '%s' with an active port",
				 name);
	return error_set(err, ENODEV,
			 "none of %d RDMA devices has an active port", n);
}

/* ------------------------------------------------------------ its memory --- */

/* Choose number and size of lanes within the configured memory and the device's limits. */
static int lanes_plan(struct rdma_device *d, uint64_t slab, struct error *err)
{
	struct ibv_device_attr attr;
	uint64_t lane = slab / RDMA_LINKS_MAX / (2 * RDMA_RUNS * KIB) *
			(2 * RDMA_RUNS * KIB);
	int64_t most;

	if (d->ops->query_device(d->context, &attr) != 0)
		return error_set(err, EIO, "query %s", d->name);
	lane = lane < LANE_MIN ? LANE_MIN : lane > LANE_MAX ? LANE_MAX : lane;
	if (attr.max_mr_size && attr.max_mr_size < lane / 2)
		return error_set(err, ENOMEM,
				 "%s registers at most %" PRIu64 " bytes at "
				 "once, %" PRIu64 " are needed",
				 d->name, attr.max_mr_size, lane / 2);
	most = (int64_t)(slab / lane);
	most = most > RDMA_LINKS_MAX ? RDMA_LINKS_MAX : most;
	most = most > attr.max_pd ? attr.max_pd : most;
	most = most > attr.max_qp ? attr.max_qp : most;
	most = most > attr.max_mr / 2 ? attr.max_mr / 2 : most;
	d->sends = SENDS_WANTED;
	if (attr.max_qp_wr > 0 && (unsigned int)attr.max_qp_wr < d->sends)
		d->sends = (unsigned int)attr.max_qp_wr;
	/* After a fault all work requests complete at once and must fit the queue. */
	while (most > 1 && (int64_t)d->sends * most > attr.max_cqe)
		most--;
	if (most < 1 || d->sends < SENDS_MIN)
		return error_set(err, ENOMEM,
				 "%s has no room for one link, or %" PRIu64
				 " MiB are too few: %" PRIu64 " are needed",
				 d->name, slab / MIB, lane / MIB);
	d->half = lane / 2;
	d->n_lanes = (unsigned int)most;
	d->slab_len = (size_t)most * lane;
	return 0;
}

static int map_slab(struct rdma_device *d, struct error *err)
{
	void *p = mmap(NULL, d->slab_len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return error_set(err, ENOMEM, "%zu MiB for RDMA: %s",
				 d->slab_len / (size_t)MIB, strerror(errno));
	d->slab = p;
	/* Without this, copy-on-write after a fork would separate this memory from the pages
	 * that the card writes. */
	if (madvise(p, d->slab_len, MADV_DONTFORK) < 0)
		return error_errno(err, errno, "keep RDMA's memory from forks");
	(void)madvise(p, d->slab_len, MADV_HUGEPAGE); /* optional */
	return 0;
}

static int register_half(struct rdma_device *d, struct ibv_pd *pd,
			 struct rdma_half *h, char *mem, int access,
			 struct error *err)
{
	struct rlimit limit = { .rlim_cur = 0 };

	h->mem = mem;
	errno = 0;
	h->mr = d->ops->reg_mr(pd, mem, d->half, access);
	if (h->mr)
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur < d->slab_len)
		return error_set(
			err, EPERM,
			"%zu MiB cannot be registered with %s: at most "
			"%" PRIu64 " KiB may be locked (raise "
			"RLIMIT_MEMLOCK, LimitMEMLOCK= of the unit)",
			d->slab_len / (size_t)MIB, d->name,
			(uint64_t)limit.rlim_cur / KIB);
	return error_errno(err, errno ? errno : EIO,
			   "%zu MiB cannot be registered with %s",
			   d->slab_len / (size_t)MIB, d->name);
}

static int make_lanes(struct rdma_device *d, struct error *err)
{
	for (unsigned int i = 0; i < d->n_lanes; i++) {
		struct rdma_lane *lane = &d->lanes[i];
		char *mem = d->slab + i * 2 * d->half;
		int rc;

		errno = 0;
		lane->pd = d->ops->alloc_pd(d->context);
		if (!lane->pd)
			return error_set(err, errno ? errno : EIO,
					 "protection domain of %s: %s", d->name,
					 strerror(errno));
		rc = register_half(d, lane->pd, &lane->serve, mem,
				   IBV_ACCESS_REMOTE_READ, err);
		if (rc == 0)
			rc = register_half(d, lane->pd, &lane->pull,
					   mem + d->half,
					   IBV_ACCESS_LOCAL_WRITE, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int make_queue(struct rdma_device *d, struct error *err)
{
	d->channel = d->ops->create_comp_channel(d->context);
	if (!d->channel)
		return error_set(err, EIO, "completion channel of %s", d->name);
	d->cq = d->ops->create_cq(d->context, (int)(d->sends * d->n_lanes),
				  NULL, d->channel, 0);
	if (!d->cq || d->ops->req_notify_cq(d->cq, 0) != 0)
		return error_set(err, EIO, "completion queue of %s", d->name);
	if (set_nonblock(d->channel->fd) < 0 ||
	    set_nonblock(d->context->async_fd) < 0)
		return error_set(err, EIO, "events of %s", d->name);
	return 0;
}

int rdma_device_open(struct rdma_device *d, const char *name, const char *addr,
		     uint64_t slab, struct error *err)
{
	char gid[INET6_ADDRSTRLEN] = "";
	int rc = gid_choose(d, name, addr, err);

	if (rc == 0)
		rc = lanes_plan(d, slab, err);
	if (rc == 0)
		rc = make_queue(d, err);
	if (rc == 0)
		rc = map_slab(d, err);
	if (rc == 0)
		rc = make_lanes(d, err);
	if (rc < 0) {
		rdma_device_close(d);
		return rc;
	}
	(void)inet_ntop(AF_INET6, d->port.gid.raw, gid, sizeof(gid));
	snprintf(d->text, sizeof(d->text),
		 "%s port %u gid %s, %u lanes of %zu KiB", d->name,
		 d->port.number, gid, d->n_lanes, 2 * d->half / (size_t)KIB);
	return 0;
}

void rdma_device_close(struct rdma_device *d)
{
	for (unsigned int i = 0; i < d->n_lanes; i++) {
		struct rdma_lane *lane = &d->lanes[i];

		if (lane->serve.mr)
			d->ops->dereg_mr(lane->serve.mr);
		if (lane->pull.mr)
			d->ops->dereg_mr(lane->pull.mr);
		if (lane->pd)
			d->ops->dealloc_pd(lane->pd);
		memset(lane, 0, sizeof(*lane));
	}
	if (d->slab)
		(void)munmap(d->slab, d->slab_len);
	d->slab = NULL;
	if (d->cq)
		d->ops->destroy_cq(d->cq);
	if (d->channel)
		d->ops->destroy_comp_channel(d->channel);
	if (d->context)
		d->ops->close_device(d->context);
	d->cq = NULL;
	d->channel = NULL;
	d->context = NULL;
}

/* ----------------------------------------------------------------- lanes --- */

struct rdma_lane *rdma_lane_take(struct rdma_device *d)
{
	for (unsigned int i = 0; i < d->n_lanes; i++) {
		struct rdma_lane *lane = &d->lanes[i];

		if (lane->taken)
			continue;
		lane->taken = true;
		lane->serve.used = lane->pull.used = 0;
		/* Clear the memory: the peer must not read what another peer was sent. */
		memset(lane->serve.mem, 0, d->half);
		return lane;
	}
	return NULL;
}

void rdma_lane_give(struct rdma_lane *lane)
{
	lane->taken = false;
}

uint64_t rdma_half_take(const struct rdma_device *d, struct rdma_half *h,
			uint32_t len)
{
	const size_t part = d->half / RDMA_RUNS;
	size_t n = (rdma_stamp_at(len) + RDMA_STAMP_SIZE + part - 1) / part;
	uint64_t bits;

	if (n == 0 || n > RDMA_RUNS)
		return 0;
	bits = n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
	for (size_t i = 0; i + n <= RDMA_RUNS; i++) {
		if ((h->used & bits << i) == 0) {
			h->used |= bits << i;
			return bits << i;
		}
	}
	return 0;
}

void rdma_half_give(struct rdma_half *h, uint64_t bits)
{
	h->used &= ~bits;
}

char *rdma_half_at(const struct rdma_device *d, const struct rdma_half *h,
		   uint64_t bits)
{
	return h->mem + (size_t)__builtin_ctzll(bits) * (d->half / RDMA_RUNS);
}

/* ----------------------------------------------------------- queue pairs --- */

int rdma_qp_new(struct rdma_device *d, struct rdma_lane *lane,
		struct ibv_qp **ret, struct error *err)
{
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = d->sends,
			 .max_recv_wr = 1, /* some devices refuse 0 */
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = d->port.number,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp;
	int rc;

	errno = 0;
	qp = d->ops->create_qp(lane->pd, &init);
	if (!qp)
		return error_errno(err, errno ? errno : EIO, "queue pair of %s",
				   d->name);
	rc = d->ops->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
	if (rc != 0) {
		d->ops->destroy_qp(qp);
		return error_set(err, rc > 0 ? rc : EIO, "queue pair to INIT");
	}
	*ret = qp;
	return 0;
}

static void gid_address(const struct rdma_device *d,
			const struct rdma_end *peer, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){ .port_num = d->port.number };
	ah->dlid = peer->lid;
	/* The first half of a GID is its subnet. */
	if (d->port.fabric == RDMA_INFINIBAND &&
	    memcmp(d->port.gid.raw, peer->gid, 8) == 0)
		return;
	ah->is_global = 1;
	ah->grh.sgid_index = d->port.gid_index;
	ah->grh.hop_limit = 64;
	memcpy(ah->grh.dgid.raw, peer->gid, sizeof(peer->gid));
}

int rdma_qp_connect(struct rdma_device *d, struct ibv_qp *qp, uint32_t psn,
		    const struct rdma_end *peer, struct error *err)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = d->port.reads,
		.min_rnr_timer = 12, /* 0.64 ms */
	};
	int rc;

	if (attr.path_mtu > d->port.mtu)
		attr.path_mtu = d->port.mtu;
	gid_address(d, peer, &attr.ah_attr);
	rc = d->ops->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	if (rc != 0)
		return error_set(err, rc > 0 ? rc : EIO, "queue pair to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = 16, /* 0.27 s; 14 gave up while many connected */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = d->port.begins < peer->rd_atomic
					 ? d->port.begins
					 : peer->rd_atomic,
	};
	rc = d->ops->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC);
	if (rc != 0)
		return error_set(err, rc > 0 ? rc : EIO, "queue pair to RTS");
	return 0;
}
