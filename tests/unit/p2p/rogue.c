// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/p2p/rogue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define RETRY_NS 10000000

struct rogue {
	enum rogue_kind kind;
	struct digest digest;
	const struct image *img;
	struct loop *loop;
	struct net *net;
	pthread_t thread;
	char address[64];
	uint8_t *wrong; /* as many bytes as the largest piece */
	uint32_t n_pieces;
	atomic_uint asked, links, ended, shown, refused;
};

static void on_up(void *arg, struct net_link *l)
{
	struct rogue *r = arg;

	atomic_fetch_add(&r->links, 1);
	(void)!net_open_image(l, &r->digest, r->n_pieces, NULL, 0, NULL);
}

static void on_down(void *arg, struct net_link *l, const struct error *why)
{
	struct rogue *r = arg;

	atomic_fetch_add(&r->ended, 1);
}

static int on_may_open(void *arg, struct net_link *l,
		       const struct digest *image, const void *capability,
		       size_t len, struct error *err)
{
	struct rogue *r = arg;

	atomic_fetch_add(&r->shown, 1);
	return 0;
}

static void on_opened(void *arg, struct net_link *l, const struct digest *image)
{
	struct rogue *r = arg;
	const struct swarm_range all = { .n = r->n_pieces };

	net_news(l, image, &all, 1, NULL, 0, NULL, 0, 0);
}

static void on_closed(void *arg, struct net_link *l, const struct digest *image,
		      enum swarm_refusal why)
{
	struct rogue *r = arg;

	atomic_fetch_add(&r->refused, 1);
}

static void on_news(void *arg, struct net_link *l, const struct digest *image,
		    const struct swarm_range *have, size_t n_have,
		    const struct swarm_range *lost, size_t n_lost,
		    const struct swarm_range *promised, size_t n_promised,
		    int64_t eta_ns)
{
}

static void on_wanted(void *arg, struct net_link *l, const struct digest *image,
		      const uint32_t *pieces, size_t n,
		      enum source_priority priority)
{
	struct rogue *r = arg;
	uint32_t piece = pieces[0];
	struct net_piece p = { .image = *image,
			       .piece = piece,
			       .form = NET_STORED };
	struct net_body body = { .fd = -1, .data = r->wrong };
	struct block b;

	atomic_fetch_add(&r->asked, 1);
	switch (r->kind) {
	case ROGUE_LIES:
		blockmap_block(&r->img->map, piece, &b);
		p.len = b.csize;
		net_send(l, &p, priority, &body, piece);
		break;
	case ROGUE_STALLS:
		break;
	case ROGUE_GONE:
		net_refuse(l, image, piece, SWARM_GONE, 0);
		break;
	case ROGUE_BUSY:
		net_refuse(l, image, piece, SWARM_BUSY, RETRY_NS);
		break;
	}
}

static void on_unwanted(void *arg, struct net_link *l,
			const struct digest *image, uint32_t piece)
{
}

static void *on_room(void *arg, struct net_link *l, const struct net_piece *p)
{
	return NULL;
}

static void on_moves(void *arg, struct net_link *l, const struct net_piece *p,
		     uint32_t n)
{
}

static void on_piece(void *arg, struct net_link *l, const struct net_piece *p,
		     void *room)
{
}

static void on_refused(void *arg, struct net_link *l,
		       const struct digest *image, uint32_t piece,
		       enum swarm_refusal why, int64_t retry_ns)
{
}

static void on_sent(void *arg, struct net_link *l, uint64_t tag)
{
}

static const struct net_events events = {
	.up = on_up,
	.down = on_down,
	.may_open = on_may_open,
	.opened = on_opened,
	.closed = on_closed,
	.news = on_news,
	.wanted = on_wanted,
	.unwanted = on_unwanted,
	.room = on_room,
	.moves = on_moves,
	.got = on_piece,
	.lost = on_piece,
	.refused = on_refused,
	.sent = on_sent,
};

static void *rogue_main(void *arg)
{
	struct rogue *r = arg;

	(void)!loop_run(r->loop, NULL);
	net_free(r->net);
	return NULL;
}

struct rogue *rogue_start(enum rogue_kind kind, const struct image *img,
			  const struct digest *digest)
{
	struct rogue *r = calloc(1, sizeof(*r));
	struct net_config cfg = { .listen = "127.0.0.1:0",
				  .self = { .name = "rogue" },
				  .security = NET_OPEN,
				  .events = &events,
				  .arg = r };
	struct error err = ERROR_INIT;

	cr_assert(r);
	r->kind = kind;
	r->img = img;
	r->digest = *digest;
	/* In the made-up images every block has a place of its own. */
	r->n_pieces = (uint32_t)img->map.n_blocks;
	r->wrong = malloc(BLOCK_USIZE_MAX);
	cr_assert(r->wrong);
	memset(r->wrong, 0x5a, BLOCK_USIZE_MAX);
	cr_assert_eq(loop_new(&r->loop, &err), 0, "%s", err.msg);
	cfg.loop = r->loop;
	cr_assert_eq(net_new(&cfg, &r->net, &err), 0, "%s", err.msg);
	(void)snprintf(r->address, sizeof(r->address), "127.0.0.1:%u",
		       net_port(r->net));
	cr_assert_eq(pthread_create(&r->thread, NULL, rogue_main, r), 0);
	return r;
}

void rogue_stop(struct rogue *r)
{
	loop_stop(r->loop);
	(void)pthread_join(r->thread, NULL);
	loop_free(r->loop);
	free(r->wrong);
	free(r);
}

const char *rogue_address(struct rogue *r)
{
	return r->address;
}

unsigned int rogue_asked(struct rogue *r)
{
	return atomic_load(&r->asked);
}

unsigned int rogue_links(struct rogue *r)
{
	return atomic_load(&r->links);
}

unsigned int rogue_ended(struct rogue *r)
{
	return atomic_load(&r->ended);
}

unsigned int rogue_shown(struct rogue *r)
{
	return atomic_load(&r->shown);
}

unsigned int rogue_refused(struct rogue *r)
{
	return atomic_load(&r->refused);
}
