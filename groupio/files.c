// SPDX-License-Identifier: Apache-2.0
/* Files of a group: which members have them open, and which member reads which of their
 * units. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "groupio/units.h"

/* A file that was closed here stays open for members that still read it: until so long after
 * their last request, and for no more files than IDLE_MAX. */
#define IDLE_NS (10 * NS_PER_S)
#define IDLE_MAX 64u

/* ---------------------------------------------------------------------- origins --- */

void origin_unref(struct group *g, struct group_origin *o)
{
	if (--o->refs)
		return;
	/* Without the lock, since the release closes objects of a store, which may block. */
	(void)pthread_mutex_unlock(&g->lock);
	o->s.ops->release(o->s.arg);
	free(o);
	(void)pthread_mutex_lock(&g->lock);
}

/* ------------------------------------------------------------------------ files --- */

struct group_file *files_find(struct group *g, const struct digest *id)
{
	struct group_file *f;

	HASH_FIND(hh, g->files, id, sizeof(*id), f);
	return f;
}

size_t unit_len(const struct group_file *f, uint64_t index)
{
	const uint64_t off = index * f->unit;

	return f->size - off < f->unit ? (size_t)(f->size - off) : f->unit;
}

void file_drop_if_unused(struct group_file *f)
{
	if (f->n_local || f->origin || f->n_known || f->is_posted ||
	    f->is_let_go)
		return;
	HASH_DELETE(hh, f->group->files, f);
	free((void *)f->members);
	free(f);
}

/* Make the file's id on links. It depends on the job's secret, so members of other jobs
 * cannot tell which file it is. */
static int file_id(const struct group *g, const struct group_source *s,
		   struct digest *ret, struct error *err)
{
	uint8_t text[5 + DIGEST_SIZE + 12] = "parts";

	memcpy(text + 5, s->identity.b, DIGEST_SIZE);
	put_le64(text + 5 + DIGEST_SIZE, s->size);
	put_le32(text + 13 + DIGEST_SIZE, s->unit);
	return digest_hmac(g->secret.b, sizeof(g->secret.b), text, sizeof(text),
			   ret) < 0
		       ? error_nomem(err)
		       : 0;
}

static struct group_file *file_new(struct group *g, const struct digest *id,
				   const struct group_source *s)
{
	struct group_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->group = g;
	f->id = *id;
	f->size = s->size;
	f->unit = s->unit;
	f->n_units = (s->size + s->unit - 1) / s->unit;
	HASH_ADD(hh, g->files, id, sizeof(f->id), f);
	if (hash_has_added(f))
		return f;
	free(f);
	return NULL;
}

/* Offer the file to a member, on the loop. The image on the link has one piece more than the
 * file has units: a member that announces this piece has announced all units that it holds. */
void file_offer_to(struct group_file *f, struct group_peer *p)
{
	struct group *g = f->group;
	bool is_new;

	(void)pthread_mutex_lock(&g->lock);
	is_new = f->origin && p->is_up && !peer_file_find(p, f) &&
		 peer_file_add(p, f) == 0;
	(void)pthread_mutex_unlock(&g->lock);
	if (!is_new || net_open_image(p->link, &f->id, (uint32_t)f->n_units + 1,
				      NULL, 0, NULL) == 0)
		return;
	(void)pthread_mutex_lock(&g->lock);
	peer_file_remove(peer_file_find(p, f));
	(void)pthread_mutex_unlock(&g->lock);
}

/* Offer the file to all members. On the loop. */
static void run_file_offer(struct loop_call *c)
{
	struct group_file *f = container_of(c, struct group_file, offer);
	struct group *g = f->group;
	struct group_peer *p;

	LIST_FOREACH(p, &g->peers, of_group)
	file_offer_to(f, p);
	(void)pthread_mutex_lock(&g->lock);
	f->is_offered = true;
	f->is_posted = false;
	(void)pthread_cond_broadcast(&g->changed);
	file_drop_if_unused(f);
	(void)pthread_mutex_unlock(&g->lock);
}

/* Add a reader of the file. Called with the lock. */
static bool file_attach(struct group_file *f, struct group_origin *o)
{
	const int64_t now_ns = clock_now_ns();
	const int64_t wait_ns = f->group->cfg.wait_ns;

	f->n_local++;
	f->used_ns = now_ns;
	/* All origins of the file have the same bytes, so one is enough. */
	if (f->origin)
		return false;
	f->origin = o;
	f->is_offered = f->is_let_go = false;
	f->settles_ns = now_ns +
			(wait_ns < GROUP_SETTLE_NS ? wait_ns : GROUP_SETTLE_NS);
	if (!f->is_posted) {
		f->is_posted = true;
		f->offer.fn = run_file_offer;
		loop_post(f->group->loop, &f->offer);
	}
	return true;
}

int group_file_open(struct group *g, const struct group_source *s,
		    struct group_file **ret, struct error *err)
{
	struct group_origin *o = calloc(1, sizeof(*o));
	struct group_file *f = NULL;
	struct digest id;
	int rc = o ? 0 : error_nomem(err);

	if (rc == 0 && (!s->size || !s->unit || s->unit > GROUP_UNIT_MAX ||
			s->size / s->unit >= SWARM_PIECES_MAX - 2))
		rc = error_set(err, EINVAL, "a file that is not shared");
	if (rc == 0)
		rc = file_id(g, s, &id, err);
	if (rc < 0) {
		s->ops->release(s->arg);
		free(o);
		return rc;
	}
	*o = (struct group_origin){ .s = *s, .refs = 1 };
	(void)pthread_mutex_lock(&g->lock);
	f = files_find(g, &id);
	if (!f)
		f = file_new(g, &id, s);
	if (!f)
		rc = error_nomem(err);
	if (!f || !file_attach(f, o))
		origin_unref(g, o);
	(void)pthread_mutex_unlock(&g->lock);
	*ret = f;
	return rc;
}

void group_file_close(struct group_file *f)
{
	struct group *g;

	if (!f)
		return;
	g = f->group;
	(void)pthread_mutex_lock(&g->lock);
	f->n_local--;
	f->used_ns = clock_now_ns();
	(void)pthread_mutex_unlock(&g->lock);
}

/* ---------------------------------------------------------------------- members --- */

struct peer_file *peer_file_find(const struct group_peer *p,
				 const struct group_file *f)
{
	struct peer_file *pf;

	if (!p)
		return NULL;
	LIST_FOREACH(pf, &p->files, of_peer)
	if (pf->file == f)
		return pf;
	return NULL;
}

int peer_file_add(struct group_peer *p, struct group_file *f)
{
	struct peer_file *pf = calloc(1, sizeof(*pf));

	if (!pf)
		return -ENOMEM;
	pf->file = f;
	pf->peer = p;
	LIST_INSERT_HEAD(&p->files, pf, of_peer);
	return 0;
}

/* Place of a name among the file's members. They are sorted by name, so that all members
 * have the same order. */
static size_t find_member_index(const struct group_file *f, const char *name)
{
	size_t i = 0;

	while (i < f->n_members && strcmp(f->members[i]->peer->name, name) < 0)
		i++;
	return i;
}

int file_join(struct group_file *f, struct peer_file *pf)
{
	const size_t cap = f->cap_members ? 2 * f->cap_members : 8;
	struct peer_file **more;
	size_t at;

	if (f->n_members == f->cap_members) {
		more = (struct peer_file **)realloc((void *)f->members,
						    cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		f->members = more;
		f->cap_members = cap;
	}
	pf->has = calloc((size_t)(f->n_units / 8 + 1), 1);
	if (!pf->has)
		return -ENOMEM;
	at = find_member_index(f, pf->peer->name);
	memmove((void *)(f->members + at + 1), (const void *)(f->members + at),
		(f->n_members - at) * sizeof(*f->members));
	f->members[at] = pf;
	f->n_members++;
	f->self_at = find_member_index(f, f->group->name);
	pf->state = PEER_FILE_OPEN;
	f->joined_ns = clock_now_ns();
	return 0;
}

void peer_file_remove(struct peer_file *pf)
{
	struct group_file *f = pf->file;
	size_t n = 0;

	for (size_t i = 0; i < f->n_members; i++)
		if (f->members[i] != pf)
			f->members[n++] = f->members[i];
	f->n_members = n;
	f->self_at = find_member_index(f, f->group->name);
	LIST_REMOVE(pf, of_peer);
	free(pf->has);
	free(pf);
	(void)pthread_cond_broadcast(&f->group->changed);
}

static bool is_shunned(const struct group_peer *p, int64_t now_ns)
{
	return p->shunned_ns > now_ns;
}

/* The member at a place; NULL for the place of this node. */
static struct group_peer *member_at(const struct group_file *f, size_t at)
{
	if (at == f->self_at)
		return NULL;
	return f->members[at > f->self_at ? at - 1 : at]->peer;
}

/* The member that reads a unit instead of a shunned one. All others share its units: if each
 * took them for itself, each would read all of them. */
static struct group_peer *find_deputy(const struct group_file *f,
				      uint64_t index, int64_t now_ns)
{
	const size_t n = f->n_members + 1;
	size_t n_good = 0, turn;

	for (size_t at = 0; at < n; at++) {
		const struct group_peer *p = member_at(f, at);

		n_good += !p || !is_shunned(p, now_ns);
	}
	turn = (size_t)(index / n % n_good);
	for (size_t at = 0; at < n; at++) {
		struct group_peer *p = member_at(f, at);

		if ((!p || !is_shunned(p, now_ns)) && !turn--)
			return p;
	}
	return NULL;
}

/* A member that has the unit. The search begins at a place that depends on the unit and this
 * node, so that members spread their requests over all holders. */
static struct group_peer *find_holder(const struct group_file *f,
				      uint64_t index, size_t *ret_n)
{
	const int64_t now_ns = clock_now_ns();
	struct group_peer *first = NULL;

	*ret_n = 0;
	for (size_t k = 0; k < f->n_members; k++) {
		const struct peer_file *pf =
			f->members[(index + f->self_at + k) % f->n_members];

		if (!(pf->has[index / 8] & (1u << index % 8)) ||
		    is_shunned(pf->peer, now_ns))
			continue;
		if (!first)
			first = pf->peer;
		++*ret_n;
	}
	return first;
}

void file_forget_held(const struct group_file *f, const struct group_peer *p,
		      uint64_t index)
{
	const struct peer_file *pf = peer_file_find(p, f);

	if (pf && pf->has)
		pf->has[index / 8] &= (uint8_t) ~(1u << index % 8);
}

struct group_peer *file_holder(const struct group_file *f, uint64_t index)
{
	size_t n;

	return find_holder(f, index, &n);
}

/* The member that should read the unit from the store. Neighbouring units belong to
 * different members, so that each window of a reader needs equal shares of all. */
struct group_peer *file_reader(const struct group_file *f, uint64_t index)
{
	const size_t n = f->n_members + 1;
	const int64_t now_ns = clock_now_ns();
	struct group_peer *p = member_at(f, (size_t)((index + f->id.b[0]) % n));

	return p && is_shunned(p, now_ns) ? find_deputy(f, index, now_ns) : p;
}

/* The member to request the unit from. A member that started first may have all units, and
 * its link would limit everybody: so a holder is preferred to the unit's reader only when half
 * of the members hold the unit. */
struct group_peer *file_owner(const struct group_file *f, uint64_t index)
{
	size_t n_holders;
	struct group_peer *holder = find_holder(f, index, &n_holders);

	return holder && 2 * n_holders >= f->n_members + 1
		       ? holder
		       : file_reader(f, index);
}

/* ------------------------------------------------------------------ on the loop --- */

void file_tell_held(struct group *g, const struct digest *id, uint64_t index)
{
	const struct swarm_range one = { (uint32_t)index, 1 };
	struct group_peer *p;

	LIST_FOREACH(p, &g->peers, of_group)
	{
		const struct group_file *f;
		const struct peer_file *pf;
		bool is_open;

		(void)pthread_mutex_lock(&g->lock);
		f = files_find(g, id);
		pf = f ? peer_file_find(p, f) : NULL;
		is_open = pf && pf->has;
		(void)pthread_mutex_unlock(&g->lock);
		if (is_open)
			net_news(p->link, id, &one, 1, NULL, 0, NULL, 0, 0);
	}
}

void files_offer_to(struct group *g, struct group_peer *p)
{
	AUTO_FREE struct group_file **all = NULL;
	struct group_file *f, *next;
	size_t n = 0;

	(void)pthread_mutex_lock(&g->lock);
	all = (struct group_file **)calloc(HASH_COUNT(g->files) + 1,
					   sizeof(*all));
	HASH_ITER(hh, g->files, f, next)
	if (all && f->origin) {
		f->n_known++; /* keeps the file while it is in the list */
		all[n++] = f;
	}
	(void)pthread_mutex_unlock(&g->lock);
	for (size_t i = 0; i < n; i++)
		file_offer_to(all[i], p);
	(void)pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < n; i++) {
		all[i]->n_known--;
		file_drop_if_unused(all[i]);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

/* Drop the file's origin. Called with the lock, which is released meanwhile. */
static void drop_file_origin(struct group_file *f)
{
	struct group_origin *o = f->origin;

	f->origin = NULL;
	f->is_let_go = true;
	origin_unref(f->group, o);
}

/* Close the file on all links, after it was closed here. Called with the lock, which is
 * released meanwhile. */
static void withdraw_file_from_members(struct group_file *f)
{
	struct group *g = f->group;
	const struct digest id = f->id;
	struct group_peer *p;

	f->n_known++; /* keeps the file until this function is done */
	if (f->origin)
		drop_file_origin(f);
	f->is_let_go = false;
	LIST_FOREACH(p, &g->peers, of_group)
	{
		struct peer_file *pf = peer_file_find(p, f);

		if (!pf)
			continue;
		units_fail(g, p, f, -EAGAIN, "the file was closed here");
		units_forget_wants(g, p, f);
		peer_file_remove(pf);
		(void)pthread_mutex_unlock(&g->lock);
		net_close_image(p->link, &id, SWARM_GONE);
		(void)pthread_mutex_lock(&g->lock);
	}
	f->n_known--;
	file_drop_if_unused(f);
}

/* A file whose members must still be told that it is closed here. With the lock. */
static struct group_file *find_file_to_withdraw(struct group *g)
{
	struct group_file *f, *next;

	HASH_ITER(hh, g->files, f, next)
	if (f->is_let_go)
		return f;
	return NULL;
}

/* The file that has been closed here for longest, and the number `*ret_n` of all such files.
 * With the lock. */
static struct group_file *find_longest_closed_file(struct group *g,
						   size_t *ret_n)
{
	struct group_file *f, *next, *oldest = NULL;

	*ret_n = 0;
	HASH_ITER(hh, g->files, f, next)
	{
		if (f->n_local || !f->origin)
			continue;
		++*ret_n;
		if (!oldest || f->used_ns < oldest->used_ns)
			oldest = f;
	}
	return oldest;
}

void files_withdraw_idle(struct group *g, int64_t now_ns)
{
	struct group_file *f;
	size_t n;

	(void)pthread_mutex_lock(&g->lock);
	while ((f = find_file_to_withdraw(g)))
		withdraw_file_from_members(f);
	while ((f = find_longest_closed_file(g, &n)) &&
	       (n > IDLE_MAX || now_ns - f->used_ns > IDLE_NS))
		withdraw_file_from_members(f);
	(void)pthread_mutex_unlock(&g->lock);
}

bool group_shed(struct group *g)
{
	struct group_file *f;
	size_t n;

	(void)pthread_mutex_lock(&g->lock);
	f = find_longest_closed_file(g, &n);
	if (f) {
		f->n_known++;
		drop_file_origin(f);
		f->n_known--;
	}
	(void)pthread_mutex_unlock(&g->lock);
	return f != NULL;
}

void files_fini(struct group *g)
{
	struct group_file *f, *next;

	(void)pthread_mutex_lock(&g->lock);
	HASH_ITER(hh, g->files, f, next)
	{
		struct group_origin *o = f->origin;

		f->origin = NULL;
		f->n_known++;
		if (o)
			origin_unref(g, o);
		f->n_known--;
		f->is_posted = f->is_let_go = false;
		file_drop_if_unused(f);
	}
	(void)pthread_mutex_unlock(&g->lock);
}
