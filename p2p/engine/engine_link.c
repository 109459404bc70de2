// SPDX-License-Identifier: Apache-2.0
/* Links to other nodes, their part in this node's images, and their messages. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"

/* Without a tracker, a node announces its neighbours to each other: when a new one came, but
 * not more often than the first; and repeatedly, since nodes that are not heard of are
 * forgotten. */
#define INTRODUCE_NS (2 * NS_PER_S)
#define INTRODUCE_AGAIN_NS (30 * NS_PER_S)
#define NEWS_ROUNDS 16 /* news messages sent to one neighbour at once */

/* ------------------------------------------------------------- links --- */

struct link *link_make(struct p2p *p, struct net_link *net, struct member *m)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->p = p;
	l->net = net;
	l->member = m;
	l->number = p->links_made++;
	LIST_INIT(&l->neighbours);
	LIST_INIT(&l->uploads);
	LIST_INIT(&l->rights);
	LIST_INIT(&l->retries);
	LIST_INSERT_HEAD(&p->links, l, all);
	net_set_user(net, l);
	if (m)
		m->link = l;
	return l;
}

void link_open(struct link *l, struct p2p_image *i)
{
	size_t len;
	const void *shown = rights_shown(i, &len);

	/* Without this node's own right the peer would refuse; open the image when the right
	 * comes. */
	if (i->p->keys && !len)
		return;
	/* Other failures: it is open already, or cannot be opened on this link. */
	if (net_open_image(l->net, &i->digest, i->n, shown, len, NULL) ==
	    -ENOSPC)
		retry_later(l, i);
}

void link_offer(struct link *l, struct p2p_image *i)
{
	const struct member *m;

	/* A capability reveals repository and manifest. So a node that neither the tracker nor
	 * a neighbour named for this image must show its own first (it may have done so before
	 * ours came). Without a tracker all nodes would wait for each other, so there it is
	 * shown at once. */
	if (i->p->keys && !swarm_takes_turns(i->swarm) &&
	    !rights_hold(l, i, time(NULL))) {
		m = member_by_name(i->p, net_peer(l->net)->name);
		if (!m || !member_is_of_image(m, i))
			return;
	}
	link_open(l, i);
}

void links_offer(struct p2p_image *i)
{
	struct link *l;

	LIST_FOREACH(l, &i->p->links, all)
	if (l->is_up)
		link_offer(l, i);
}

static void on_link_up(void *arg, struct net_link *net)
{
	struct p2p *p = arg;
	const struct net_node *node = net_peer(net);
	struct link *l = net_user(net);
	int64_t now = clock_now_ns();
	struct p2p_image *i;
	struct member *m;

	if (strcmp(node->name, p->self.name) == 0) {
		if (l && l->member)
			l->member->retry_at = INT64_MAX;
		net_close(net, "this is the node itself");
		return;
	}
	if (!l)
		l = link_make(p, net, NULL);
	if (!l) {
		net_close(net, "out of memory");
		return;
	}
	l->is_up = true;
	if (l->member)
		hearsay_proved(p, l->member);
	m = member_know(p, node, false);
	if (m && m->quarantined_until > now) {
		net_close(net, "not yet again");
		return;
	}
	if (m && !m->link) {
		m->link = l;
		l->member = m;
	}
	if (m)
		m->failures = 0;
	LIST_FOREACH(i, &p->images, all)
	link_offer(l, i);
}

/* If the member has a second link, use it now that this one is closed. */
static void member_adopt_link(struct p2p *p, struct member *m)
{
	struct link *l;

	LIST_FOREACH(l, &p->links, all)
	{
		if (!l->is_up || l->member ||
		    strcmp(net_peer(l->net)->name, m->node.name) != 0)
			continue;
		l->member = m;
		m->link = l;
		return;
	}
}

static void on_link_down(void *arg, struct net_link *net,
			 const struct error *why)
{
	struct link *l = net_user(net);
	bool was_in_vain = l && !l->is_up && why && why->code != EALREADY;
	struct neighbour *nb;
	struct piece_upload *u;

	if (!l)
		return;
	while ((nb = LIST_FIRST(&l->neighbours)))
		neighbour_leave(nb);
	serve_drop(l, NULL);
	rights_drop(l, NULL);
	retry_drop(l, NULL);
	/* The remaining uploads still read the disk; detach them. */
	while ((u = LIST_FIRST(&l->uploads))) {
		LIST_REMOVE(u, by_link);
		u->l = NULL;
	}
	if (l->member) {
		l->member->link = NULL;
		if (why && why->code != EALREADY)
			member_failed(l->member, clock_now_ns());
	}
	LIST_REMOVE(l, all);
	if (l->member)
		member_adopt_link(l->p, l->member);
	/* Comes last, because it may free the member. */
	if (l->member && was_in_vain && !fault_is_own(why))
		hearsay_failed(l->p, l->member, clock_now_ns());
	free(l);
}

/* -------------------------------------------------------- neighbours --- */

static struct neighbour *neighbour_find(struct net_link *net,
					const struct digest *image)
{
	struct link *l = net_user(net);
	struct neighbour *nb;

	if (!l)
		return NULL;
	LIST_FOREACH(nb, &l->neighbours, by_link)
	if (digest_equal(&nb->i->digest, image))
		return nb;
	return NULL;
}

static int on_may_open(void *arg, struct net_link *net,
		       const struct digest *image, const void *capability,
		       size_t len, struct error *err)
{
	struct p2p *p = arg;
	struct link *l = net_user(net);
	struct p2p_image *i;
	int64_t until;
	int rc;

	if (!l)
		return error_set(err, ENOENT, "the link is not known");
	/* Check the right before looking for the image: a node without a right must not learn
	 * from the answer which images are here. */
	if (rights_prove(l, image, capability, len, &until, err) < 0) {
		fault_denied(p, net_peer(net), true, err ? err->msg : "");
		return -EACCES;
	}
	i = image_by_digest(p, image);
	if (!i)
		return error_set(err, ENOENT, "the image is not here");
	rc = rights_keep(l, i, until, err);
	if (rc < 0)
		return rc;
	link_open(l, i);
	return 0;
}

int neighbours_init(struct p2p_image *i, struct error *err)
{
	i->neighbours.asked = calloc(i->n + 1, 1);
	return i->neighbours.asked ? 0 : error_nomem(err);
}

void neighbours_fini(struct p2p_image *i)
{
	free(i->neighbours.asked);
}

unsigned int neighbour_still(const struct p2p_image *i, unsigned int peer,
			     uint64_t serial)
{
	const struct neighbour *nb =
		peer == SWARM_NONE ? NULL : i->neighbours.peers[peer];

	return nb && nb->serial == serial ? peer : SWARM_NONE;
}

bool neighbours_have(const struct p2p_image *i, const struct member *m)
{
	for (unsigned int k = 0; k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k] &&
		    i->neighbours.peers[k]->l->member == m)
			return true;
	return false;
}

unsigned int neighbours_wanted(const struct p2p_image *i)
{
	return i->pieces ? SWARM_PEERS_MAX : i->p->cfg.neighbours;
}

unsigned int neighbours_count(const struct p2p_image *i)
{
	return i->neighbours.n;
}

int64_t neighbours_met(const struct p2p_image *i)
{
	return i->neighbours.met;
}

int64_t neighbours_heard(const struct p2p_image *i)
{
	return atomic_load(&i->neighbours.heard_ns);
}

static unsigned int find_free_peer_number(const struct p2p_image *i)
{
	unsigned int k = 0;

	while (k < SWARM_PEERS_MAX && i->neighbours.peers[k])
		k++;
	return k;
}

/* Send one neighbour all news; true: there is more. */
static bool neighbour_tell(struct p2p_image *i, const struct neighbour *nb,
			   int64_t now)
{
	struct swarm_news news;
	bool is_more = true;

	for (int k = 0; is_more && k < NEWS_ROUNDS; k++) {
		is_more = swarm_news(i->swarm, nb->peer, &news);
		if (news.n_have || news.n_lost || news.n_promised)
			net_news(nb->l->net, &i->digest, news.have, news.n_have,
				 news.lost, news.n_lost, news.promised,
				 news.n_promised, news.eta_ns);
	}
	return is_more;
}

bool neighbours_tell(struct p2p_image *i, int64_t now)
{
	bool is_more = false;

	for (unsigned int k = 0; k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k])
			is_more = neighbour_tell(i, i->neighbours.peers[k],
						 now) ||
				  is_more;
	return is_more;
}

/* Announce members of the image to a neighbour that may not know them. */
static void members_introduce(const struct p2p_image *i,
			      const struct neighbour *to)
{
	AUTO_FREE struct net_node *nodes =
		calloc(SWARM_PEERS_MAX, sizeof(*nodes));
	size_t n = 0;

	for (unsigned int k = 0; nodes && k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k] && i->neighbours.peers[k] != to)
			nodes[n++] = *net_peer(i->neighbours.peers[k]->l->net);
	if (n)
		net_members(to->l->net, &i->digest, nodes, n);
}

void neighbours_meet(struct p2p_image *i, int64_t now)
{
	int64_t every =
		i->neighbours.is_news ? INTRODUCE_NS : INTRODUCE_AGAIN_NS;

	if (now - i->neighbours.introduced < every)
		return;
	i->neighbours.introduced = now;
	i->neighbours.is_news = false;
	for (unsigned int k = 0; k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k])
			members_introduce(i, i->neighbours.peers[k]);
}

static void on_opened(void *arg, struct net_link *net,
		      const struct digest *image)
{
	struct p2p *p = arg;
	struct p2p_image *i = image_by_digest(p, image);
	struct link *l = net_user(net);
	unsigned int peer = i ? find_free_peer_number(i) : SWARM_PEERS_MAX;
	struct neighbour *nb;
	struct member *m;

	if (!i || !l || neighbour_find(net, image))
		return;
	if (!rights_hold(l, i, time(NULL))) {
		net_close_image(net, image, SWARM_DENIED);
		return;
	}
	nb = peer < SWARM_PEERS_MAX ? calloc(1, sizeof(*nb)) : NULL;
	if (!nb) {
		net_close_image(net, image, SWARM_GONE);
		return;
	}
	retry_drop(l, i);
	nb->l = l;
	nb->i = i;
	nb->peer = peer;
	nb->serial = ++p->serial;
	LIST_INSERT_HEAD(&l->neighbours, nb, by_link);
	i->neighbours.peers[peer] = nb;
	i->neighbours.n++;
	if (!i->neighbours.met)
		i->neighbours.met = clock_now_ns();
	m = member_know(p, net_peer(net), false);
	if (m)
		member_takes_part(m, i, WORD_GIVEN);
	swarm_peer_join(i->swarm, peer, member_distance(p, net_peer(net)),
			l->member ? l->member->quarantines : 0, clock_now_ns());
	if (!net_takes_others(net))
		swarm_peer_takes_one(i->swarm, peer);
	(void)neighbour_tell(i, nb, clock_now_ns());
	members_introduce(i, nb);
	i->neighbours.is_news = true;
	image_turns(i, clock_now_ns());
	image_settle(i);
}

static void note_giver(struct neighbour *nb)
{
	struct swarm_peer_stats s;

	if (!swarm_get_peer(nb->i->swarm, nb->peer, &s))
		return;
	givers_note(nb->i, net_peer(nb->l->net)->name,
		    s.bytes - nb->noted_bytes);
	nb->noted_bytes = s.bytes;
}

void neighbours_note_givers(struct p2p_image *i)
{
	for (size_t k = 0; k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k])
			note_giver(i->neighbours.peers[k]);
}

void neighbour_leave(struct neighbour *nb)
{
	struct p2p_image *i = nb->i;

	note_giver(nb);
	LIST_REMOVE(nb, by_link);
	serve_drop(nb->l, i);
	swarm_peer_leave(i->swarm, nb->peer, clock_now_ns());
	i->neighbours.peers[nb->peer] = NULL;
	i->neighbours.n--;
	image_settle(i);
	free(nb);
}

void neighbours_leave(struct p2p_image *i)
{
	for (size_t k = 0; k < SWARM_PEERS_MAX; k++)
		if (i->neighbours.peers[k])
			neighbour_leave(i->neighbours.peers[k]);
}

static void on_closed(void *arg, struct net_link *net,
		      const struct digest *image, enum swarm_refusal why)
{
	struct neighbour *nb = neighbour_find(net, image);
	struct p2p *p = arg;
	struct p2p_image *i = image_by_digest(p, image);
	struct link *l = net_user(net);

	if (i && l && why == SWARM_BUSY)
		retry_later(l, i);
	else if (i && l)
		retry_drop(l, i);
	if (why == SWARM_DENIED)
		fault_denied(
			p, net_peer(net), false,
			p->keys ? "its log says what is wrong with this "
				  "node's capability for the image"
				: "it wants a capability for the image: "
				  "this node's --p2p-rights names no keys");
	if (nb)
		neighbour_leave(nb);
}

void neighbours_check(struct p2p_image *i, int64_t now)
{
	if (!i->neighbours.has_quarantined)
		return;
	i->neighbours.has_quarantined = false;
	for (unsigned int k = 0; k < SWARM_PEERS_MAX; k++) {
		struct neighbour *nb = i->neighbours.peers[k];
		struct member *m;

		if (!nb || !nb->quarantine_ns)
			continue;
		m = member_by_name(i->p, net_peer(nb->l->net)->name);
		if (m) {
			m->quarantined_until = now + nb->quarantine_ns;
			m->quarantines++;
		}
		nb->quarantine_ns = 0;
		net_close(nb->l->net, nb->quarantine);
	}
}

/* ----------------------------------------------- what the core wants --- */

void neighbour_ask(void *image, unsigned int peer, const uint32_t *pieces,
		   size_t n, enum source_priority priority)
{
	struct p2p_image *i = image;
	uint32_t len_max = 0;

	for (size_t k = 0; k < n; k++) {
		i->neighbours.asked[pieces[k]] = (uint8_t)priority;
		if (i->unpacked[pieces[k]] > len_max)
			len_max = i->unpacked[pieces[k]];
		if (i->sizes[pieces[k]] > len_max)
			len_max = i->sizes[pieces[k]];
	}
	net_ask(i->neighbours.peers[peer]->l->net, &i->digest, pieces, n,
		len_max, priority);
}

void neighbour_cancel(void *image, unsigned int peer, uint32_t piece)
{
	struct p2p_image *i = image;
	uint8_t *room = net_cancel(i->neighbours.peers[peer]->l->net,
				   &i->digest, piece);

	if (room)
		bytes_unref(container_of(room, struct bytes, data));
}

void neighbour_quarantine(void *image, unsigned int peer, int64_t ns,
			  const char *why)
{
	struct p2p_image *i = image;

	/* Close the link only after the core has returned from this call. */
	i->neighbours.peers[peer]->quarantine_ns = ns;
	i->neighbours.peers[peer]->quarantine = why;
	i->neighbours.has_quarantined = true;
	image_settle(i);
}

/* ------------------------------------------------------ what they say --- */

static void on_news(void *arg, struct net_link *net, const struct digest *image,
		    const struct swarm_range *have, size_t n_have,
		    const struct swarm_range *lost, size_t n_lost,
		    const struct swarm_range *promised, size_t n_promised,
		    int64_t eta_ns)
{
	struct neighbour *nb = neighbour_find(net, image);
	int64_t now = clock_now_ns();
	struct swarm *s;
	int rc = 0;

	if (!nb)
		return;
	s = nb->i->swarm;
	atomic_store(&nb->i->neighbours.heard_ns, now);
	for (size_t k = 0; k < n_lost && rc == 0; k++)
		rc = swarm_peer_lost(s, nb->peer, lost[k], now);
	for (size_t k = 0; k < n_have && rc == 0; k++)
		rc = swarm_peer_has(s, nb->peer, have[k], now);
	for (size_t k = 0; k < n_promised && rc == 0; k++)
		rc = swarm_peer_promises(s, nb->peer, promised[k], eta_ns, now);
	if (rc < 0)
		net_close(net, "news of pieces that are not the image's");
	image_settle(nb->i);
}

static void on_wanted(void *arg, struct net_link *net,
		      const struct digest *image, const uint32_t *pieces,
		      size_t n, enum source_priority priority)
{
	struct neighbour *nb = neighbour_find(net, image);
	bool are_pieces = nb != NULL;

	for (size_t k = 0; k < n && nb; k++)
		are_pieces = are_pieces && pieces[k] < nb->i->n;
	if (are_pieces)
		serve_wanted(nb->l, nb->i, pieces, n, priority);
	else
		net_refuse(net, image, pieces[0], SWARM_DENIED, 0);
}

static void on_unwanted(void *arg, struct net_link *net,
			const struct digest *image, uint32_t piece)
{
	struct neighbour *nb = neighbour_find(net, image);

	if (nb)
		serve_unwanted(nb->l, nb->i, piece);
}

/* Does the length of the piece fit its form? */
static bool image_fits(const struct p2p_image *i, const struct net_piece *p)
{
	struct block b;

	if (p->piece >= i->n)
		return false;
	image_block(i, p->piece, &b);
	return p->len == (p->form == NET_STORED ? b.csize : b.usize);
}

static void *give_room_for_piece(void *arg, struct net_link *net,
				 const struct net_piece *p)
{
	struct neighbour *nb = neighbour_find(net, &p->image);
	struct bytes *b = NULL;
	int rc = -ENOMEM;

	if (!nb)
		return NULL;
	swarm_begins(nb->i->swarm, nb->peer, p->piece);
	if (!image_fits(nb->i, p))
		rc = -EBADMSG;
	else
		b = bytes_new(nb->i->p, p->len,
			      nb->i->neighbours.asked[p->piece] ==
				      SOURCE_DEMAND);
	if (b)
		return b->data;
	swarm_lost(nb->i->swarm, nb->peer, p->piece, rc, clock_now_ns());
	image_settle(nb->i);
	return NULL;
}

static void on_piece_bytes(void *arg, struct net_link *net,
			   const struct net_piece *p, uint32_t n)
{
	struct neighbour *nb = neighbour_find(net, &p->image);

	if (!nb)
		return;
	image_moves(nb->i);
	swarm_moves(nb->i->swarm, nb->peer, p->piece, n, clock_now_ns());
}

static void on_piece_received(void *arg, struct net_link *net,
			      const struct net_piece *p, void *room)
{
	struct neighbour *nb = neighbour_find(net, &p->image);
	struct bytes *b = container_of((uint8_t *)room, struct bytes, data);

	if (nb)
		(void)!arrive(nb->i, nb, p->piece, p->form,
			      (enum source_priority)
				      nb->i->neighbours.asked[p->piece],
			      b);
	else
		bytes_unref(b);
}

static void on_piece_lost(void *arg, struct net_link *net,
			  const struct net_piece *p, void *room)
{
	/* The image or the link is closed, so the neighbour is removed anyway. */
	bytes_unref(container_of((uint8_t *)room, struct bytes, data));
}

static void on_refused(void *arg, struct net_link *net,
		       const struct digest *image, uint32_t piece,
		       enum swarm_refusal why, int64_t retry_ns)
{
	struct neighbour *nb = neighbour_find(net, image);

	if (!nb)
		return;
	swarm_refused(nb->i->swarm, nb->peer, piece, why, retry_ns,
		      clock_now_ns());
	image_settle(nb->i);
}

static void on_answer_left(void *arg, struct net_link *net, uint64_t tag)
{
	serve_left(arg, tag);
}

static void on_sent(void *arg, struct net_link *net, uint64_t tag)
{
	serve_sent(arg, tag);
}

static void on_fault(void *arg, struct net_link *net, const char *why)
{
	engine_note(arg, P2P_RDMA_FAULT, net_peer(net)->name, why);
}

static void on_members(void *arg, struct net_link *net,
		       const struct digest *image, const struct net_node *nodes,
		       size_t n)
{
	struct link *l = net_user(net);
	struct p2p *p = arg;
	struct member *teller = member_by_name(p, net_peer(net)->name);
	int64_t now = clock_now_ns();
	struct neighbour *nb;
	size_t n_bad = 0;

	if (!l || !teller || !hearsay_is_believed(teller, now))
		return;
	/* Keep the teller, which making room for announced members could free; the link may not
	 * be a member's. */
	teller->refs++;
	for (size_t k = 0; k < n; k++) {
		struct member *m = hearsay_know(p, teller, &nodes[k]);

		n_bad += !m && !hearsay_may_be(p, nodes[k].addr);
		if (!m)
			continue;
		/* An older release does not say which of the shared images the nodes take part
		 * in. */
		LIST_FOREACH(nb, &l->neighbours, by_link)
		if (!image)
			member_takes_part(m, nb->i, WORD_OF_SOME);
		else if (digest_equal(&nb->i->digest, image))
			member_takes_part(m, nb->i, WORD_OF_IMAGE);
	}
	/* If all announced addresses are wrong, each counts against the announcing node. */
	for (size_t k = 0; n_bad == n && k < n; k++)
		if (hearsay_is_believed(teller, now))
			hearsay_note_bad(p, teller, &nodes[k], now);
	teller->refs--;
}

const struct net_events link_events = {
	.up = on_link_up,
	.down = on_link_down,
	.failed = fault_link,
	.may_open = on_may_open,
	.opened = on_opened,
	.closed = on_closed,
	.news = on_news,
	.wanted = on_wanted,
	.unwanted = on_unwanted,
	.room = give_room_for_piece,
	.moves = on_piece_bytes,
	.got = on_piece_received,
	.lost = on_piece_lost,
	.refused = on_refused,
	.left = on_answer_left,
	.sent = on_sent,
	.fault = on_fault,
	.members = on_members,
};
