// SPDX-License-Identifier: Apache-2.0
/*
 * Reads of this node. A read waits for each of its units; the first read that wants a unit which
 * nobody fetches starts to bring it. When a unit cannot be had, the read decides again where to
 * get it.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "groupio/units.h"

/* Members that may disappear during a request for a unit, before this node reads it itself. */
#define TRIES_MAX 3u
/* A member without free memory is asked again for so many times --group-wait, since it may
 * be busy sending to others. A read waits as long for memory of this node, which a slow member
 * may occupy. */
#define BUSY_WAITS 4
#define BUSY_RETRY_NS (20 * NS_PER_MS)
#define BUSY_RETRY_MAX_NS (200 * NS_PER_MS)
/* Units that one read fetches in parallel. */
#define READ_AT_ONCE 8u

/* A read of one unit, or of a part of it. */
struct unit_read {
	struct group_file *file;
	uint64_t index;
	size_t from, len; /* in the unit */
	char *buf;
	unsigned int tries; /* members that disappeared during a request */
	/* since when members answer that they have no memory; 0: none did */
	int64_t busy_ns;
	bool is_own;  /* do not ask other members any more */
	bool is_past; /* do not wait for memory of the group either */
	/* the unit in use, from read_begin() on; NULL: none */
	struct group_unit *unit;
	bool is_mine; /* this read sent the request for it */
	bool is_over;
};

/* Have the unit brought, from a member or the store. With the lock. NULL: it cannot be. */
static struct group_unit *fetch_unit_for_read(struct unit_read *r)
{
	struct group_file *f = r->file;
	struct group_peer *owner = r->is_own ? NULL : file_owner(f, r->index);
	const bool is_whole = r->len == unit_len(f, r->index);
	struct group_unit *u = NULL;

	if (owner)
		u = unit_bring_from(f, r->index, owner,
				    is_whole ? r->buf : NULL);
	return u ? u : unit_bring_here(f, r->index, r->is_own || owner);
}

/* Has the unit ended for this reader? The reader that sent the request must also check the
 * bytes that came. */
static bool is_over(const struct group_unit *u, bool is_mine)
{
	return u->state == GROUP_UNIT_READY || u->state == GROUP_UNIT_MOVED ||
	       (u->state == GROUP_UNIT_FAILED && !u->is_relayed) ||
	       (u->state == GROUP_UNIT_CAME && is_mine);
}

/* Have all known members announced which units they have? With the lock. */
static bool have_members_announced_units(const struct group_file *f)
{
	const struct group *g = f->group;
	const struct group_peer *p;

	if (!f->is_offered || g->is_joining)
		return false;
	LIST_FOREACH(p, &g->peers, of_group)
	{
		const struct peer_file *pf = peer_file_find(p, f);

		if (pf && pf->state != PEER_FILE_TOLD)
			return false;
	}
	return true;
}

/* Wait a moment for the members' announcements: mounts of a job start and read at the same
 * time, and without this each would read its first units alone. With the lock, which is
 * released meanwhile. */
static void wait_until_settled(struct group_file *f)
{
	struct group *g = f->group;
	bool in_time = true;

	while (in_time && !g->is_dead && !have_members_announced_units(f))
		in_time = cond_wait_until(&g->changed, &g->lock,
					  f->settles_ns > g->joins_ns
						  ? f->settles_ns
						  : g->joins_ns);
}

/* Pause for `ns`. With the lock, which is released meanwhile. */
static void pause_read(struct group *g, int64_t ns)
{
	const int64_t until_ns = clock_now_ns() + ns;

	while (cond_wait_until(&g->changed, &g->lock, until_ns))
		;
}

/* Decide how to go on after another member did not bring the unit. With the lock, which is
 * released meanwhile. */
static void note_failure(struct unit_read *r, int rc)
{
	struct group *g = r->file->group;
	const int64_t now_ns = clock_now_ns();
	int64_t pause_ns;

	if (rc == -ENOTCONN) {
		r->is_own = ++r->tries >= TRIES_MAX;
		return;
	}
	if (rc != -EBUSY) {
		r->is_own = true;
		return;
	}
	if (!r->busy_ns)
		r->busy_ns = now_ns;
	r->is_own = now_ns - r->busy_ns > BUSY_WAITS * g->cfg.wait_ns;
	pause_ns = (now_ns - r->busy_ns) / 4 + BUSY_RETRY_NS;
	if (!r->is_own)
		pause_read(g, pause_ns < BUSY_RETRY_MAX_NS ? pause_ns
							   : BUSY_RETRY_MAX_NS);
}

/* Use the unit's result. With the lock, which is released meanwhile. 1: decide again. */
static int read_finish(struct unit_read *r, struct group_unit *u, bool is_mine,
		       struct error *err)
{
	struct group *g = r->file->group;

	while (!is_over(u, is_mine))
		(void)cond_wait_until(&u->ended, &g->lock,
				      clock_now_ns() + UNITS_LOOK_NS);
	if (u->state == GROUP_UNIT_CAME)
		unit_check(u, &r->file->origin->s);
	if (u->state == GROUP_UNIT_MOVED)
		return 1;
	if (u->state == GROUP_UNIT_FAILED && !u->was_asked) {
		if (err)
			*err = u->err;
		return u->rc;
	}
	if (u->state == GROUP_UNIT_FAILED) {
		note_failure(r, u->rc);
		return 1;
	}
	if (u->data == r->buf)
		return 0;
	(void)pthread_mutex_unlock(&g->lock);
	memcpy(r->buf, u->data + r->from, r->len);
	(void)pthread_mutex_lock(&g->lock);
	return 0;
}

/* Use the unit, and have it brought if nobody fetches it. With the lock. `r->unit` stays
 * NULL where memory is short, or where the unit comes to another reader's memory. */
static void read_begin(struct unit_read *r)
{
	struct group *g = r->file->group;
	struct group_unit *u = unit_find(g, r->file, r->index);

	if (g->is_dead || (u && u->was_asked && !u->is_slot))
		return;
	r->is_mine = false;
	if (u) {
		g->stats.memory_read_bytes +=
			u->state == GROUP_UNIT_READY ? r->len : 0;
		unit_use(u);
	} else {
		u = fetch_unit_for_read(r);
		r->is_mine = u && u->was_asked;
	}
	r->unit = u;
}

/* Try once to read the unit. With the lock. 1: decide again. */
static int try_read_unit(struct unit_read *r, struct error *err)
{
	struct group *g = r->file->group;
	struct group_unit *u;
	int rc;

	if (!r->unit)
		read_begin(r);
	u = r->unit;
	if (!u && !g->is_dead && (u = unit_find(g, r->file, r->index))) {
		unit_use(u);
		(void)cond_wait_until(&u->ended, &g->lock,
				      clock_now_ns() + UNITS_LOOK_NS);
		unit_leave(u);
		return 1;
	}
	if (!u)
		return -ENOBUFS;
	r->unit = NULL;
	rc = read_finish(r, u, r->is_mine, err);
	/* The unit is in this reader's own memory, so others must not find it. */
	if (r->is_mine && !u->is_slot) {
		unit_forget(u);
		(void)pthread_cond_broadcast(&u->ended);
	}
	unit_leave(u);
	return rc;
}

/* Read a unit from the source directly, when the group has no memory for it. */
static int read_past_group(struct unit_read *r, struct error *err)
{
	struct group *g = r->file->group;
	struct group_origin *o = r->file->origin;
	const uint64_t off = r->index * r->file->unit + r->from;
	int rc;

	(void)pthread_mutex_unlock(&g->lock);
	rc = o->s.ops->read(o->s.arg, off, r->buf, r->len, err);
	(void)pthread_mutex_lock(&g->lock);
	g->stats.fetched_bytes += rc == 0 ? r->len : 0;
	return rc;
}

/* Finish a begun read. With the lock, which is released meanwhile. */
static int finish_unit_read(struct unit_read *r, struct error *err)
{
	int rc;

	do
		rc = r->is_past ? -ENOBUFS : try_read_unit(r, err);
	while (rc == 1);
	return rc == -ENOBUFS ? read_past_group(r, err) : rc;
}

/* Must the read wait for memory before it begins? So for a part of a unit that another
 * member has to send. With the lock. */
static bool is_to_wait(const struct unit_read *r)
{
	struct group_file *f = r->file;

	return r->len < unit_len(f, r->index) && !units_may_ask(f->group) &&
	       !unit_find(f->group, f, r->index) && file_owner(f, r->index);
}

/* Begin a few units and return their number. With the lock. A read that must wait for memory
 * holds none itself, so it begins only one. */
static size_t begin_unit_reads(struct group_file *f, uint64_t off, char *buf,
			       size_t len, struct unit_read *all, size_t *ret_n)
{
	struct group *g = f->group;
	const int64_t until_ns = clock_now_ns() + BUSY_WAITS * g->cfg.wait_ns;
	size_t n_units = 0, n = 0;
	bool in_time = true;

	while (n < len && n_units < READ_AT_ONCE) {
		struct unit_read *r = &all[n_units];

		*r = (struct unit_read){ .file = f,
					 .index = (off + n) / f->unit,
					 .from = (size_t)((off + n) % f->unit),
					 .buf = buf + n };
		r->len = unit_len(f, r->index) - r->from;
		if (r->len > len - n)
			r->len = len - n;
		if (is_to_wait(r)) {
			if (n_units)
				break;
			r->is_past = !in_time;
			in_time =
				in_time && cond_wait_until(&g->changed,
							   &g->lock, until_ns);
			if (!r->is_past)
				continue;
		}
		n += r->len;
		n_units++;
		if (!r->is_past)
			read_begin(r);
	}
	*ret_n = n;
	return n_units;
}

static bool waits_for_member(const struct unit_read *r)
{
	return !r->unit ||
	       (r->unit->was_asked && r->unit->state != GROUP_UNIT_READY);
}

/* Read a few units; *ret_n is the number of bytes. With the lock, which is released
 * meanwhile. Even after a failure all begun units are waited for, as they may be written to
 * `buf`. Units that this node reads itself go first, so that they do not hold memory while
 * others are waited for. */
static int read_few_units(struct group_file *f, uint64_t off, char *buf,
			  size_t len, size_t *ret_n, struct error *err)
{
	struct unit_read all[READ_AT_ONCE];
	const size_t n_units = begin_unit_reads(f, off, buf, len, all, ret_n);
	int rc = 0;

	for (size_t k = 0; k < 2 * n_units; k++) {
		struct unit_read *r = &all[k % n_units];
		int one;

		if (r->is_over || (k < n_units && waits_for_member(r)))
			continue;
		one = finish_unit_read(r, rc == 0 ? err : NULL);
		r->is_over = true;
		rc = rc == 0 ? one : rc;
	}
	return rc;
}

int group_read(struct group_file *f, uint64_t off, void *buf, size_t len,
	       struct error *err)
{
	struct group *g = f->group;
	const int64_t begun_ns = clock_now_ns();
	char *dst = buf;
	int rc = 0;

	(void)pthread_mutex_lock(&g->lock);
	f->used_ns = begun_ns;
	wait_until_settled(f);
	while (len && rc == 0) {
		size_t n;

		rc = read_few_units(f, off, dst, len, &n, err);
		off += n;
		dst += n;
		len -= n;
	}
	g->stats.read_ns += (uint64_t)(clock_now_ns() - begun_ns);
	(void)pthread_mutex_unlock(&g->lock);
	return rc;
}
