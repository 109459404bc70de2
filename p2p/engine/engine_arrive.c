// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces that arrive: a pool thread unpacks and checks a piece and stores it in the cache and the
 * relay; only then is it used and announced.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"

/* Queued jobs beyond which the origin's thread does the work itself. */
#define ORIGIN_QUEUE 64u

struct arrival {
	struct work work;
	/* Posts the result if the origin's thread did the work. */
	struct loop_call call;
	struct p2p_image *i;
	uint32_t piece;
	enum net_form form;
	enum source_priority why;
	struct bytes *in, *plain;
	unsigned int peer; /* SWARM_NONE: the origin */
	uint64_t serial;   /* serial number of that neighbour */
	/* The neighbour's name, for pieces without a digest. */
	char *node;
	bool is_foreign; /* a piece without a digest that a peer sent */
	int rc, kept;
	struct error err;
};

/* Hand a piece without a digest to the image's user, who keeps it. */
static void keep_unverified(struct arrival *a)
{
	struct p2p_image *i = a->i;

	a->rc = i->pieces->put(i->arg, i->places.entry[a->piece], a->in->data,
			       a->node, &a->err);
	if (a->rc < 0)
		return;
	a->is_foreign = a->rc > 0;
	a->rc = 0;
	a->plain = bytes_ref(a->in);
}

/* Unpack and check the piece; sets a->plain on success. */
static int arrival_check(struct arrival *a, const struct block *b)
{
	struct p2p *p = a->i->p;
	int rc;

	if (a->form == NET_PLAIN || b->codec == BLOCK_CODEC_RAW) {
		rc = block_check(b, a->in->data, &a->err);
		if (rc == 0)
			a->plain = bytes_ref(a->in);
		return rc;
	}
	a->plain = bytes_new(p, b->usize, true);
	if (!a->plain)
		return error_nomem(&a->err);
	return block_unpack(b, a->in->data, a->plain->data, &a->err);
}

static void arrival_run(struct work *w)
{
	struct arrival *a = container_of(w, struct arrival, work);
	struct p2p_image *i = a->i;
	struct p2p *p = i->p;
	struct block b;

	if (i->pieces) {
		keep_unverified(a);
		return;
	}
	image_block(i, a->piece, &b);
	a->rc = arrival_check(a, &b);
	if (a->rc < 0)
		return;
	a->kept = cache_put(p->cfg.cache, &b, a->plain->data, a->why, &a->err);
	/* The relay keeps compressed pieces as they came. A piece that came unpacked is served
	 * unpacked, and a raw one is in the cache already. */
	if (p->relay && a->form == NET_STORED && b.codec != BLOCK_CODEC_RAW)
		(void)!relay_put(p->relay, i->id, a->piece, a->in->data,
				 a->in->len);
}

static void note_arrived_piece(struct arrival *a, unsigned int peer,
			       int64_t now)
{
	struct p2p_image *i = a->i;

	/* The piece may be a peer's even if the origin sent it too: the bytes that came first
	 * were kept. */
	if (a->is_foreign)
		swarm_doubt(i->swarm, a->piece);
	if (a->peer == SWARM_NONE || peer != SWARM_NONE)
		swarm_got(i->swarm, peer, a->piece, now);
	else
		swarm_have(i->swarm, a->piece, now); /* its sender has left */
	if (a->kept < 0)
		swarm_drop(i->swarm, a->piece);
	want_came(i, a->piece, a->plain, i->sizes[a->piece], a->kept, &a->err);
}

/* Pieces without a digest are checked by the image's registry, which may belong to a tenant and
 * may lie; so a node whose piece failed is dropped for this image only. */
static void arrival_failed(const struct arrival *a, unsigned int peer,
			   int64_t now)
{
	struct swarm *s = a->i->swarm;

	if (a->i->pieces && a->rc == -EBADMSG && peer != SWARM_NONE)
		swarm_refused(s, peer, a->piece, SWARM_DENIED, 0, now);
	else
		swarm_lost(s, peer, a->piece, a->rc, now);
}

static void arrival_finish(struct arrival *a)
{
	struct p2p_image *i = a->i;
	int64_t now = clock_now_ns();
	unsigned int peer = neighbour_still(i, a->peer, a->serial);

	if (a->peer == SWARM_NONE) {
		if (a->rc < 0)
			origin_failed(i, &a->err);
		i->p->origin_bytes += i->sizes[a->piece];
		tracker_done(i, a->piece, a->rc);
	}
	if (a->rc == 0)
		note_arrived_piece(a, peer, now);
	else if (a->peer == SWARM_NONE || peer != SWARM_NONE)
		arrival_failed(a, peer, now);
	/* The blob does not match the manifest, so reading it again would not help; fail it at
	 * once, since a start waits for it. */
	if (i->is_metadata && a->peer == SWARM_NONE && a->rc == -EBADMSG)
		want_failed(i, a->piece, a->rc, &a->err);
	image_settle(i);
	bytes_unref(a->in);
	bytes_unref(a->plain);
	image_release(i);
	free(a->node);
	free(a);
}

static void arrival_done(struct work *w)
{
	arrival_finish(container_of(w, struct arrival, work));
}

static void on_arrival_call(struct loop_call *c)
{
	arrival_finish(container_of(c, struct arrival, call));
}

/* Without memory to check a piece, drop it as if it had not come. */
static void arrival_drop(struct p2p_image *i, const struct neighbour *from,
			 uint32_t piece, struct bytes *in)
{
	bytes_unref(in);
	if (from)
		swarm_lost(i->swarm, from->peer, piece, -ENOMEM,
			   clock_now_ns());
}

int arrive(struct p2p_image *i, const struct neighbour *from, uint32_t piece,
	   enum net_form form, enum source_priority why, struct bytes *in)
{
	struct arrival *a = calloc(1, sizeof(*a));
	struct p2p *p = i->p;

	if (a && from && i->pieces)
		a->node = strdup(net_peer(from->l->net)->name);
	if (!a || (from && i->pieces && !a->node)) {
		free(a);
		arrival_drop(i, from, piece, in);
		return -ENOMEM;
	}
	a->i = i;
	a->piece = piece;
	a->form = form;
	a->why = why;
	a->in = in;
	a->peer = from ? from->peer : SWARM_NONE;
	a->serial = from ? from->serial : 0;
	a->work.run = arrival_run;
	a->work.done = arrival_done;
	image_hold(i);
	/* The origin's threads do the work themselves when hashing does not keep up, so that
	 * the queue stays short. */
	if (!from && pool_queued(p->hash) > ORIGIN_QUEUE) {
		arrival_run(&a->work);
		a->call.fn = on_arrival_call;
		loop_post(p->loop, &a->call);
		return 0;
	}
	return pool_submit(p->hash, &a->work); /* cannot fail: the queue has
	                                        * no limit */
}
