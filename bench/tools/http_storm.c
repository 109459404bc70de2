// SPDX-License-Identifier: Apache-2.0
// Link: -levent_core -levent_extra
/*
 * A job's start as bootseer-registry sees it: N nodes, each with a connection of
 * its own, ask for a trace within one second and then send one.
 *
 *	http_storm ADDRESS PORT TARGET FILE NODES SPREAD_MS TIMEOUT_S
 *
 * TARGET is the path with its query, FILE a recording.  Prints one line: requests
 * answered as wanted, requests that failed, seconds until the last answer, and
 * median, 99th percentile and longest of the time from a request to the last byte
 * of its answer, in milliseconds; connecting is part of the first.
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
#include <sys/resource.h>
#include <time.h>

struct storm {
	struct event_base *base;
	const char *address, *target;
	uint16_t port;
	struct evbuffer *recording;
	unsigned int nodes, timeout_s, running, failed;
	double *ms; /* time of each answer */
	size_t n;
	int64_t begun;
};

struct node {
	struct storm *storm;
	unsigned int number;
	struct evhttp_connection *conn;
	struct event *start;
	int64_t sent;
	bool posted;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "http_storm: %s\n", what);
	exit(1);
}

static void on_answer(struct evhttp_request *req, void *arg);

static void end(struct node *n)
{
	if (--n->storm->running == 0)
		event_base_loopbreak(n->storm->base);
}

static void send_request(struct node *n, bool post)
{
	struct storm *s = n->storm;
	struct evhttp_request *req = evhttp_request_new(on_answer, n);
	struct evkeyvalq *headers =
		req ? evhttp_request_get_output_headers(req) : NULL;
	char name[32];

	if (!req)
		die("out of memory");
	snprintf(name, sizeof(name), "node%u", n->number);
	evhttp_add_header(headers, "Host", s->address);
	if (post) {
		evhttp_add_header(headers, "Bootseer-Node", name);
		evbuffer_add_buffer_reference(evhttp_request_get_output_buffer(
						      req),
					      s->recording);
	}
	n->posted = post;
	n->sent = now_ns();
	if (evhttp_make_request(n->conn, req,
				post ? EVHTTP_REQ_POST : EVHTTP_REQ_GET,
				s->target) < 0)
		die("cannot send");
}

static void on_answer(struct evhttp_request *req, void *arg)
{
	struct node *n = arg;
	int status = req ? evhttp_request_get_response_code(req) : 0;
	bool good = n->posted ? status == 202 : status == 200 || status == 404;

	if (good)
		n->storm->ms[n->storm->n++] =
			(double)(now_ns() - n->sent) / 1e6;
	else
		n->storm->failed++;
	if (!n->posted && good)
		send_request(n, true);
	else
		end(n);
}

static void on_start(evutil_socket_t fd, short what, void *arg)
{
	struct node *n = arg;

	(void)fd;
	(void)what;
	n->conn = evhttp_connection_base_new(n->storm->base, NULL,
					     n->storm->address, n->storm->port);
	if (!n->conn)
		die("out of memory");
	evhttp_connection_set_timeout(n->conn, (int)n->storm->timeout_s);
	send_request(n, false);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void load(struct storm *s, const char *path)
{
	char chunk[65536];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		die("cannot read the recording");
	s->recording = evbuffer_new();
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		evbuffer_add(s->recording, chunk, n);
	fclose(f);
}

static void report(struct storm *s)
{
	double seconds = (double)(now_ns() - s->begun) / 1e9;

	qsort(s->ms, s->n, sizeof(*s->ms), compare);
	if (s->n == 0)
		die("nothing was answered");
	printf("%zu %u %.3f %.2f %.2f %.2f\n", s->n, s->failed, seconds,
	       s->ms[s->n / 2], s->ms[s->n * 99 / 100], s->ms[s->n - 1]);
}

int main(int argc, char **argv)
{
	struct storm s = { .base = event_base_new() };
	struct rlimit files;
	unsigned int spread_ms;
	struct node *nodes;

	if (argc != 8)
		die("usage: ADDRESS PORT TARGET FILE NODES SPREAD_MS TIMEOUT_S");
	s.address = argv[1];
	s.port = (uint16_t)atoi(argv[2]);
	s.target = argv[3];
	load(&s, argv[4]);
	s.nodes = s.running = (unsigned int)atoi(argv[5]);
	spread_ms = (unsigned int)atoi(argv[6]);
	s.timeout_s = (unsigned int)atoi(argv[7]);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	nodes = calloc(s.nodes, sizeof(*nodes));
	s.ms = calloc((size_t)s.nodes * 2, sizeof(*s.ms));
	if (!nodes || !s.ms || !s.base)
		die("out of memory");
	s.begun = now_ns();
	for (unsigned int i = 0; i < s.nodes; i++) {
		uint64_t us = (uint64_t)i * spread_ms * 1000 / s.nodes;
		struct timeval at = { (time_t)(us / 1000000),
				      (suseconds_t)(us % 1000000) };

		nodes[i].storm = &s;
		nodes[i].number = i;
		nodes[i].start = evtimer_new(s.base, on_start, &nodes[i]);
		evtimer_add(nodes[i].start, &at);
	}
	event_base_dispatch(s.base);
	report(&s);
	return 0;
}
