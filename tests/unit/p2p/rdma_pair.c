// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "tests/unit/p2p/rdma_pair.h"

#define MS ((int64_t)1000 * 1000)

static void deliver_later(struct pair *p)
{
	assert(loop_timer_start(p->loop, &p->deliver, 0, NULL) == 0);
}

static void tell(void *user, enum rdma_type type, const void *body, size_t len)
{
	struct side *s = user;
	struct pair_msg *m = calloc(1, sizeof(*m));

	assert(m && rdma_wire_get(type, body, len, &m->m, NULL) == 0);
	s->told[type - RDMA_OFFER]++;
	if (s->meddle && !s->meddle(s, &m->m)) {
		free(m);
		return;
	}
	*s->last = m;
	s->last = &m->next;
	deliver_later(s->pair);
}

static void deliver_one(struct side *s)
{
	uint8_t body[RDMA_BODY_MAX];
	struct pair_msg *m = s->first;
	size_t n;
	int rc;

	if (!m || s->is_held)
		return;
	s->first = m->next;
	if (!s->first)
		s->last = &s->first;
	n = rdma_wire_put(body, &m->m);
	if (s->other->l) {
		rc = rdma_link_hear(s->other->l, m->m.type, body, n, NULL);
		if (rc < 0)
			s->other->heard = rc;
	}
	free(m);
}

static void on_deliver(struct loop_timer *t)
{
	struct pair *p = container_of(t, struct pair, deliver);

	deliver_one(&p->a);
	deliver_one(&p->b);
	if ((p->a.first && !p->a.is_held) || (p->b.first && !p->b.is_held))
		deliver_later(p);
}

void pair_release(struct side *s)
{
	s->is_held = false;
	deliver_later(s->pair);
}

static void on_check(struct loop_timer *t)
{
	struct pair *p = container_of(t, struct pair, check);

	if (p->is_done(p) || clock_now_ns() > p->deadline)
		loop_stop(p->loop);
	else
		assert(loop_timer_start(p->loop, t, MS, NULL) == 0);
}

/* Pieces bring their place in the content along. */
static void arrived(void *user, const void *about, size_t n_about,
		    const void *data, size_t len)
{
	struct side *s = user;
	uint32_t off;

	assert(n_about == 8);
	off = get_le32(about);
	s->arrived++;
	s->arrived_bytes += len;
	if (get_le32((const char *)about + 4) != len ||
	    off + len > PAIR_CONTENT ||
	    memcmp(data, s->pair->content + off, len) != 0)
		s->wrong++;
	if (s->on_arrived)
		s->on_arrived(s);
}

static void sent(void *user, uint64_t tag)
{
	((struct side *)user)->sent++;
}

static void fall_back(void *user, uint64_t tag)
{
	((struct side *)user)->fell_back++;
}

static void fault(void *user, const char *why)
{
	struct side *s = user;

	s->faults++;
	snprintf(s->fault, sizeof(s->fault), "%s", why);
}

static const struct rdma_events events = {
	.tell = tell,
	.arrived = arrived,
	.sent = sent,
	.fall_back = fall_back,
	.fault = fault,
};

static void make_content(struct pair *p)
{
	uint32_t x = 1;

	p->fd = memfd_create("content", MFD_CLOEXEC);
	assert(p->fd >= 0 && ftruncate(p->fd, PAIR_CONTENT) == 0);
	p->content = mmap(NULL, PAIR_CONTENT, PROT_READ | PROT_WRITE,
			  MAP_SHARED, p->fd, 0);
	assert(p->content != MAP_FAILED);
	for (size_t i = 0; i < PAIR_CONTENT; i++) {
		x = x * 1664525u + 1013904223u;
		p->content[i] = (char)(x >> 24);
	}
}

static void make_side(struct side *s, struct side *other, struct pair *p,
		      struct rdma_config cfg)
{
	struct error err = ERROR_INIT;

	s->pair = p;
	s->other = other;
	s->last = &s->first;
	cfg.loop = p->loop;
	cfg.events = &events;
	if (rdma_new(&cfg, &s->r, &err) < 0) {
		fprintf(stderr, "rdma_new: %s\n", err.msg);
		abort();
	}
}

struct pair *pair_new(struct rdma_config a, struct rdma_config b)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert(p && loop_new(&p->loop, NULL) == 0);
	p->deliver.fn = on_deliver;
	p->check.fn = on_check;
	make_content(p);
	make_side(&p->a, &p->b, p, a);
	make_side(&p->b, &p->a, p, b);
	return p;
}

void pair_connect(struct pair *p)
{
	assert(rdma_link_new(p->a.r, "b", &p->a, &p->a.l, NULL) == 0);
	assert(rdma_link_new(p->b.r, "a", &p->b, &p->b.l, NULL) == 0);
}

static void forget(struct side *s)
{
	rdma_link_free(s->l);
	s->l = NULL;
	while (s->first) {
		struct pair_msg *m = s->first;

		s->first = m->next;
		free(m);
	}
	s->last = &s->first;
}

void pair_disconnect(struct pair *p)
{
	forget(&p->a);
	forget(&p->b);
}

void pair_free(struct pair *p)
{
	pair_disconnect(p);
	loop_timer_stop(&p->deliver);
	loop_timer_stop(&p->check);
	rdma_free(p->a.r);
	rdma_free(p->b.r);
	loop_free(p->loop);
	(void)munmap(p->content, PAIR_CONTENT);
	(void)close(p->fd);
	free(p);
}

void pair_moved(struct pair *p, uint64_t bytes)
{
	rdma_link_moved(p->a.l, bytes);
	rdma_link_moved(p->b.l, bytes);
}

bool pair_send(struct side *from, uint32_t off, uint32_t len)
{
	uint8_t about[8];

	put_le32(about, off);
	put_le32(about + 4, len);
	if (!rdma_link_send(from->l, about, sizeof(about), from->pair->fd, off,
			    NULL, len, from->pair->tags + 1))
		return false;
	from->pair->tags++;
	return true;
}

bool pair_until(struct pair *p, bool (*is_done)(struct pair *p), int seconds)
{
	p->is_done = is_done;
	p->deadline = clock_now_ns() + seconds * 1000 * MS;
	assert(loop_timer_start(p->loop, &p->check, 0, NULL) == 0);
	assert(loop_run(p->loop, NULL) == 0);
	return is_done(p);
}

bool pair_is_up(struct pair *p)
{
	return rdma_link_is_ready(p->a.l) && rdma_link_is_ready(p->b.l);
}

bool pair_is_down(struct pair *p)
{
	return !rdma_link_is_ready(p->a.l) && !rdma_link_is_ready(p->b.l);
}

bool pair_is_quiet(struct pair *p)
{
	return p->a.sent + p->a.fell_back + p->b.sent + p->b.fell_back ==
	       p->tags;
}
