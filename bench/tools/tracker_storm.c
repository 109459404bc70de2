// SPDX-License-Identifier: Apache-2.0
// Link: -levent_core -levent_extra
/*
 * A swarm as its tracker sees it: N nodes, each with a connection of its own, join
 * within one interval, announce once an interval, ask for the others at first and
 * at every fifth call, want 64 pieces of the origin each time, and report those
 * that they were granted as read with the next call.
 *
 *	tracker_storm ADDRESS PORT TARGET NODES INTERVAL_MS SECONDS
 *
 * TARGET is /v1/swarms/DIGEST.  Prints one line: announcements answered, failed,
 * pieces granted, seconds, and median, 99th percentile and longest of the time of
 * an answer in milliseconds; connecting is part of the first.
 */
#define _GNU_SOURCE
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PIECES 100000u
#define WANTS 64u
#define TIMEOUT_S 30
#define NODES_PER_RACK 32u

struct storm {
	struct event_base *base;
	const char *address, *target;
	uint16_t port;
	unsigned int nodes, interval_ms, failed;
	double *ms; /* time of each answer */
	size_t n, cap;
	uint64_t granted;
	int64_t begun;
};

struct node {
	struct storm *storm;
	unsigned int number, calls, at; /* at: piece that it wants next */
	struct evhttp_connection *conn;
	struct event *timer;
	int64_t sent;
	bool busy;
	char done[4096]; /* "[1,2,3]", or "" */
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "tracker_storm: %s\n", what);
	exit(1);
}

/* Keep the granted pieces for the next report. */
static void take_grants(struct node *n, struct evbuffer *body)
{
	size_t len = evbuffer_get_length(body);
	const char *text = (const char *)evbuffer_pullup(body, -1);
	static const char key[] = "\"granted\":";
	const char *at = len ? memmem(text, len, key, strlen(key)) : NULL;
	const char *end =
		at ? memchr(at, ']', len - (size_t)(at - text)) : NULL;

	n->done[0] = '\0';
	if (!end || (size_t)(end - at) >= sizeof(n->done))
		return;
	at += strlen(key);
	memcpy(n->done, at, (size_t)(end - at) + 1);
	n->done[end - at + 1] = '\0';
	n->storm->granted++;
	for (const char *p = at; p < end; p++)
		n->storm->granted += *p == ',';
}

static void on_answer(struct evhttp_request *req, void *arg)
{
	struct node *n = arg;
	struct storm *s = n->storm;

	n->busy = false;
	if (!req || evhttp_request_get_response_code(req) != 200) {
		s->failed++;
		return;
	}
	if (s->n < s->cap)
		s->ms[s->n++] = (double)(now_ns() - n->sent) / 1e6;
	take_grants(n, evhttp_request_get_input_buffer(req));
}

static void write_call(struct node *n, struct evbuffer *out)
{
	evbuffer_add_printf(
		out,
		"{\"node\":\"node%u\",\"addr\":\"10.%u.%u.%u:7000\","
		"\"rack\":\"r%u\",\"zone\":\"z\",\"pieces\":%u,"
		"\"have\":%u%s,\"want\":[",
		n->number, n->number >> 16, n->number >> 8 & 255,
		n->number & 255, n->number / NODES_PER_RACK, PIECES, n->at,
		n->calls % 5 ? "" : ",\"members\":true");
	for (unsigned int i = 0; i < WANTS; i++)
		evbuffer_add_printf(out, i ? ",%u" : "%u",
				    (n->at + i) % PIECES);
	evbuffer_add_printf(out, "],\"want_bytes\":[");
	for (unsigned int i = 0; i < WANTS; i++)
		evbuffer_add_printf(out, i ? ",262144" : "262144");
	evbuffer_add_printf(out, "]");
	if (n->done[0])
		evbuffer_add_printf(out, ",\"done\":%s", n->done);
	evbuffer_add_printf(out, "}");
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct node *n = arg;
	struct storm *s = n->storm;
	struct timeval next = { s->interval_ms / 1000,
				(suseconds_t)(s->interval_ms % 1000) * 1000 };
	struct evhttp_request *req;

	(void)fd;
	(void)what;
	evtimer_add(n->timer, &next);
	if (n->busy)
		return;
	if (!n->conn) {
		n->conn = evhttp_connection_base_new(s->base, NULL, s->address,
						     s->port);
		if (!n->conn)
			die("out of memory");
		evhttp_connection_set_timeout(n->conn, TIMEOUT_S);
	}
	req = evhttp_request_new(on_answer, n);
	if (!req)
		die("out of memory");
	evhttp_add_header(evhttp_request_get_output_headers(req), "Host",
			  s->address);
	write_call(n, evhttp_request_get_output_buffer(req));
	n->calls++;
	n->at = (n->at + WANTS) % PIECES;
	n->sent = now_ns();
	n->busy = true;
	if (evhttp_make_request(n->conn, req, EVHTTP_REQ_POST, s->target) < 0)
		die("cannot send");
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void report(struct storm *s)
{
	double seconds = (double)(now_ns() - s->begun) / 1e9;

	qsort(s->ms, s->n, sizeof(*s->ms), compare);
	if (s->n == 0)
		die("nothing was answered");
	printf("%zu %u %llu %.3f %.2f %.2f %.2f\n", s->n, s->failed,
	       (unsigned long long)s->granted, seconds, s->ms[s->n / 2],
	       s->ms[s->n * 99 / 100], s->ms[s->n - 1]);
}

int main(int argc, char **argv)
{
	struct storm s = { .base = event_base_new() };
	struct timeval end = { 0, 0 };
	struct rlimit files;
	struct node *nodes;

	if (argc != 7)
		die("usage: ADDRESS PORT TARGET NODES INTERVAL_MS SECONDS");
	s.address = argv[1];
	s.port = (uint16_t)atoi(argv[2]);
	s.target = argv[3];
	s.nodes = (unsigned int)atoi(argv[4]);
	s.interval_ms = (unsigned int)atoi(argv[5]);
	end.tv_sec = atoi(argv[6]);
	if (s.nodes < 1 || s.interval_ms < 1 || end.tv_sec < 1)
		die("wanted: numbers above 0");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	s.cap = (size_t)s.nodes *
		((size_t)end.tv_sec * 1000 / s.interval_ms + 2);
	nodes = calloc(s.nodes, sizeof(*nodes));
	s.ms = calloc(s.cap, sizeof(*s.ms));
	if (!nodes || !s.ms || !s.base)
		die("out of memory");
	s.begun = now_ns();
	for (unsigned int i = 0; i < s.nodes; i++) {
		uint64_t us = (uint64_t)i * s.interval_ms * 1000 / s.nodes;
		struct timeval at = { (time_t)(us / 1000000),
				      (suseconds_t)(us % 1000000) };

		nodes[i].storm = &s;
		nodes[i].number = i;
		nodes[i].timer = evtimer_new(s.base, on_timer, &nodes[i]);
		if (!nodes[i].timer)
			die("out of memory");
		evtimer_add(nodes[i].timer, &at);
	}
	event_base_loopexit(s.base, &end);
	event_base_dispatch(s.base);
	report(&s);
	return 0;
}
