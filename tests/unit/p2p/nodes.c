// SPDX-License-Identifier: Apache-2.0
#include "nodes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static void up(void *arg, struct net_link *l)
{
	struct node *n = arg;

	n->ups++;
	n->link = l;
}

static void failed(void *arg, const struct net_failure *f)
{
	struct node *n = arg;

	n->failures++;
	n->fault = f->fault;
	n->fault_outgoing = f->outgoing;
	(void)snprintf(n->fault_why, sizeof(n->fault_why), "%s", f->why->msg);
	memcpy(n->fault_addr, f->addr, sizeof(n->fault_addr));
}

static void down(void *arg, struct net_link *l, const struct error *why)
{
	struct node *n = arg;

	n->downs++;
	n->why = why ? *why : (struct error)ERROR_INIT;
	if (n->link == l)
		n->link = NULL;
}

static void open_image(struct node *n, struct net_link *l)
{
	struct error err = ERROR_INIT;
	int rc = net_open_image(l, &n->all->image, n->all->n_pieces, "right", 5,
				&err);

	cr_assert(rc == 0 || rc == -EALREADY, "%s", err.msg);
}

static int may_open(void *arg, struct net_link *l, const struct digest *image,
		    const void *capability, size_t len, struct error *err)
{
	struct node *n = arg;

	cr_assert_lt(len, sizeof(n->capability));
	memcpy(n->capability, capability, len);
	n->capability[len] = '\0';
	if (n->verdict < 0)
		return error_set(err, -n->verdict, "no");
	if (n->opens_back)
		open_image(n, l);
	return 0;
}

static void opened(void *arg, struct net_link *l, const struct digest *image)
{
	struct node *n = arg;

	cr_assert(digest_equal(image, &n->all->image));
	n->openeds++;
}

static void closed(void *arg, struct net_link *l, const struct digest *image,
		   enum swarm_refusal why)
{
	struct node *n = arg;

	n->closeds++;
	n->refusal = why;
}

static uint32_t sum(const struct swarm_range *r, size_t n)
{
	uint32_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += r[i].n;
	return all;
}

static void news(void *arg, struct net_link *l, const struct digest *image,
		 const struct swarm_range *have, size_t n_have,
		 const struct swarm_range *lost, size_t n_lost,
		 const struct swarm_range *promised, size_t n_promised,
		 int64_t eta_ns)
{
	struct node *n = arg;

	n->news++;
	n->have_pieces += sum(have, n_have);
	n->lost_pieces += sum(lost, n_lost);
	n->promised_pieces += sum(promised, n_promised);
	n->eta_ns = eta_ns;
}

static void wanted(void *arg, struct net_link *l, const struct digest *image,
		   const uint32_t *pieces, size_t n_pieces,
		   enum source_priority priority)
{
	struct node *n = arg;
	uint32_t piece = pieces[0];
	struct net_piece p = { .image = *image,
			       .piece = piece,
			       .form = piece % 2 ? NET_PLAIN : NET_STORED,
			       .len = NODES_PIECE_SIZE };
	uint64_t off = (uint64_t)(piece % NODES_PIECES) * NODES_PIECE_SIZE;
	struct net_body body = { .fd = n->all->fd, .off = off };

	n->wants++;
	n->last_piece = piece;
	n->last_n = n_pieces;
	n->last_priority = priority;
	if (n->serves == HOLDS)
		return;
	if (n->serves == REFUSES) {
		net_refuse(l, image, piece, SWARM_BUSY, 25000000);
		return;
	}
	if (n->serves == SERVES_MEMORY)
		body = (struct net_body){ .fd = -1,
					  .data = n->all->content + off };
	net_send(l, &p, priority, &body, piece);
}

static void unwanted(void *arg, struct net_link *l, const struct digest *image,
		     uint32_t piece)
{
	((struct node *)arg)->unwanteds++;
}

static void *room(void *arg, struct net_link *l, const struct net_piece *p)
{
	struct node *n = arg;

	n->rooms++;
	if (n->no_room)
		return NULL;
	return malloc(p->len);
}

static void moves(void *arg, struct net_link *l, const struct net_piece *p,
		  uint32_t count)
{
	((struct node *)arg)->moved += count;
}

static void got(void *arg, struct net_link *l, const struct net_piece *p,
		void *data)
{
	struct node *n = arg;

	n->gots++;
	n->last_got = p->piece;
	if (p->len != NODES_PIECE_SIZE ||
	    p->form != (p->piece % 2 ? NET_PLAIN : NET_STORED) ||
	    memcmp(data, n->all->content + (size_t)p->piece * NODES_PIECE_SIZE,
		   p->len) != 0)
		n->bad_bytes++;
	free(data);
	if (n->on_got)
		n->on_got(n, l);
}

static void lost(void *arg, struct net_link *l, const struct net_piece *p,
		 void *data)
{
	((struct node *)arg)->losts++;
	free(data);
}

static void refused(void *arg, struct net_link *l, const struct digest *image,
		    uint32_t piece, enum swarm_refusal why, int64_t retry_ns)
{
	struct node *n = arg;

	n->refuseds++;
	n->refusal = why;
	n->retry_ns = retry_ns;
}

static void sent(void *arg, struct net_link *l, uint64_t tag)
{
	((struct node *)arg)->sents++;
}

static void members(void *arg, struct net_link *l, const struct digest *image,
		    const struct net_node *nodes, size_t count)
{
	struct node *n = arg;

	n->member_calls++;
	n->members_of = image ? *image : (struct digest){ { 0 } };
	if (count)
		n->member = nodes[count - 1];
}

static void left(void *arg, struct net_link *l, uint64_t tag)
{
	struct node *n = arg;

	n->lefts++;
}

static void fault(void *arg, struct net_link *l, const char *why)
{
	struct node *n = arg;

	cr_expect(*why);
	n->faults++;
}

static const struct net_events events = {
	.up = up,
	.down = down,
	.failed = failed,
	.may_open = may_open,
	.opened = opened,
	.closed = closed,
	.news = news,
	.wanted = wanted,
	.unwanted = unwanted,
	.room = room,
	.moves = moves,
	.got = got,
	.lost = lost,
	.refused = refused,
	.sent = sent,
	.fault = fault,
	.left = left,
	.members = members,
};

static void on_timer(struct loop_timer *t)
{
	loop_stop(container_of(t, struct nodes, timer)->loop);
}

void nodes_turn(struct nodes *all)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(loop_timer_start(all->loop, &all->timer, 1000000, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(loop_run(all->loop, &err), 0, "%s", err.msg);
}

void nodes_init(struct nodes *all)
{
	const size_t size = (size_t)NODES_PIECES * NODES_PIECE_SIZE;
	struct error err = ERROR_INIT;
	uint32_t x = 1;

	(void)signal(SIGPIPE, SIG_IGN);
	memset(all, 0, sizeof(*all));
	cr_assert_eq(loop_new(&all->loop, &err), 0, "%s", err.msg);
	all->timer.fn = on_timer;
	all->fd = memfd_create("pieces", MFD_CLOEXEC);
	cr_assert_geq(all->fd, 0);
	cr_assert_eq(ftruncate(all->fd, (off_t)size), 0);
	all->content = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    all->fd, 0);
	cr_assert_neq(all->content, MAP_FAILED);
	for (size_t i = 0; i < size; i++) {
		x = x * 1103515245 + 12345;
		all->content[i] = (char)(x >> 16);
	}
	memset(&all->image, 7, sizeof(all->image));
	all->n_pieces = NODES_PIECES;
	all->cfg = (struct net_config){ .loop = all->loop,
					.listen = "127.0.0.1:0",
					.security = NET_OPEN,
					.events = &events };
}

void nodes_fini(struct nodes *all)
{
	for (int i = 0; i < all->n; i++)
		net_free(all->node[i].net);
	loop_timer_stop(&all->timer);
	loop_free(all->loop);
	munmap(all->content, (size_t)NODES_PIECES * NODES_PIECE_SIZE);
	close(all->fd);
}

struct node *nodes_add(struct nodes *all, const char *name)
{
	struct node *n = &all->node[all->n++];
	struct net_config cfg = all->cfg;
	struct error err = ERROR_INIT;

	*n = (struct node){ .all = all, .opens_back = true };
	(void)snprintf(cfg.self.name, sizeof(cfg.self.name), "%s", name);
	(void)snprintf(cfg.self.rack, sizeof(cfg.self.rack), "rack of %s",
		       name);
	cfg.arg = n;
	cr_assert_eq(net_new(&cfg, &n->net, &err), 0, "%s", err.msg);
	return n;
}

const char *nodes_addr(struct node *n, char text[64])
{
	(void)snprintf(text, 64, "127.0.0.1:%u", net_port(n->net));
	return text;
}

void nodes_link(struct node *a, struct node *b)
{
	struct error err = ERROR_INIT;
	char addr[64];
	int ups = a->ups, their_ups = b->ups, downs = a->downs;

	cr_assert_eq(net_connect(a->net, nodes_addr(b, addr), NULL, &a->link,
				 &err),
		     0, "%s", err.msg);
	until(a->all, (a->ups > ups && b->ups > their_ups) || a->downs > downs);
	cr_assert_eq(a->downs, downs, "%s", a->why.msg);
}

void nodes_open(struct node *a, struct node *b)
{
	open_image(a, a->link);
	until(a->all, a->openeds && b->openeds);
}

void nodes_ask(struct node *n, uint32_t first, uint32_t count,
	       enum source_priority priority)
{
	for (uint32_t i = first; i < first + count; i++)
		net_ask(n->link, &n->all->image, &i, 1, BLOCK_USIZE_MAX,
			priority);
}
