// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/net/net.h"
#include "p2p/rdma/rdma.h"
#include "tests/functional/rdma-nodes.h"

#define SERVERS 2
#define PIECES 64u
#define SIZE (200u << 10) /* of a piece */
#define MS ((int64_t)1000 * 1000)
#define DEADLINE (40 * 1000 * MS)

static const struct digest image = { { 7 } };

struct servers {
	pid_t pid[SERVERS];
	unsigned int port[SERVERS];
};

struct node {
	struct loop *loop;
	struct loop_timer check;
	struct net *net;
	struct net_link *link;
	bool (*is_done)(struct node *n);
	int64_t deadline;
	int fd;
	bool is_up, is_open;
	unsigned int got, lost, wrong, wanted;
};

static uint8_t byte_of(uint32_t piece, uint32_t at)
{
	return (uint8_t)(piece * 31 + at * 7 + (at >> 8));
}

/* ----------------------------------------------------------------- events --- */

static void on_up(void *arg, struct net_link *l)
{
	struct node *n = arg;

	n->link = l;
	n->is_up = true;
}

static void on_down(void *arg, struct net_link *l, const struct error *why)
{
	struct node *n = arg;

	n->link = NULL;
	n->is_up = n->is_open = false;
}

static void take_part(struct net_link *l)
{
	int rc = net_open_image(l, &image, PIECES, NULL, 0, NULL);

	assert(rc == 0 || rc == -EALREADY);
}

static int on_may_open(void *arg, struct net_link *l, const struct digest *d,
		       const void *capability, size_t len, struct error *err)
{
	take_part(l); /* who lets somebody in takes part, too */
	return 0;
}

static void on_opened(void *arg, struct net_link *l, const struct digest *d)
{
	((struct node *)arg)->is_open = true;
}

static void on_closed(void *arg, struct net_link *l, const struct digest *d,
		      enum swarm_refusal why)
{
}

static void on_news(void *arg, struct net_link *l, const struct digest *d,
		    const struct swarm_range *have, size_t n_have,
		    const struct swarm_range *gone, size_t n_gone,
		    const struct swarm_range *promised, size_t n_promised,
		    int64_t eta_ns)
{
}

static void on_wanted(void *arg, struct net_link *l, const struct digest *d,
		      const uint32_t *pieces, size_t n_pieces,
		      enum source_priority priority)
{
	struct node *n = arg;
	uint32_t piece = pieces[0];
	struct net_piece p = { .image = *d, .piece = piece, .len = SIZE };
	struct net_body body = { .fd = n->fd, .off = (uint64_t)piece * SIZE };

	n->wanted++;
	net_send(l, &p, priority, &body, piece);
}

static void on_unwanted(void *arg, struct net_link *l, const struct digest *d,
			uint32_t piece)
{
}

static void *on_room(void *arg, struct net_link *l, const struct net_piece *p)
{
	return malloc(p->len);
}

static void on_moves(void *arg, struct net_link *l, const struct net_piece *p,
		     uint32_t bytes)
{
}

static void on_got(void *arg, struct net_link *l, const struct net_piece *p,
		   void *room)
{
	struct node *n = arg;
	const uint8_t *b = room;
	bool wrong = p->len != SIZE;

	for (uint32_t i = 0; i < SIZE && !wrong; i++)
		wrong = b[i] != byte_of(p->piece, i);
	n->got++;
	n->wrong += wrong;
	free(room);
}

static void on_lost(void *arg, struct net_link *l, const struct net_piece *p,
		    void *room)
{
	((struct node *)arg)->lost++;
	free(room);
}

static void on_refused(void *arg, struct net_link *l, const struct digest *d,
		       uint32_t piece, enum swarm_refusal why, int64_t ns)
{
	((struct node *)arg)->lost++;
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
	.got = on_got,
	.lost = on_lost,
	.refused = on_refused,
	.sent = on_sent,
};

/* ------------------------------------------------------------------ nodes --- */

static void node_open(struct node *n, const char *name, const char *device)
{
	const struct rdma_config rdma = { .device = device,
					  .slab = 16 * MIB,
					  .min_moved = 4 * SIZE,
					  .times = { .stall = DEADLINE,
						     .forget = DEADLINE,
						     .handshake = DEADLINE } };
	struct net_config cfg = { .listen = "127.0.0.1:0",
				  .security = NET_OPEN,
				  .rdma = &rdma,
				  .events = &events,
				  .arg = n };
	struct error err = ERROR_INIT;

	snprintf(cfg.self.name, sizeof(cfg.self.name), "%s", name);
	assert(loop_new(&n->loop, NULL) == 0);
	cfg.loop = n->loop;
	if (net_new(&cfg, &n->net, &err) < 0) {
		fprintf(stderr, "%s: %s\n", name, err.msg);
		abort();
	}
}

static void on_check(struct loop_timer *t)
{
	struct node *n = container_of(t, struct node, check);

	if (n->is_done(n) || clock_now_ns() > n->deadline)
		loop_stop(n->loop);
	else
		assert(loop_timer_start(n->loop, t, MS, NULL) == 0);
}

static bool until(struct node *n, bool (*is_done)(struct node *n))
{
	n->is_done = is_done;
	n->deadline = clock_now_ns() + DEADLINE;
	n->check.fn = on_check;
	assert(loop_timer_start(n->loop, &n->check, 0, NULL) == 0);
	assert(loop_run(n->loop, NULL) == 0);
	return is_done(n);
}

static void serve(const char *name, int port_fd)
{
	struct node n = { .fd = memfd_create("pieces", MFD_CLOEXEC) };
	uint8_t *content = malloc(PIECES * SIZE);
	unsigned int port;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	assert(content && n.fd >= 0);
	for (uint32_t p = 0; p < PIECES; p++)
		for (uint32_t i = 0; i < SIZE; i++)
			content[p * SIZE + i] = byte_of(p, i);
	assert(write(n.fd, content, PIECES * SIZE) == PIECES * SIZE);
	node_open(&n, name, "rxe1");
	port = net_port(n.net);
	assert(write(port_fd, &port, sizeof(port)) == sizeof(port));
	while (loop_run(n.loop, NULL) == 0)
		;
	abort();
}

struct servers *rdma_servers_start(void)
{
	struct servers *s = calloc(1, sizeof(*s));

	assert(s);
	for (int i = 0; i < SERVERS; i++) {
		char name[16];
		int fds[2];

		assert(pipe(fds) == 0);
		snprintf(name, sizeof(name), "server%d", i);
		s->pid[i] = fork();
		assert(s->pid[i] >= 0);
		if (s->pid[i] == 0)
			serve(name, fds[1]);
		(void)close(fds[1]);
		assert(read(fds[0], &s->port[i], sizeof(s->port[i])) ==
		       sizeof(s->port[i]));
		(void)close(fds[0]);
	}
	return s;
}

static void kill_server(struct servers *s, int i)
{
	if (s->pid[i] <= 0)
		return;
	(void)kill(s->pid[i], SIGKILL);
	(void)waitpid(s->pid[i], NULL, 0);
	s->pid[i] = 0;
}

void rdma_servers_stop(struct servers *s)
{
	for (int i = 0; i < SERVERS; i++)
		kill_server(s, i);
	free(s);
}

/* --------------------------------------------------------------- scenario --- */

static bool is_up(struct node *n)
{
	return n->is_up;
}

static bool is_open(struct node *n)
{
	return n->is_open;
}

static bool is_down(struct node *n)
{
	return !n->is_up;
}

static bool is_rdma(struct node *n)
{
	struct net_link_stats st = { .is_rdma = false };

	if (n->link)
		net_get_link(n->link, &st);
	return st.is_rdma;
}

static bool has_eight(struct node *n)
{
	return n->got >= 8;
}

static bool has_all(struct node *n)
{
	return n->got >= PIECES;
}

static uint64_t by_rdma(const struct node *n)
{
	struct net_stats st;

	net_get_stats(n->net, &st);
	return st.rdma_bytes_total;
}

static void ask(struct node *n, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		net_ask(n->link, &image, &i, 1, SIZE, SOURCE_HOT);
}

/* A link to a server with a queue pair, after eight pieces by TCP. */
static bool connect_to(struct node *n, unsigned int port)
{
	char addr[32];

	n->got = 0;
	snprintf(addr, sizeof(addr), "127.0.0.1:%u", port);
	if (net_connect(n->net, addr, NULL, &n->link, NULL) < 0 ||
	    !until(n, is_up))
		return false;
	take_part(n->link);
	if (!until(n, is_open))
		return false;
	ask(n, 0, 8);
	return until(n, has_eight) && until(n, is_rdma);
}

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "not so: %s\n", #what); \
			return false; \
		} \
	} while (0)

static bool scenario(struct node *n, struct servers *s)
{
	uint64_t before;

	CHECK(connect_to(n, s->port[0]));
	ask(n, 8, PIECES - 8);
	kill_server(s, 0); /* with all that under way */
	CHECK(until(n, is_down));
	CHECK(n->wrong == 0);
	before = by_rdma(n);
	CHECK(connect_to(n, s->port[1]));
	ask(n, 8, PIECES - 8);
	CHECK(until(n, has_all));
	CHECK(n->wrong == 0);
	CHECK(by_rdma(n) - before >= 4 * SIZE);
	return true;
}

bool rdma_servers_kill_one(struct servers *s)
{
	struct node n = { .fd = -1 };
	bool ok;

	(void)signal(SIGPIPE, SIG_IGN);
	node_open(&n, "asker", "rxe0");
	ok = scenario(&n, s);
	net_free(n.net);
	loop_timer_stop(&n.check);
	loop_free(n.loop);
	return ok;
}
