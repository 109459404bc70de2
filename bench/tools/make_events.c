// SPDX-License-Identifier: Apache-2.0
/*
 * make_events HOST PORT EVENTS [NODES STAGES RANKS [NAME]]: send EVENTS stage events of
 * generated starts to a bootseer-registry by four connections, and print how it went as JSON.
 *
 * Each start has NODES nodes (200) with RANKS ranks (1) and STAGES stages each (25), some
 * slow, with the facts that make causes.  A node sends a start's events at once.  Bodies
 * of a start are made before its clock starts.  With NAME all its stages have that name.
 * The starts are ten minutes apart, the first one ended just now.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/stage_event.h"

#define THREADS 4u
#define NS_PER_S INT64_C(1000000000)
#define APART_NS (600 * NS_PER_S)
#define SLOW_ONE_IN 500u

struct start_plan {
	const char *host, *port;
	unsigned int nodes, stages, ranks, start;
	const char *name; /* name of all stages; NULL: each has its own */
	int64_t begin_ns;
	struct buf *bodies; /* a body for each node */
};

struct sender {
	pthread_t thread;
	const struct start_plan *plan;
	unsigned int
		/* index of its first node; every THREADSth node after it is this thread's
		 * too */
		first;
	int fd;
	uint64_t stored;
};

static void fail(const char *what)
{
	(void)fprintf(stderr, "make_events: %s\n", what);
	exit(1);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return *seed >> 33;
}

/* Add begin and end of a stage of rank `rank`; returns when it ended. */
static int64_t put_stage(const struct start_plan *p, struct buf *b,
			 struct stage_event *e, unsigned int k, int64_t at,
			 uint64_t *seed)
{
	int64_t took = (900 + (int64_t)(next_random(seed) % 201)) * 1000000;
	bool slow = next_random(seed) % SLOW_ONE_IN == 0;
	char stage[16];

	(void)snprintf(stage, sizeof(stage), "s%02u", k);
	memset(e->facts, 0, sizeof(e->facts));
	e->stage = stage_text(p->name ? p->name : stage);
	e->ev = STAGE_BEGIN;
	e->ts_ns = at;
	e->id++;
	if (stage_event_format(e, b) < 0)
		fail("out of memory");
	e->facts[STAGE_FACT_ORIGIN_BYTES] = (uint64_t)took / 10;
	e->facts[STAGE_FACT_DISK_MS] = slow ? 5000 : 1 + next_random(seed) % 9;
	e->facts[STAGE_FACT_GPUS] = k == 0 ? 8 : 0;
	e->ev = STAGE_END;
	e->ts_ns = at + took + (slow ? 5 * NS_PER_S : 0);
	e->id++;
	if (stage_event_format(e, b) < 0)
		fail("out of memory");
	return e->ts_ns;
}

static void make_body(const struct start_plan *p, unsigned int node)
{
	uint64_t seed = (uint64_t)p->start * p->nodes + node + 1;
	struct stage_event e = STAGE_EVENT_INIT;
	struct buf *b = &p->bodies[node];
	char job[64], name[16], image[32], label[16];

	(void)snprintf(job, sizeof(job), "bench-%s%ux%u-%u",
		       p->name ? p->name : "", p->nodes, p->stages, p->start);
	(void)snprintf(name, sizeof(name), "n%04u", node);
	(void)snprintf(image, sizeof(image), "bench/image:%u", p->start % 30);
	(void)snprintf(label, sizeof(label), "team-%u", p->start % 20);
	e.job = stage_text(job);
	e.node = stage_text(name);
	e.id = (int64_t)node * 100000;
	b->len = 0;
	for (unsigned int r = 0; r < p->ranks; r++) {
		int64_t at = p->begin_ns;

		e.rank = p->ranks > 1 ? (int64_t)r : STAGE_NONE;
		for (unsigned int k = 0; k < p->stages; k++) {
			e.image = stage_text(k || r ? NULL : image);
			e.label = stage_text(k || r ? NULL : label);
			at = put_stage(p, b, &e, k, at, &seed);
		}
	}
	memset(e.facts, 0, sizeof(e.facts));
	e.stage = stage_text("train");
	e.ev = STAGE_MARK;
	e.ts_ns = p->begin_ns + 60 * NS_PER_S;
	e.id++;
	if (stage_event_format(&e, b) < 0)
		fail("out of memory");
}

static int connect_to(const char *host, const char *port)
{
	const struct addrinfo want = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int fd;

	if (getaddrinfo(host, port, &want, &found) != 0)
		fail("no such host");
	fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
		fail(strerror(errno));
	freeaddrinfo(found);
	return fd;
}

static void send_bytes(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t sent = write(fd, p, n);

		if (sent <= 0)
			fail("the service hung up");
		p += sent;
		n -= (size_t)sent;
	}
}

/* Number of events that the service has stored, from its answer, which is short and comes in
 * one or two parts. */
static uint64_t read_stored(int fd)
{
	char text[4096];
	size_t n = 0;
	const char *at;

	for (;;) {
		ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);

		if (got <= 0)
			fail("the service hung up");
		n += (size_t)got;
		text[n] = '\0';
		at = strstr(text, "\r\n\r\n");
		if (at && strchr(at, '}'))
			break;
	}
	at = strstr(text, "\"stored\":");
	if (!at)
		fail(text);
	return strtoull(at + strlen("\"stored\":"), NULL, 10);
}

static void *make_events_send(void *arg)
{
	struct sender *s = arg;
	const struct start_plan *p = s->plan;
	char head[256];

	for (unsigned int i = s->first; i < p->nodes; i += THREADS) {
		int n = snprintf(head, sizeof(head),
				 "POST /v1/events HTTP/1.1\r\nHost: %s\r\n"
				 "Bootseer-Node: n%04u\r\n"
				 "Content-Type: text/plain\r\n"
				 "Content-Length: %zu\r\n\r\n",
				 p->host, i, p->bodies[i].len);

		send_bytes(s->fd, head, (size_t)n);
		send_bytes(s->fd, p->bodies[i].data, p->bodies[i].len);
		s->stored += read_stored(s->fd);
	}
	return NULL;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct start_plan p = { .nodes = 200, .stages = 25, .ranks = 1 };
	struct sender v[THREADS];
	uint64_t want, of_start, stored = 0;
	int64_t spent = 0, now = now_ns(CLOCK_REALTIME);

	if (argc < 4)
		fail("usage: make_events HOST PORT EVENTS [NODES STAGES RANKS "
		     "[NAME]]");
	p.host = argv[1];
	p.port = argv[2];
	want = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		p.nodes = (unsigned int)atoi(argv[4]);
	if (argc > 5)
		p.stages = (unsigned int)atoi(argv[5]);
	if (argc > 6)
		p.ranks = (unsigned int)atoi(argv[6]);
	if (argc > 7)
		p.name = argv[7];
	of_start = (uint64_t)p.nodes * (2 * p.stages * p.ranks + 1);
	p.bodies = calloc(p.nodes, sizeof(*p.bodies));
	if (!p.bodies || !p.nodes || !p.stages || !p.ranks)
		fail("no events");
	for (unsigned int i = 0; i < THREADS; i++)
		v[i] = (struct sender){ .plan = &p,
					.first = i,
					.fd = connect_to(p.host, p.port) };
	for (; stored < want; p.start++) {
		int64_t t;

		p.begin_ns = now - 120 * NS_PER_S - p.start * APART_NS;
		for (unsigned int i = 0; i < p.nodes; i++)
			make_body(&p, i);
		t = now_ns(CLOCK_MONOTONIC);
		for (unsigned int i = 0; i < THREADS; i++)
			if (pthread_create(&v[i].thread, NULL, make_events_send,
					   &v[i]) != 0)
				fail("no thread");
		stored = 0;
		for (unsigned int i = 0; i < THREADS; i++) {
			(void)pthread_join(v[i].thread, NULL);
			stored += v[i].stored;
		}
		spent += now_ns(CLOCK_MONOTONIC) - t;
		if (stored != (p.start + 1) * of_start)
			fail("the service has not stored all events");
	}
	for (unsigned int i = 0; i < p.nodes; i++)
		buf_fini(&p.bodies[i]);
	free(p.bodies);
	(void)printf("{\"events\":%" PRIu64 ",\"starts\":%u,\"seconds\":%.3f,"
		     "\"per_second\":%.0f}\n",
		     stored, p.start, (double)spent / 1e9,
		     (double)stored * 1e9 / (double)spent);
	return 0;
}
