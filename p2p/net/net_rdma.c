// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces sent by RDMA, beside the connections. A GRANT answers a WANT as DATA does; if the RDMA
 * transfer fails, DATA follows.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/net/net_rdma.h"

/* smaller pieces are faster by TCP, because a GRANT takes one round trip more */
#define PIECE_MIN (16u << 10)
#define ABOUT_SIZE 12u

/* ----------------------------------------------------------------- events --- */

static void rdma_tell(void *user, enum rdma_type type, const void *body,
		      size_t len)
{
	struct net_link *l = user;

	link_put(l, wire_put_rdma(link_out(l), (uint8_t)type, body, len));
}

static void on_sent(void *user, uint64_t tag)
{
	piece_rdma_sent(user, (struct net_answer *)(uintptr_t)tag);
}

static void on_fall_back(void *user, uint64_t tag)
{
	piece_rdma_failed(user, (struct net_answer *)(uintptr_t)tag);
}

static int rdma_take(struct net_link *l, const uint8_t *about, size_t n_about,
		     const void *data, size_t len, struct error *err)
{
	struct wire_data d = { .off = 0, .total = (uint32_t)len };

	if (n_about != ABOUT_SIZE || get_le32(about + 8) > NET_PLAIN)
		return error_set(err, EPROTO, "bytes by RDMA of nothing");
	d.piece = get_le32(about + 4);
	d.form = (enum net_form)get_le32(about + 8);
	return piece_on_rdma(l, get_le32(about), &d, data, err);
}

static void on_arrived(void *user, const void *about, size_t n_about,
		       const void *data, size_t len)
{
	struct net_link *l = user;
	struct net *n = l->net;
	struct error err = ERROR_INIT;

	if (!link_is_up(l))
		return;
	net_enter(n);
	if (rdma_take(l, about, n_about, data, len, &err) < 0) {
		n->st.protocol_errors_total++;
		link_close(l, WIRE_LEAVE_CLOSED, &err);
	}
	net_leave(n);
}

static void on_fault(void *user, const char *why)
{
	struct net_link *l = user;
	const struct net_config *cfg = &l->net->cfg;

	if (cfg->events->fault)
		cfg->events->fault(cfg->arg, l, why);
}

static const struct rdma_events events = {
	.fault = on_fault,
	.tell = rdma_tell,
	.arrived = on_arrived,
	.sent = on_sent,
	.fall_back = on_fall_back,
};

/* ------------------------------------------------------------- whole of it --- */

/* The address `addr` without its port. */
static void host_of(const char *addr, char *ret, size_t size)
{
	const char *end = strrchr(addr, ':');
	size_t n = end ? (size_t)(end - addr) : strlen(addr);

	if (n >= 2 && addr[0] == '[') {
		addr++;
		n -= 2;
	}
	snprintf(ret, size, "%.*s", (int)n, addr);
}

int net_rdma_open(struct net *n, struct error *err)
{
	char host[sizeof(n->self.addr)];
	struct rdma_config cfg;
	int rc;

	if (!n->cfg.rdma) {
		error_set(&n->no_rdma, ENOENT, "not wanted");
		return 0;
	}
	if (n->cfg.security == NET_MUTUAL_TLS)
		return error_set(err, EINVAL,
				 "RDMA is not encrypted: let bulk be signed "
				 "only, or do without RDMA");
	if (n->cfg.download_rate)
		return error_set(err, EINVAL,
				 "RDMA knows no download rate: do without one "
				 "of them");
	host_of(n->self.addr, host, sizeof(host));
	cfg = *n->cfg.rdma;
	cfg.loop = n->loop;
	cfg.node = n->self.name;
	cfg.addr = host;
	cfg.events = &events;
	n->cfg.rdma = NULL; /* do not keep the caller's pointer */
	rc = rdma_new(&cfg, &n->rdma, &n->no_rdma);
	if (rc == -ENOENT || rc == -ENODEV)
		return 0;
	if (rc < 0 && err)
		*err = n->no_rdma;
	return rc;
}

void net_rdma_close(struct net *n)
{
	rdma_free(n->rdma);
	n->rdma = NULL;
}

const char *net_rdma_text(const struct net *n)
{
	return n->rdma ? rdma_device(n->rdma) : n->no_rdma.msg;
}

uint32_t net_rdma_features(const struct net *n)
{
	return n->rdma ? WIRE_FEATURE_RDMA : 0;
}

void net_rdma_up(struct net_link *l)
{
	/* Without memory, the link works by TCP alone. */
	if (l->net->rdma && (l->features & WIRE_FEATURE_RDMA) &&
	    rdma_link_new(l->net->rdma, l->peer.name, l, &l->rdma, NULL) < 0)
		l->rdma = NULL;
}

void net_rdma_down(struct net_link *l)
{
	rdma_link_free(l->rdma);
	l->rdma = NULL;
}

void net_rdma_moved(struct net_link *l, uint32_t n)
{
	if (l->rdma)
		rdma_link_moved(l->rdma, n);
}

bool net_rdma_send(struct net_link *l, struct net_answer *a)
{
	struct bucket *up = &l->net->up;
	uint8_t about[ABOUT_SIZE];

	if (!l->rdma || a->piece.len < PIECE_MIN)
		return false;
	/* If the rate limit makes the piece wait, let it wait in a connection's queue. */
	if (up->rate &&
	    bucket_look(up, a->piece.len, clock_now_ns()) < a->piece.len)
		return false;
	put_le32(about, a->req);
	put_le32(about + 4, a->piece.piece);
	put_le32(about + 8, a->piece.form);
	if (!rdma_link_send(l->rdma, about, sizeof(about), a->body.fd,
			    a->body.off, a->body.data, a->piece.len,
			    (uintptr_t)a))
		return false;
	bucket_take(up, a->piece.len);
	return true;
}

int net_rdma_hear(struct conn *c, const struct wire_head *h,
		  const uint8_t *body, struct error *err)
{
	if (!c->link->rdma)
		return error_set(err, EPROTO, "RDMA was not agreed on");
	return rdma_link_hear(c->link->rdma, h->type, body, h->len, err);
}
