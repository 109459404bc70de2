// SPDX-License-Identifier: Apache-2.0
/*
 * Units in memory, and the members that want them. A unit that this node must read from the
 * store is fetched by a thread of the pool into memory of the group; from there readers here
 * (unit_read.c) copy it and links send it. A unit that another member reads is requested from
 * it, and kept in spare memory if there is some; else it comes straight to the reader's memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/cond.h"
#include "groupio/bounds.h"
#include "groupio/units.h"

/* Fetches that wait for a thread; beyond that, members are told to ask again. */
#define QUEUED_MAX 4096u
/* Members learn within so long, or within half of --group-wait, that another member has
 * opened a file. */
#define JOIN_NS (5 * NS_PER_S / 2)

/* ----------------------------------------------------------------------- memory --- */

int units_init(struct group *g, struct error *err)
{
	g->n_slots = (size_t)(g->cfg.memory / GROUP_SLOT);
	if (g->n_slots < 2)
		g->n_slots = 2;
	TAILQ_INIT(&g->unused);
	TAILQ_INIT(&g->waiting);
	g->free_slots = (char **)calloc(g->n_slots, sizeof(*g->free_slots));
	/* Pages are allocated when first written, and stay: to give them back would have the
	 * kernel clear them again. */
	g->memory = mmap(NULL, g->n_slots * GROUP_SLOT, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g->memory == MAP_FAILED)
		g->memory = NULL;
	return g->free_slots && g->memory ? 0 : error_nomem(err);
}

static void give_unit_slot(struct group *g, char *slot)
{
	g->free_slots[g->n_free++] = slot;
	(void)pthread_cond_broadcast(&g->changed);
}

void unit_forget(struct group_unit *u)
{
	struct group *g = u->group;

	if (!u->is_known)
		return;
	u->is_known = false;
	HASH_DELETE(hh, g->units, u);
	u->key.file->n_known--;
	file_drop_if_unused(u->key.file);
	u->key.file = NULL;
}

static void unit_free(struct group_unit *u)
{
	struct group *g = u->group;

	unit_forget(u);
	if (u->is_slot) {
		g->stats.memory_bytes -= u->len;
		give_unit_slot(g, u->data);
	}
	(void)pthread_cond_destroy(&u->ended);
	free(u->wants);
	free(u);
}

void units_fini(struct group *g)
{
	struct group_unit *u;

	while ((u = TAILQ_FIRST(&g->unused))) {
		TAILQ_REMOVE(&g->unused, u, listed);
		unit_free(u);
	}
	if (g->memory)
		(void)munmap(g->memory, g->n_slots * GROUP_SLOT);
	free((void *)g->free_slots);
}

/* Take memory for a unit; NULL: all of it is in use. */
static char *take_unit_slot(struct group *g)
{
	struct group_unit *u;

	if (!g->n_free && g->n_slots_begun < g->n_slots)
		return g->memory + g->n_slots_begun++ * GROUP_SLOT;
	u = g->n_free ? NULL : TAILQ_FIRST(&g->unused);
	if (u) {
		TAILQ_REMOVE(&g->unused, u, listed);
		unit_free(u);
	}
	return g->n_free ? g->free_slots[--g->n_free] : NULL;
}

/* Is there spare memory? Only then a unit that another member has is kept here too. */
static bool has_spare_slots(const struct group *g)
{
	return g->n_free + (g->n_slots - g->n_slots_begun) > g->n_slots / 2;
}

bool units_may_ask(const struct group *g)
{
	return g->n_asked < g->n_slots / 2;
}

static bool unit_take_slot(struct group_unit *u)
{
	u->data = take_unit_slot(u->group);
	u->is_slot = u->data != NULL;
	if (u->is_slot)
		u->group->stats.memory_bytes += u->len;
	return u->is_slot;
}

/* ------------------------------------------------------------------------ units --- */

struct group_unit *unit_find(struct group *g, struct group_file *f,
			     uint64_t index)
{
	struct group_unit_key key;
	struct group_unit *u;

	memset(&key, 0, sizeof(key));
	key.file = f;
	key.index = index;
	HASH_FIND(hh, g->units, &key, sizeof(key), u);
	return u;
}

static struct group_unit *unit_new(struct group_file *f, uint64_t index)
{
	struct group *g = f->group;
	struct group_unit *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->group = g;
	u->key.file = f;
	u->key.index = index;
	u->id = f->id;
	u->len = unit_len(f, index);
	HASH_ADD(hh, g->units, key, sizeof(u->key), u);
	if (!hash_has_added(u)) {
		free(u);
		return NULL;
	}
	cond_init(&u->ended);
	u->is_known = true;
	f->n_known++;
	return u;
}

void unit_use(struct group_unit *u)
{
	if (!u->n_users++ && u->state == GROUP_UNIT_READY)
		TAILQ_REMOVE(&u->group->unused, u, listed);
}

/* Release a use of the unit. A unit in a reader's own memory is not kept for others, nor is
 * a failed one. */
void unit_leave(struct group_unit *u)
{
	struct group *g = u->group;

	if (--u->n_users)
		return;
	g->n_asked -= u->is_asked;
	u->is_asked = false;
	if (u->state == GROUP_UNIT_READY && u->is_slot && u->is_known) {
		/* Another member has it too, so it is evicted before units that none has. */
		if (u->was_asked)
			TAILQ_INSERT_HEAD(&g->unused, u, listed);
		else
			TAILQ_INSERT_TAIL(&g->unused, u, listed);
		(void)pthread_cond_broadcast(&g->changed);
	} else {
		unit_free(u);
	}
}

static void set_unit_final_state(struct group_unit *u,
				 enum group_unit_state state)
{
	u->state = state;
	(void)pthread_cond_broadcast(&u->ended);
}

void unit_came(struct group_unit *u)
{
	set_unit_final_state(u, GROUP_UNIT_CAME);
}

void unit_fail(struct group_unit *u, int rc, const char *why)
{
	u->rc = error_set(&u->err, -rc, "%s", why);
	set_unit_final_state(u, GROUP_UNIT_FAILED);
	/* A unit that was to be fetched stays for answer_wanting_members(), as members may wait for
	 * it. */
	if (u->was_asked)
		unit_forget(u);
}

void units_fail(struct group *g, const struct group_peer *p,
		const struct group_file *f, int rc, const char *why)
{
	struct group_unit *u, *next;

	HASH_ITER(hh, g->units, u, next)
	{
		if (u->peer != p || (f && u->key.file != f))
			continue;
		u->peer = NULL;
		if (u->state == GROUP_UNIT_ASKED)
			unit_fail(u, rc, why);
	}
}

/* ----------------------------------------------------------------------- asking --- */

/* Send the request for a unit to its member. On the loop. */
static void group_ask(struct loop_call *c)
{
	struct group_unit *u = container_of(c, struct group_unit, ask);
	struct group *g = u->group;
	struct net_link *link = NULL;
	struct digest id;
	uint32_t index = 0, len = 0;

	(void)pthread_mutex_lock(&g->lock);
	if (u->state == GROUP_UNIT_ASKED &&
	    !peer_file_find(u->peer, u->key.file)) {
		unit_fail(u, -ENOTCONN, "it has closed the file");
	} else if (u->state == GROUP_UNIT_ASKED) {
		link = u->peer->link;
		id = u->key.file->id;
		index = (uint32_t)u->key.index;
		len = (uint32_t)u->len;
		u->asked_ns = clock_now_ns();
		u->came_before = u->peer->n_came;
	}
	(void)pthread_mutex_unlock(&g->lock);
	if (link)
		net_ask(link, &id, &index, 1, len, SOURCE_HOT);
	(void)pthread_mutex_lock(&g->lock);
	unit_leave(u);
	(void)pthread_mutex_unlock(&g->lock);
}

static void unit_ask(struct group_unit *u, struct group_peer *p)
{
	u->state = GROUP_UNIT_ASKED;
	u->peer = p;
	u->asked_ns = clock_now_ns();
	u->came_before = p->n_came;
	u->ask.fn = group_ask;
	u->n_users++;
	loop_post(u->group->loop, &u->ask);
}

void unit_check(struct group_unit *u, const struct group_source *s)
{
	struct group *g = u->group;
	const uint64_t off = u->key.index * u->key.file->unit;
	int rc;

	(void)pthread_mutex_unlock(&g->lock);
	rc = s->ops->check(s->arg, off, u->data, u->len, NULL);
	(void)pthread_mutex_lock(&g->lock);
	if (rc == 0) {
		g->stats.received_bytes += u->len;
		set_unit_final_state(u, GROUP_UNIT_READY);
		return;
	}
	g->stats.wrong_total++;
	if (u->peer)
		u->peer->fault = GROUP_WRONG;
	unit_fail(u, -EBADMSG, "another member sent other bytes");
}

/* --------------------------------------------------------------------- fetching --- */

/* Send the unit to a member; the send is a user of the unit until it has arrived. */
static void unit_answer(struct group_unit *u, struct group_peer *p)
{
	struct group *g = u->group;
	struct group_send *s;
	struct net_piece piece = { .image = u->id,
				   .piece = (uint32_t)u->key.index,
				   .len = (uint32_t)u->len,
				   .form = NET_PLAIN };
	struct net_body body = { .fd = -1, .data = u->data };

	(void)pthread_mutex_lock(&g->lock);
	s = send_begin(u, p);
	if (!s)
		unit_leave(u);
	(void)pthread_mutex_unlock(&g->lock);
	/* Sent as bulk data, on another connection than the messages. */
	if (s)
		net_send(p->link, &piece, SOURCE_HOT, &body, (uintptr_t)s);
	else
		net_refuse(p->link, &piece.image, piece.piece, SWARM_BUSY, 0);
}

/* On the loop: answer the members that have asked for the unit during its fetch. If it
 * failed, they are refused and will not ask this node for it again. */
static void answer_wanting_members(struct work *w)
{
	struct group_unit *u = container_of(w, struct group_unit, fetch);
	struct group *g = u->group;
	bool is_ready;

	(void)pthread_mutex_lock(&g->lock);
	is_ready = u->state == GROUP_UNIT_READY;
	while (u->n_wants) {
		struct group_peer *p = u->wants[--u->n_wants];
		const bool is_sent =
			is_ready && (u->n_sends || bounds_may_send(g));

		p->n_held--;
		if (is_sent)
			unit_use(u);
		(void)pthread_mutex_unlock(&g->lock);
		if (is_sent)
			unit_answer(u, p);
		else
			net_refuse(p->link, &u->id, (uint32_t)u->key.index,
				   is_ready ? SWARM_BUSY : SWARM_GONE, 0);
		(void)pthread_mutex_lock(&g->lock);
	}
	if (!is_ready)
		unit_forget(u);
	unit_leave(u);
	(void)pthread_mutex_unlock(&g->lock);
}

/* Wait for memory for the unit, which ends of sends give back. With the lock. First come,
 * first served, since a read holds its later units' memory until it has the earlier ones. */
static bool wait_for_slot(struct group_unit *u)
{
	struct group *g = u->group;
	const int64_t until_ns = clock_now_ns() + g->cfg.wait_ns;
	bool is_late = false, has = false;

	TAILQ_INSERT_TAIL(&g->waiting, u, listed);
	for (;;) {
		has = TAILQ_FIRST(&g->waiting) == u && unit_take_slot(u);
		if (has || is_late || g->is_ending)
			break;
		is_late = !cond_wait_until(&g->changed, &g->lock, until_ns);
	}
	TAILQ_REMOVE(&g->waiting, u, listed);
	(void)pthread_cond_broadcast(&g->changed);
	return has;
}

/* Read the unit from the store. With the lock, which is released meanwhile. */
static int read_origin(struct group_unit *u, struct group_origin *o)
{
	struct group *g = u->group;
	const uint64_t off = u->key.index * u->key.file->unit;
	int rc;

	(void)pthread_mutex_unlock(&g->lock);
	rc = o->s.ops->read(o->s.arg, off, u->data, u->len, &u->err);
	(void)pthread_mutex_lock(&g->lock);
	if (rc < 0)
		return rc;
	bounds_fetched(g, clock_now_ns() - u->fetched_ns);
	g->stats.fetched_bytes += u->len;
	return 0;
}

/* Announce the unit to the members. On the loop. */
static void announce_unit(struct loop_call *c)
{
	struct group_unit *u = container_of(c, struct group_unit, ask);
	struct group *g = u->group;

	file_tell_held(g, &u->id, u->key.index);
	(void)pthread_mutex_lock(&g->lock);
	unit_leave(u);
	(void)pthread_mutex_unlock(&g->lock);
}

/* Announce that this node reads the unit: members that have seen others come or go at
 * another time might choose another reader for it, too. With the lock. */
static void post_unit_announcement(struct group_unit *u)
{
	/* When the loop is ending, posted calls never run. */
	if (u->group->is_ending || u->group->is_dead)
		return;
	u->ask.fn = announce_unit;
	u->n_users++;
	loop_post(u->group->loop, &u->ask);
}

/* Get the unit from a member that has it: it then sends it only once, to this node, which
 * passes it on. With the lock, which is released meanwhile. False: read it from the store. */
static bool relay_unit(struct group_unit *u, struct group_origin *o)
{
	struct group_file *f = u->key.file;
	struct group_peer *holder = u->is_own || file_owner(f, u->key.index)
					    ? NULL
					    : file_holder(f, u->key.index);

	if (!holder)
		return false;
	u->is_relayed = true;
	unit_ask(u, holder);
	while (u->state == GROUP_UNIT_ASKED)
		(void)cond_wait_until(&u->ended, &u->group->lock,
				      clock_now_ns() + UNITS_LOOK_NS);
	if (u->state == GROUP_UNIT_CAME)
		unit_check(u, &o->s);
	u->is_relayed = false;
	return u->state == GROUP_UNIT_READY;
}

/* Fetch the unit from the store. With the lock, which is released meanwhile. */
static void fetch_origin(struct group_unit *u, struct group_origin *o)
{
	u->fetched_ns = clock_now_ns();
	u->state = GROUP_UNIT_FETCHING;
	/* `ask` is still in use if a member was asked for the unit: that call may not have
	 * run yet. */
	if (!u->asked_ns)
		post_unit_announcement(u);
	u->rc = read_origin(u, o);
	set_unit_final_state(u,
			     u->rc < 0 ? GROUP_UNIT_FAILED : GROUP_UNIT_READY);
}

/* Fetch the unit. With the lock. Holds the origin, since the file may be withdrawn while
 * memory is waited for. */
static void fetch_unit(struct group_unit *u, struct group_origin *o)
{
	o->refs++;
	if (!wait_for_slot(u))
		unit_fail(u, -ENOBUFS, "the group's memory is in use");
	else if (!relay_unit(u, o) && u->group->is_ending)
		unit_fail(u, -ECANCELED, "the group ends");
	else if (u->state != GROUP_UNIT_READY)
		fetch_origin(u, o);
	origin_unref(u->group, o);
}

/* Is a queued unit wanted by nobody, or now the share of members that have joined since?
 * With the lock. */
static bool is_unwanted(const struct group_unit *u)
{
	if (u->n_wants)
		return false;
	return u->n_users == 1 ||
	       (!u->is_own && file_owner(u->key.file, u->key.index));
}

static void group_fetch(struct work *w)
{
	struct group_unit *u = container_of(w, struct group_unit, fetch);
	struct group *g = u->group;

	(void)pthread_mutex_lock(&g->lock);
	g->n_queued--;
	if (g->is_ending) {
		unit_fail(u, -ECANCELED, "the group ends");
	} else if (is_unwanted(u)) {
		set_unit_final_state(u, GROUP_UNIT_MOVED);
		unit_forget(u);
	} else if (!u->key.file->origin) {
		unit_fail(u, -ENOENT, "the file is not open here");
	} else {
		fetch_unit(u, u->key.file->origin);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

static bool unit_queue(struct group_unit *u)
{
	struct group *g = u->group;

	u->state = GROUP_UNIT_QUEUED;
	u->fetch.run = group_fetch;
	u->fetch.done = answer_wanting_members;
	u->n_users++;
	g->n_queued++;
	if (g->n_queued <= QUEUED_MAX && pool_submit(g->pool, &u->fetch) == 0)
		return true;
	g->n_queued--;
	unit_forget(u);
	unit_leave(u);
	return false;
}

struct group_unit *unit_bring_from(struct group_file *f, uint64_t index,
				   struct group_peer *owner, char *whole)
{
	struct group *g = f->group;
	struct group_unit *u = unit_new(f, index);

	if (!u)
		return NULL;
	u->n_users++;
	if (whole && !has_spare_slots(g)) {
		u->data = whole;
	} else if (units_may_ask(g) && unit_take_slot(u)) {
		u->is_asked = true;
		g->n_asked++;
	} else {
		unit_leave(u);
		return NULL;
	}
	u->was_asked = true;
	unit_ask(u, owner);
	return u;
}

struct group_unit *unit_bring_here(struct group_file *f, uint64_t index,
				   bool is_own)
{
	struct group_unit *u = unit_new(f, index);

	if (!u)
		return NULL;
	u->n_users++;
	u->is_own = is_own;
	if (unit_queue(u))
		return u;
	unit_leave(u);
	return NULL;
}

/* ------------------------------------------------------------------ for members --- */

static bool unit_add_want(struct group_unit *u, struct group_peer *p)
{
	if (array_grow(&u->wants, u->n_wants, &u->cap_wants, 4) < 0)
		return false;
	u->wants[u->n_wants++] = p;
	p->n_held++;
	return true;
}

static bool has_joined_lately(const struct group_file *f)
{
	const int64_t half_ns = f->group->cfg.wait_ns / 2;

	return f->used_ns - f->joined_ns <
	       (half_ns < JOIN_NS ? half_ns : JOIN_NS);
}

/* Note that a member wants a unit; true: the member will be answered. With the lock. */
static bool note_unit_wanted(struct group *g, struct group_peer *p,
			     struct group_file *f, uint64_t index,
			     struct group_unit **ret_ready,
			     enum swarm_refusal *ret_why)
{
	struct group_unit *u = unit_find(g, f, index);

	f->used_ns = clock_now_ns();
	/* A member that asks for a unit does not have it any more. */
	file_forget_held(f, p, index);
	if (!bounds_may_want(g, p))
		return false;
	if (u && u->state == GROUP_UNIT_READY) {
		unit_use(u);
		*ret_ready = u;
		return true;
	}
	/* Refuse when this node itself waits for that unit from a member: two members could
	 * wait for each other for ever. */
	if (u && (u->was_asked || (u->is_relayed && u->peer == p)))
		return false;
	/* Refuse a unit that the member should read itself (it asks because this node had
	 * it): two members waiting for each other's reads could block all their threads. */
	if ((!u || u->state == GROUP_UNIT_QUEUED) &&
	    file_reader(f, index) == p) {
		*ret_why = SWARM_GONE;
		return false;
	}
	if (u)
		return unit_add_want(u, p);
	/* After a recent join the asking member may not know the new reader of the unit yet:
	 * let it ask again. */
	if (file_owner(f, index) && has_joined_lately(f))
		return false;
	u = unit_new(f, index);
	if (!u || !unit_add_want(u, p)) {
		if (u)
			unit_free(u);
		return false;
	}
	if (unit_queue(u))
		return true;
	/* The unit was freed, and this want was the only one. */
	p->n_held--;
	return false;
}

void units_want(struct group *g, struct group_peer *p, const struct digest *id,
		uint32_t index)
{
	struct group_unit *ready = NULL;
	enum swarm_refusal why = SWARM_BUSY;
	struct group_file *f;
	bool ok;

	(void)pthread_mutex_lock(&g->lock);
	/* A shunned member gets no answer for long, so it is told not to ask again. */
	if (p->shunned_ns > clock_now_ns())
		why = SWARM_GONE;
	f = files_find(g, id);
	/* The piece behind the last unit does not exist. */
	ok = f && f->origin && index < f->n_units &&
	     note_unit_wanted(g, p, f, index, &ready, &why);
	(void)pthread_mutex_unlock(&g->lock);
	if (ready)
		unit_answer(ready, p);
	else if (!ok)
		net_refuse(p->link, id, index, why, 0);
}

/* Find a member that waits for a unit and was not told so for a while. With the lock. */
static struct group_peer *find_waiting(struct group *g, int64_t now_ns,
				       const struct group_unit **ret)
{
	const int64_t every_ns = g->cfg.wait_ns / 4;
	struct group_unit *u, *next;

	HASH_ITER(hh, g->units, u, next)
	for (size_t i = 0; i < u->n_wants; i++) {
		if (now_ns - u->wants[i]->promised_ns < every_ns)
			continue;
		*ret = u;
		return u->wants[i];
	}
	return NULL;
}

void units_promise(struct group *g, int64_t now_ns)
{
	const struct group_unit *u;
	struct group_peer *p;

	(void)pthread_mutex_lock(&g->lock);
	while ((p = find_waiting(g, now_ns, &u))) {
		const struct swarm_range one = { (uint32_t)u->key.index, 1 };
		const struct digest id = u->id;

		p->promised_ns = now_ns;
		(void)pthread_mutex_unlock(&g->lock);
		net_news(p->link, &id, NULL, 0, NULL, 0, &one, 1,
			 g->cfg.wait_ns);
		(void)pthread_mutex_lock(&g->lock);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

static void unit_drop_wants(struct group_unit *u, const struct group_peer *p)
{
	size_t n = 0;

	for (size_t i = 0; i < u->n_wants; i++)
		if (u->wants[i] != p)
			u->wants[n++] = u->wants[i];
		else
			u->wants[i]->n_held--;
	u->n_wants = n;
}

void units_unwant(struct group *g, const struct group_peer *p,
		  struct group_file *f, uint32_t index)
{
	struct group_unit *u = unit_find(g, f, index);

	if (u)
		unit_drop_wants(u, p);
}

void units_forget_wants(struct group *g, const struct group_peer *p,
			const struct group_file *f)
{
	struct group_unit *u, *next;

	HASH_ITER(hh, g->units, u, next)
	if (!f || u->key.file == f)
		unit_drop_wants(u, p);
}
