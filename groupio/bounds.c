// SPDX-License-Identifier: Apache-2.0
/*
 * Limits on what a member may cost this node. Units that are being sent to a member occupy
 * memory; a member that delays others, as a reader or as a sender, is shunned for a while: it
 * gets no requests and no answers.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "groupio/bounds.h"
#include "groupio/units.h"

/* A member must send or take GAIN_MIN bytes, or a whole piece, in so many times --group-wait
 * (or in so many times the duration of this node's own fetches, when the store is slow). The
 * limit is generous, since a link that many members share brings a unit slowly, and shunning
 * the member means reading the unit twice. */
#define UNIT_WAITS 4
#define GAIN_MIN (1u << 20)
/* When so many units that were requested later have arrived, a unit is taken for withheld. */
#define OVERTAKEN_MAX 64u
/* A member that delayed others is shunned for so many times --group-wait. */
#define SHUN_WAITS 12

/* ------------------------------------------------------------------------ sends --- */

/* Units being sent to one member may use half of the memory, those to all members three
 * quarters: so members that take nothing leave room for the others and for this node's readers. */
bool bounds_may_want(const struct group *g, const struct group_peer *p)
{
	return p->shunned_ns <= clock_now_ns() && p->n_held < g->n_slots / 2 &&
	       bounds_may_send(g);
}

bool bounds_may_send(const struct group *g)
{
	return g->n_sending < g->n_slots * 3 / 4;
}

struct group_send *send_begin(struct group_unit *u, struct group_peer *p)
{
	struct group_send *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->unit = u;
	s->peer = p;
	s->since_ns = clock_now_ns();
	TAILQ_INSERT_TAIL(&p->sends, s, of_peer);
	p->n_held++;
	u->group->n_sending += !u->n_sends++;
	return s;
}

struct group_unit *send_end(struct group_send *s)
{
	struct group_unit *u = s->unit;
	struct group_peer *p = s->peer;

	TAILQ_REMOVE(&p->sends, s, of_peer);
	p->n_held--;
	p->took_ns = clock_now_ns();
	u->group->n_sending -= !--u->n_sends;
	free(s);
	return u;
}

/* ----------------------------------------------------------------------- faults --- */

/* Note how long a fetch from the store took. When the store is slow for all, the time limits
 * grow, so that members do not shun each other and each read everything. Failed fetches do not
 * count: their time is only the deadline. */
void bounds_fetched(struct group *g, int64_t took_ns)
{
	const int64_t before_ns = g->slow_ns - g->slow_ns / 8;

	g->slow_ns = took_ns > before_ns ? took_ns : before_ns;
}

static int64_t get_slowest_fetch_ns(const struct group *g, int64_t now_ns)
{
	const struct group_unit *u, *next;
	int64_t ns = g->slow_ns;

	HASH_ITER(hh, g->units, u, next)
	if (u->state == GROUP_UNIT_FETCHING && now_ns - u->fetched_ns > ns)
		ns = now_ns - u->fetched_ns;
	return ns;
}

void bounds_gained(struct group_peer *p, uint32_t n)
{
	p->moved_ns = clock_now_ns();
	p->gained_bytes += n;
	if (p->gained_bytes < GAIN_MIN)
		return;
	p->gained_bytes = 0;
	p->gained_ns = p->moved_ns;
}

void bounds_came(struct group_peer *p)
{
	p->n_came++;
	p->gained_bytes = 0;
	p->gained_ns = clock_now_ns();
}

static bool is_late(const struct group_unit *u, int64_t now_ns, int64_t most_ns)
{
	const struct group_peer *p = u->peer;
	const int64_t wait_ns = u->group->cfg.wait_ns;
	const int64_t asked_for_ns = now_ns - u->asked_ns;

	if (u->state != GROUP_UNIT_ASKED || !p || asked_for_ns <= wait_ns)
		return false;
	if (now_ns - p->moved_ns > wait_ns)
		return true;
	/* Half the time for a relayed unit, or the members waiting for this node would shun
	 * it for a delay of that member. */
	if (u->is_relayed)
		most_ns /= 2;
	return asked_for_ns > most_ns &&
	       (now_ns - p->gained_ns > most_ns ||
		p->n_came - u->came_before > OVERTAKEN_MAX);
}

/* Note the time when the member has taken another GAIN_MIN bytes. On the loop. */
static void note_member_progress(struct group_peer *p, int64_t now_ns)
{
	struct net_link_stats s;

	if (TAILQ_EMPTY(&p->sends))
		return;
	net_get_link(p->link, &s);
	if (s.sent_bytes - p->taken_bytes < GAIN_MIN)
		return;
	p->taken_bytes = s.sent_bytes;
	p->took_ns = now_ns;
}

static bool is_stuck(const struct group *g, const struct group_peer *p,
		     int64_t now_ns)
{
	const struct group_send *s = TAILQ_FIRST(&p->sends);

	return s && now_ns - s->since_ns > UNIT_WAITS * g->cfg.wait_ns &&
	       now_ns - p->took_ns > UNIT_WAITS * g->cfg.wait_ns;
}

void bounds_look(struct group *g, int64_t now_ns)
{
	const int64_t slow_ns = get_slowest_fetch_ns(g, now_ns);
	const int64_t most_ns =
		UNIT_WAITS *
		(slow_ns > g->cfg.wait_ns ? slow_ns : g->cfg.wait_ns);
	struct group_unit *u, *next;
	struct group_peer *p;

	HASH_ITER(hh, g->units, u, next)
	if (is_late(u, now_ns, most_ns))
		u->peer->fault = GROUP_LATE;
	LIST_FOREACH(p, &g->peers, of_group)
	{
		note_member_progress(p, now_ns);
		if (is_stuck(g, p, now_ns))
			p->fault = GROUP_STUCK;
	}
}

/* The entry of this name, else the entry that expires first. */
static struct group_shunned *find_shunned_slot(struct group *g,
					       const char *name)
{
	struct group_shunned *first = g->shunned;

	for (size_t i = 0; i < GROUP_SHUNNED_MAX; i++) {
		if (strcmp(g->shunned[i].name, name) == 0)
			return &g->shunned[i];
		if (g->shunned[i].until_ns < first->until_ns)
			first = &g->shunned[i];
	}
	return first;
}

void bounds_shun(struct group *g, const struct group_peer *p)
{
	struct group_shunned *s = find_shunned_slot(g, p->name);

	(void)snprintf(s->name, sizeof(s->name), "%s", p->name);
	s->until_ns = clock_now_ns() + SHUN_WAITS * g->cfg.wait_ns;
}

int64_t bounds_shunned_ns(struct group *g, const char *name)
{
	const struct group_shunned *s = find_shunned_slot(g, name);

	return strcmp(s->name, name) == 0 ? s->until_ns : 0;
}
