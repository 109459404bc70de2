// SPDX-License-Identifier: Apache-2.0
/*
 * The tracker's calls. tracker_images.c has the images, tracker_members.c the members, the files
 * that tracker_book.h names the leases, tracker_room.c the choice of what to drop.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/tracker/tracker_priv.h"

const struct tracker_config tracker_config_default = {
	.images_max = 8192, /* 4096 images, each with its metadata */
	.members_max = 400000,
	.memory_max = 256 * MIB,
	.member_ttl_ns = 10 * NS_PER_S,
	.lease_min_ns = NS_PER_S,
	.lease_max_ns = 60 * NS_PER_S,
	.done_ns = 60 * NS_PER_S,
	.demand_done_ns = 2 * NS_PER_S,
	.copies = 1,
	.flying_max = 256 * MIB,
	.interval_ns = 2 * NS_PER_S,
};

static int config_check(const struct tracker_config *c, struct error *err)
{
	if (c->images_max < 1 || c->images_max > 1u << 20 ||
	    c->members_max < 1 || c->members_max > TRACKER_SLOTS_MAX ||
	    c->copies < 1 || c->copies > 16 ||
	    c->flying_max < TRACKER_PIECE_BYTES_MAX ||
	    c->flying_max > (uint64_t)1 << 40)
		return error_set(err, EINVAL,
				 "tracker: a limit is out of "
				 "its range");
	if (c->member_ttl_ns <= 0 || c->lease_min_ns <= 0 ||
	    c->lease_max_ns < c->lease_min_ns || c->interval_ns <= 0 ||
	    c->done_ns < 0 || c->demand_done_ns < 0)
		return error_set(err, EINVAL,
				 "tracker: a time is out of its "
				 "range");
	return 0;
}

/* A power of two, twice `n` at most. */
static size_t buckets_for(size_t n)
{
	size_t b = 16;

	while (b < n)
		b *= 2;
	return b;
}

int tracker_new(const struct tracker_config *cfg, struct tracker **ret,
		struct error *err)
{
	AUTO(tracker) t = NULL;
	int rc = config_check(cfg, err);

	if (rc < 0)
		return rc;
	t = calloc(1, sizeof(*t));
	if (!t)
		return error_nomem(err);
	t->cfg = *cfg;
	t->random = cfg->seed;
	/* Keep it below 2^53: JSON numbers are exact up to there. */
	t->epoch = tracker_random(t) >> 12 | 1;
	/* Not derived from cfg->seed, which the epoch reveals. */
	rc = hash_seed_new(&t->seed, err);
	if (rc < 0)
		return rc;
	t->n_buckets_i = buckets_for(cfg->images_max);
	t->n_buckets_m = buckets_for(cfg->members_max);
	t->images = calloc(t->n_buckets_i, sizeof(struct tracker_image *));
	t->heads = malloc(t->n_buckets_m * sizeof(*t->heads));
	t->free_slot = NONE;
	t->by_age = (struct tracker_list){ .first = NONE, .last = NONE };
	if (!t->images || !t->heads)
		return error_nomem(err);
	rc = taken_new(t, err);
	if (rc < 0)
		return rc;
	memset(t->heads, 0xff, t->n_buckets_m * sizeof(*t->heads));
	*ret = steal_ptr(&t);
	return 0;
}

void tracker_free(struct tracker *t)
{
	if (!t)
		return;
	while (t->oldest)
		image_drop(t, t->oldest);
	free(t->members);
	free(t->images);
	free(t->heads);
	free(t->taken);
	free(t);
}

/* ---------------------------------------------------------------------- calls --- */

/* Check a text that goes into logs and answers: no control characters, no blanks. */
static int text_check(const char *what, const char *s, size_t max, bool empty,
		      struct error *err)
{
	size_t n = strnlen(s, max + 1);

	if (n > max || (n == 0 && !empty))
		return error_set(err, EINVAL, "%s has a bad length", what);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f)
			return error_set(err, EINVAL,
					 "%s has a control character", what);
	return 0;
}

static int pieces_check(const struct tracker_call *c, const uint32_t *pieces,
			size_t n, struct error *err)
{
	if (n > TRACKER_PIECES_MAX)
		return error_set(err, EINVAL, "more than %u pieces",
				 TRACKER_PIECES_MAX);
	for (size_t i = 0; i < n; i++)
		if (pieces[i] >= c->n_pieces)
			return error_set(err, EINVAL, "piece %u of %u",
					 pieces[i], c->n_pieces);
	return 0;
}

static int call_check(const struct tracker_call *c, struct error *err)
{
	int rc = text_check("node", c->node, TRACKER_NAME_MAX, false, err);

	if (rc == 0)
		rc = text_check("addr", c->addr, TRACKER_ADDR_MAX, c->leaving,
				err);
	if (rc == 0)
		rc = text_check("rack", c->rack, TRACKER_PLACE_MAX, true, err);
	if (rc == 0)
		rc = text_check("zone", c->zone, TRACKER_PLACE_MAX, true, err);
	if (rc == 0)
		rc = text_check("region", c->region, TRACKER_PLACE_MAX, true,
				err);
	if (rc < 0)
		return rc;
	if (c->n_pieces < 1 || c->n_pieces > TRACKER_IMAGE_PIECES_MAX ||
	    c->have > c->n_pieces)
		return error_set(err, EINVAL, "%u of %u pieces", c->have,
				 c->n_pieces);
	if (c->n_demand > c->n_want)
		return error_set(err, EINVAL, "more demand than is wanted");
	if (c->origin_wait_ns < 0)
		return error_set(err, EINVAL, "origin_wait is negative");
	rc = pieces_check(c, c->want, c->n_want, err);
	if (rc == 0)
		rc = pieces_check(c, c->done, c->n_done, err);
	if (rc == 0)
		rc = pieces_check(c, c->failed, c->n_failed, err);
	for (size_t i = 0; rc == 0 && i < c->n_want; i++)
		if (c->want_bytes[i] < 1 ||
		    c->want_bytes[i] > TRACKER_PIECE_BYTES_MAX)
			rc = error_set(err, EINVAL, "piece of %u bytes",
				       c->want_bytes[i]);
	return rc;
}

/* Remove a member, and its image if it was the last one. */
static void member_leave(struct tracker *t, struct swarm_member *m)
{
	struct tracker_image *i = m->image;

	member_remove(t, m);
	if (i->n_who == 0)
		image_drop(t, i);
}

static void sweep_members(struct tracker *t, int64_t now)
{
	while (t->by_age.first != NONE) {
		struct swarm_member *m = &t->members[t->by_age.first];

		if (now - m->seen <= t->cfg.member_ttl_ns)
			break;
		member_leave(t, m);
	}
}

void tracker_sweep(struct tracker *t, int64_t now)
{
	sweep_members(t, now);
	for (struct tracker_image *i = t->oldest; i; i = i->newer)
		leases_expire(t, i, now);
}

/* Get the caller's record, creating it if needed. */
static int member_get(struct tracker *t, const struct tracker_call *c,
		      struct swarm_member **ret, struct error *err)
{
	struct tracker_image *i = tracker_image_find(t, &c->image, c->n_pieces);
	struct swarm_member *m = i ? member_find(t, i, c->node) : NULL;

	if (m) {
		*ret = m;
		return 0;
	}
	/* Making room may drop this image. */
	while (t->n_members >= t->cfg.members_max)
		member_leave(t, &t->members[t->by_age.first]);
	i = tracker_image_find(t, &c->image, c->n_pieces);
	if (!i) {
		int rc =
			tracker_make_room(t, member_node_hash(t, c->node), err);

		if (rc < 0)
			return rc;
		i = tracker_image_add(t, &c->image, c->n_pieces);
		if (!i)
			return error_nomem(err);
	}
	m = member_add(t, i, c, err);
	if (!m) {
		if (i->n_who == 0)
			image_drop(t, i);
		return -ENOMEM;
	}
	*ret = m;
	return 0;
}

/* Is the call older than the member's last one? The order of two runs is not known, but a call
 * to leave is not from the present run. */
static bool call_is_outdated(const struct swarm_member *m,
			     const struct tracker_call *c)
{
	if (!c->run || !m->run)
		return false;
	return c->run == m->run ? c->opening < m->opening : c->leaving;
}

static void hear_leaving(struct tracker *t, const struct tracker_call *c,
			 int64_t now)
{
	struct tracker_image *i = tracker_image_find(t, &c->image, c->n_pieces);
	struct swarm_member *m = i ? member_find(t, i, c->node) : NULL;

	if (!m)
		return;
	leases_expire(t, i, now);
	leases_report(t, m, c, now);
	if (!call_is_outdated(m, c))
		member_leave(t, m);
}

int tracker_hear(struct tracker *t, const struct tracker_call *c, int64_t now,
		 struct tracker_answer *ret, struct error *err)
{
	struct swarm_member *m = NULL;
	int rc = call_check(c, err);

	if (rc < 0)
		return rc;
	t->n_calls++;
	t->stats.calls_total++;
	sweep_members(t, now);
	ret->epoch = t->epoch;
	ret->interval_ns = ret->retry_ns = t->cfg.interval_ns;
	ret->ttl_ns = 0;
	ret->n_members = ret->n_granted = 0;
	ret->is_full = false;
	ret->swarm = 0;
	ret->namesake[0] = '\0';
	if (c->leaving) {
		hear_leaving(t, c, now);
		return 0;
	}
	rc = member_get(t, c, &m, err);
	if (rc == 0 && call_is_outdated(m, c)) {
		leases_expire(t, m->image, now);
		leases_report(t, m, c, now);
		ret->is_full = true; /* the caller leaves, so nothing is
		                      * leased */
		ret->swarm = m->image->n_who;
		return 0;
	}
	if (rc == 0)
		rc = member_update(t, m, c, now, ret, err);
	if (rc < 0)
		return rc;
	tracker_image_touch(t, m->image);
	leases_expire(t, m->image, now);
	leases_report(t, m, c, now);
	rc = leases_give(t, m, c, now, ret, err);
	if (rc < 0)
		return rc;
	if (c->wants_members)
		members_choose(t, m, ret);
	ret->swarm = m->image->n_who;
	return 0;
}

/* --------------------------------------------------------------------- figures --- */

void tracker_get_stats(const struct tracker *t, struct tracker_stats *ret)
{
	*ret = t->stats;
	ret->images = t->n_images;
	ret->members = t->n_members;
}

static void image_describe(const struct tracker_image *i,
			   struct tracker_image_info *ret)
{
	*ret = (struct tracker_image_info){
		.image = i->digest,
		.n_pieces = i->n_pieces,
		.members = i->n_who,
		.complete = i->n_complete,
		.leases = i->book.n_leases,
		.done = i->n_done,
		.flying = i->flying,
		.window = i->window,
	};
}

void tracker_each_image(const struct tracker *t,
			void (*each)(void *arg,
				     const struct tracker_image_info *i),
			void *arg)
{
	for (const struct tracker_image *i = t->newest; i; i = i->older) {
		struct tracker_image_info info;

		image_describe(i, &info);
		each(arg, &info);
	}
}

bool tracker_get_image(const struct tracker *t, const struct digest *image,
		       struct tracker_image_info *ret)
{
	const struct tracker_image *i = tracker_image_main(t, image);

	if (i)
		image_describe(i, ret);
	return i;
}

void tracker_each_member(const struct tracker *t, const struct digest *image,
			 void (*each)(void *arg,
				      const struct tracker_member_info *i),
			 void *arg)
{
	const struct tracker_image *i = tracker_image_main(t, image);

	for (uint32_t k = 0; i && k < i->n_who; k++) {
		const struct swarm_member *m = &t->members[i->who[k].slot];
		struct tracker_member_info info = {
			.leases = m->n_leases,
			.flying = m->flying,
			.seen = m->seen,
		};

		member_describe(m, &info.member);
		each(arg, &info);
	}
}
