// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces on a link. Each WANT is answered once, by DATA or NACK, even after a CANCEL. So both
 * sides agree on the open requests, and bytes that were not asked for are recognized.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/net/net_ack.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_rdma.h"
#include "p2p/net/net_turn.h"

#define FULL_RETRY_NS (10 * NS_PER_MS)

/* ------------------------------------------------------------------- asks --- */

/* A piece that this node asked for. */
struct piece_ask {
	struct piece_ask *next, **pprev;
	uint32_t req, len_max, at; /* bytes that came */
	struct net_piece piece;
	/* Alternatives, until the answer begins. */
	uint32_t others[SWARM_OTHERS_MAX];
	uint16_t n_others;
	void *room;
	bool begun, cancelled;
	/* Connection that its bytes come on; NULL: RDMA, all at once. */
	const struct conn *from;
	/* Refused, and waiting to be reported. */
	bool refused;
};

static void ask_unlink(struct piece_ask *a)
{
	*a->pprev = a->next;
	if (a->next)
		a->next->pprev = a->pprev;
}

static void ask_push(struct piece_ask **list, struct piece_ask *a)
{
	a->next = *list;
	a->pprev = list;
	if (a->next)
		a->next->pprev = &a->next;
	*list = a;
}

static struct piece_ask *ask_by_req(const struct net_link *l, uint32_t req)
{
	struct piece_ask *a = l->asks_by_slot[req % NET_WANTS_MAX];

	return a && a->req == req ? a : NULL;
}

static struct piece_ask *ask_find(struct net_link *l,
				  const struct digest *image, uint32_t piece)
{
	for (struct piece_ask *a = l->asks; a; a = a->next)
		if (!a->cancelled && a->piece.piece == piece &&
		    digest_equal(&a->piece.image, image))
			return a;
	return NULL;
}

/* End a request that was answered or whose link is gone: free it, or report its memory as lost. */
static void ask_end(struct net_link *l, struct piece_ask *a)
{
	l->asks_by_slot[a->req % NET_WANTS_MAX] = NULL;
	l->n_asks--;
	ask_unlink(a);
	if (!a->room) {
		free(a);
		return;
	}
	ask_push(&l->asks_told, a);
	net_mark(l);
}

static void ask_number(struct net_link *l, struct piece_ask *a)
{
	while (l->asks_by_slot[l->next_slot])
		l->next_slot = (l->next_slot + 1) % NET_WANTS_MAX;
	a->req = ++l->serial * NET_WANTS_MAX + l->next_slot;
	l->asks_by_slot[l->next_slot] = a;
	l->next_slot = (l->next_slot + 1) % NET_WANTS_MAX;
	l->n_asks++;
	ask_push(&l->asks, a);
}

bool net_takes_others(const struct net_link *l)
{
	return l->features & WIRE_FEATURE_OTHERS;
}

void net_ask(struct net_link *l, const struct digest *image,
	     const uint32_t *pieces, size_t n, uint32_t len_max,
	     enum source_priority priority)
{
	struct net_image *i = image_find(l, image);
	struct wire_want m = { .piece = pieces[0], .len_max = len_max };
	struct piece_ask *a;

	if (!link_is_up(l) || !image_is_open(i) ||
	    ask_find(l, image, pieces[0]))
		return;
	a = calloc(1, sizeof(*a));
	if (!a) {
		link_put(l, -ENOMEM);
		return;
	}
	a->piece.image = *image;
	a->piece.piece = pieces[0];
	a->len_max = len_max;
	if (net_takes_others(l))
		m.n_others = a->n_others = (uint16_t)(n - 1);
	memcpy(a->others, pieces + 1, a->n_others * sizeof(*pieces));
	memcpy(m.others, a->others, sizeof(m.others));
	if (l->n_asks >= NET_WANTS_MAX) {
		a->refused = true;
		ask_push(&l->asks_told, a);
		net_mark(l);
		return;
	}
	ask_number(l, a);
	m.alias = i->alias;
	link_put(l, wire_put_want(link_out(l), a->req, priority, &m));
}

void *net_cancel(struct net_link *l, const struct digest *image, uint32_t piece)
{
	struct piece_ask *a = ask_find(l, image, piece);
	void *room;

	if (!a)
		return NULL;
	room = a->room;
	a->room = NULL;
	a->cancelled = true;
	if (link_is_up(l))
		link_put(l, wire_put_empty(link_out(l), WIRE_CANCEL, a->req));
	return room;
}

/* Is it the requested piece, or one of its alternatives? */
static bool ask_names_piece(const struct piece_ask *a, uint32_t piece)
{
	for (unsigned int i = 0; i < a->n_others; i++)
		if (a->others[i] == piece)
			return true;
	return a->piece.piece == piece;
}

/* Does the DATA continue the piece that began? It must come on the same connection, since the
 * order of bytes on two connections is not known. */
static bool data_continues_ask(const struct piece_ask *a,
			       const struct conn *from,
			       const struct wire_data *d)
{
	return from && a->from == from && a->piece.len == d->total &&
	       a->piece.form == d->form;
}

/* The first or next bytes of a piece follow; `from` NULL: by RDMA. */
static int ask_begin(struct net_link *l, const struct conn *from, uint32_t req,
		     const struct wire_data *d, struct error *err)
{
	const struct net_events *ev = l->net->cfg.events;
	struct piece_ask *a = ask_by_req(l, req);
	void *room;

	if (!a || !ask_names_piece(a, d->piece) || a->at != d->off ||
	    d->total > a->len_max ||
	    (a->begun && !data_continues_ask(a, from, d)))
		return error_set(err, EPROTO,
				 "bytes of a piece that nobody asked for");
	if (a->begun)
		return 0;
	a->begun = true;
	a->from = from;
	a->piece.piece = d->piece;
	a->n_others = 0;
	a->piece.len = d->total;
	a->piece.form = d->form;
	if (a->cancelled)
		return 0;
	room = ev->room(l->net->cfg.arg, l, &a->piece);
	/* The callback may have cancelled the request. */
	if (room && (a->cancelled || l->state == LINK_CLOSED))
		ev->lost(l->net->cfg.arg, l, &a->piece, room);
	else
		a->room = room;
	return 0;
}

/* The request whose bytes come on the connection. */
static struct piece_ask *find_ask_of_body(const struct conn *c)
{
	struct piece_ask *a = ask_by_req(c->link, c->body_req);

	return a && a->from == c ? a : NULL;
}

/* Memory for the next bytes of the request; NULL: drop them. */
static uint8_t *find_room_for_bytes(const struct piece_ask *a)
{
	bool is_kept = a && a->room && !a->cancelled && a->at < a->piece.len;

	return is_kept ? (uint8_t *)a->room + a->at : NULL;
}

/* `n` bytes of the request's piece came; NULL: of no open request. */
static void count_ask_bytes(struct net_link *l, struct piece_ask *a, uint32_t n)
{
	struct net *net = l->net;
	const struct net_events *ev = net->cfg.events;
	bool kept = a && a->room && !a->cancelled;
	void *room;

	l->st.received_bytes += n;
	net->st.received_bytes_total += n;
	if (!kept)
		net->st.dropped_bytes_total += n;
	if (!a)
		return;
	a->at += n;
	if (kept)
		ev->moves(net->cfg.arg, l, &a->piece, n);
	if (l->state == LINK_CLOSED || a->at < a->piece.len)
		return;
	if (a->room && !a->cancelled) {
		struct net_piece p = a->piece;

		room = a->room;
		a->room = NULL;
		ask_end(l, a);
		ev->got(net->cfg.arg, l, &p, room);
		return;
	}
	ask_end(l, a);
}

int piece_on_data(struct conn *c, const struct wire_head *h,
		  const struct wire_data *d, uint32_t n, struct error *err)
{
	return ask_begin(c->link, c, h->req, d, err);
}

uint8_t *piece_place(struct conn *c, uint32_t *n)
{
	const struct piece_ask *a = find_ask_of_body(c);
	uint8_t *to = find_room_for_bytes(a);

	if (to)
		*n = turn_least(*n, a->piece.len - a->at);
	return to;
}

void piece_moved(struct conn *c, uint32_t n)
{
	struct piece_ask *a = find_ask_of_body(c);
	struct error why = ERROR_INIT;

	c->body_left -= n;
	net_rdma_moved(c->link, n);
	if (a && n > a->piece.len - a->at) {
		(void)error_set(&why, EPROTO, "more bytes than the piece has");
		link_close(c->link, WIRE_LEAVE_CLOSED, &why);
		return;
	}
	count_ask_bytes(c->link, a, n);
}

int piece_on_rdma(struct net_link *l, uint32_t req, const struct wire_data *d,
		  const void *bytes, struct error *err)
{
	int rc = ask_begin(l, NULL, req, d, err);
	struct piece_ask *a;
	uint8_t *to;

	if (rc < 0 || l->state == LINK_CLOSED)
		return rc;
	a = ask_by_req(l, req);
	to = find_room_for_bytes(a);
	if (to)
		memcpy(to, bytes, d->total);
	l->net->st.rdma_bytes_total += d->total;
	count_ask_bytes(l, a, d->total);
	return 0;
}

int piece_on_nack(struct conn *c, const struct wire_head *h,
		  const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct piece_ask *a = ask_by_req(l, h->req);
	struct wire_nack m;
	struct net_piece p;
	bool told;

	if (wire_get_nack(body, h->len, &m, err) < 0)
		return -err->code;
	if (!a || a->begun || (m.cancelled && !a->cancelled))
		return error_set(err, EPROTO, "it refuses what nobody asked");
	p = a->piece;
	told = !a->cancelled;
	ask_end(l, a);
	if (told)
		l->net->cfg.events->refused(l->net->cfg.arg, l, &p.image,
					    p.piece, m.why,
					    (int64_t)m.retry_ms * NS_PER_MS);
	return 0;
}

/* ---------------------------------------------------------------- answers --- */

static void answer_unlink(struct net_answer *a)
{
	*a->pprev = a->next;
	if (a->next)
		a->next->pprev = a->pprev;
}

static void answer_push(struct net_answer **list, struct net_answer *a)
{
	a->next = *list;
	a->pprev = list;
	if (a->next)
		a->next->pprev = &a->next;
	*list = a;
}

static struct net_answer **want_row(struct net_link *l, uint32_t piece)
{
	return &l->wants[piece % NET_WANT_ROWS];
}

static struct net_answer *want_find(struct net_link *l,
				    const struct digest *image, uint32_t piece)
{
	for (struct net_answer *a = *want_row(l, piece); a; a = a->next)
		if (a->piece.piece == piece &&
		    digest_equal(&a->piece.image, image))
			return a;
	return NULL;
}

static void answer_nack(struct net_link *l, uint32_t req, bool cancelled,
			enum swarm_refusal why, int64_t retry_ns)
{
	struct wire_nack m = { .cancelled = cancelled, .why = why };

	if (!link_is_up(l))
		return;
	if (retry_ns > 0)
		m.retry_ms = retry_ns / NS_PER_MS >= UINT32_MAX
				     ? UINT32_MAX
				     : (uint32_t)(retry_ns / NS_PER_MS) + 1;
	link_put(l, wire_put_nack(link_out(l), req, &m));
}

static void want_end(struct net_link *l, struct net_answer *a)
{
	l->n_wants--;
	answer_unlink(a);
	free(a);
}

static bool are_pieces(const struct net_image *i, const struct wire_want *m)
{
	for (unsigned int k = 0; k < m->n_others; k++)
		if (m->others[k] >= i->n_pieces)
			return false;
	return m->piece < i->n_pieces;
}

int piece_on_want(struct conn *c, const struct wire_head *h,
		  const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	uint32_t pieces[1 + SWARM_OTHERS_MAX];
	struct wire_want m;
	struct net_answer *a;
	struct net_image *i;

	if (wire_get_want(body, h->len, &m, err) < 0)
		return -err->code;
	i = image_by_alias(l, m.alias);
	if (!i) { /* closed here meanwhile */
		answer_nack(l, h->req, false, SWARM_GONE, 0);
		return 0;
	}
	if (!i->told || !are_pieces(i, &m))
		return error_set(err, EPROTO,
				 "it wants piece %u of %u, of an image that is "
				 "%s",
				 m.piece, i->n_pieces,
				 i->told ? "open" : "not open");
	if (l->n_wants >= NET_WANTS_MAX)
		return error_set(err, ENOBUFS, "it wants too much at once");
	a = want_find(l, &i->digest, m.piece);
	/* The peer cannot know yet that this piece was chosen for another request. */
	if (a && a->chosen) {
		answer_nack(l, h->req, false, SWARM_SENDING, FULL_RETRY_NS);
		return 0;
	}
	if (a)
		return error_set(err, EPROTO, "it wants piece %u twice",
				 m.piece);
	a = calloc(1, sizeof(*a));
	if (!a)
		return error_nomem(err);
	a->req = h->req;
	a->len_max = m.len_max;
	a->priority = h->prio;
	a->piece.image = i->digest;
	a->piece.piece = m.piece;
	answer_push(want_row(l, m.piece), a);
	a->counted = true;
	l->n_wants++;
	pieces[0] = m.piece;
	memcpy(pieces + 1, m.others, m.n_others * sizeof(*pieces));
	l->net->cfg.events->wanted(l->net->cfg.arg, l, &i->digest, pieces,
				   1 + m.n_others, h->prio);
	return 0;
}

bool net_choose(struct net_link *l, const struct digest *image, uint32_t was,
		uint32_t piece)
{
	struct net_answer *a = want_find(l, image, was);

	if (!a || want_find(l, image, piece))
		return false;
	answer_unlink(a);
	a->piece.piece = piece;
	a->chosen = true;
	answer_push(want_row(l, piece), a);
	return true;
}

/* The answer was sent, or will not be; the loop reports it. */
static void answer_done(struct net_link *l, struct net_answer *a)
{
	l->n_wants -= a->counted;
	a->counted = false;
	answer_push(&l->sent, a);
	net_mark(l);
}

static void answer_unqueue(struct conn *c, struct net_answer *a)
{
	if (!a->next)
		c->answers_last = a->pprev;
	answer_unlink(a);
	c->link->st.queued_bytes -= a->piece.len - a->at;
}

static struct net_answer *queued_by_req(const struct conn *c, uint32_t req)
{
	struct net_answer *a = c->answers;

	while (a && (a->req != req || a->begun))
		a = a->next;
	return a;
}

static struct net_answer *want_by_req(struct net_link *l, uint32_t req)
{
	for (size_t k = 0; k < NET_WANT_ROWS; k++)
		for (struct net_answer *a = l->wants[k]; a; a = a->next)
			if (a->req == req)
				return a;
	return NULL;
}

int piece_on_cancel(struct conn *c, const struct wire_head *h,
		    const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct conn *conns[2] = { l->control, l->bulk };
	struct net_piece p;
	struct net_answer *a = want_by_req(l, h->req);

	if (a) {
		p = a->piece;
		want_end(l, a);
		answer_nack(l, h->req, true, SWARM_GONE, 0);
		l->net->cfg.events->unwanted(l->net->cfg.arg, l, &p.image,
					     p.piece);
		return 0;
	}
	for (size_t k = 0; k < 2; k++) {
		a = queued_by_req(conns[k], h->req);
		if (!a)
			continue;
		answer_unqueue(conns[k], a);
		answer_nack(l, h->req, true, SWARM_GONE, 0);
		answer_done(l, a);
	}
	return 0; /* otherwise it was answered already */
}

void net_refuse(struct net_link *l, const struct digest *image, uint32_t piece,
		enum swarm_refusal why, int64_t retry_ns)
{
	struct net_answer *a = want_find(l, image, piece);

	if (!a)
		return;
	answer_nack(l, a->req, false, why, retry_ns);
	want_end(l, a);
}

/* Queue an answer before those of lower priority, but after one that has begun. */
static void answer_queue(struct conn *c, struct net_answer *a)
{
	struct net_answer **at = &c->answers;

	if (!c->answers ||
	    container_of(c->answers_last, struct net_answer, next)->priority <=
		    a->priority) {
		at = c->answers_last;
	} else {
		while (*at && ((*at)->begun || (*at)->priority <= a->priority))
			at = &(*at)->next;
	}
	a->next = *at;
	a->pprev = at;
	if (a->next)
		a->next->pprev = &a->next;
	else
		c->answers_last = &a->next;
	*at = a;
	c->link->st.queued_bytes += a->piece.len;
}

void net_send(struct net_link *l, const struct net_piece *p,
	      enum source_priority priority, const struct net_body *body,
	      uint64_t tag)
{
	struct net_answer *a = want_find(l, &p->image, p->piece);
	bool fits = a && p->len && p->len <= a->len_max && link_is_up(l);

	if (a && !fits)
		net_refuse(l, &p->image, p->piece, SWARM_GONE, 0);
	if (!fits) {
		a = calloc(1, sizeof(*a));
		if (!a) { /* report it as sent now: better than never */
			l->net->cfg.events->sent(l->net->cfg.arg, l, tag);
			return;
		}
		a->tag = tag;
		answer_done(l, a);
		return;
	}
	answer_unlink(a);
	a->piece = *p;
	a->priority = priority;
	a->body = *body;
	a->tag = tag;
	if (net_rdma_send(l, a))
		answer_push(&l->by_rdma, a);
	else
		answer_queue(priority == SOURCE_DEMAND ? l->control : l->bulk,
			     a);
	net_mark(l);
}

void piece_rdma_sent(struct net_link *l, struct net_answer *a)
{
	l->st.sent_bytes += a->piece.len;
	l->net->st.sent_bytes_total += a->piece.len;
	answer_unlink(a);
	answer_done(l, a);
}

void piece_rdma_failed(struct net_link *l, struct net_answer *a)
{
	bool is_open = link_is_up(l) && image_find(l, &a->piece.image);

	answer_unlink(a);
	if (is_open) {
		answer_queue(a->priority == SOURCE_DEMAND ? l->control
							  : l->bulk,
			     a);
		net_mark(l);
		return;
	}
	answer_nack(l, a->req, false, SWARM_GONE, 0);
	answer_done(l, a);
}

void piece_sent(struct conn *c, struct net_answer *a)
{
	if (!ack_is_wanted(c, a)) {
		answer_done(c->link, a);
		return;
	}
	c->link->n_wants -= a->counted;
	a->counted = false;
	ack_await(c, a);
	net_mark(c->link);
}

void piece_acked(struct net_link *l, struct net_answer *a)
{
	answer_done(l, a);
}

/* --------------------------------------------------------------- all of it --- */

static void drop_asks(struct net_link *l, const struct digest *image)
{
	for (struct piece_ask *a = l->asks; a; a = a->next) {
		if (!digest_equal(&a->piece.image, image))
			continue;
		/* Report the memory as lost; the answer is still awaited. */
		a->cancelled = true;
		if (a->room)
			net_mark(l);
	}
}

static void drop_queued(struct conn *c, const struct digest *image)
{
	struct net_link *l = c->link;
	struct net_answer *a, *next;

	for (a = c->answers; a; a = next) {
		next = a->next;
		if (a->begun || !digest_equal(&a->piece.image, image))
			continue;
		answer_unqueue(c, a);
		answer_nack(l, a->req, false, SWARM_GONE, 0);
		answer_done(l, a);
	}
}

static void drop_wants(struct net_link *l, struct net_answer *a,
		       const struct digest *image)
{
	struct net_answer *next;

	for (; a; a = next) {
		next = a->next;
		if (!digest_equal(&a->piece.image, image))
			continue;
		answer_nack(l, a->req, false, SWARM_GONE, 0);
		want_end(l, a);
	}
}

void piece_drop_image(struct net_link *l, const struct digest *image)
{
	drop_asks(l, image);
	for (size_t k = 0; k < NET_WANT_ROWS; k++)
		drop_wants(l, l->wants[k], image);
	drop_queued(l->control, image);
	drop_queued(l->bulk, image);
}

static void drop_conn(struct net_link *l, struct conn *c)
{
	struct net_answer *a;

	while (c && c->answers) {
		a = c->answers;
		answer_unqueue(c, a);
		answer_push(&l->sent, a);
	}
	while (c && (a = ack_take(c)))
		answer_push(&l->sent, a);
}

void piece_drop_all(struct net_link *l)
{
	while (l->asks) {
		struct piece_ask *a = l->asks;

		ask_unlink(a);
		if (a->room)
			ask_push(&l->asks_told, a);
		else
			free(a);
	}
	for (size_t k = 0; k < NET_WANT_ROWS; k++)
		while (l->wants[k])
			want_end(l, l->wants[k]);
	drop_conn(l, l->control);
	drop_conn(l, l->bulk);
	net_rdma_down(l);
	while (l->by_rdma) {
		struct net_answer *a = l->by_rdma;

		answer_unlink(a);
		answer_push(&l->sent, a);
	}
}

static void ask_report(struct net_link *l, struct piece_ask *a)
{
	const struct net_events *ev = l->net->cfg.events;
	void *arg = l->net->cfg.arg;

	if (!a->refused)
		ev->lost(arg, l, &a->piece, a->room);
	else if (l->state == LINK_UP)
		ev->refused(arg, l, &a->piece.image, a->piece.piece, SWARM_BUSY,
			    FULL_RETRY_NS);
}

/* Find a dropped request whose answer is awaited and whose memory was not reported as lost. */
static struct piece_ask *find_cancelled_ask(struct net_link *l)
{
	struct piece_ask *a = l->asks;

	while (a && !(a->cancelled && a->room))
		a = a->next;
	return a;
}

/* Find an answer that has left and was not reported yet. */
static struct net_answer *find_unreported_answer(const struct net_link *l)
{
	const struct conn *conns[2] = { l->control, l->bulk };

	for (size_t k = 0; k < 2; k++)
		for (struct net_answer *a = conns[k] ? conns[k]->unacked : NULL;
		     a; a = a->next)
			if (!a->left)
				return a;
	return NULL;
}

void piece_tell(struct net_link *l)
{
	const struct net_events *ev = l->net->cfg.events;
	struct net_answer *gone;
	struct piece_ask *a;
	void *room;

	while ((a = l->asks_told)) {
		ask_unlink(a);
		ask_report(l, a);
		free(a);
	}
	while ((a = find_cancelled_ask(l))) {
		room = a->room;
		a->room = NULL;
		ev->lost(l->net->cfg.arg, l, &a->piece, room);
	}
	while ((gone = find_unreported_answer(l))) {
		gone->left = true;
		if (ev->left)
			ev->left(l->net->cfg.arg, l, gone->tag);
	}
	while (l->sent) {
		struct net_answer *s = l->sent;

		answer_unlink(s);
		ev->sent(l->net->cfg.arg, l, s->tag);
		free(s);
	}
}
