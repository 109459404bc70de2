// SPDX-License-Identifier: Apache-2.0
/* An image of the engine: its pieces, the actions that the core wants, and its clock. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "p2p/engine/engine_peer.h"

#define CONNECT_NS NS_PER_S
/* Pieces in flight may unpack to this many times the memory limit. */
#define UNPACKED_TIMES 2
/* Time that other nodes have to take the rest of a piece. */
#define TAKE_NS (2 * NS_PER_S)

/* -------------------------------------------------------------- pieces --- */

void image_block(const struct p2p_image *i, uint32_t piece, struct block *ret)
{
	blockmap_block(i->map, i->places.entry[piece], ret);
}

uint32_t image_piece(const struct p2p_image *i, const struct block *b)
{
	uint32_t first = 0, end = i->n;

	while (first < end) {
		uint32_t mid = first + (end - first) / 2;
		struct block at;

		image_block(i, mid, &at);
		if (at.pack == b->pack && at.poff == b->poff)
			return mid;
		if (at.pack < b->pack ||
		    (at.pack == b->pack && at.poff < b->poff))
			first = mid + 1;
		else
			end = mid;
	}
	return PIECE_NONE;
}

struct p2p_image *image_by_digest(struct p2p *p, const struct digest *d)
{
	struct p2p_image *i;

	LIST_FOREACH(i, &p->images, all)
	if (digest_equal(&i->digest, d))
		return i;
	return NULL;
}

bool image_holds(const struct p2p_image *i, uint32_t piece)
{
	struct block b;

	if (i->pieces)
		return i->pieces->has(i->arg, i->places.entry[piece]);
	image_block(i, piece, &b);
	return cache_has(i->p->cfg.cache, &b.digest);
}

bool image_look(struct p2p_image *i, uint32_t piece, int64_t now)
{
	bool is_held = image_holds(i, piece);

	if (is_held && !swarm_has(i->swarm, piece)) {
		swarm_have(i->swarm, piece, now);
		/* The piece came through another image, so nothing else would wake the waiters
		 * of this one. */
		want_came(i, piece, NULL, 0, 0, NULL);
	} else if (!is_held && swarm_has(i->swarm, piece)) {
		swarm_drop(i->swarm, piece);
	}
	return is_held;
}

/* --------------------------------------------------- works under way --- */

void image_hold(struct p2p_image *i)
{
	(void)pthread_mutex_lock(&i->p->lock);
	i->n_works++;
	(void)pthread_mutex_unlock(&i->p->lock);
}

void image_release(struct p2p_image *i)
{
	struct p2p *p = i->p;

	(void)pthread_mutex_lock(&p->lock);
	if (--i->n_works == 0)
		(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_mutex_unlock(&p->lock);
}

/* ------------------------------------------- what the core wants done --- */

static void read_pieces_from_origin(void *arg, const uint32_t *pieces, size_t n,
				    enum source_priority priority)
{
	origin_start(arg, pieces, n, priority);
}

static void ask_lease_for_pieces(void *arg, const uint32_t *pieces, size_t n,
				 enum source_priority priority)
{
	tracker_want(arg, pieces, n, priority);
}

static void fail_wanted_piece(void *arg, uint32_t piece, int rc)
{
	struct p2p_image *i = arg;
	struct error err = ERROR_INIT;

	if (origin_error(i)->code)
		(void)error_set(&err, -rc, "image %s: %s", i->label,
				origin_error(i)->msg);
	else
		(void)error_errno(&err, -rc,
				  "image %s: neither peers nor the origin gave "
				  "piece %u",
				  i->label, piece);
	want_failed(i, piece, rc, &err);
}

static const struct swarm_host host = {
	.ask = neighbour_ask,
	.cancel = neighbour_cancel,
	.origin = read_pieces_from_origin,
	.lease = ask_lease_for_pieces,
	.quarantine = neighbour_quarantine,
	.fail = fail_wanted_piece,
};

/* --------------------------------------------------------------- clock --- */

static void image_settle_now(struct p2p_image *i)
{
	int64_t now = clock_now_ns(), next;

	if (i->is_closing)
		return;
	want_update(i, now);
	next = swarm_tick(i->swarm, now);
	origin_stop_unwanted(i);
	neighbours_check(i, now);
	if (next != INT64_MAX)
		engine_arm(i->p, &i->tick, next - now);
	if (neighbours_count(i) && !i->news_armed) {
		i->news_armed = true;
		engine_arm(i->p, &i->news, swarm_news_ns(i->swarm));
	}
}

static void on_settle(struct loop_call *c)
{
	struct p2p_image *i = container_of(c, struct p2p_image, settle_call);

	i->is_settling = false;
	image_settle_now(i);
	image_release(i);
}

void image_settle(struct p2p_image *i)
{
	if (i->is_settling || i->is_closing)
		return;
	i->is_settling = true;
	image_hold(i);
	loop_post(i->p->loop, &i->settle_call);
}

static void on_tick(struct loop_timer *t)
{
	image_settle_now(container_of(t, struct p2p_image, tick));
}

static void on_news(struct loop_timer *t)
{
	struct p2p_image *i = container_of(t, struct p2p_image, news);

	i->news_armed = neighbours_tell(i, clock_now_ns());
	if (i->news_armed)
		engine_arm(i->p, t, swarm_news_ns(i->swarm));
}

static void on_connect(struct loop_timer *t)
{
	struct p2p_image *i = container_of(t, struct p2p_image, connect);

	int64_t now = clock_now_ns();

	members_connect(i, now);
	if (swarm_takes_turns(i->swarm)) {
		neighbours_meet(i, now);
		image_turns(i, now);
	}
	engine_arm(i->p, t, CONNECT_NS);
}

static int start_timers(struct p2p_image *i, struct error *err)
{
	struct {
		struct loop_timer *t;
		void (*fn)(struct loop_timer *t);
		int64_t ns;
	} all[] = {
		{ &i->tick, on_tick, 0 },
		{ &i->news, on_news, swarm_news_ns(i->swarm) },
		{ &i->connect, on_connect, 0 },
	};
	int rc = 0;

	for (size_t k = 0; k < ARRAY_SIZE(all) && rc == 0; k++) {
		all[k].t->fn = all[k].fn;
		rc = loop_timer_start(i->p->loop, all[k].t, all[k].ns, err);
	}
	i->news_armed = true;
	return rc < 0 ? rc : tracker_start(i, err);
}

static void stop_timers(struct p2p_image *i)
{
	loop_timer_stop(&i->tick);
	loop_timer_stop(&i->news);
	loop_timer_stop(&i->connect);
	tracker_stop(i);
}

/* ------------------------------------------------------ open and close --- */

static void image_free(struct p2p_image *i)
{
	origin_close(i);
	neighbours_fini(i);
	givers_fini(i);
	swarm_free(i->swarm);
	places_fini(&i->places);
	free(i->sizes);
	free(i->unpacked);
	free(i->label);
	free(i->repo);
	free(i);
}

static int make_pieces(struct p2p_image *i, struct error *err)
{
	int rc;

	if (i->map->n_blocks > P2P_BLOCKS_MAX)
		return error_set(err, E2BIG,
				 "image %s has %zu blocks, and nodes share one "
				 "of %u at most: convert it with larger blocks",
				 i->label, i->map->n_blocks, P2P_BLOCKS_MAX);
	rc = places_make(i->map, &i->places, err);
	if (rc < 0)
		return rc;
	i->n = (uint32_t)i->places.n;
	i->sizes = calloc(i->n + 1, sizeof(*i->sizes));
	i->unpacked = calloc(i->n + 1, sizeof(*i->unpacked));
	if (!i->sizes || !i->unpacked)
		return error_nomem(err);
	for (uint32_t k = 0; k < i->n; k++) {
		struct block b;

		image_block(i, k, &b);
		i->sizes[k] = b.csize;
		i->unpacked[k] = b.usize;
	}
	return neighbours_init(i, err);
}

static int make_swarm(struct p2p_image *i, struct error *err)
{
	struct swarm_config cfg = {
		.n_pieces = i->n,
		.sizes = i->sizes,
		.unpacked = i->unpacked,
		.seed = engine_random(i->p),
		.self = swarm_name(i->p->self.name),
		.limits = swarm_limits_default,
		.host = &host,
		.arg = i,
		.is_unverified = i->pieces,
	};

	/* Stored bytes in flight become unpacked bytes here, a few pieces at a time. */
	cfg.limits.unpacked_max = UNPACKED_TIMES * i->p->cfg.memory;
	if (cfg.limits.flying_max > i->p->cfg.memory / 2)
		cfg.limits.flying_max = i->p->cfg.memory / 2;
	if (cfg.limits.origin_max > cfg.limits.flying_max)
		cfg.limits.origin_max = cfg.limits.flying_max;
	if (cfg.limits.peer_max > cfg.limits.flying_max)
		cfg.limits.peer_max = cfg.limits.flying_max;
	return swarm_new(&cfg, clock_now_ns(), &i->swarm, err);
}

/* Find the pieces that are on the node: a bit for each. Not on the loop, because it may take
 * long; pieces that come or go meanwhile are noticed when they are wanted. */
static int look_for_pieces(const struct p2p_image *i, uint8_t **ret,
			   struct error *err)
{
	uint8_t *held = calloc(i->n / 8 + 1, 1);

	if (!held)
		return error_nomem(err);
	for (uint32_t k = 0; k < i->n; k++)
		if (image_holds(i, k))
			held[k / 8] |= (uint8_t)(1u << k % 8);
	*ret = held;
	return 0;
}

struct opening {
	struct p2p_image *i;
	const uint8_t *held;
	int rc;
	struct error err;
};

static void open_image_on_loop(void *arg)
{
	struct opening *o = arg;
	struct p2p_image *i = o->i;
	struct p2p *p = i->p;
	int64_t now = clock_now_ns();

	if (image_by_digest(p, &i->digest)) {
		o->rc = error_set(&o->err, EEXIST, "image %s is open already",
				  i->label);
		return;
	}
	i->id = ++p->serial;
	i->opened = now;
	o->rc = make_swarm(i, &o->err);
	if (o->rc == 0)
		o->rc = start_timers(i, &o->err);
	if (o->rc == 0)
		o->rc = host_jobs_join(i, &o->err);
	if (o->rc < 0) {
		stop_timers(i);
		return;
	}
	LIST_INSERT_HEAD(&p->images, i, all);
	for (uint32_t k = 0; k < i->n; k++)
		if (o->held[k / 8] >> k % 8 & 1)
			swarm_have(i->swarm, k, now);
	image_turns(i, now);
	if (!p->tracker_is_there)
		swarm_tracker(i->swarm, false, now);
	links_offer(i);
	image_settle(i);
}

int p2p_swarm_name(const struct digest *image, const char *repo,
		   enum p2p_swarm_kind kind, struct digest *ret,
		   struct error *err)
{
	static const char *const names[] = {
		[P2P_SWARM_BLOCKS] = "blocks 2",
		[P2P_SWARM_METADATA] = "metadata 2",
		[P2P_SWARM_METADATA_WHOLE] = "metadata 3",
		[P2P_SWARM_LAYERS] = "layers 1",
	};
	AUTO_BUF text = BUF_INIT;

	if (buf_printf(&text, "bootseer %s\n%s\n", names[kind], repo) < 0 ||
	    buf_append(&text, image->b, DIGEST_SIZE) < 0 ||
	    digest_of(text.data, text.len, ret) < 0)
		return error_nomem(err);
	return 0;
}

int p2p_image_open(struct p2p *p, const struct p2p_image_config *cfg,
		   struct p2p_image **ret, struct error *err)
{
	struct p2p_image *i = calloc(1, sizeof(*i));
	AUTO_FREE uint8_t *held = NULL;
	struct opening o = { .i = i };
	int rc;

	if (!i) {
		for (size_t k = 0; k < cfg->map->n_packs; k++)
			source_free(cfg->packs[k]);
		return error_nomem(err);
	}
	i->p = p;
	i->map = cfg->map;
	i->authorization = cfg->authorization;
	i->pieces = cfg->pieces;
	i->arg = cfg->arg;
	i->settle_call.fn = on_settle;
	wants_init(i);
	i->label = strdup(cfg->label);
	i->image = cfg->image;
	i->is_metadata = cfg->kind == P2P_SWARM_METADATA ||
			 cfg->kind == P2P_SWARM_METADATA_WHOLE;
	i->repo = strdup(cfg->repo);
	rc = origin_open(i, cfg->packs, cfg->map->n_packs, err);
	if (rc == 0 && (!i->label || !i->repo))
		rc = error_nomem(err);
	if (rc == 0)
		rc = p2p_swarm_name(&i->image, i->repo, cfg->kind, &i->digest,
				    err);
	if (rc == 0)
		rc = make_pieces(i, err);
	if (rc == 0 && i->n == 0)
		rc = error_set(err, EINVAL, "image %s has no blocks",
			       cfg->label);
	if (rc == 0)
		rc = look_for_pieces(i, &held, err);
	if (rc == 0) {
		o.held = held;
		engine_run(p, open_image_on_loop, &o);
		rc = o.rc;
		if (rc < 0 && err)
			*err = o.err;
	}
	if (rc < 0) {
		image_free(i);
		return rc;
	}
	*ret = i;
	return 0;
}

struct coming {
	struct p2p_image *i;
	uint32_t piece;
};

static void add_piece_on_loop(void *arg)
{
	const struct coming *c = arg;
	struct p2p_image *i = c->i;

	i->p->origin_bytes += i->sizes[c->piece];
	swarm_got(i->swarm, SWARM_NONE, c->piece, clock_now_ns());
	want_came(i, c->piece, NULL, i->sizes[c->piece], 0, NULL);
	image_settle(i);
}

void p2p_image_came(struct p2p_image *i, uint32_t index)
{
	struct coming c = { .i = i, .piece = i->places.of[index] };

	engine_run(i->p, add_piece_on_loop, &c);
}

struct vouching {
	struct p2p_image *i;
	uint32_t first, n;
};

static void vouch_pieces_on_loop(void *arg)
{
	const struct vouching *v = arg;

	for (uint32_t k = v->first; k < v->first + v->n; k++)
		swarm_vouch(v->i->swarm,
			    (struct swarm_range){ v->i->places.of[k], 1 });
	image_settle(v->i);
}

void p2p_image_vouch(struct p2p_image *i, uint32_t first, uint32_t n)
{
	struct vouching v = { .i = i, .first = first, .n = n };

	engine_run(i->p, vouch_pieces_on_loop, &v);
}

void image_moves(struct p2p_image *i)
{
	atomic_store(&i->moved_ns, clock_now_ns());
}

void p2p_image_progress(const struct p2p_image *i, struct p2p_progress *ret)
{
	ret->moved_ns = atomic_load(&i->moved_ns);
	ret->heard_ns = neighbours_heard(i);
	ret->told_ns = atomic_load(&i->told_ns);
}

/* Add the figures of a closing image to the node's totals. */
static void keep_stats(struct p2p_image *i)
{
	struct p2p_stats *past = &i->p->past;
	struct swarm_stats s;

	swarm_get_stats(i->swarm, &s);
	past->rack_bytes_total += s.bytes_peers[SWARM_SAME_RACK];
	past->zone_bytes_total += s.bytes_peers[SWARM_SAME_ZONE];
	past->remote_bytes_total += s.bytes_peers[SWARM_REMOTE];
	past->twice_bytes_total += s.bytes_twice;
	past->wrong_total += s.wrong;
	past->strikes_total += s.strikes;
	past->stalls_total += s.stalls;
	past->hedges_total += s.hedges;
	past->hedges_won_total += s.hedges_won;
}

static void close_image_on_loop(void *arg)
{
	struct p2p_image *i = arg;
	struct link *l;

	tracker_leave(i);
	i->is_closing = true;
	stop_timers(i);
	origin_stop(i);
	rights_leave(i);
	LIST_FOREACH(l, &i->p->links, all)
	{
		serve_drop(l, i);
		rights_drop(l, i);
		retry_drop(l, i);
		net_close_image(l->net, &i->digest, SWARM_GONE);
	}
	neighbours_leave(i);
	members_forget(i);
	keep_stats(i);
	LIST_REMOVE(i, all);
}

static void forget_image_on_loop(void *arg)
{
	host_jobs_leave(arg);
}

/* Close the links of peers that still read pieces of a closed image: they take too long. */
static void slow_takers_close(void *arg)
{
	const struct p2p_image *i = arg;
	const struct piece_upload *u;
	struct link *l;

	LIST_FOREACH(l, &i->p->links, all)
	{
		LIST_FOREACH(u, &l->uploads, by_link)
		if (u->i == i)
			break;
		if (u)
			net_close(l->net, "it takes our bytes too slowly");
	}
}

void p2p_image_close(struct p2p_image *i)
{
	int64_t until = clock_now_ns() + TAKE_NS;
	struct p2p *p;
	bool is_left;

	if (!i)
		return;
	p = i->p;
	engine_run(p, close_image_on_loop, i);
	(void)pthread_mutex_lock(&p->lock);
	while (i->n_works && clock_now_ns() < until)
		(void)cond_wait_until(&p->changed, &p->lock, until);
	is_left = i->n_works;
	(void)pthread_mutex_unlock(&p->lock);
	if (is_left)
		engine_run(p, slow_takers_close, i);
	/* Each job ends soon: waiting ones were taken back, running reads and permit requests
	 * are stopped. */
	(void)pthread_mutex_lock(&p->lock);
	while (i->n_works)
		(void)pthread_cond_wait(&p->changed, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
	engine_run(p, forget_image_on_loop, i);
	image_free(i);
}
