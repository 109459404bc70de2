// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "verbs_mock.h"

#define QPS_MAX 512u
#define MRS_MAX 1024u
#define CONTEXTS_MAX 32u
#define EVENTS_MAX 256u
#define HELD_MAX 4096u

struct mock_context {
	struct ibv_context base;
	unsigned int device;
	struct ibv_async_event events[EVENTS_MAX];
	unsigned int n_events;
};

struct mock_cq {
	struct ibv_cq base;
	struct ibv_wc *wc;
	unsigned int n, first;
	bool is_armed;
};

struct mock_mr {
	struct ibv_mr base;
	int access;
};

struct mock_qp {
	struct ibv_qp base;
	uint32_t dest;
};

struct held {
	uint32_t qpn;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

struct verbs_mock verbs_mock;
static struct ibv_device devices[MOCK_DEVICES];
static struct mock_context *contexts[CONTEXTS_MAX];
static struct mock_qp *qps[QPS_MAX];
static struct mock_mr *mrs[MRS_MAX];
static struct held held[HELD_MAX];
static unsigned int n_held;
static uint32_t next_key, next_qpn;

void verbs_mock_reset(void)
{
	memset(&verbs_mock, 0, sizeof(verbs_mock));
	verbs_mock.n_devices = 2;
	for (unsigned int i = 0; i < MOCK_DEVICES; i++)
		verbs_mock.port_state[i] = IBV_PORT_ACTIVE;
	verbs_mock.link_layer = IBV_LINK_LAYER_ETHERNET;
	verbs_mock.max_cqe = 1 << 16;
	verbs_mock.max_pd = 1 << 10;
	verbs_mock.max_mr_size = UINT64_MAX;
	n_held = 0;
}

/* ------------------------------------------------------------------ faults --- */

/* Count down to the fault: it, or 0. */
static int due(const int *fault, int *after)
{
	if (!*fault)
		return 0;
	if (*after > 0) {
		--*after;
		return 0;
	}
	return *fault;
}

static void *refuse(int code)
{
	errno = code;
	return NULL;
}

/* ----------------------------------------------------------------- devices --- */

static struct ibv_device **get_device_list(int *n)
{
	struct ibv_device **list = calloc(MOCK_DEVICES + 1, sizeof(*list));

	assert(list);
	for (unsigned int i = 0; i < verbs_mock.n_devices; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "mock%u", i);
		list[i] = &devices[i];
	}
	*n = (int)verbs_mock.n_devices;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct mock_context *c = calloc(1, sizeof(*c));
	unsigned int i = 0;

	assert(c);
	while (i < CONTEXTS_MAX && contexts[i])
		i++;
	assert(i < CONTEXTS_MAX);
	contexts[i] = c;
	c->base.device = device;
	c->base.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	c->device = (unsigned int)(device - devices);
	verbs_mock.n_contexts++;
	return &c->base;
}

static struct mock_context *of_context(struct ibv_context *context)
{
	return (struct mock_context *)(void *)context;
}

static int close_device(struct ibv_context *context)
{
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++) {
		if (contexts[i] == of_context(context))
			contexts[i] = NULL;
	}
	(void)close(context->async_fd);
	free(context);
	verbs_mock.n_contexts--;
	return 0;
}

static int query_device(struct ibv_context *context,
			struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = verbs_mock.max_mr_size;
	attr->max_qp = QPS_MAX;
	attr->max_qp_wr = 1024;
	attr->max_cqe = verbs_mock.max_cqe;
	attr->max_mr = MRS_MAX;
	attr->max_pd = verbs_mock.max_pd;
	attr->max_qp_rd_atom = 128;
	attr->max_qp_init_rd_atom = 4;
	attr->phys_port_cnt = 1;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port,
		      struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = verbs_mock.port_state[of_context(context)->device];
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = 4;
	attr->link_layer = verbs_mock.link_layer;
	attr->lid = (uint16_t)(1 + of_context(context)->device);
	return 0;
}

/* 0: link-local of version 1; 1: link-local; 2: the IPv4 address; 3: empty. */
static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	const uint8_t node = (uint8_t)(1 + of_context(context)->device);

	assert(size == sizeof(*entry) && port == 1);
	if (index > 2)
		return ENODATA;
	memset(entry, 0, sizeof(*entry));
	entry->gid_index = index;
	entry->gid_type =
		index == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	if (index < 2) {
		entry->gid.raw[0] = 0xfe;
		entry->gid.raw[1] = 0x80;
		entry->gid.raw[15] = node;
		return 0;
	}
	entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
	entry->gid.raw[12] = 10;
	entry->gid.raw[15] = node;
	return 0;
}

static bool take_event(int fd)
{
	eventfd_t v;

	return eventfd_read(fd, &v) == 0;
}

static int get_async_event(struct ibv_context *context,
			   struct ibv_async_event *event)
{
	struct mock_context *c = of_context(context);

	if (!take_event(context->async_fd))
		return -1;
	assert(c->n_events > 0);
	*event = c->events[0];
	memmove(c->events, c->events + 1, --c->n_events * sizeof(*event));
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
}

static void put_event(struct mock_context *c, enum ibv_event_type type,
		      struct ibv_qp *qp)
{
	assert(c->n_events < EVENTS_MAX);
	c->events[c->n_events].event_type = type;
	c->events[c->n_events++].element.qp = qp;
	assert(eventfd_write(c->base.async_fd, 1) == 0);
}

void verbs_mock_event(enum ibv_event_type type)
{
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++) {
		if (contexts[i] && type != IBV_EVENT_QP_FATAL)
			put_event(contexts[i], type, NULL);
	}
	for (unsigned int i = 0; i < QPS_MAX; i++) {
		if (qps[i] && type == IBV_EVENT_QP_FATAL)
			put_event(of_context(qps[i]->base.context), type,
				  &qps[i]->base);
	}
}

/* ------------------------------------------------------------------ memory --- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	assert(pd);
	pd->context = context;
	verbs_mock.n_pds++;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	verbs_mock.n_pds--;
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	struct mock_mr *m;
	unsigned int i = 0;
	int code = due(&verbs_mock.reg_mr, &verbs_mock.reg_mr_after);

	if (code)
		return refuse(code);
	m = calloc(1, sizeof(*m));
	while (i < MRS_MAX && mrs[i])
		i++;
	assert(m && i < MRS_MAX);
	mrs[i] = m;
	m->base.pd = pd;
	m->base.context = pd->context;
	m->base.addr = addr;
	m->base.length = len;
	m->base.lkey = m->base.rkey = ++next_key;
	m->access = access;
	verbs_mock.n_mrs++;
	return &m->base;
}

static int dereg_mr(struct ibv_mr *mr)
{
	for (unsigned int i = 0; i < MRS_MAX; i++) {
		if (mrs[i] && &mrs[i]->base == mr)
			mrs[i] = NULL;
	}
	free(mr);
	verbs_mock.n_mrs--;
	return 0;
}

/* Whether the key allows it: as a card does it. */
static bool may(const struct ibv_pd *pd, uint32_t key, uint64_t addr,
		uint32_t len, int access)
{
	for (unsigned int i = 0; i < MRS_MAX; i++) {
		const struct mock_mr *m = mrs[i];
		uint64_t begin;

		if (!m || m->base.lkey != key)
			continue;
		begin = (uintptr_t)m->base.addr;
		return m->base.pd == pd && (m->access & access) == access &&
		       addr >= begin && addr + len <= begin + m->base.length;
	}
	return false;
}

/* ------------------------------------------------------------- completions --- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *c = calloc(1, sizeof(*c));

	assert(c);
	c->context = context;
	c->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	return c;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	(void)close(channel->fd);
	free(channel);
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe,
				void *cq_context,
				struct ibv_comp_channel *channel,
				int comp_vector)
{
	struct mock_cq *q = calloc(1, sizeof(*q));

	assert(q && cqe > 0 && cqe <= verbs_mock.max_cqe);
	q->wc = calloc((size_t)cqe, sizeof(*q->wc));
	assert(q->wc);
	q->base.context = context;
	q->base.channel = channel;
	q->base.cqe = cqe;
	/* get_cq_event() is given a channel only. */
	channel->refcnt = 0;
	verbs_mock.n_cqs++;
	return &q->base;
}

static int destroy_cq(struct ibv_cq *cq)
{
	struct mock_cq *q = (struct mock_cq *)(void *)cq;

	free(q->wc);
	free(q);
	verbs_mock.n_cqs--;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			void **cq_context)
{
	*cq = NULL; /* the caller has one only */
	*cq_context = NULL;
	return take_event(channel->fd) ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	cq->comp_events_completed += n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	((struct mock_cq *)(void *)cq)->is_armed = true;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct mock_cq *q = (struct mock_cq *)(void *)cq;
	int i = 0;

	while (i < n && q->n > 0) {
		wc[i++] = q->wc[q->first];
		q->first = (q->first + 1) % (unsigned int)cq->cqe;
		q->n--;
	}
	return i;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "flushed",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_RETRY_EXC_ERR] = "no answer",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "receiver not ready",
	};

	return status < ARRAY_SIZE(names) && names[status] ? names[status]
							   : "another error";
}

static void complete(struct mock_qp *qp, uint64_t wr_id,
		     enum ibv_wc_status status)
{
	struct mock_cq *q = (struct mock_cq *)(void *)qp->base.send_cq;
	struct ibv_wc *wc;

	if (q->n == (unsigned int)q->base.cqe) {
		put_event(of_context(qp->base.context), IBV_EVENT_CQ_ERR, NULL);
		return;
	}
	wc = &q->wc[(q->first + q->n++) % (unsigned int)q->base.cqe];
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr_id;
	wc->status = status;
	wc->opcode = IBV_WC_RDMA_READ;
	wc->qp_num = qp->base.qp_num;
	if (q->is_armed) {
		q->is_armed = false;
		assert(eventfd_write(q->base.channel->fd, 1) == 0);
	}
}

/* ------------------------------------------------------------- queue pairs --- */

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct mock_qp *q;
	unsigned int i = 0;
	int code = due(&verbs_mock.create_qp, &verbs_mock.create_qp_after);

	if (code)
		return refuse(code);
	q = calloc(1, sizeof(*q));
	while (i < QPS_MAX && qps[i])
		i++;
	assert(q && i < QPS_MAX);
	qps[i] = q;
	q->base.context = pd->context;
	q->base.pd = pd;
	q->base.send_cq = attr->send_cq;
	q->base.recv_cq = attr->recv_cq;
	q->base.qp_num = ++next_qpn & 0xffffff;
	q->base.state = IBV_QPS_RESET;
	if (++verbs_mock.n_qps > verbs_mock.qps_most)
		verbs_mock.qps_most = verbs_mock.n_qps;
	return &q->base;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct mock_qp *q = (struct mock_qp *)(void *)qp;
	int code = due(&verbs_mock.modify_qp, &verbs_mock.modify_qp_after);

	if (code)
		return code;
	if (attr->qp_state != qp->state + 1 || !(mask & IBV_QP_STATE))
		return EINVAL;
	if (attr->qp_state == IBV_QPS_RTR) {
		if (attr->path_mtu > IBV_MTU_1024 || attr->rq_psn >> 24 ||
		    attr->max_dest_rd_atomic > 16)
			return EINVAL;
		q->dest = attr->dest_qp_num;
	}
	if (attr->qp_state == IBV_QPS_RTS && attr->max_rd_atomic > 4)
		return EINVAL;
	qp->state = attr->qp_state;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	for (unsigned int i = 0; i < QPS_MAX; i++) {
		if (qps[i] && &qps[i]->base == qp)
			qps[i] = NULL;
	}
	free(qp);
	verbs_mock.n_qps--;
	return 0;
}

static struct mock_qp *find_qp(uint32_t number)
{
	for (unsigned int i = 0; i < QPS_MAX; i++) {
		if (qps[i] && qps[i]->base.qp_num == number)
			return qps[i];
	}
	return NULL;
}

static enum ibv_wc_status carry_out(const struct mock_qp *q,
				    const struct ibv_send_wr *wr,
				    const struct ibv_sge *sge)
{
	struct mock_qp *to = find_qp(q->dest);

	if (verbs_mock.read_status != IBV_WC_SUCCESS)
		return verbs_mock.read_status;
	if (!may(q->base.pd, sge->lkey, sge->addr, sge->length,
		 IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (!to || to->dest != q->base.qp_num || to->base.state < IBV_QPS_RTR ||
	    to->base.state > IBV_QPS_RTS)
		return IBV_WC_RETRY_EXC_ERR;
	if (!may(to->base.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
		 sge->length, IBV_ACCESS_REMOTE_READ)) {
		to->base.state = IBV_QPS_ERR;
		put_event(of_context(to->base.context), IBV_EVENT_QP_ACCESS_ERR,
			  &to->base);
		return IBV_WC_REM_ACCESS_ERR;
	}
	memcpy((void *)(uintptr_t)sge->addr,
	       (const void *)(uintptr_t)wr->wr.rdma.remote_addr, sge->length);
	return IBV_WC_SUCCESS;
}

static void execute(uint32_t qpn, const struct ibv_send_wr *wr,
		    const struct ibv_sge *sge)
{
	struct mock_qp *q = find_qp(qpn);
	enum ibv_wc_status status;

	if (!q)
		return;
	status = q->base.state == IBV_QPS_RTS ? carry_out(q, wr, sge)
					      : IBV_WC_WR_FLUSH_ERR;
	verbs_mock.reads++;
	if (status != IBV_WC_SUCCESS)
		q->base.state = IBV_QPS_ERR;
	if (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED) {
		verbs_mock.signals++;
		complete(q, wr->wr_id, status);
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	*bad = wr;
	if (verbs_mock.post_send)
		return verbs_mock.post_send;
	for (; wr; wr = wr->next) {
		assert(wr->num_sge == 1 && wr->opcode == IBV_WR_RDMA_READ);
		assert(n_held < HELD_MAX);
		if (verbs_mock.is_held)
			held[n_held++] = (struct held){ .qpn = qp->qp_num,
							.wr = *wr,
							.sge = *wr->sg_list };
		else if (!verbs_mock.is_mute)
			execute(qp->qp_num, wr, wr->sg_list);
	}
	return 0;
}

void verbs_mock_release(void)
{
	unsigned int n = n_held;

	verbs_mock.is_held = false;
	n_held = 0;
	for (unsigned int i = 0; i < n; i++)
		execute(held[i].qpn, &held[i].wr, &held[i].sge);
}

const struct verbs_ops verbs_mock_ops = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = get_device_name,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.req_notify_cq = req_notify_cq,
	.poll_cq = poll_cq,
	.wc_status_str = wc_status_str,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.post_send = post_send,
};
