// SPDX-License-Identifier: Apache-2.0
/*
 * What a node's thread needs to serve and to receive pieces:
 *
 *   bench-p2p-serve WAY FILE PIECE MIB [check] [CERTS]
 *
 * One thread serves pieces of PIECE bytes of FILE (from page cache, when the caller
 * read it before), another receives MIB of them over loopback TCP.  WAY: "sendfile",
 * a plain server that only calls sendfile(2) and a client that only receives; or our
 * links: "open", "signed", "tls", the latter two with CERTS/ca.pem, a.pem, a.key,
 * b.pem, b.key.  With "check" the receiver compares the SHA-256 of each piece.
 *
 * Prints: bytes, seconds, processor seconds of the server's thread, and of the
 * receiver's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/net/net.h"

#define FLYING 16u /* pieces requested at the same time */
#define LIMIT_NS INT64_C(120000000000)

struct bench {
	enum net_security security;
	const char *certs;
	int fd;
	uint32_t piece, n_pieces, rounds, asked, got;
	uint64_t bytes;
	bool check;
	struct digest image, *digests;
	void *rooms[FLYING];
	unsigned int free_rooms;
	struct loop *serving, *receiving;
	struct net *server, *client;
	struct loop_call stop;
	double server_cpu, client_cpu, seconds;
	int64_t began;
	double server_before, client_before;
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-p2p-serve: %s: %s\n", what, why);
	exit(1);
}

static void must(int rc, const char *what, const struct error *err)
{
	if (rc < 0)
		die(what, err->msg);
}

/* Processor seconds used by this thread. */
static double cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void check(const struct bench *b, uint32_t piece, const void *data)
{
	struct digest d;

	if (digest_of(data, b->piece, &d) < 0 ||
	    !digest_equal(&d, &b->digests[piece]))
		die("a piece", "has other bytes than were sent");
}

/* ------------------------------------------------------------- plain sendfile --- */

struct plain {
	struct bench *b;
	int fd;
};

static void *plain_serve(void *arg)
{
	struct plain *p = arg;
	struct bench *b = p->b;
	double before = cpu();

	for (uint32_t i = 0; i < b->rounds; i++) {
		off_t off = (off_t)(i % b->n_pieces) * b->piece;
		size_t left = b->piece;

		while (left) {
			ssize_t n = sendfile(p->fd, b->fd, &off, left);

			if (n <= 0)
				die("sendfile", strerror(errno));
			left -= (size_t)n;
		}
	}
	b->server_cpu = cpu() - before;
	return NULL;
}

static int listen_plain(struct sockaddr_in *sin)
{
	socklen_t len = sizeof(*sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin->sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *)sin, len) != 0 ||
	    listen(fd, 1) != 0 ||
	    getsockname(fd, (struct sockaddr *)sin, &len) != 0)
		die("listen", strerror(errno));
	return fd;
}

static void run_plain(struct bench *b)
{
	struct sockaddr_in sin = { .sin_port = 0 };
	int lfd = listen_plain(&sin);
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct plain p = { .b = b };
	pthread_t thread;
	double before;

	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)
		die("connect", strerror(errno));
	p.fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	b->began = clock_now_ns();
	before = cpu();
	if (pthread_create(&thread, NULL, plain_serve, &p) != 0)
		die("thread", "cannot start");
	for (uint32_t i = 0; i < b->rounds; i++) {
		char *room = b->rooms[i % FLYING];
		size_t at = 0;

		while (at < b->piece) {
			ssize_t n = recv(fd, room + at, b->piece - at, 0);

			if (n <= 0)
				die("receive", strerror(errno));
			at += (size_t)n;
		}
		if (b->check)
			check(b, i % b->n_pieces, room);
	}
	b->client_cpu = cpu() - before;
	b->seconds = (double)(clock_now_ns() - b->began) / 1e9;
	pthread_join(thread, NULL);
	close(p.fd);
	close(lfd);
}

/* ------------------------------------------------------------------ our links --- */

static void ask(struct bench *b, struct net_link *l)
{
	while (b->asked < b->rounds && b->asked - b->got < FLYING) {
		uint32_t piece = b->asked % b->n_pieces;

		net_ask(l, &b->image, &piece, 1, b->piece, SOURCE_HOT);
		b->asked++;
	}
}

static void up(void *arg, struct net_link *l)
{
	struct bench *b = arg;
	struct error err = ERROR_INIT;

	must(net_open_image(l, &b->image, b->n_pieces, NULL, 0, &err), "open",
	     &err);
}

static void down(void *arg, struct net_link *l, const struct error *why)
{
	if (why)
		die("link", why->msg);
}

static int may_open(void *arg, struct net_link *l, const struct digest *image,
		    const void *capability, size_t len, struct error *err)
{
	return 0;
}

static void opened_there(void *arg, struct net_link *l,
			 const struct digest *image)
{
	struct bench *b = arg;

	b->server_before = cpu();
}

static void opened_here(void *arg, struct net_link *l,
			const struct digest *image)
{
	struct bench *b = arg;

	b->began = clock_now_ns();
	b->client_before = cpu();
	ask(b, l);
}

static void closed(void *arg, struct net_link *l, const struct digest *image,
		   enum swarm_refusal why)
{
	die("image", "closed");
}

static void news(void *arg, struct net_link *l, const struct digest *image,
		 const struct swarm_range *have, size_t n_have,
		 const struct swarm_range *lost, size_t n_lost,
		 const struct swarm_range *promised, size_t n_promised,
		 int64_t eta_ns)
{
}

static void wanted(void *arg, struct net_link *l, const struct digest *image,
		   const uint32_t *pieces, size_t n,
		   enum source_priority priority)
{
	struct bench *b = arg;
	uint32_t piece = pieces[0];
	struct net_piece p = { .image = *image,
			       .piece = piece,
			       .len = b->piece };
	struct net_body body = { .fd = b->fd,
				 .off = (uint64_t)piece * b->piece };

	net_send(l, &p, priority, &body, piece);
}

static void unwanted(void *arg, struct net_link *l, const struct digest *image,
		     uint32_t piece)
{
}

static void *room(void *arg, struct net_link *l, const struct net_piece *p)
{
	struct bench *b = arg;

	return b->free_rooms ? b->rooms[--b->free_rooms] : NULL;
}

static void moves(void *arg, struct net_link *l, const struct net_piece *p,
		  uint32_t n)
{
}

static void got(void *arg, struct net_link *l, const struct net_piece *p,
		void *data)
{
	struct bench *b = arg;

	if (b->check)
		check(b, p->piece, data);
	b->rooms[b->free_rooms++] = data;
	b->got++;
	if (b->got < b->rounds) {
		ask(b, l);
		return;
	}
	b->client_cpu = cpu() - b->client_before;
	b->seconds = (double)(clock_now_ns() - b->began) / 1e9;
	loop_post(b->serving, &b->stop);
	loop_stop(b->receiving);
}

static void lost(void *arg, struct net_link *l, const struct net_piece *p,
		 void *data)
{
	die("a piece", "was lost");
}

static void refused(void *arg, struct net_link *l, const struct digest *image,
		    uint32_t piece, enum swarm_refusal why, int64_t retry_ns)
{
	die("a piece", "was refused");
}

static void sent(void *arg, struct net_link *l, uint64_t tag)
{
}

#define EVENTS(on_opened) \
	{ \
		.up = up, .down = down, .may_open = may_open, \
		.opened = on_opened, .closed = closed, .news = news, \
		.wanted = wanted, .unwanted = unwanted, .room = room, \
		.moves = moves, .got = got, .lost = lost, .refused = refused, \
		.sent = sent, \
	}
static const struct net_events server_events = EVENTS(opened_there);
static const struct net_events client_events = EVENTS(opened_here);

static void stop_serving(struct loop_call *c)
{
	struct bench *b = container_of(c, struct bench, stop);

	b->server_cpu = cpu() - b->server_before;
	loop_stop(b->serving);
}

static struct net *net_of(struct bench *b, struct loop *loop, const char *name,
			  const struct net_events *events)
{
	struct net_config cfg = { .loop = loop,
				  .listen = "127.0.0.1:0",
				  .security = b->security,
				  .events = events,
				  .arg = b };
	char ca[4096], cert[4096], key[4096];
	struct error err = ERROR_INIT;
	struct net *n = NULL;

	(void)snprintf(cfg.self.name, sizeof(cfg.self.name), "%s", name);
	if (b->certs) {
		(void)snprintf(ca, sizeof(ca), "%s/ca.pem", b->certs);
		(void)snprintf(cert, sizeof(cert), "%s/%s.pem", b->certs, name);
		(void)snprintf(key, sizeof(key), "%s/%s.key", b->certs, name);
		cfg.ca_file = ca;
		cfg.cert_file = cert;
		cfg.key_file = key;
	}
	must(net_new(&cfg, &n, &err), name, &err);
	return n;
}

static void *serve(void *arg)
{
	struct bench *b = arg;
	struct error err = ERROR_INIT;

	must(loop_run(b->serving, &err), "loop", &err);
	return NULL;
}

static void run_links(struct bench *b)
{
	struct error err = ERROR_INIT;
	struct net_link *l;
	pthread_t thread;
	char addr[32];

	must(loop_new(&b->serving, &err), "loop", &err);
	must(loop_new(&b->receiving, &err), "loop", &err);
	b->stop.fn = stop_serving;
	b->server = net_of(b, b->serving, "a", &server_events);
	b->client = net_of(b, b->receiving, "b", &client_events);
	(void)snprintf(addr, sizeof(addr), "127.0.0.1:%u", net_port(b->server));
	if (pthread_create(&thread, NULL, serve, b) != 0)
		die("thread", "cannot start");
	must(net_connect(b->client, addr, "a", &l, &err), "connect", &err);
	must(loop_run(b->receiving, &err), "loop", &err);
	pthread_join(thread, NULL);
	/* The thread has ended, so this thread may run the server's loop to its end. */
	must(loop_run((loop_stop(b->serving), b->serving), &err), "loop", &err);
	net_free(b->client);
	net_free(b->server);
	loop_free(b->serving);
	loop_free(b->receiving);
}

/* ----------------------------------------------------------------------- main --- */

static void prepare(struct bench *b, const char *file, uint64_t mib)
{
	struct stat st;

	b->fd = open(file, O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &st) != 0)
		die(file, strerror(errno));
	b->n_pieces = (uint32_t)((uint64_t)st.st_size / b->piece);
	b->rounds = (uint32_t)(mib * MIB / b->piece);
	b->bytes = (uint64_t)b->rounds * b->piece;
	if (!b->n_pieces || !b->rounds)
		die(file, "is smaller than a piece");
	b->digests = calloc(b->n_pieces, sizeof(*b->digests));
	for (unsigned int i = 0; i < FLYING; i++)
		b->rooms[i] = malloc(b->piece);
	b->free_rooms = FLYING;
	for (uint32_t i = 0; i < b->n_pieces; i++)
		if (pread(b->fd, b->rooms[0], b->piece, (off_t)i * b->piece) !=
			    (ssize_t)b->piece ||
		    digest_of(b->rooms[0], b->piece, &b->digests[i]) < 0)
			die(file, "cannot be read");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct bench *b);
		enum net_security security;
	} ways[] = {
		{ "sendfile", run_plain, NET_OPEN },
		{ "open", run_links, NET_OPEN },
		{ "signed", run_links, NET_SIGNED_BULK },
		{ "tls", run_links, NET_MUTUAL_TLS },
	};
	struct bench b = { .got = 0 };
	int at = 5;

	if (argc < 5)
		die("usage", "WAY FILE PIECE MIB [check] [CERTS]");
	(void)signal(SIGPIPE, SIG_IGN);
	alarm(LIMIT_NS / 1000000000);
	b.piece = (uint32_t)strtoul(argv[3], NULL, 10);
	if (!b.piece || b.piece > BLOCK_USIZE_MAX)
		die(argv[3], "is no size of a piece");
	prepare(&b, argv[2], strtoull(argv[4], NULL, 10));
	if (at < argc && strcmp(argv[at], "check") == 0) {
		b.check = true;
		at++;
	}
	b.certs = at < argc ? argv[at] : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (strcmp(ways[i].name, argv[1]) != 0)
			continue;
		b.security = ways[i].security;
		ways[i].run(&b);
		printf("%" PRIu64 " %.6f %.6f %.6f\n", b.bytes, b.seconds,
		       b.server_cpu, b.client_cpu);
		return 0;
	}
	die(argv[1], "is no way to serve");
}
