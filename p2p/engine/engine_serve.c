// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to peers: a piece as it came from the relay, or unpacked from the cache. Slots limit the
 * number of answers in progress, so that no peer waits long behind others.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"

/* Time to take an answer, besides what the upload rate needs: a peer that reads a byte now and
 * then holds a slot and the image. */
#define UPLOAD_NS (60 * NS_PER_S)
#define SLOTS_BULK 8u
#define SLOTS_DEMAND 4u
#define LEFT_MAX 128u /* unacknowledged uploads of a link, at most */

const struct slots_config serve_slots = {
	.bulk = SLOTS_BULK,
	.demand = SLOTS_DEMAND,
	.queued = 4,
	.waiting = 1,
	.copies = 2,
	.usual_ns = 40 * NS_PER_MS,
	.retry_min_ns = 5 * NS_PER_MS,
	.retry_max_ns = NS_PER_S,
};

static void uploads_pump(struct p2p *p);

static void upload_free(struct piece_upload *u)
{
	struct p2p_image *i = u->i;

	if (u->l)
		LIST_REMOVE(u, by_link);
	if (u->relay.extent)
		relay_done(i->p->relay, &u->relay);
	if (u->is_pinned) {
		struct block b;

		image_block(i, u->piece.piece, &b);
		cache_unpin_block(i->p->cfg.cache, &b.digest);
	}
	fd_close(u->fd);
	bytes_unref(u->bytes);
	image_release(i);
	free(u);
}

/* Free an upload, and its slot if it still has one. */
static void upload_end(struct piece_upload *u, bool was_taken)
{
	struct p2p *p = u->i->p;

	if (!u->has_left && was_taken)
		slots_done(p->slots, &u->slot, clock_now_ns());
	else if (!u->has_left)
		slots_failed(p->slots, &u->slot);
	upload_free(u);
	uploads_pump(p);
}

static void upload_refuse(struct link *l, struct p2p_image *i, uint32_t piece,
			  enum swarm_refusal why, int64_t retry_ns)
{
	i->p->refused += why == SWARM_BUSY || why == SWARM_SENDING;
	i->p->denied += why == SWARM_DENIED;
	net_refuse(l->net, &i->digest, piece, why, retry_ns);
}

static void upload_send(struct piece_upload *u, const struct net_body *body)
{
	net_send(u->l->net, &u->piece, u->slot.priority, body,
		 (uint64_t)(uintptr_t)u);
}

/* ---------------------------------------------------------- from the cache --- */

/* Open the cache's file of a block and pin the block: without a pin, another image's block
 * could take its place while it is sent. */
static int open_cached(struct cache *c, const struct block *b,
		       struct piece_upload *u)
{
	AUTO_FREE char *path = NULL;
	uint32_t file;
	int rc = cache_pin_block(c, &b->digest, NULL);

	if (rc < 0)
		return rc;
	u->is_pinned = true;
	rc = cache_locate(c, b, &file, &u->off, NULL);
	if (rc == 0)
		rc = cache_file_path(c, file, &path, NULL);
	if (rc < 0)
		return rc;
	u->fd = open(path, O_RDONLY | O_CLOEXEC);
	return u->fd < 0 ? -errno : 0;
}

static void read_cache(struct work *w)
{
	struct piece_upload *u = container_of(w, struct piece_upload, work);
	struct p2p_image *i = u->i;
	struct p2p *p = i->p;
	struct block b;

	if (i->pieces) {
		u->rc = i->pieces->open(i->arg, i->places.entry[u->piece.piece],
					&u->fd, &u->off);
		return;
	}
	image_block(i, u->piece.piece, &b);
	u->rc = open_cached(p->cfg.cache, &b, u);
	if (u->rc == 0 || u->rc == -ENOENT)
		return;
	u->bytes = bytes_new(p, b.usize, false);
	u->rc = u->bytes ? cache_read(p->cfg.cache, &b, 0, u->bytes->data,
				      b.usize, NULL)
			 : -ENOMEM;
}

static void on_piece_read(struct work *w)
{
	struct piece_upload *u = container_of(w, struct piece_upload, work);
	struct net_body body = { .fd = u->fd, .off = u->off };
	struct p2p_image *i = u->i;

	if (u->bytes)
		body.data = u->bytes->data;
	if (u->l && u->rc == 0) {
		upload_send(u, &body);
		return;
	}
	if (u->rc == -ENOENT && !i->is_closing)
		swarm_drop(i->swarm, u->piece.piece);
	/* Refuse this upload only: the loss of the piece is announced separately, and other
	 * pieces of the link go on. */
	if (u->l)
		upload_refuse(u->l, i, u->piece.piece, SWARM_BUSY,
			      100 * NS_PER_MS);
	image_settle(i);
	upload_end(u, false);
}

/* ------------------------------------------------------------ the answer --- */

static void upload_begin(struct piece_upload *u)
{
	struct p2p_image *i = u->i;
	struct p2p *p = i->p;
	struct block b;

	u->is_begun = true;
	u->begun = clock_now_ns();
	if (p->relay && relay_get(p->relay, i->id, u->piece.piece, &u->relay)) {
		struct net_body body = { .fd = u->relay.fd,
					 .off = u->relay.off };

		u->piece.form = NET_STORED;
		u->piece.len = u->relay.len;
		upload_send(u, &body);
		return;
	}
	image_block(i, u->piece.piece, &b);
	u->piece.form = NET_PLAIN;
	u->piece.len = b.usize;
	u->work.run = read_cache;
	u->work.done = on_piece_read;
	(void)!pool_submit(p->disk, &u->work); /* the slots limit the queue */
}

static void uploads_pump(struct p2p *p)
{
	struct slot_request r;

	while (slots_next(p->slots, clock_now_ns(), &r))
		upload_begin((struct piece_upload *)(uintptr_t)r.tag);
}

/* Does the link have nearly all slots of a kind, or too many unacknowledged uploads, which keep
 * files open? */
static bool has_most_slots(const struct link *l, enum source_priority priority)
{
	bool is_demand = priority == SOURCE_DEMAND;
	unsigned int all = is_demand ? SLOTS_DEMAND : SLOTS_BULK, n = 0;
	unsigned int n_left = 0;
	const struct piece_upload *u;

	LIST_FOREACH(u, &l->uploads, by_link)
	{
		n_left += u->has_left;
		n += !u->has_left &&
		     is_demand == (u->slot.priority == SOURCE_DEMAND);
	}
	return n >= all - all / 4 || n_left >= LEFT_MAX;
}

/* Find a slot for the first piece that is here and not being sent to others: 0. -ENOENT: no
 * piece is here; else the result of slots_add() with the time to retry. `u` then names the last
 * piece tried. */
static int find_slot(struct piece_upload *u, const uint32_t *pieces, size_t n,
		     int64_t *ret_retry_ns)
{
	struct p2p_image *i = u->i;
	int64_t retry_ns, soonest = INT64_MAX;
	int rc = -ENOENT;

	for (size_t k = 0; k < n; k++) {
		if (!swarm_gives(i->swarm, pieces[k]))
			continue;
		if (pieces[k] != u->piece.piece &&
		    !net_choose(u->l->net, &i->digest, u->piece.piece,
				pieces[k])) {
			rc = -EALREADY;
			continue;
		}
		u->piece.piece = pieces[k];
		/* Peers do not pass an unverified piece on, so it is sent to all that ask. */
		u->slot.what =
			i->pieces ? u->slot.tag : i->id << 24 | pieces[k];
		u->slot.bytes = i->sizes[pieces[k]];
		rc = slots_add(i->p->slots, &u->slot, clock_now_ns(),
			       &retry_ns);
		if (rc != 0 && retry_ns < soonest)
			soonest = retry_ns;
		if (rc != -EALREADY)
			break;
	}
	/* If the peer asked for all these pieces before, tell it when they should have been
	 * sent. */
	*ret_retry_ns =
		soonest == INT64_MAX ? slots_usual_ns(i->p->slots) : soonest;
	return rc;
}

static void refuse_upload(const struct piece_upload *u, int rc,
			  int64_t retry_ns)
{
	enum swarm_refusal why = rc == -EALREADY ? SWARM_SENDING : SWARM_BUSY;

	if (rc == -ENOENT)
		upload_refuse(u->l, u->i, u->piece.piece, SWARM_GONE, 0);
	else
		upload_refuse(u->l, u->i, u->piece.piece, why, retry_ns);
}

void serve_wanted(struct link *l, struct p2p_image *i, const uint32_t *pieces,
		  size_t n, enum source_priority priority)
{
	struct p2p *p = i->p;
	struct piece_upload *u;
	int64_t retry_ns;
	int rc;

	if (has_most_slots(l, priority)) {
		upload_refuse(l, i, pieces[0], SWARM_BUSY,
			      slots_usual_ns(p->slots) / SLOTS_BULK);
		return;
	}
	u = calloc(1, sizeof(*u));
	if (!u) {
		upload_refuse(l, i, pieces[0], SWARM_BUSY, NS_PER_S);
		return;
	}
	*u = (struct piece_upload){ .i = i,
				    .l = l,
				    .fd = -1,
				    .piece = { .image = i->digest,
					       .piece = pieces[0] },
				    .slot = { .peer = l->number,
					      .tag = (uint64_t)(uintptr_t)u,
					      .priority = priority } };
	rc = find_slot(u, pieces, n, &retry_ns);
	if (rc < 0) {
		refuse_upload(u, rc, retry_ns);
		free(u);
		uploads_pump(p); /* a transfer may have become late */
		return;
	}
	LIST_INSERT_HEAD(&l->uploads, u, by_link);
	image_hold(i);
	uploads_pump(p);
}

void serve_unwanted(struct link *l, struct p2p_image *i, uint32_t piece)
{
	struct piece_upload *u;

	LIST_FOREACH(u, &l->uploads, by_link)
	{
		if (u->i != i || u->piece.piece != piece || u->is_begun)
			continue;
		slots_drop(i->p->slots, l->number, u->slot.tag);
		upload_free(u);
		return;
	}
}

void serve_left(struct p2p *p, uint64_t tag)
{
	struct piece_upload *u = (struct piece_upload *)(uintptr_t)tag;

	slots_done(p->slots, &u->slot, clock_now_ns());
	u->has_left = true;
	uploads_pump(p);
}

/* The number of the link's other end in the image's swarm. */
static unsigned int find_peer(const struct piece_upload *u)
{
	const struct neighbour *nb;

	LIST_FOREACH(nb, &u->l->neighbours, by_link)
	{
		if (nb->i == u->i)
			return nb->peer;
	}
	return SWARM_NONE;
}

void serve_sent(struct p2p *p, uint64_t tag)
{
	struct piece_upload *u = (struct piece_upload *)(uintptr_t)tag;
	struct net_link_stats at = { .is_up = false };

	if (u->l)
		net_get_link(u->l->net, &at);
	if (at.is_up)
		swarm_sent(u->i->swarm, find_peer(u), u->piece.piece);
	upload_end(u, at.is_up);
}

void serve_drop(struct link *l, const struct p2p_image *i)
{
	struct piece_upload *u = LIST_FIRST(&l->uploads), *next;

	for (; u; u = next) {
		next = LIST_NEXT(u, by_link);
		if ((i && u->i != i) || u->is_begun)
			continue;
		slots_drop(l->p->slots, l->number, u->slot.tag);
		upload_free(u);
	}
}

/* All slots may send largest answers and share the rate. */
static int64_t get_upload_timeout_ns(const struct p2p *p)
{
	uint64_t most = (uint64_t)(SLOTS_BULK + SLOTS_DEMAND) * BLOCK_USIZE_MAX;

	if (!p->cfg.upload_rate)
		return UPLOAD_NS;
	return UPLOAD_NS + (int64_t)(most / p->cfg.upload_rate + 1) * NS_PER_S;
}

void serve_check(struct p2p *p, int64_t now)
{
	int64_t since = now - get_upload_timeout_ns(p);
	const struct piece_upload *u;
	struct link *l;

	LIST_FOREACH(l, &p->links, all)
	{
		LIST_FOREACH(u, &l->uploads, by_link)
		if (u->is_begun && u->begun < since)
			break;
		if (u)
			net_close(l->net, "it takes our bytes too slowly");
	}
	uploads_pump(p);
}
