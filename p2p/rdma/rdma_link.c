// SPDX-License-Identifier: Apache-2.0
/*
 * An RDMA link: when it gets a queue pair, how both ends agree on it, when it loses it; and the
 * pieces that are served and read over it.
 *
 * Each piece is followed by a stamp of 8 bytes, different each time. The reader reads it last, by
 * a work request of its own. A server that takes memory back first destroys the stamp, so a reader
 * that was too late notices, and does not blame the server for wrong bytes.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/rdma/rdma_priv.h"

#define MS ((int64_t)1000 * 1000)
#define READ_MIN (64 * KIB)
#define READ_MAX (256 * KIB)
#define READS_OF_PIECE (RDMA_PIECE_MAX / READ_MAX)
#define SIGNAL_EVERY 8u

/* -------------------------------------------------------------- who is banned --- */

static struct rdma_ban *find_ban(struct rdma *r, const char *peer)
{
	for (size_t i = 0; i < RDMA_BANS_MAX; i++) {
		if (r->bans[i].peer && strcmp(r->bans[i].peer, peer) == 0)
			return &r->bans[i];
	}
	return NULL;
}

/* Entry for a ban of `peer`: a free one, or the ban that ends first. */
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

/* Use no RDMA with the peer for half to all of the ban's length, which doubles each time. */
static void link_ban(struct rdma_link *l, int64_t now)
{
	struct rdma *r = l->r;
	const struct rdma_times *t = &r->cfg.times;
	struct rdma_ban *b = find_ban(r, l->peer);
	int64_t length = t->ban;

	if (!b)
		b = new_ban(r, l->peer);
	else if (now < b->until + t->ban_max) /* otherwise the last ban was
	                                       * long ago */
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

/* Release the queue pair; served pieces fall back to TCP. */
static void rdma_link_reset(struct rdma_link *l)
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
	link_ban(l, clock_now_ns());
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

/* Get a lane, if necessary from the link that has not used its own for longest. */
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
	idle->moved = 0; /* the link must again move enough bytes first */
	close_link(idle, RDMA_CLOSE_IDLE);
	return rdma_lane_take(&r->dev);
}

/* Get lane and queue pair: 0, or -EBUSY without a lane. */
static int get_link_lane(struct rdma_link *l, int64_t now, struct error *err)
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

static void send_link_end(struct rdma_link *l, enum rdma_type type)
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
	rc = may_shake(r) ? get_link_lane(l, now, &err) : -EBUSY;
	if (rc == -EBUSY) {
		retry_later(l, now, r->cfg.times.retry);
		return;
	}
	/* Attempts of the two ends have even and odd numbers. */
	l->epoch = ++l->epochs << 1 | l->is_first;
	if (rc < 0) {
		rdma_link_fail(l, err.msg);
		return;
	}
	l->state = RDMA_OFFERED;
	send_link_end(l, RDMA_OFFER);
}

/* ------------------------------------------------------------ what is heard --- */

static void link_up(struct rdma_link *l)
{
	l->state = RDMA_UP;
	l->used = clock_now_ns();
	l->r->stats.opened_total++;
}

/* Must this offer be refused? With the reason and the retry time. */
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
	/* Bytes in flight make the ends' counts differ, so half is enough. */
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
	rc = get_link_lane(l, now, &err);
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
	send_link_end(l, RDMA_ACCEPT);
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
	link_up(l);
	rdma_tell(l, &ready);
}

static void hear_close(struct rdma_link *l, const struct rdma_msg *m)
{
	const struct rdma_times *t = &l->r->cfg.times;
	int64_t now = clock_now_ns(), ns = m->close.retry_ms * MS;
	enum rdma_close why = m->close.why;

	/* BUSY and UNFIT are answers to an offer only; otherwise a peer could avoid its ban by
	 * offering and closing */
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
		link_ban(l, now);
		rdma_wake(l->r, l->retry_at - now);
		break;
	}
	rdma_link_reset(l);
}

static int rdma_link_handshake(struct rdma_link *l, const struct rdma_msg *m,
			       struct error *err)
{
	bool is_ours = l->state != RDMA_NONE && m->epoch == l->epoch;

	switch (m->type) {
	case RDMA_OFFER:
		/* Both sides offered at once: the offer of the lower name counts. */
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
			link_up(l);
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
	/* The other end offers a little later, so that both rarely offer at once. */
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

/* --------------------------------------------------------------- serving --- */

static bool copy_in(int fd, uint64_t off, char *to, uint32_t len)
{
	while (len > 0) {
		ssize_t n = pread(fd, to, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		off += (uint64_t)n;
		len -= (uint32_t)n;
	}
	return true;
}

static void put_stamp(struct rdma_link *l, uint64_t bits, uint32_t len,
		      uint64_t stamp)
{
	char *at = rdma_half_at(&l->r->dev, &l->lane->serve, bits);

	/* Order the stamp after earlier writes and before later ones. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	put_le64(at + rdma_stamp_at(len), stamp);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Take back the memory of the piece whose lease ended first; false: there is none. */
static bool take_back_expired_memory(struct rdma_link *l, int64_t now)
{
	struct rdma_served *oldest = NULL;

	for (unsigned int i = 0; i < RDMA_QUEUE; i++) {
		struct rdma_served *s = &l->served[i];

		if (!s->used || !s->bits ||
		    now - s->since < l->r->cfg.times.lease)
			continue;
		if (!oldest || s->since < oldest->since)
			oldest = s;
	}
	if (!oldest)
		return false;
	put_stamp(l, oldest->bits, oldest->len, 0);
	rdma_half_give(&l->lane->serve, oldest->bits);
	oldest->bits = 0;
	return true;
}

static struct rdma_served *find_free_served(struct rdma_link *l)
{
	for (unsigned int i = 0; i < RDMA_QUEUE; i++) {
		if (!l->served[i].used)
			return &l->served[i];
	}
	return NULL;
}

static void tell_grant(struct rdma_link *l, const struct rdma_served *s,
		       uint64_t stamp, const void *about, size_t n_about)
{
	const struct rdma_half *h = &l->lane->serve;
	struct rdma_msg m = { .type = RDMA_GRANT, .epoch = l->epoch };

	m.grant.id = s->id;
	m.grant.len = s->len;
	m.grant.addr = (uintptr_t)rdma_half_at(&l->r->dev, h, s->bits);
	m.grant.rkey = h->mr->rkey;
	m.grant.lease_ms = (uint32_t)(l->r->cfg.times.lease / MS);
	m.grant.stamp = stamp;
	m.grant.n_about = (uint8_t)n_about;
	memcpy(m.grant.about, about, n_about);
	rdma_tell(l, &m);
}

bool rdma_link_send(struct rdma_link *l, const void *about, size_t n_about,
		    int fd, uint64_t off, const void *data, uint32_t len,
		    uint64_t tag)
{
	struct rdma *r = l->r;
	int64_t now = clock_now_ns();
	struct rdma_served *s;
	uint64_t bits, stamp;
	char *mem;

	if (l->state != RDMA_UP || len == 0 || len > RDMA_PIECE_MAX ||
	    rdma_stamp_at(len) + RDMA_STAMP_SIZE > r->dev.half ||
	    n_about > RDMA_ABOUT_MAX)
		return false;
	s = find_free_served(l);
	if (!s)
		return false;
	do {
		bits = rdma_half_take(&r->dev, &l->lane->serve, len);
	} while (!bits && take_back_expired_memory(l, now));
	if (!bits)
		return false;
	mem = rdma_half_at(&r->dev, &l->lane->serve, bits);
	if (fd < 0) {
		memcpy(mem, data, len);
	} else if (!copy_in(fd, off, mem, len)) {
		rdma_half_give(&l->lane->serve, bits);
		return false;
	}
	stamp = rdma_random(r) | 1; /* never 0 */
	put_stamp(l, bits, len, stamp);
	*s = (struct rdma_served){ .used = true,
				   .id = l->next_id++,
				   .len = len,
				   .tag = tag,
				   .bits = bits,
				   .since = now };
	l->n_served++;
	l->used = now;
	rdma_wake(r, r->cfg.times.forget);
	rdma_enter(r);
	tell_grant(l, s, stamp, about, n_about);
	rdma_leave(r);
	return true;
}

static int hear_done(struct rdma_link *l, const struct rdma_msg *m,
		     struct error *err)
{
	struct rdma *r = l->r;
	struct rdma_served s = { .used = false };

	for (unsigned int i = 0; i < RDMA_QUEUE && !s.used; i++) {
		if (l->served[i].used && l->served[i].id == m->done.id) {
			s = l->served[i];
			l->served[i].used = false;
		}
	}
	if (!s.used)
		return error_set(err, EPROTO, "DONE of no piece");
	l->n_served--;
	l->used = clock_now_ns();
	if (s.bits)
		rdma_half_give(&l->lane->serve, s.bits);
	if (m->done.status == RDMA_DONE_OK) {
		r->stats.sent_bytes_total += s.len;
		r->cfg.events->sent(l->user, s.tag);
		return 0;
	}
	r->stats.fallbacks_total++;
	r->stats.stale_total += m->done.status == RDMA_DONE_STALE;
	r->cfg.events->fall_back(l->user, s.tag);
	return 0;
}

/* ---------------------------------------------------------------- reading --- */

static void tell_done(struct rdma_link *l, uint32_t id, enum rdma_done status)
{
	struct rdma_msg m = { .type = RDMA_DONE, .epoch = l->epoch };

	m.done.id = id;
	m.done.status = status;
	rdma_tell(l, &m);
}

static uint32_t read_size(uint32_t len)
{
	uint64_t n = round_up(len / SIGNAL_EVERY, 4 * KIB);

	return (uint32_t)(n < READ_MIN   ? READ_MIN
			  : n > READ_MAX ? READ_MAX
					 : n);
}

static unsigned int count_reads(uint32_t len)
{
	return (len + read_size(len) - 1) / read_size(len) + 1;
}

/* Number that returns with a completion: see RDMA_WR_LANE. */
static uint64_t wr_id(const struct rdma_link *l, unsigned int pull,
		      unsigned int covers, bool last)
{
	return (uint64_t)(l->lane - l->r->dev.lanes) << 56 |
	       (uint64_t)l->serial << 24 | pull << 16 | covers << 8 |
	       (last ? 1u : 0u);
}

static int post_reads(struct rdma_link *l, unsigned int i)
{
	const struct rdma_half *h = &l->lane->pull;
	const struct rdma_pull *p = &l->pulls[i];
	const struct rdma_grant *g = &p->grant;
	char *mem = rdma_half_at(&l->r->dev, h, p->bits);
	const unsigned int n = count_reads(g->len);
	const uint32_t size = read_size(g->len);
	struct ibv_send_wr wr[READS_OF_PIECE + 1], *bad = NULL;
	struct ibv_sge sge[READS_OF_PIECE + 1];
	uint32_t off = 0;

	memset(wr, 0, sizeof(wr));
	put_le64(mem + rdma_stamp_at(g->len), 0);
	for (unsigned int k = 0; k < n; k++) {
		bool last = k == n - 1;
		uint32_t left = g->len - off;

		if (last)
			off = (uint32_t)rdma_stamp_at(g->len);
		sge[k] = (struct ibv_sge){
			.addr = (uintptr_t)mem + off,
			.length = last          ? RDMA_STAMP_SIZE
				  : left < size ? left
						: size,
			.lkey = h->mr->lkey,
		};
		wr[k].sg_list = &sge[k];
		wr[k].num_sge = 1;
		wr[k].opcode = IBV_WR_RDMA_READ;
		wr[k].wr.rdma.remote_addr = g->addr + off;
		wr[k].wr.rdma.rkey = g->rkey;
		wr[k].next = last ? NULL : &wr[k + 1];
		wr[k].wr_id = wr_id(l, i, k % SIGNAL_EVERY + 1, last);
		if (last || k % SIGNAL_EVERY == SIGNAL_EVERY - 1)
			wr[k].send_flags = IBV_SEND_SIGNALED;
		off += sge[k].length;
	}
	return l->r->dev.ops->post_send(l->qp, wr, &bad);
}

static void end_pull(struct rdma_link *l, struct rdma_pull *p)
{
	p->used = false;
	l->n_pulls--;
}

/* Begin waiting reads in order, while there is memory for them. */
static void begin_waiting(struct rdma_link *l)
{
	struct rdma *r = l->r;
	int64_t now = clock_now_ns();

	while (l->state == RDMA_UP && l->n_waits > 0) {
		unsigned int i = l->waits[l->first_wait], n;
		struct rdma_pull *p = &l->pulls[i];
		bool late = now - p->since > p->grant.lease_ms * MS;

		n = count_reads(p->grant.len);
		if (!late && l->sends < n)
			return;
		if (!late)
			p->bits = rdma_half_take(&r->dev, &l->lane->pull,
						 p->grant.len);
		if (!late && !p->bits)
			return;
		l->first_wait = (l->first_wait + 1) % RDMA_QUEUE;
		l->n_waits--;
		if (late) {
			uint32_t id = p->grant.id;

			end_pull(l, p);
			tell_done(l, id, RDMA_DONE_STALE);
			continue;
		}
		if (l->sends == r->dev.sends)
			l->progress = now;
		l->sends -= n;
		if (post_reads(l, i) != 0)
			rdma_link_fail(l, "READs cannot be posted");
	}
}

static void hear_grant(struct rdma_link *l, const struct rdma_grant *g)
{
	struct rdma *r = l->r;
	unsigned int i = 0;

	l->used = clock_now_ns();
	while (i < RDMA_QUEUE && l->pulls[i].used)
		i++;
	if (i == RDMA_QUEUE || g->len > RDMA_PIECE_MAX ||
	    rdma_stamp_at(g->len) + RDMA_STAMP_SIZE > r->dev.half) {
		tell_done(l, g->id, RDMA_DONE_BUSY);
		return;
	}
	l->pulls[i] = (struct rdma_pull){ .used = true,
					  .grant = *g,
					  .since = l->used };
	l->n_pulls++;
	l->waits[(l->first_wait + l->n_waits++) % RDMA_QUEUE] = (uint8_t)i;
	rdma_wake(r, r->cfg.times.stall);
	begin_waiting(l);
}

/* A piece has been read completely. */
static void transfer_finish(struct rdma_link *l, struct rdma_pull *p)
{
	struct rdma *r = l->r;
	const struct rdma_pull done = *p;
	const uint32_t len = done.grant.len, serial = l->serial;
	const char *mem = rdma_half_at(&r->dev, &l->lane->pull, done.bits);

	end_pull(l, p);
	if (get_le64(mem + rdma_stamp_at(len)) == done.grant.stamp) {
		r->stats.received_bytes_total += len;
		/* Tell the server first, so that it can go on. */
		tell_done(l, done.grant.id, RDMA_DONE_OK);
		if (!l->is_dead && l->serial == serial)
			r->cfg.events->arrived(l->user, done.grant.about,
					       done.grant.n_about, mem, len);
	} else {
		tell_done(l, done.grant.id, RDMA_DONE_STALE);
	}
	if (l->state == RDMA_UP && l->serial == serial)
		rdma_half_give(&l->lane->pull, done.bits);
}

void rdma_transfer_complete(struct rdma_link *l, const struct ibv_wc *wc)
{
	const unsigned int i = wc->wr_id >> 16 & 0xff;
	const unsigned int covers = wc->wr_id >> 8 & 0xff;
	struct rdma_pull *p = &l->pulls[i % RDMA_QUEUE];
	char why[96];

	if (wc->status != IBV_WC_SUCCESS) {
		snprintf(why, sizeof(why), "READ: %s",
			 l->r->dev.ops->wc_status_str(wc->status));
		rdma_link_fail(l, why);
		return;
	}
	l->used = l->progress = clock_now_ns();
	l->sends += covers;
	if (wc->wr_id & 1 && p->used && p->bits)
		transfer_finish(l, p);
	begin_waiting(l);
}

/* ------------------------------------------------------------------ both --- */

int rdma_transfer_hear(struct rdma_link *l, const struct rdma_msg *m,
		       struct error *err)
{
	/* The message is for an earlier queue pair, so ignore it. */
	if (l->state == RDMA_NONE || m->epoch != l->epoch)
		return 0;
	if (l->state != RDMA_UP)
		return error_set(err, EPROTO, "a piece before READY");
	if (m->type == RDMA_DONE)
		return hear_done(l, m, err);
	hear_grant(l, &m->grant);
	return 0;
}

const char *rdma_transfer_overdue(const struct rdma_link *l, int64_t now)
{
	const struct rdma_times *t = &l->r->cfg.times;

	if (l->sends < l->r->dev.sends && now - l->progress > t->stall)
		return "READs do not complete";
	for (unsigned int i = 0; i < RDMA_QUEUE; i++) {
		if (l->served[i].used && now - l->served[i].since > t->forget)
			return "the peer does not say whether it read";
	}
	return NULL;
}

void rdma_transfer_reset(struct rdma_link *l)
{
	struct rdma_served lost[RDMA_QUEUE];
	unsigned int n = 0;

	for (unsigned int i = 0; i < RDMA_QUEUE; i++) {
		if (l->served[i].used)
			lost[n++] = l->served[i];
	}
	memset(l->served, 0, sizeof(l->served));
	memset(l->pulls, 0, sizeof(l->pulls));
	l->n_served = l->n_pulls = l->first_wait = l->n_waits = 0;
	/* Comes last: the user may even free the link. */
	for (unsigned int i = 0; i < n && !l->is_dead; i++) {
		l->r->stats.fallbacks_total++;
		l->r->cfg.events->fall_back(l->user, lost[i].tag);
	}
}
