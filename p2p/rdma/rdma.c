// SPDX-License-Identifier: Apache-2.0
/* The device's events and deadlines; links are in rdma_link.c. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/rdma/rdma_priv.h"

#define MS ((int64_t)1000 * 1000)
#define SECOND (1000 * MS)
#define TICK (20 * MS)
#define POLL_BATCH 16
#define POLL_ROUNDS 32 /* of batches in one turn of the loop */

const struct rdma_times rdma_times_default = {
	.handshake = 2 * SECOND,
	.lease = 200 * MS,
	.stall = 1 * SECOND,
	.forget = 2 * SECOND,
	.idle = 10 * SECOND,
	.retry = 100 * MS,
	.ban = 30 * SECOND,
	.ban_max = 300 * SECOND,
};

/* --------------------------------------------------------------- deadlines --- */

/* When this link must be looked at again; INT64_MAX: never by itself. */
static int64_t link_next(const struct rdma_link *l, int64_t now)
{
	if (l->state == RDMA_OFFERED || l->state == RDMA_ACCEPTED)
		return l->deadline;
	if (l->state == RDMA_UP)
		return l->n_served || l->n_pulls ? now + TICK : INT64_MAX;
	if (l->r->is_broken || l->moved < l->r->cfg.min_moved)
		return INT64_MAX;
	return l->retry_at;
}

static void check_link_deadline(struct rdma_link *l, int64_t now)
{
	const char *why;

	switch (l->state) {
	case RDMA_NONE:
		rdma_link_try(l, now);
		return;
	case RDMA_OFFERED:
	case RDMA_ACCEPTED:
		if (now >= l->deadline)
			rdma_link_fail(l, "no answer to the handshake");
		return;
	case RDMA_UP:
		why = rdma_transfer_overdue(l, now);
		if (why)
			rdma_link_fail(l, why);
		return;
	}
}

static void on_timer(struct loop_timer *t)
{
	struct rdma *r = container_of(t, struct rdma, timer);
	int64_t now = clock_now_ns(), next = INT64_MAX;

	r->timer_at = 0;
	rdma_enter(r);
	for (struct rdma_link *l = r->links; l; l = l->next) {
		if (!l->is_dead)
			check_link_deadline(l, now);
	}
	for (struct rdma_link *l = r->links; l; l = l->next) {
		int64_t at = l->is_dead ? INT64_MAX : link_next(l, now);

		next = at < next ? at : next;
	}
	rdma_leave(r);
	if (next != INT64_MAX)
		rdma_wake(r, next - now);
}

/* ------------------------------------------------------------- completions --- */

static void fail_all(struct rdma *r, const char *why)
{
	for (struct rdma_link *l = r->links; l; l = l->next) {
		if (!l->is_dead && l->state != RDMA_NONE)
			rdma_link_fail(l, why);
	}
}

static void break_device(struct rdma *r, const char *why)
{
	r->is_broken = true;
	fail_all(r, why);
}

static void transfer_complete(struct rdma *r, const struct ibv_wc *wc)
{
	struct rdma_link *l =
		r->by_lane[RDMA_WR_LANE(wc->wr_id) % RDMA_LINKS_MAX];

	/* Completions of a queue pair may outlive it. */
	if (l && l->state == RDMA_UP && l->serial == RDMA_WR_SERIAL(wc->wr_id))
		rdma_transfer_complete(l, wc);
}

static void poll_all(struct rdma *r)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = 0;

	for (int round = 0; round < POLL_ROUNDS; round++) {
		n = r->dev.ops->poll_cq(r->dev.cq, POLL_BATCH, wc);
		for (int i = 0; i < n; i++)
			transfer_complete(r, &wc[i]);
		if (n < POLL_BATCH)
			break;
	}
	if (n < 0)
		break_device(r, "the completion queue cannot be read");
	else if (n == POLL_BATCH &&
		 loop_timer_start(r->cfg.loop, &r->again, 0, NULL) < 0)
		break_device(r, "out of memory");
}

static void on_poll_again_timer(struct loop_timer *t)
{
	struct rdma *r = container_of(t, struct rdma, again);

	rdma_enter(r);
	if (!r->is_broken)
		poll_all(r);
	rdma_leave(r);
}

static void on_completions(struct loop_watch *w, unsigned int ready)
{
	struct rdma *r = container_of(w, struct rdma, completions);
	struct ibv_cq *cq;
	void *context;
	unsigned int n = 0;

	rdma_enter(r);
	while (r->dev.ops->get_cq_event(r->dev.channel, &cq, &context) == 0)
		n++;
	if (n > 0)
		r->dev.ops->ack_cq_events(r->dev.cq, n);
	/* Request the next notification before polling, so that no completion is missed. */
	if (n > 0 && !r->is_broken) {
		if (r->dev.ops->req_notify_cq(r->dev.cq, 0) != 0)
			break_device(r, "the completion queue is mute");
		else
			poll_all(r);
	}
	rdma_leave(r);
}

/* ------------------------------------------------------------------ faults --- */

static void rdma_fault(struct rdma *r, enum ibv_event_type type,
		       const struct ibv_qp *qp)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		for (struct rdma_link *l = r->links; l; l = l->next) {
			if (!l->is_dead && l->qp == qp)
				rdma_link_fail(l, "the queue pair failed");
		}
		return;
	case IBV_EVENT_CQ_ERR:
		break_device(r, "the completion queue ran over");
		return;
	case IBV_EVENT_DEVICE_FATAL:
		break_device(r, "the device failed");
		return;
	case IBV_EVENT_PORT_ERR:
		fail_all(r, "the port went down");
		return;
	default:
		return;
	}
}

static void on_faults(struct loop_watch *w, unsigned int ready)
{
	struct rdma *r = container_of(w, struct rdma, faults);
	struct ibv_async_event e;

	rdma_enter(r);
	while (r->dev.ops->get_async_event(r->dev.context, &e) == 0) {
		/* Acknowledge first: a queue pair cannot be destroyed with events outstanding.
		 * The pointer is only compared. */
		const struct ibv_qp *qp = e.element.qp;

		r->dev.ops->ack_async_event(&e);
		rdma_fault(r, e.event_type, qp);
	}
	rdma_leave(r);
}

/* ------------------------------------------------------------ whole of it --- */

static void fill_times(struct rdma_times *t)
{
	const struct rdma_times *d = &rdma_times_default;

#define FILL(member) (t->member = t->member ? t->member : d->member)
	FILL(handshake);
	FILL(lease);
	FILL(stall);
	FILL(forget);
	FILL(idle);
	FILL(retry);
	FILL(ban);
	FILL(ban_max);
#undef FILL
}

static int recv_fill(struct rdma *r, const struct rdma_config *cfg,
		     struct error *err)
{
	r->cfg = *cfg;
	r->cfg.slab = cfg->slab ? cfg->slab : 256 * MIB;
	r->cfg.min_moved = cfg->min_moved ? cfg->min_moved : 64 * MIB;
	fill_times(&r->cfg.times);
	r->completions.fn = on_completions;
	r->faults.fn = on_faults;
	r->timer.fn = on_timer;
	r->again.fn = on_poll_again_timer;
	r->random = cfg->seed;
	if (!cfg->seed && getrandom(&r->random, sizeof(r->random), 0) !=
				  (ssize_t)sizeof(r->random))
		return error_set(err, errno, "random numbers");
	r->node = strdup(cfg->node);
	if (!r->node)
		return error_nomem(err);
	r->cfg.node = r->node;
	return 0;
}

int rdma_new(const struct rdma_config *cfg, struct rdma **ret,
	     struct error *err)
{
	AUTO(rdma) r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_nomem(err);
	rc = recv_fill(r, cfg, err);
	if (rc < 0)
		return rc;
	if (!cfg->verbs) {
		rc = verbs_open(&r->library, err);
		if (rc < 0)
			return rc;
	}
	r->dev.ops = cfg->verbs ? cfg->verbs : verbs_table(r->library);
	rc = rdma_device_open(&r->dev, cfg->device, cfg->addr, r->cfg.slab,
			      err);
	if (rc == 0)
		rc = loop_watch_start(cfg->loop, &r->completions,
				      r->dev.channel->fd, LOOP_READ, err);
	if (rc == 0)
		rc = loop_watch_start(cfg->loop, &r->faults,
				      r->dev.context->async_fd, LOOP_READ, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&r);
	return 0;
}

void rdma_free(struct rdma *r)
{
	if (!r)
		return;
	assert(!r->links && r->busy == 0);
	loop_watch_stop(&r->completions);
	loop_watch_stop(&r->faults);
	loop_timer_stop(&r->timer);
	loop_timer_stop(&r->again);
	if (r->dev.ops)
		rdma_device_close(&r->dev);
	verbs_free(r->library);
	for (size_t i = 0; i < RDMA_BANS_MAX; i++)
		free(r->bans[i].peer);
	free(r->node);
	free(r);
}

void rdma_get_stats(const struct rdma *r, struct rdma_stats *ret)
{
	*ret = r->stats;
	ret->links = 0;
	for (const struct rdma_link *l = r->links; l; l = l->next)
		ret->links += l->state == RDMA_UP;
}

const char *rdma_device(const struct rdma *r)
{
	return r->dev.text;
}
