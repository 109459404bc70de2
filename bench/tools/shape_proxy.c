// SPDX-License-Identifier: Apache-2.0
/*
 * A TCP proxy whose every connection has the same rate, in each direction: as the disks
 * and links behind the connections of an object store have.
 *
 *	shape_proxy BYTES/S TARGET-IP:PORT PORT-FILE
 *
 * It listens on a port of 127.0.0.1 that it writes into PORT-FILE.  A connection may be
 * at most 10 ms ahead of its rate.
 */
// Link: -pthread
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define AHEAD_NS (NS_PER_S / 100)
#define STEP (64u << 10)

static double ns_per_byte;
static struct sockaddr_in target;

struct pair {
	int client, server;
	int n_left; /* directions that have not ended */
	pthread_mutex_t lock;
};

struct way {
	struct pair *pair;
	int from, to;
};

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void wait_until(int64_t at_ns)
{
	const struct timespec t = { .tv_sec = at_ns / NS_PER_S,
				    .tv_nsec = at_ns % NS_PER_S };

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static void pair_end(struct pair *p)
{
	int n_left;

	(void)pthread_mutex_lock(&p->lock);
	n_left = --p->n_left;
	(void)pthread_mutex_unlock(&p->lock);
	if (n_left)
		return;
	(void)close(p->client);
	(void)close(p->server);
	free(p);
}

static void *way_main(void *arg)
{
	struct way w = *(struct way *)arg;
	int64_t due = now_ns();
	char data[STEP];
	ssize_t n;

	free(arg);
	while ((n = recv(w.from, data, sizeof(data), 0)) > 0) {
		int64_t now = now_ns();

		/* Unused rate is lost. */
		if (due < now - AHEAD_NS)
			due = now - AHEAD_NS;
		if (due > now)
			wait_until(due);
		if (send_all(w.to, data, (size_t)n) < 0)
			break;
		due += (int64_t)((double)n * ns_per_byte);
	}
	(void)shutdown(w.to, SHUT_WR);
	(void)shutdown(w.from, SHUT_RD);
	pair_end(w.pair);
	return NULL;
}

static void start_way(struct pair *p, int from, int to)
{
	struct way *w = malloc(sizeof(*w));
	pthread_attr_t attr;
	pthread_t thread;

	if (!w)
		abort();
	*w = (struct way){ p, from, to };
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, 256u << 10);
	if (pthread_create(&thread, &attr, way_main, w))
		abort();
	(void)pthread_attr_destroy(&attr);
}

static void serve(int client)
{
	struct pair *p = calloc(1, sizeof(*p));
	int on = 1;

	if (!p)
		abort();
	p->client = client;
	p->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	p->n_left = 2;
	(void)pthread_mutex_init(&p->lock, NULL);
	if (connect(p->server, (struct sockaddr *)&target, sizeof(target)) <
	    0) {
		(void)close(p->server);
		(void)close(client);
		free(p);
		return;
	}
	(void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(p->server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	start_way(p, client, p->server);
	start_way(p, p->server, client);
}

static int listen_at(const char *file)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FILE *f;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return -1;
	f = fopen(file, "w");
	if (!f)
		return -1;
	(void)fprintf(f, "%d\n", ntohs(at.sin_port));
	return fclose(f) == 0 ? fd : -1;
}

int main(int argc, char **argv)
{
	char *colon;
	int fd;

	if (argc != 4 || atof(argv[1]) <= 0 ||
	    !(colon = strchr(argv[2], ':'))) {
		fprintf(stderr, "usage: %s BYTES/S IP:PORT PORT-FILE\n",
			argv[0]);
		return 2;
	}
	ns_per_byte = (double)NS_PER_S / atof(argv[1]);
	*colon = '\0';
	target.sin_family = AF_INET;
	target.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, argv[2], &target.sin_addr) != 1)
		return 2;
	fd = listen_at(argv[3]);
	if (fd < 0) {
		perror("listen");
		return 1;
	}
	for (;;) {
		int client = accept(fd, NULL, NULL);

		if (client >= 0)
			serve(client);
	}
}
