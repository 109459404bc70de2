// SPDX-License-Identifier: Apache-2.0
/* Messages on links between members: docs/formats/p2p.md, "Groups". All functions run on the
 * loop. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "groupio/bounds.h"
#include "groupio/units.h"

/* Refused connections are logged by one line in so long, however many there are. */
#define REFUSED_EVERY_NS (60 * NS_PER_S)

static bool is_room_id(const struct group *g, const struct digest *image)
{
	return digest_equal(image, &g->room);
}

/* ---------------------------------------------------------------- come and gone --- */

static void on_member_up(void *arg, struct net_link *l)
{
	struct group *g = arg;
	struct group_peer *p = net_user(l);
	const struct net_node *node = net_peer(l);

	if (!p)
		p = peer_new(l);
	if (!p) {
		net_close(l, "out of memory");
		return;
	}
	(void)pthread_mutex_lock(&g->lock);
	if (!p->of_group.le_prev)
		LIST_INSERT_HEAD(&g->peers, p, of_group);
	(void)snprintf(p->name, sizeof(p->name), "%s", node->name);
	(void)snprintf(p->addr, sizeof(p->addr), "%s", node->addr);
	p->is_up = true;
	p->shunned_ns = bounds_shunned_ns(g, p->name);
	p->moved_ns = p->gained_ns = g->linked_ns = clock_now_ns();
	g->stats.members++;
	(void)pthread_mutex_unlock(&g->lock);
	log_info("group",
		 "member linked name=\"%s\" addr=\"%s\" members=%" PRIu64,
		 p->name, p->addr, g->stats.members);
	(void)!net_open_image(l, &g->room, 1, NULL, 0, NULL);
	members_tell_blocks(g, p);
	files_offer_to(g, p);
}

static void on_member_down(void *arg, struct net_link *l,
			   const struct error *why)
{
	struct group *g = arg;
	struct group_peer *p = net_user(l);
	struct peer_file *pf;

	if (!p)
		return;
	(void)pthread_mutex_lock(&g->lock);
	units_fail(g, p, NULL, -ENOTCONN, "the member is gone");
	units_forget_wants(g, p, NULL);
	while ((pf = LIST_FIRST(&p->files)))
		peer_file_remove(pf);
	LIST_REMOVE(p, of_group);
	g->stats.members -= p->is_up;
	(void)pthread_mutex_unlock(&g->lock);
	if (p->is_up && why && why->code != EALREADY)
		log_info("group",
			 "member gone name=\"%s\" members=%" PRIu64
			 " reason=\"%s\"",
			 p->name, g->stats.members, why->msg);
	free(p);
}

/* Count failed connections; anybody may try as often as they like, so a line reports many. */
static void on_connection_failed(void *arg, const struct net_failure *f)
{
	struct group *g = arg;
	const int64_t now_ns = clock_now_ns();

	if (f->fault != NET_UNTRUSTED && f->fault != NET_UNLIKE)
		return;
	g->n_refused++;
	if (g->refused_ns && now_ns - g->refused_ns < REFUSED_EVERY_NS)
		return;
	log_warning("group",
		    "not let in addr=\"%s\" times=%" PRIu64
		    " reason=\"it has not this group's key (--group-key): %s\"",
		    f->addr, g->n_refused, f->why ? f->why->msg : "");
	g->n_refused = 0;
	g->refused_ns = now_ns;
}

static const char *const fault_text[] = {
	[GROUP_LATE] = "it was asked, and sent too little in the time of "
		       "--group-wait",
	[GROUP_STUCK] = "it asked, and took nothing of it in the time of "
			"--group-wait",
	[GROUP_WRONG] = "it sent bytes that are not the file's",
};

static void drop_faulty_member(struct group *g, struct group_peer *p)
{
	enum group_fault fault;

	(void)pthread_mutex_lock(&g->lock);
	fault = p->is_up && !p->is_left ? p->fault : GROUP_FINE;
	if (fault) {
		p->is_left = true;
		g->stats.late_total += fault != GROUP_WRONG;
		bounds_shun(g, p);
	}
	(void)pthread_mutex_unlock(&g->lock);
	if (!fault)
		return;
	log_warning("group", "member left out name=\"%s\" reason=\"%s\"",
		    p->name, fault_text[fault]);
	net_close(p->link, fault_text[fault]);
}

/* Close the links of members that delayed others. A new link needs a handshake, which a
 * stopped process cannot make, and then the member stays shunned for a while. */
void links_drop_faulty(struct group *g, int64_t now_ns)
{
	struct group_peer *p, *after;

	(void)pthread_mutex_lock(&g->lock);
	bounds_look(g, now_ns);
	(void)pthread_mutex_unlock(&g->lock);
	for (p = LIST_FIRST(&g->peers); p; p = after) {
		after = LIST_NEXT(p, of_group);
		drop_faulty_member(g, p);
	}
}

/* ------------------------------------------------------------------------ files --- */

static int group_may_open(void *arg, struct net_link *l,
			  const struct digest *image, const void *capability,
			  size_t len, struct error *err)
{
	struct group *g = arg;
	struct group_file *f;
	bool is_here;

	/* Its certificate was signed with the job's secret: that is the right to read all
	 * that the job reads. */
	if (is_room_id(g, image))
		return 0;
	if (digest_equal(image, &g->blocks_image))
		return members_note_blocks(g, net_user(l), capability, len,
					   err);
	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, image);
	is_here = f && f->origin;
	if (is_here)
		f->n_known++; /* keeps the file while it is offered below */
	(void)pthread_mutex_unlock(&g->lock);
	if (!is_here)
		return error_set(err, ENOENT, "the file is not open");
	/* Offer the file in return: an earlier offer between the two nodes may have been
	 * refused because the other had not opened the file yet. */
	file_offer_to(f, net_user(l));
	(void)pthread_mutex_lock(&g->lock);
	f->n_known--;
	file_drop_if_unused(f);
	(void)pthread_mutex_unlock(&g->lock);
	return 0;
}

/* List the units in memory here, which the member need not fetch. With the lock. NULL: no
 * memory. */
static struct swarm_range *list_held(const struct group_file *f, size_t *ret_n)
{
	struct group *g = f->group;
	const struct group_unit *u, *next;
	struct swarm_range *r = calloc(f->n_known + 1, sizeof(*r));
	uint8_t *held = calloc((size_t)(f->n_units / 8 + 1), 1);
	size_t n = 0;

	if (!r || !held) {
		free(r);
		free(held);
		return NULL;
	}
	HASH_ITER(hh, g->units, u, next)
	if (u->key.file == f && (u->state == GROUP_UNIT_FETCHING ||
				 (u->state == GROUP_UNIT_READY && u->is_slot)))
		held[u->key.index / 8] |= (uint8_t)(1u << u->key.index % 8);
	for (uint64_t i = 0; i < f->n_units; i++) {
		if (!(held[i / 8] & (1u << i % 8)))
			continue;
		if (n && r[n - 1].first + r[n - 1].n == i)
			r[n - 1].n++;
		else
			r[n++] = (struct swarm_range){ (uint32_t)i, 1 };
	}
	r[n++] = (struct swarm_range){ (uint32_t)f->n_units, 1 };
	free(held);
	*ret_n = n;
	return r;
}

static void on_image_opened(void *arg, struct net_link *l,
			    const struct digest *image)
{
	struct group *g = arg;
	struct group_peer *p = net_user(l);
	AUTO_FREE struct swarm_range *held = NULL;
	struct group_file *f;
	struct peer_file *pf;
	size_t n = 0;

	if (is_room_id(g, image)) {
		join_tell(g, p);
		return;
	}
	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, image);
	pf = f ? peer_file_find(p, f) : NULL;
	if (pf && file_join(f, pf) == 0)
		held = list_held(f, &n);
	(void)pthread_mutex_unlock(&g->lock);
	if (held)
		net_news(l, image, held, n, NULL, 0, NULL, 0, 0);
}

static void on_image_closed(void *arg, struct net_link *l,
			    const struct digest *image, enum swarm_refusal why)
{
	struct group *g = arg;
	struct group_peer *p = net_user(l);
	struct group_file *f;
	struct peer_file *pf;

	(void)why;
	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, image);
	pf = f ? peer_file_find(p, f) : NULL;
	if (pf) {
		units_fail(g, p, f, -ENOTCONN, "it has closed the file");
		units_forget_wants(g, p, f);
		peer_file_remove(pf);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

/* Note that the member has these units. The ranges are within the image's pieces, as net.h
 * checks. */
static void note_held_units(struct peer_file *pf, struct swarm_range r)
{
	const uint64_t n_units = pf->file->n_units;

	for (uint32_t i = r.first; i < r.first + r.n; i++) {
		if (i < n_units)
			pf->has[i / 8] |= (uint8_t)(1u << i % 8);
		else if (i == n_units)
			pf->state = PEER_FILE_TOLD;
	}
}

static void on_held_units_told(void *arg, struct net_link *l,
			       const struct digest *image,
			       const struct swarm_range *have, size_t n_have,
			       const struct swarm_range *lost, size_t n_lost,
			       const struct swarm_range *promised,
			       size_t n_promised, int64_t eta_ns)
{
	struct group *g = arg;
	struct group_file *f;
	struct peer_file *pf;
	bool is_told;

	(void)lost;
	(void)n_lost;
	(void)promised;
	(void)eta_ns;
	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, image);
	pf = f ? peer_file_find(net_user(l), f) : NULL;
	is_told = pf && pf->state == PEER_FILE_TOLD;
	for (size_t i = 0; i < n_have && pf && pf->has; i++)
		note_held_units(pf, have[i]);
	/* A promise shows that the member is alive and its store slow. */
	if (pf && n_promised)
		pf->peer->moved_ns = clock_now_ns();
	/* Wake waiting readers only for the first list of a member: none waits for news of
	 * single units. */
	if (pf && !is_told && pf->state == PEER_FILE_TOLD)
		(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
}

/* ------------------------------------------------------------------------ units --- */

static void on_units_wanted(void *arg, struct net_link *l,
			    const struct digest *image, const uint32_t *pieces,
			    size_t n, enum source_priority priority)
{
	(void)n;
	(void)priority;
	units_want(arg, net_user(l), image, pieces[0]);
}

static void on_unit_unwanted(void *arg, struct net_link *l,
			     const struct digest *image, uint32_t piece)
{
	struct group *g = arg;
	struct group_file *f;

	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, image);
	if (f)
		units_unwant(g, net_user(l), f, piece);
	(void)pthread_mutex_unlock(&g->lock);
}

/* The unit that this node requested from the member and that is this piece. With the lock. */
static struct group_unit *find_asked(struct group *g, struct net_link *l,
				     const struct digest *image, uint32_t piece)
{
	struct group_file *f = files_find(g, image);
	struct group_unit *u = f ? unit_find(g, f, piece) : NULL;

	return u && u->state == GROUP_UNIT_ASKED && u->peer == net_user(l)
		       ? u
		       : NULL;
}

static void *get_room_for_unit(void *arg, struct net_link *l,
			       const struct net_piece *p)
{
	struct group *g = arg;
	struct group_unit *u;
	void *room = NULL;

	(void)pthread_mutex_lock(&g->lock);
	u = find_asked(g, l, &p->image, p->piece);
	if (u && p->len == u->len && p->form == NET_PLAIN) {
		room = u->data;
	} else if (u) {
		u->peer->fault = GROUP_WRONG;
		unit_fail(u, -EBADMSG, "a unit of another length");
	}
	(void)pthread_mutex_unlock(&g->lock);
	return room;
}

static void on_unit_moving(void *arg, struct net_link *l,
			   const struct net_piece *p, uint32_t n)
{
	struct group *g = arg;

	(void)p;
	(void)pthread_mutex_lock(&g->lock);
	bounds_gained(net_user(l), n);
	(void)pthread_mutex_unlock(&g->lock);
}

static void on_unit_received(void *arg, struct net_link *l,
			     const struct net_piece *p, void *room)
{
	struct group *g = arg;
	struct group_unit *u;

	(void)pthread_mutex_lock(&g->lock);
	bounds_came(net_user(l));
	u = find_asked(g, l, &p->image, p->piece);
	if (u && u->data == room)
		unit_came(u);
	(void)pthread_mutex_unlock(&g->lock);
}

static void on_unit_lost(void *arg, struct net_link *l,
			 const struct net_piece *p, void *room)
{
	struct group *g = arg;
	struct group_unit *u;

	(void)pthread_mutex_lock(&g->lock);
	u = find_asked(g, l, &p->image, p->piece);
	if (u && u->data == room)
		unit_fail(u, -ENOTCONN, "the member is gone");
	(void)pthread_mutex_unlock(&g->lock);
}

static void on_unit_refused(void *arg, struct net_link *l,
			    const struct digest *image, uint32_t piece,
			    enum swarm_refusal why, int64_t retry_ns)
{
	struct group *g = arg;
	struct group_unit *u;

	(void)retry_ns;
	(void)pthread_mutex_lock(&g->lock);
	u = find_asked(g, l, image, piece);
	if (u && why != SWARM_BUSY)
		file_forget_held(u->key.file, u->peer, piece);
	if (u)
		unit_fail(u, why == SWARM_BUSY ? -EBUSY : -EAGAIN,
			  "the member refused it");
	(void)pthread_mutex_unlock(&g->lock);
}

static void on_unit_sent(void *arg, struct net_link *l, uint64_t tag)
{
	struct group *g = arg;

	(void)l;
	(void)pthread_mutex_lock(&g->lock);
	unit_leave(send_end((struct group_send *)(uintptr_t)tag));
	(void)pthread_mutex_unlock(&g->lock);
}

static void on_members_told(void *arg, struct net_link *l,
			    const struct digest *image,
			    const struct net_node *nodes, size_t n)
{
	(void)l;
	(void)image;
	join_heard(arg, nodes, n);
}

const struct net_events group_events = {
	.up = on_member_up,
	.down = on_member_down,
	.failed = on_connection_failed,
	.may_open = group_may_open,
	.opened = on_image_opened,
	.closed = on_image_closed,
	.news = on_held_units_told,
	.wanted = on_units_wanted,
	.unwanted = on_unit_unwanted,
	.room = get_room_for_unit,
	.moves = on_unit_moving,
	.got = on_unit_received,
	.lost = on_unit_lost,
	.refused = on_unit_refused,
	.sent = on_unit_sent,
	.members = on_members_told,
};
