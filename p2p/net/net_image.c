// SPDX-License-Identifier: Apache-2.0
/* Images on a link: the right to one, joining and leaving it, and which pieces each side has. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/net/net_priv.h"

struct net_image *image_find(struct net_link *l, const struct digest *d)
{
	for (struct net_image *i = l->images; i; i = i->next)
		if (digest_equal(&i->digest, d))
			return i;
	return NULL;
}

struct net_image *image_by_alias(struct net_link *l, uint16_t their_alias)
{
	for (struct net_image *i = l->images; i; i = i->next)
		if (i->theirs && i->their_alias == their_alias)
			return i;
	return NULL;
}

bool image_is_open(const struct net_image *i)
{
	return i && i->told;
}

static struct net_image *image_add(struct net_link *l, const struct digest *d)
{
	struct net_image *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->digest = *d;
	i->next = l->images;
	l->images = i;
	return i;
}

/* Has one side (`theirs`: the peer) opened as many images as a link may have? */
static bool link_images_are_full(const struct net_link *l, bool theirs)
{
	unsigned int n = 0;

	for (const struct net_image *i = l->images; i; i = i->next)
		n += theirs ? i->theirs : i->asked;
	return n >= NET_IMAGES_MAX;
}

static void image_forget(struct net_link *l, struct net_image *i)
{
	struct net_image **p;

	for (p = &l->images; *p; p = &(*p)->next)
		if (*p == i) {
			*p = i->next;
			free(i);
			return;
		}
}

void image_free_all(struct net_link *l)
{
	while (l->images)
		image_forget(l, l->images);
}

static void tell_if_open(struct net_link *l, struct net_image *i)
{
	if (i->told || !i->let_in || !i->theirs)
		return;
	i->told = true;
	l->net->cfg.events->opened(l->net->cfg.arg, l, &i->digest);
}

static int check_equal_piece_count(const struct net_image *i, int code,
				   struct error *err)
{
	char text[DIGEST_STR_MAX];

	if (!i->n_pieces || !i->their_pieces || i->n_pieces == i->their_pieces)
		return 0;
	digest_format(&i->digest, text);
	return error_set(err, code, "%s has %u pieces here, %u there", text,
			 i->n_pieces, i->their_pieces);
}

static uint16_t new_alias(struct net_link *l)
{
	const struct net_image *i;

	do {
		l->next_alias++;
		for (i = l->images; i; i = i->next)
			if (i->asked && i->alias == l->next_alias)
				break;
	} while (i);
	return l->next_alias;
}

int net_open_image(struct net_link *l, const struct digest *image,
		   uint32_t n_pieces, const void *capability, size_t len,
		   struct error *err)
{
	struct net_image *i = image_find(l, image);
	struct wire_open m = { .n_pieces = n_pieces,
			       .image = *image,
			       .capability = capability,
			       .capability_len = len };

	if (!link_is_up(l))
		return error_set(err, ENOTCONN, "the link is not up");
	if (i && i->asked)
		return error_set(err, EALREADY, "the image is open already");
	if (len > WIRE_CAPABILITY_MAX)
		return error_set(err, E2BIG, "a right of %zu bytes", len);
	if (link_images_are_full(l, false))
		return error_set(err, ENOSPC, "%u images are open on the link",
				 NET_IMAGES_MAX);
	if (!i)
		i = image_add(l, image);
	if (!i)
		return error_nomem(err);
	i->n_pieces = n_pieces;
	if (check_equal_piece_count(i, EINVAL, err) < 0) {
		i->n_pieces = 0;
		return -EINVAL;
	}
	i->alias = m.alias = new_alias(l);
	i->asked = true;
	i->open_req = ++l->next_open;
	link_put(l, wire_put_open(link_out(l), i->open_req, &m));
	return 0;
}

void net_renew_image(struct net_link *l, const struct digest *image,
		     const void *capability, size_t len)
{
	struct net_image *i = image_find(l, image);
	struct wire_open m = { .image = *image,
			       .capability = capability,
			       .capability_len = len };

	if (!i || !i->asked || !link_is_up(l))
		return;
	m.alias = i->alias;
	m.n_pieces = i->n_pieces;
	link_put(l, wire_put_renew(link_out(l), &m));
}

static void answer_open(struct net_link *l, uint32_t req, uint16_t alias,
			bool ok, enum swarm_refusal why)
{
	struct wire_verdict m = { .alias = alias, .ok = ok, .why = why };

	link_put(l, wire_put_verdict(link_out(l), WIRE_OPEN_ACK, req, &m));
}

void net_close_image(struct net_link *l, const struct digest *image,
		     enum swarm_refusal why)
{
	struct net_image *i = image_find(l, image);
	struct wire_verdict m = { .why = why };

	if (!i || !link_is_up(l))
		return;
	piece_drop_image(l, image);
	m.alias = i->alias;
	if (i->asked)
		link_put(l, wire_put_verdict(link_out(l), WIRE_CLOSE,
					     i->open_req, &m));
	/* A refused peer may not know an alias for the image. */
	if (i->theirs && !i->let_in)
		answer_open(l, i->their_req, i->their_alias, false, why);
	image_forget(l, i);
}

/* ------------------------------------------------------- from the other side --- */

/* Does the peer's capability give it the image? The user may close the link in this call. */
static int image_prove(struct net_link *l, const struct wire_open *m)
{
	const struct net_config *cfg = &l->net->cfg;
	struct error why = ERROR_INIT;

	return cfg->events->may_open(cfg->arg, l, &m->image, m->capability,
				     m->capability_len, &why);
}

/* Checking this many pieces costs about as much as another message. */
#define PIECES_A_MESSAGE 4096u

/* Charge a message for the number of pieces that it names, since each is checked. */
static void count_pieces(struct net_link *l, uint64_t n)
{
	bucket_take(&l->calm, (uint32_t)(n / PIECES_A_MESSAGE));
}

int image_on_open(struct conn *c, const struct wire_head *h,
		  const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_open m;
	struct net_image *i;
	int rc;

	if (wire_get_open(body, h->len, &m, err) < 0)
		return -err->code;
	i = image_find(l, &m.image);
	if ((i && i->theirs) || image_by_alias(l, m.alias))
		return error_set(err, EPROTO, "it opens an image twice");
	rc = image_prove(l, &m);
	if (l->state == LINK_CLOSED)
		return 0;
	if (rc < 0) {
		answer_open(l, h->req, m.alias, false,
			    rc == -ENOENT ? SWARM_GONE : SWARM_DENIED);
		return 0;
	}
	/* An image that is not here takes no room, since nodes ask for all of their images. */
	if (link_images_are_full(l, true)) {
		answer_open(l, h->req, m.alias, false, SWARM_BUSY);
		return 0;
	}
	i = image_find(l, &m.image);
	if (!i)
		i = image_add(l, &m.image);
	if (!i)
		return error_nomem(err);
	i->their_pieces = m.n_pieces;
	if (check_equal_piece_count(i, EPROTO, err) < 0)
		return -EPROTO;
	i->theirs = true;
	i->their_alias = m.alias;
	i->their_req = h->req;
	answer_open(l, h->req, m.alias, true, SWARM_BUSY);
	count_pieces(l, i->n_pieces);
	tell_if_open(l, i);
	return 0;
}

/* The peer closed the image: end all requests for it. */
static void handle_closed_image(struct net_link *l, struct net_image *i,
				enum swarm_refusal why)
{
	struct digest d = i->digest;

	count_pieces(l, i->n_pieces);
	piece_drop_image(l, &d);
	image_forget(l, i);
	l->net->cfg.events->closed(l->net->cfg.arg, l, &d, why);
}

int image_on_renew(struct conn *c, const struct wire_head *h,
		   const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct net *n = l->net;
	struct wire_open m;
	struct net_image *i;
	struct digest d;

	if (wire_get_open(body, h->len, &m, err) < 0)
		return -err->code;
	i = image_by_alias(l, m.alias);
	if (!i) /* refused, or closed here meanwhile */
		return 0;
	if (!digest_equal(&i->digest, &m.image) ||
	    i->their_pieces != m.n_pieces)
		return error_set(err, EPROTO,
				 "it renews another image than it opened");
	if (image_prove(l, &m) == 0 || l->state == LINK_CLOSED)
		return 0;
	d = m.image;
	/* Charge the image's pieces twice: for accepting and for closing. */
	count_pieces(l, 2 * (uint64_t)i->n_pieces);
	net_close_image(l, &d, SWARM_DENIED);
	n->cfg.events->closed(n->cfg.arg, l, &d, SWARM_GONE);
	return 0;
}

int image_on_open_ack(struct conn *c, const struct wire_head *h,
		      const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_verdict m;
	struct net_image *i = l->images;
	struct digest d;

	if (wire_get_verdict(body, h->len, &m, err) < 0)
		return -err->code;
	while (i && !(i->asked && i->open_req == h->req))
		i = i->next;
	if (!i) /* closed here meanwhile */
		return 0;
	if (m.alias != i->alias || (i->let_in && m.ok))
		return error_set(err, EPROTO, "it answers an OPEN twice");
	/* The peer had accepted the image and closes it now. */
	if (i->let_in) {
		handle_closed_image(l, i, m.why);
		return 0;
	}
	if (m.ok) {
		i->let_in = true;
		tell_if_open(l, i);
		return 0;
	}
	/* The peer's own OPEN may still come. */
	i->asked = false;
	d = i->digest;
	if (!i->theirs)
		image_forget(l, i);
	l->net->cfg.events->closed(l->net->cfg.arg, l, &d, m.why);
	return 0;
}

int image_on_close(struct conn *c, const struct wire_head *h,
		   const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_verdict m;
	struct net_image *i;

	if (wire_get_verdict(body, h->len, &m, err) < 0)
		return -err->code;
	i = image_by_alias(l, m.alias);
	if (!i) /* this side closed it at the same time */
		return 0;
	/* This side's OPEN is not answered yet, so only the peer's own OPEN ends here. */
	if (i->asked && !i->let_in) {
		i->theirs = false;
		i->their_pieces = 0;
		return 0;
	}
	handle_closed_image(l, i, m.why);
	return 0;
}

/* ------------------------------------------------------------------- news --- */

void net_news(struct net_link *l, const struct digest *image,
	      const struct swarm_range *have, size_t n_have,
	      const struct swarm_range *lost, size_t n_lost,
	      const struct swarm_range *promised, size_t n_promised,
	      int64_t eta_ns)
{
	const struct swarm_range *from[3] = { have, lost, promised };
	size_t left[3] = { n_have, n_lost, n_promised };
	struct net_image *i = image_find(l, image);
	struct net *n = l->net;

	if (!link_is_up(l) || !image_is_open(i))
		return;
	while (left[0] + left[1] + left[2] && l->state == LINK_UP) {
		struct wire_have m = { .alias = i->alias };
		size_t *counts[3] = { &m.n_have, &m.n_lost, &m.n_promised };
		size_t at = 0;

		if (eta_ns > 0)
			m.eta_ms = eta_ns / NS_PER_MS > UINT32_MAX
					   ? UINT32_MAX
					   : (uint32_t)(eta_ns / NS_PER_MS);
		for (size_t k = 0; k < 3; k++) {
			size_t take = WIRE_RANGES_MAX - at;

			if (take > left[k])
				take = left[k];
			if (!take)
				continue;
			memcpy(n->ranges_out + at, from[k],
			       take * sizeof(*from[k]));
			*counts[k] = take;
			from[k] += take;
			left[k] -= take;
			at += take;
		}
		link_put(l, wire_put_have(link_out(l), &m, n->ranges_out));
	}
}

int image_on_have(struct conn *c, const struct wire_head *h,
		  const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct net *n = l->net;
	struct wire_have m;
	struct swarm_range *r = n->ranges;
	uint64_t covered = 0;
	struct net_image *i;

	if (wire_get_have(body, h->len, &m, r, err) < 0)
		return -err->code;
	i = image_by_alias(l, m.alias);
	if (!i) /* we closed it */
		return 0;
	if (!i->told)
		return error_set(err, EPROTO,
				 "news of an image before it is "
				 "open");
	for (size_t k = 0; k < m.n_have + m.n_lost + m.n_promised; k++) {
		covered += r[k].n;
		if (r[k].n > i->n_pieces || r[k].first > i->n_pieces - r[k].n)
			return error_set(err, EPROTO,
					 "news of pieces %u and %u more, where "
					 "there are %u",
					 r[k].first, r[k].n, i->n_pieces);
	}
	count_pieces(l, covered);
	n->cfg.events->news(n->cfg.arg, l, &i->digest, r, m.n_have,
			    r + m.n_have, m.n_lost, r + m.n_have + m.n_lost,
			    m.n_promised, (int64_t)m.eta_ms * NS_PER_MS);
	return 0;
}
