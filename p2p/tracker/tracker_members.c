// SPDX-License-Identifier: Apache-2.0
/* Members of an image, and the choice of those named to other members. */
#include <string.h>

#include "p2p/tracker/tracker_priv.h"

#define REMOTE_MIN 8u /* remote members in an answer, if there are so many */

static uint32_t hash_text(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return (h ^ 0xffu) * 16777619u;
}

static uint32_t hash_place(const char *region, const char *zone,
			   const char *rack)
{
	uint32_t h = hash_text(hash_text(2166136261u, region), zone);

	if (rack)
		h = hash_text(h, rack);
	return h ? h : 1;
}

static uint32_t hash_name(const struct tracker *t,
			  const struct tracker_image *i, const char *node)
{
	uint64_t h = image_hash(t, &i->digest, i->n_pieces) ^
		     hash_seeded(&t->seed, node, strlen(node));

	return (uint32_t)(h ^ h >> 32);
}

uint32_t member_node_hash(const struct tracker *t, const char *node)
{
	uint64_t h = hash_seeded(&t->seed, node, strlen(node));

	return (uint32_t)h ? (uint32_t)h : 1;
}

static uint32_t *member_bucket(const struct tracker *t, uint32_t hash)
{
	return &t->heads[(hash ^ hash >> 16) & (t->n_buckets_m - 1)];
}

struct swarm_member *
member_find(struct tracker *t, const struct tracker_image *i, const char *node)
{
	uint32_t slot = *member_bucket(t, hash_name(t, i, node));

	while (slot != NONE) {
		struct swarm_member *m = &t->members[slot];

		if (m->image == i && strcmp(m->text, node) == 0)
			return m;
		slot = m->next;
	}
	return NULL;
}

/* ------------------------------------------------------------------ come and go --- */

static void unlink_age(struct tracker *t, struct swarm_member *m)
{
	struct tracker_link *l = &m->by_age;

	if (l->prev != NONE)
		t->members[l->prev].by_age.next = l->next;
	else
		t->by_age.first = l->next;
	if (l->next != NONE)
		t->members[l->next].by_age.prev = l->prev;
	else
		t->by_age.last = l->prev;
}

static void link_youngest(struct tracker *t, struct swarm_member *m)
{
	uint32_t slot = (uint32_t)(m - t->members);

	m->by_age =
		(struct tracker_link){ .prev = t->by_age.last, .next = NONE };
	if (t->by_age.last != NONE)
		t->members[t->by_age.last].by_age.next = slot;
	else
		t->by_age.first = slot;
	t->by_age.last = slot;
}

/* Get a free slot; the next free one is in its `next`. */
static int slot_get(struct tracker *t, uint32_t *ret, struct error *err)
{
	if (t->free_slot != NONE) {
		*ret = t->free_slot;
		t->free_slot = t->members[t->free_slot].next;
		return 0;
	}
	if (t->n_slots == t->cap_slots) {
		uint32_t cap = t->cap_slots ? t->cap_slots * 2 : 64;
		struct swarm_member *m =
			realloc(t->members, cap * sizeof(*t->members));

		if (!m)
			return error_nomem(err);
		t->members = m;
		t->cap_slots = cap;
	}
	*ret = t->n_slots++;
	return 0;
}

static int grow_who_table(struct tracker_image *i, struct error *err)
{
	uint32_t cap = i->cap_who ? i->cap_who * 2 : 16;
	struct who *w = NULL;

	if (i->n_who < i->cap_who)
		return 0;
	w = realloc(i->who, cap * sizeof(*w));
	if (!w)
		return error_nomem(err);
	i->who = w;
	i->cap_who = cap;
	return 0;
}

/* All texts of a call in one piece of memory; NULL: no memory. */
static char *pack_text(const struct tracker_call *c)
{
	const char *const parts[] = { c->node, c->addr, c->rack, c->zone,
				      c->region };
	size_t len = 0;
	char *text, *at;

	for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
		len += strlen(parts[k]) + 1;
	text = malloc(len);
	at = text;
	for (size_t k = 0; text && k < ARRAY_SIZE(parts); k++)
		at = stpcpy(at, parts[k]) + 1;
	return text;
}

static bool text_is_of_call(const char *text, const struct tracker_call *c)
{
	const char *const parts[] = { c->node, c->addr, c->rack, c->zone,
				      c->region };

	for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
		if (strcmp(text, parts[k]) != 0)
			return false;
		text += strlen(text) + 1;
	}
	return true;
}

static uint32_t new_serial(struct tracker *t)
{
	do
		t->serial++;
	while (t->serial == 0);
	return t->serial;
}

/* Forget the reads of a member: they were made under its old serial. */
static void forget_reads(struct tracker *t, struct swarm_member *m)
{
	m->serial = new_serial(t);
	m->image->n_done -= m->n_done;
	m->n_done = 0;
}

struct swarm_member *member_add(struct tracker *t, struct tracker_image *i,
				const struct tracker_call *c, struct error *err)
{
	AUTO_FREE char *text = pack_text(c);
	uint32_t slot = NONE, *bucket;
	struct swarm_member *m;

	if (!text) {
		(void)error_nomem(err);
		return NULL;
	}
	if (grow_who_table(i, err) < 0 || slot_get(t, &slot, err) < 0)
		return NULL;
	m = &t->members[slot];
	*m = (struct swarm_member){ .image = i, .text = steal_ptr(&text) };
	m->serial = new_serial(t);
	m->hash = hash_name(t, i, c->node);
	m->node = member_node_hash(t, c->node);
	m->wait_until = INT64_MIN;
	bucket = member_bucket(t, m->hash);
	m->next = *bucket;
	*bucket = slot;
	m->at = i->n_who;
	image_discharge(t, i);
	i->who[i->n_who++] = (struct who){ .slot = slot, .node = m->node };
	image_charge(t, i);
	link_youngest(t, m);
	t->n_members++;
	return m;
}

/* The member's address has changed. If it changes back while its old entry is recent, two nodes
 * have the same name: `ret` is the other one's address. */
static void note_address_change(struct tracker *t, struct swarm_member *m,
				const struct tracker_call *c, int64_t now,
				char ret[TRACKER_ADDR_MAX + 1])
{
	const char *addr = m->text + strlen(m->text) + 1;
	uint32_t to = hash_text(2166136261u, c->addr);

	if (strcmp(addr, c->addr) == 0)
		return;
	if (m->moved && m->addr_before == to &&
	    now - m->moved < t->cfg.member_ttl_ns) {
		(void)stpcpy(ret, addr);
		t->stats.namesakes_total++;
	}
	m->addr_before = hash_text(2166136261u, addr);
	m->moved = now;
}

int member_update(struct tracker *t, struct swarm_member *m,
		  const struct tracker_call *c, int64_t now,
		  struct tracker_answer *ret, struct error *err)
{
	struct tracker_image *i = m->image;
	struct who *w = &i->who[m->at];

	if (!text_is_of_call(m->text, c)) {
		char *text = pack_text(c);

		if (!text)
			return error_nomem(err);
		note_address_change(t, m, c, now, ret->namesake);
		free(m->text);
		m->text = text;
	}
	w->zone = hash_place(c->region, c->zone, NULL);
	w->rack = c->rack[0] ? hash_place(c->region, c->zone, c->rack) : 0;
	i->n_complete -= m->have == i->n_pieces;
	i->n_complete += c->have == i->n_pieces;
	/* it has fewer pieces than it read: it was restarted, or lost pieces */
	if (c->have < m->n_done)
		forget_reads(t, m);
	m->have = c->have;
	m->run = c->run;
	m->opening = c->opening;
	m->seen = now;
	unlink_age(t, m);
	link_youngest(t, m);
	return 0;
}

void member_remove(struct tracker *t, struct swarm_member *m)
{
	uint32_t slot = (uint32_t)(m - t->members);
	uint32_t *at = member_bucket(t, m->hash);
	struct tracker_image *i = m->image;

	leases_drop(t, i, slot);
	while (*at != slot)
		at = &t->members[*at].next;
	*at = m->next;
	image_discharge(t, i);
	i->who[m->at] = i->who[--i->n_who];
	image_charge(t, i);
	t->members[i->who[m->at].slot].at = m->at;
	i->n_complete -= m->have == i->n_pieces;
	i->n_done -= m->n_done;
	unlink_age(t, m);
	free(m->text);
	free(m->waits);
	*m = (struct swarm_member){ .next = t->free_slot };
	t->free_slot = slot;
	t->n_members--;
}

/* -------------------------------------------------------------------- the choice --- */

void member_describe(const struct swarm_member *m, struct tracker_member *ret)
{
	const char *at = m->text;
	char *const parts[] = { ret->node, ret->addr, ret->rack, ret->zone,
				ret->region };

	for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
		(void)stpcpy(parts[k], at);
		at += strlen(at) + 1;
	}
	ret->have = m->have;
}

/* A fair random sample of the `n` members seen. */
struct lot {
	uint32_t slots[TRACKER_MEMBERS_MAX];
	uint32_t n;
};

static void lot_add_member(struct tracker *t, struct lot *l, uint32_t slot)
{
	uint32_t at = l->n++;

	/* Keep a random order, because maybe only the first are taken. */
	if (at < TRACKER_MEMBERS_MAX) {
		uint32_t k = (uint32_t)(tracker_random(t) % l->n);

		l->slots[at] = l->slots[k];
		l->slots[k] = slot;
	} else {
		uint64_t k = tracker_random(t) % l->n;

		if (k < TRACKER_MEMBERS_MAX)
			l->slots[k] = slot;
	}
}

static uint32_t count_kept_in_lot(const struct lot *l)
{
	return l->n < TRACKER_MEMBERS_MAX ? l->n : TRACKER_MEMBERS_MAX;
}

static uint32_t smaller_count_of_members(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* How many members of the same rack, of the zone, and remote ones fill `room` places. */
static void divide_places_by_distance(const struct lot lots[3], uint32_t room,
				      uint32_t ret[3])
{
	uint32_t remote = (room + 4) / 5;
	uint32_t left;

	if (remote < REMOTE_MIN)
		remote = smaller_count_of_members(REMOTE_MIN, room);
	ret[2] = smaller_count_of_members(remote, count_kept_in_lot(&lots[2]));
	left = room - ret[2];
	ret[0] = smaller_count_of_members(smaller_count_of_members(room / 2,
								   left),
					  count_kept_in_lot(&lots[0]));
	left -= ret[0];
	ret[1] = smaller_count_of_members(left, count_kept_in_lot(&lots[1]));
	left -= ret[1];
	/* Fill places of a missing kind from the farthest kind that has more. */
	for (int k = 2; k >= 0; k--) {
		uint32_t more =
			smaller_count_of_members(left,
						 count_kept_in_lot(&lots[k]) -
							 ret[k]);

		ret[k] += more;
		left -= more;
	}
}

void members_choose(struct tracker *t, const struct swarm_member *self,
		    struct tracker_answer *ret)
{
	const struct tracker_image *i = self->image;
	const struct who *me = &i->who[self->at];
	struct lot lots[3] = { { .n = 0 }, { .n = 0 }, { .n = 0 } };
	uint32_t n[3], held[TRACKER_MEMBERS_MAX];
	size_t n_held = ret->n_members;

	/* Members named already as readers; looked up by name, since few. */
	for (size_t k = 0; k < n_held; k++) {
		const struct swarm_member *m =
			member_find(t, i, ret->members[k].node);

		held[k] = m ? (uint32_t)(m - t->members) : NONE;
	}
	for (uint32_t k = 0; k < i->n_who; k++) {
		const struct who *w = &i->who[k];
		bool named = w == me;

		for (size_t h = 0; h < n_held && !named; h++)
			named = held[h] == w->slot;
		if (named)
			continue;
		if (me->rack && w->rack == me->rack)
			lot_add_member(t, &lots[0], w->slot);
		else if (w->zone == me->zone)
			lot_add_member(t, &lots[1], w->slot);
		else
			lot_add_member(t, &lots[2], w->slot);
	}
	divide_places_by_distance(lots,
				  (uint32_t)(TRACKER_MEMBERS_MAX - n_held), n);
	for (int kind = 0; kind < 3; kind++)
		for (uint32_t k = 0; k < n[kind]; k++)
			member_describe(&t->members[lots[kind].slots[k]],
					&ret->members[ret->n_members++]);
}
