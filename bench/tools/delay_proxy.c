// SPDX-License-Identifier: Apache-2.0
/*
 * A TCP proxy that hands on every byte a fixed time after it came, in both
 * directions: the latency of a network where the kernel has no netem.
 *
 *	delay_proxy MS LISTEN-IP:PORT TARGET-IP:PORT STATS
 *
 * Bandwidth is not touched.  A direction holds up to BUF_SIZE bytes; when that is
 * full the sender is not read, so TCP holds it back.  BUF_SIZE bounds the rate
 * of one connection to BUF_SIZE / MS (800 MB/s at 5 ms).
 *
 * STATS holds one line, brought up to date after each round of events:
 * connections, HTTP requests seen, bytes to the target, bytes from the target.
 * Bytes count when they are handed on.
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BUF_SIZE (4u << 20) /* power of two */
#define N_MARKS 4096u       /* power of two; limit of arrivals waiting */
#define N_EVENTS 64
#define RCVBUF (4 << 20)

/* The bytes of one read: due at `due_ns`, ending at position `end`. */
struct mark {
	int64_t due_ns;
	uint64_t end;
};

/* One direction of a connection.  Positions only grow. */
struct flow {
	char *buf;
	uint64_t head; /* bytes received */
	uint64_t tail; /* bytes handed on */
	uint64_t due;  /* bytes that may be handed on now */
	struct mark marks[N_MARKS];
	unsigned first, last; /* marks not yet due */
	bool eof, eof_sent;
	int64_t eof_ns;     /* when the end is due */
	unsigned n_matched; /* letters of REQUEST_END seen, client side */
};

struct conn;

struct end {
	struct conn *conn;
	int fd;
	bool readable, writable;
};

struct conn {
	struct conn *next, **link;
	struct end client, target;
	struct flow up, down;
	bool dead;
};

static const char request_end[] = " HTTP/1.1\r\n";
static struct conn *conns;
static int64_t delay_ns;
static int ep, timer, stats_fd;
static uint64_t n_conns, n_requests, n_up, n_down;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Count request lines as they pass; bodies of uploads do not matter here. */
static void count_requests(struct flow *f, const char *p, size_t n)
{
	for (; n; n--, p++) {
		if (*p != request_end[f->n_matched])
			f->n_matched = 0;
		if (*p == request_end[f->n_matched])
			f->n_matched++;
		if (!request_end[f->n_matched]) {
			f->n_matched = 0;
			n_requests++;
		}
	}
}

/* Read as much as there is room for. Returns false when the connection failed. */
static bool fill(struct flow *f, struct end *from, bool is_up, int64_t now)
{
	while (from->readable && !f->eof && f->last - f->first < N_MARKS) {
		size_t at = f->head & (BUF_SIZE - 1);
		size_t room = BUF_SIZE - (size_t)(f->head - f->tail);
		ssize_t n;

		if (room > BUF_SIZE - at)
			room = BUF_SIZE - at;
		if (!room)
			return true;
		n = recv(from->fd, f->buf + at, room, 0);
		if (n < 0 && errno == EAGAIN) {
			from->readable = false;
			return true;
		}
		if (n < 0)
			return false;
		if (n == 0) {
			f->eof = true;
			f->eof_ns = now + delay_ns;
			return true;
		}
		if (is_up)
			count_requests(f, f->buf + at, (size_t)n);
		f->head += (uint64_t)n;
		f->marks[f->last++ & (N_MARKS - 1)] = (struct mark){
			.due_ns = now + delay_ns,
			.end = f->head,
		};
	}
	return true;
}

/* Pass on the bytes that are due. Returns false when the connection failed. */
static bool drain(struct flow *f, struct end *to, uint64_t *counter,
		  int64_t now)
{
	while (f->first != f->last &&
	       f->marks[f->first & (N_MARKS - 1)].due_ns <= now)
		f->due = f->marks[f->first++ & (N_MARKS - 1)].end;
	while (to->writable && f->tail < f->due) {
		size_t at = f->tail & (BUF_SIZE - 1);
		size_t len = (size_t)(f->due - f->tail);
		ssize_t n;

		if (len > BUF_SIZE - at)
			len = BUF_SIZE - at;
		n = send(to->fd, f->buf + at, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			to->writable = false;
			return true;
		}
		if (n < 0)
			return false;
		f->tail += (uint64_t)n;
		*counter += (uint64_t)n;
	}
	if (f->eof && !f->eof_sent && f->tail == f->head && f->eof_ns <= now) {
		f->eof_sent = true;
		shutdown(to->fd, SHUT_WR);
	}
	return true;
}

/* Move all bytes that can be moved now; note in `*due_ns` when to do so next. */
static void serve(struct conn *c, int64_t now, int64_t *due_ns)
{
	struct flow *const flows[] = { &c->up, &c->down };
	bool ok;
	int i;

	ok = fill(&c->up, &c->client, true, now) &&
	     fill(&c->down, &c->target, false, now) &&
	     drain(&c->up, &c->target, &n_up, now) &&
	     drain(&c->down, &c->client, &n_down, now) &&
	     /* passing bytes on made room */
	     fill(&c->up, &c->client, true, now) &&
	     fill(&c->down, &c->target, false, now);
	if (!ok || (c->up.eof_sent && c->down.eof_sent)) {
		c->dead = true;
		return;
	}
	for (i = 0; i < 2; i++) {
		struct flow *f = flows[i];
		int64_t due = INT64_MAX;

		if (f->first != f->last)
			due = f->marks[f->first & (N_MARKS - 1)].due_ns;
		else if (f->eof && !f->eof_sent && f->tail == f->head)
			due = f->eof_ns;
		if (due < *due_ns)
			*due_ns = due;
	}
}

static void conn_free(struct conn *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (c->client.fd >= 0)
		close(c->client.fd);
	if (c->target.fd >= 0)
		close(c->target.fd);
	free(c->up.buf);
	free(c->down.buf);
	free(c);
}

static void watch(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
				  .data.ptr = e };
	int one = 1;

	setsockopt(e->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(ep, EPOLL_CTL_ADD, e->fd, &ev) < 0)
		die("epoll_ctl");
}

static void accept_one(int listener, const struct sockaddr_in *target)
{
	struct conn *c;
	const int rcvbuf = RCVBUF;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		die("calloc");
	c->client = (struct end){ .conn = c, .fd = fd };
	c->target = (struct end){ .conn = c };
	c->target.fd =
		socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->target.fd < 0)
		die("socket");
	/* Segments on the loopback interface have 64 KiB: with a window of only two, the
	 * target would wait, at the end of an answer, for an acknowledgement that comes 40 ms
	 * late. */
	if (setsockopt(c->target.fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf,
		       sizeof(rcvbuf)) < 0)
		die("receive buffer");
	c->up.buf = malloc(BUF_SIZE);
	c->down.buf = malloc(BUF_SIZE);
	if (!c->up.buf || !c->down.buf)
		die("connection");
	c->next = conns;
	c->link = &conns;
	if (conns)
		conns->link = &c->next;
	conns = c;
	n_conns++;
	if (connect(c->target.fd, (const struct sockaddr *)target,
		    sizeof(*target)) < 0 &&
	    errno != EINPROGRESS) {
		c->dead = true;
		return;
	}
	watch(&c->client);
	watch(&c->target);
}

static void set_timer(int64_t due_ns)
{
	struct itimerspec its = { 0 };

	if (due_ns != INT64_MAX) {
		its.it_value.tv_sec = due_ns / 1000000000;
		its.it_value.tv_nsec = due_ns % 1000000000;
	}
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &its, NULL) < 0)
		die("timerfd_settime");
}

static void write_stats(void)
{
	static char last[128];
	char line[128];

	snprintf(line, sizeof(line), "%20llu %20llu %20llu %20llu\n",
		 (unsigned long long)n_conns, (unsigned long long)n_requests,
		 (unsigned long long)n_up, (unsigned long long)n_down);
	if (strcmp(line, last) == 0)
		return;
	strcpy(last, line);
	if (pwrite(stats_fd, line, strlen(line), 0) < 0)
		die("stats");
}

static void parse_address(const char *s, struct sockaddr_in *ret)
{
	char host[64];
	unsigned port;

	*ret = (struct sockaddr_in){ .sin_family = AF_INET };
	if (sscanf(s, "%63[0-9.]:%u", host, &port) != 2 || port > 65535 ||
	    inet_pton(AF_INET, host, &ret->sin_addr) != 1) {
		fprintf(stderr, "not IP:PORT: %s\n", s);
		exit(2);
	}
	ret->sin_port = htons((uint16_t)port);
}

static int listen_on(const struct sockaddr_in *at)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 ||
	    listen(fd, 256) < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		die("listen");
	return fd;
}

/* Handle one round of events: accept, move bytes, free ended connections. */
static void turn(int listener, const struct sockaddr_in *target)
{
	struct epoll_event events[N_EVENTS];
	struct conn *c, *next;
	int64_t due_ns = INT64_MAX;
	uint64_t ticks;
	int i, n;

	n = epoll_wait(ep, events, N_EVENTS, -1);
	if (n < 0 && errno != EINTR)
		die("epoll_wait");
	for (i = 0; i < n; i++) {
		struct end *e = events[i].data.ptr;

		if (!e) {
			accept_one(listener, target);
		} else if (e == (void *)&timer) {
			if (read(timer, &ticks, sizeof(ticks)) < 0 &&
			    errno != EAGAIN)
				die("timer");
		} else {
			if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				e->readable = true;
			if (events[i].events & (EPOLLOUT | EPOLLERR))
				e->writable = true;
		}
	}
	for (c = conns; c; c = next) {
		next = c->next;
		if (!c->dead)
			serve(c, now_ns(), &due_ns);
		if (c->dead)
			conn_free(c);
	}
	set_timer(due_ns);
	write_stats();
}

int main(int argc, char **argv)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &timer };
	struct sockaddr_in at, target;
	int listener;

	if (argc != 5) {
		fprintf(stderr, "usage: delay_proxy MS LISTEN-IP:PORT "
				"TARGET-IP:PORT STATS\n");
		return 2;
	}
	delay_ns = (int64_t)(atof(argv[1]) * 1e6);
	parse_address(argv[2], &at);
	parse_address(argv[3], &target);
	stats_fd =
		open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ep = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (stats_fd < 0 || ep < 0 || timer < 0)
		die("delay_proxy");
	if (epoll_ctl(ep, EPOLL_CTL_ADD, timer, &ev) < 0)
		die("epoll_ctl");
	listener = listen_on(&at);
	write_stats();
	printf("listening on %s\n", argv[2]);
	fflush(stdout);
	for (;;)
		turn(listener, &target);
}
