// SPDX-License-Identifier: Apache-2.0
/*
 * Upload slots.  Each kind (demand, bulk) has a list of peers that wait, who take
 * turns by bytes (deficit round robin, Shreedhar and Varghese, 1995), so that one
 * that asks for large pieces gets no more than one that asks for small ones.
 */
#include <errno.h>
#include <string.h>

#include "p2p/slots.h"

enum slot_kind { SLOT_DEMAND, SLOT_BULK, SLOT_KINDS };

#define QUANTUM (256 * 1024) /* bytes of a turn */

struct waiter {
	struct slot_request request;
	struct waiter *next; /* of the same peer, later; or unused */
};

/* A peer that waits; in a ring of those. */
struct line {
	unsigned int peer;
	unsigned int n;
	int64_t deficit;
	struct waiter *first, *last;
};

struct slot_class {
	unsigned int slots, busy, waiting;
	struct line *lines; /* those with n > 0, in their order of turn */
	unsigned int n_lines, at;
};

struct slots {
	struct slots_config cfg;
	struct waiter *waiters, *unused;
	struct slot_class kinds[SLOT_KINDS];
};

static enum slot_kind kind_of(const struct slot_request *r)
{
	return r->priority == SOURCE_DEMAND ? SLOT_DEMAND : SLOT_BULK;
}

int slots_new(const struct slots_config *cfg, struct slots **ret,
	      struct error *err)
{
	AUTO(slots) s = NULL;

	if (!cfg->bulk || !cfg->demand || cfg->bulk > SLOTS_MAX ||
	    cfg->demand > SLOTS_MAX || !cfg->queued || !cfg->waiting ||
	    cfg->waiting > SLOTS_WAITING_MAX)
		return error_set(err, EINVAL, "upload slots: out of range");
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->kinds[SLOT_BULK].slots = cfg->bulk;
	s->kinds[SLOT_DEMAND].slots = cfg->demand;
	s->waiters = calloc(2 * (size_t)cfg->waiting, sizeof(*s->waiters));
	for (int i = 0; i < SLOT_KINDS; i++)
		s->kinds[i].lines =
			calloc(cfg->waiting, sizeof(*s->kinds[i].lines));
	if (!s->waiters || !s->kinds[SLOT_BULK].lines ||
	    !s->kinds[SLOT_DEMAND].lines)
		return error_nomem(err);
	for (unsigned int i = 2 * cfg->waiting; i > 0; i--) {
		s->waiters[i - 1].next = s->unused;
		s->unused = &s->waiters[i - 1];
	}
	*ret = steal_ptr(&s);
	return 0;
}

void slots_free(struct slots *s)
{
	if (!s)
		return;
	for (int i = 0; i < SLOT_KINDS; i++)
		free(s->kinds[i].lines);
	free(s->waiters);
	free(s);
}

static struct line *line_of(struct slot_class *k, unsigned int peer)
{
	for (unsigned int i = 0; i < k->n_lines; i++)
		if (k->lines[i].peer == peer)
			return &k->lines[i];
	return NULL;
}

/* The one whose turn it is stays `at`; who comes waits behind all others. */
static struct line *line_add(struct slot_class *k, unsigned int peer)
{
	struct line *l = &k->lines[k->at];

	memmove(l + 1, l, (k->n_lines - k->at) * sizeof(*l));
	*l = (struct line){ .peer = peer };
	if (k->n_lines++)
		k->at++;
	return l;
}

static void line_remove(struct slot_class *k, struct line *l)
{
	unsigned int i = (unsigned int)(l - k->lines);

	memmove(l, l + 1, (--k->n_lines - i) * sizeof(*l));
	if (i < k->at)
		k->at--;
	if (k->at >= k->n_lines)
		k->at = 0;
}

int slots_add(struct slots *s, const struct slot_request *r,
	      int64_t *ret_retry_ns)
{
	struct slot_class *k = &s->kinds[kind_of(r)];
	struct line *l = line_of(k, r->peer);
	struct waiter *w;

	if (k->waiting == s->cfg.waiting || (l && l->n == s->cfg.queued)) {
		/* About when half of those that wait were served. */
		*ret_retry_ns = s->cfg.retry_ns *
				(int64_t)(1 + k->waiting / (2 * k->slots));
		return -EBUSY;
	}
	if (!l)
		l = line_add(k, r->peer);
	w = s->unused;
	s->unused = w->next;
	*w = (struct waiter){ .request = *r };
	if (l->last)
		l->last->next = w;
	else
		l->first = w;
	l->last = w;
	l->n++;
	k->waiting++;
	return 0;
}

/* Take `w`, which comes after `before` (NULL: it is first), out of its line. */
static void waiter_remove(struct slots *s, struct slot_class *k, struct line *l,
			  struct waiter *before, struct waiter *w)
{
	if (before)
		before->next = w->next;
	else
		l->first = w->next;
	if (l->last == w)
		l->last = before;
	w->next = s->unused;
	s->unused = w;
	k->waiting--;
	if (--l->n == 0)
		line_remove(k, l);
}

static void take(struct slots *s, struct slot_class *k,
		 struct slot_request *ret)
{
	for (;;) {
		struct line *l = &k->lines[k->at];

		if (l->deficit >= 0) {
			*ret = l->first->request;
			l->deficit -= ret->bytes;
			waiter_remove(s, k, l, NULL, l->first);
			return;
		}
		l->deficit += QUANTUM;
		if (l->deficit < 0 || k->n_lines > 1)
			k->at = (k->at + 1) % k->n_lines;
	}
}

bool slots_next(struct slots *s, struct slot_request *ret)
{
	for (int i = 0; i < SLOT_KINDS; i++) {
		struct slot_class *k = &s->kinds[i];

		if (k->waiting == 0 || k->busy == k->slots)
			continue;
		k->busy++;
		take(s, k, ret);
		return true;
	}
	return false;
}

void slots_done(struct slots *s, const struct slot_request *r)
{
	s->kinds[kind_of(r)].busy--;
}

void slots_drop_peer(struct slots *s, unsigned int peer)
{
	for (int i = 0; i < SLOT_KINDS; i++) {
		struct line *l;

		while ((l = line_of(&s->kinds[i], peer)))
			waiter_remove(s, &s->kinds[i], l, NULL, l->first);
	}
}

void slots_drop(struct slots *s, unsigned int peer, uint64_t tag)
{
	for (int i = 0; i < SLOT_KINDS; i++) {
		struct line *l = line_of(&s->kinds[i], peer);
		struct waiter *before = NULL;

		for (struct waiter *w = l ? l->first : NULL; w;
		     before = w, w = w->next) {
			if (w->request.tag != tag)
				continue;
			waiter_remove(s, &s->kinds[i], l, before, w);
			return;
		}
	}
}
