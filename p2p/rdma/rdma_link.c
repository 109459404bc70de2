// SPDX-License-Identifier: Apache-2.0
/*
 * When a link gets a queue pair, how the two ends agree on it, and when it loses
 * it again.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/rdma/rdma_priv.h"

#define MS ((int64_t)1000 * 1000)

/* -------------------------------------------------------------- who is banned --- */

static struct rdma_ban *find_ban(struct rdma *r, const char *peer)
{
	for (size_t i = 0; i < RDMA_BANS_MAX; i++) {
		if (r->bans[i].peer && strcmp(r->bans[i].peer, peer) == 0)
			return &r->bans[i];
	}
	return NULL;
}

/* A place for `peer`, a free one or that of the ban which ends first. */
static struct rdma_ban *new_ban(struct rdma *r, const char *peer)
{
	struct rdma_ban *b = &r->bans[0];
	char *name = strdup(peer);

	if (!name)
		return NULL;
	for (size_t i = 0; i < RDMA_BANS_MAX && b->peer; i++) {
		if (!r->bans[i].peer || r->bans[i].until < b->until)
			b = &r->bans[i];
	}
	free(b->peer);
	*b = (struct rdma_ban){ .peer = name };
	return b;
}

/* Leave the peer alone for half of a length to the whole of it, and that twice as
 * long as the last time. */
static void ban(struct rdma_link *l, int64_t now)
{
	struct rdma *r = l->r;
	const struct rdma_times *t = &r->cfg.times;
	struct rdma_ban *b = find_ban(r, l->peer);
	int64_t length = t->ban;

	if (!b)
		b = new_ban(r, l->peer);
	else if (now < b->until + t->ban_max) /* else it is long ago */
		length =
			b->length * 2 < t->ban_max ? b->length * 2 : t->ban_max;
	l->retry_at = now + rdma_jitter(r, length / 2);
	if (b) {
		b->length = length;
		b->until = l->retry_at;
	}
}

static int64_t banned_until(struct rdma_link *l)
{
	const struct rdma_ban *b = find_ban(l->r, l->peer);

	return b ? b->until : 0;
}

/* ------------------------------------------------------------------- an end --- */

void rdma_link_reset(struct rdma_link *l)
{
	if (l->qp)
		l->r->dev.ops->destroy_qp(l->qp);
	l->qp = NULL;
	if (l->lane) {
		l->r->by_lane[l->lane - l->r->dev.lanes] = NULL;
		rdma_lane_give(l->lane);
	}
	l->lane = NULL;
	l->state = RDMA_NONE;
	rdma_transfer_reset(l);
}

static void close_link(struct rdma_link *l, enum rdma_close why)
{
	rdma_link_refuse(l, l->epoch, why, 0);
	rdma_link_reset(l);
}

void rdma_link_refuse(struct rdma_link *l, uint32_t epoch, enum rdma_close why,
		      int64_t retry_ns)
{
	int64_t ms = retry_ns / MS;
	struct rdma_msg m = { .type = RDMA_CLOSE, .epoch = epoch };

	m.close.why = why;
	m.close.retry_ms = ms < 0                ? 0
			   : ms > UINT32_MAX / 2 ? UINT32_MAX / 2
						 : (uint32_t)ms;
	rdma_tell(l, &m);
}

void rdma_link_fail(struct rdma_link *l, const char *why)
{
	struct rdma *r = l->r;

	r->stats.failed_total++;
	ban(l, clock_now_ns());
	rdma_wake(r, l->retry_at - clock_now_ns());
	if (!l->is_dead && r->cfg.events->fault)
		r->cfg.events->fault(l->user, why);
	close_link(l, RDMA_CLOSE_FAILED);
}

/* ------------------------------------------------------------- a beginning --- */

static bool may_shake(const struct rdma *r)
{
	unsigned int n = 0;

	for (const struct rdma_link *l = r->links; l; l = l->next)
		n += l->state == RDMA_OFFERED || l->state == RDMA_ACCEPTED;
	return n < RDMA_HANDSHAKES_MAX;
}

/* A lane, if need be that of the link which has been of no use for longest. */
static struct rdma_lane *get_lane(struct rdma *r, int64_t now)
{
	struct rdma_lane *lane = rdma_lane_take(&r->dev);
	struct rdma_link *idle = NULL;

	if (lane)
		return lane;
	for (struct rdma_link *l = r->links; l; l = l->next) {
		if (l->state != RDMA_UP || l->n_served || l->n_pulls ||
		    now - l->used < r->cfg.times.idle)
			continue;
		if (!idle || l->used < idle->used)
			idle = l;
	}
	if (!idle)
		return NULL;
	r->stats.evicted_total++;
	idle->moved = 0; /* to be earned again */
	close_link(idle, RDMA_CLOSE_IDLE);
	return rdma_lane_take(&r->dev);
}

/* Lane and queue pair: 0, or -EBUSY while there is no lane. */
static int get_end(struct rdma_link *l, int64_t now, struct error *err)
{
	struct rdma *r = l->r;
	int rc;

	l->lane = get_lane(r, now);
	if (!l->lane)
		return error_set(err, EBUSY, "all lanes are in use");
	rc = rdma_qp_new(&r->dev, l->lane, &l->qp, err);
	if (rc < 0) {
		rdma_lane_give(l->lane);
		l->lane = NULL;
		return rc;
	}
	r->by_lane[l->lane - r->dev.lanes] = l;
	l->serial = ++r->serials;
	l->psn = (uint32_t)rdma_random(r) & 0xffffff;
	l->sends = r->dev.sends;
	l->used = now;
	l->deadline = now + r->cfg.times.handshake;
	rdma_wake(r, r->cfg.times.handshake);
	return 0;
}

static void tell_end(struct rdma_link *l, enum rdma_type type)
{
	const struct rdma_device *d = &l->r->dev;
	struct rdma_msg m = { .type = type, .epoch = l->epoch };

	memcpy(m.end.gid, d->port.gid.raw, sizeof(m.end.gid));
	m.end.qpn = l->qp->qp_num;
	m.end.psn = l->psn;
	m.end.lid = d->port.lid;
	m.end.mtu = (uint8_t)d->port.mtu;
	m.end.rd_atomic = d->port.reads;
	m.end.fabric = d->port.fabric;
	memcpy(m.end.device, d->name, sizeof(m.end.device));
	rdma_tell(l, &m);
}

static void retry_later(struct rdma_link *l, int64_t now, int64_t ns)
{
	l->retry_at = now + rdma_jitter(l->r, ns);
	rdma_wake(l->r, l->retry_at - now);
}

void rdma_link_try(struct rdma_link *l, int64_t now)
{
	struct rdma *r = l->r;
	struct error err = ERROR_INIT;
	int rc;

	if (r->is_broken || l->state != RDMA_NONE ||
	    l->moved < r->cfg.min_moved || now < l->retry_at)
		return;
	if (now < banned_until(l)) {
		l->retry_at = banned_until(l);
		rdma_wake(r, l->retry_at - now);
		return;
	}
	rc = may_shake(r) ? get_end(l, now, &err) : -EBUSY;
	if (rc == -EBUSY) {
		retry_later(l, now, r->cfg.times.retry);
		return;
	}
	/* Ours and the peer's attempts never have the same number. */
	l->epoch = ++l->epochs << 1 | l->is_first;
	if (rc < 0) {
		rdma_link_fail(l, err.msg);
		return;
	}
	l->state = RDMA_OFFERED;
	tell_end(l, RDMA_OFFER);
}

/* ------------------------------------------------------------ what is heard --- */

static void up(struct rdma_link *l)
{
	l->state = RDMA_UP;
	l->used = clock_now_ns();
	l->r->stats.opened_total++;
}

/* Why an offer is not taken now, and when to come back; false: it is. */
static bool must_refuse(struct rdma_link *l, const struct rdma_msg *m,
			int64_t now, enum rdma_close *why, int64_t *retry_ns)
{
	struct rdma *r = l->r;

	*retry_ns = r->cfg.times.retry;
	*why = RDMA_CLOSE_UNFIT;
	if (r->is_broken || m->end.fabric != r->dev.port.fabric)
		return true;
	*why = RDMA_CLOSE_BUSY;
	if (now < banned_until(l)) {
		*retry_ns = banned_until(l) - now;
		return true;
	}
	/* What is under way makes the two ends' counts differ. */
	return l->moved < r->cfg.min_moved / 2 || !may_shake(r);
}

static void hear_offer(struct rdma_link *l, const struct rdma_msg *m)
{
	struct rdma *r = l->r;
	struct error err = ERROR_INIT;
	int64_t now = clock_now_ns(), retry_ns;
	enum rdma_close why;
	int rc;

	if (must_refuse(l, m, now, &why, &retry_ns)) {
		r->stats.refused_total++;
		rdma_link_refuse(l, m->epoch, why, retry_ns);
		return;
	}
	rc = get_end(l, now, &err);
	if (rc == -EBUSY) {
		r->stats.refused_total++;
		rdma_link_refuse(l, m->epoch, RDMA_CLOSE_BUSY, retry_ns);
		return;
	}
	l->epoch = m->epoch;
	if (rc == 0)
		rc = rdma_qp_connect(&r->dev, l->qp, l->psn, &m->end, &err);
	if (rc < 0) {
		rdma_link_fail(l, err.msg);
		return;
	}
	l->state = RDMA_ACCEPTED;
	tell_end(l, RDMA_ACCEPT);
}

static void hear_accept(struct rdma_link *l, const struct rdma_msg *m)
{
	struct rdma_msg ready = { .type = RDMA_READY, .epoch = l->epoch };
	struct error err = ERROR_INIT;

	if (m->end.fabric != l->r->dev.port.fabric) {
		rdma_link_fail(l, "the peer's fabric is another");
		return;
	}
	if (rdma_qp_connect(&l->r->dev, l->qp, l->psn, &m->end, &err) < 0) {
		rdma_link_fail(l, err.msg);
		return;
	}
	up(l);
	rdma_tell(l, &ready);
}

static void hear_close(struct rdma_link *l, const struct rdma_msg *m)
{
	const struct rdma_times *t = &l->r->cfg.times;
	int64_t now = clock_now_ns(), ns = m->close.retry_ms * MS;
	enum rdma_close why = m->close.why;

	/* Offering and taking it back again and again is no way out of a ban:
	 * those two answer an offer. */
	if (l->state != RDMA_OFFERED &&
	    (why == RDMA_CLOSE_BUSY || why == RDMA_CLOSE_UNFIT))
		why = RDMA_CLOSE_FAILED;
	switch (why) {
	case RDMA_CLOSE_IDLE:
		l->moved = 0;
		break;
	case RDMA_CLOSE_BUSY:
		ns = ns > t->ban_max ? t->ban_max : ns;
		retry_later(l, now, ns > t->retry ? ns : t->retry);
		break;
	case RDMA_CLOSE_UNFIT:
		retry_later(l, now, t->ban_max);
		break;
	case RDMA_CLOSE_FAILED:
		l->r->stats.failed_total++;
		ban(l, now);
		rdma_wake(l->r, l->retry_at - now);
		break;
	}
	rdma_link_reset(l);
}

int rdma_link_handshake(struct rdma_link *l, const struct rdma_msg *m,
			struct error *err)
{
	bool is_ours = l->state != RDMA_NONE && m->epoch == l->epoch;

	switch (m->type) {
	case RDMA_OFFER:
		/* Both at once: the lower name's offer is the one. */
		if (l->state == RDMA_OFFERED && l->is_first)
			return 0;
		if (l->state == RDMA_OFFERED)
			rdma_link_reset(l);
		if (l->state != RDMA_NONE)
			return error_set(err, EPROTO, "OFFER beside another");
		hear_offer(l, m);
		return 0;
	case RDMA_ACCEPT:
		if (is_ours && l->state != RDMA_OFFERED)
			return error_set(err, EPROTO, "ACCEPT of no offer");
		if (is_ours)
			hear_accept(l, m);
		return 0;
	case RDMA_READY:
		if (is_ours && l->state != RDMA_ACCEPTED)
			return error_set(err, EPROTO, "READY of nothing");
		if (is_ours)
			up(l);
		return 0;
	default: /* CLOSE */
		if (is_ours)
			hear_close(l, m);
		return 0;
	}
}

/* ------------------------------------------------------------- the interface --- */

int rdma_link_new(struct rdma *r, const char *peer, void *user,
		  struct rdma_link **ret, struct error *err)
{
	struct rdma_link *l = calloc(1, sizeof(*l));

	loop_assert_here(r->cfg.loop);
	if (!l)
		return error_nomem(err);
	l->peer = strdup(peer);
	if (!l->peer) {
		free(l);
		return error_nomem(err);
	}
	l->r = r;
	l->user = user;
	l->is_first = strcmp(r->node, peer) < 0;
	l->next = r->links;
	r->links = l;
	*ret = l;
	return 0;
}

void rdma_link_free(struct rdma_link *l)
{
	struct rdma *r;

	if (!l)
		return;
	r = l->r;
	rdma_enter(r);
	l->is_dead = true;
	rdma_link_reset(l);
	rdma_leave(r);
}

void rdma_link_moved(struct rdma_link *l, uint64_t bytes)
{
	struct rdma *r = l->r;
	bool was_enough = l->moved >= r->cfg.min_moved;

	l->moved += bytes;
	if (was_enough || l->moved < r->cfg.min_moved)
		return;
	/* One end goes first, so that both seldom offer at once. */
	if (!l->is_first)
		l->retry_at =
			clock_now_ns() + rdma_jitter(r, 2 * r->cfg.times.retry);
	rdma_enter(r);
	rdma_link_try(l, clock_now_ns());
	rdma_leave(r);
	rdma_wake(r, r->cfg.times.retry);
}

int rdma_link_hear(struct rdma_link *l, unsigned int type, const void *body,
		   size_t len, struct error *err)
{
	struct rdma *r = l->r;
	struct rdma_msg m;
	int rc = rdma_wire_get(type, body, len, &m, err);

	rdma_enter(r);
	if (rc == -EPROTONOSUPPORT && type == RDMA_OFFER) {
		r->stats.refused_total++;
		rdma_link_refuse(l, m.epoch, RDMA_CLOSE_UNFIT, 0);
		rc = 0;
	} else if (rc < 0) {
		rc = -EPROTO;
	} else if (type == RDMA_GRANT || type == RDMA_DONE) {
		rc = rdma_transfer_hear(l, &m, err);
	} else {
		rc = rdma_link_handshake(l, &m, err);
	}
	rdma_leave(r);
	return rc;
}

bool rdma_link_is_ready(const struct rdma_link *l)
{
	return l->state == RDMA_UP;
}
