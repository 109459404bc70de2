// SPDX-License-Identifier: Apache-2.0
/*
 * Two nodes in one process, each with its RDMA, and a control connection between
 * them that a test may cut, delay or change.  Used with the mock by the unit tests
 * and with libibverbs by tests/functional/rdma-test.
 */
#ifndef BOOTSEER_TESTS_RDMA_PAIR_H
#define BOOTSEER_TESTS_RDMA_PAIR_H

#include "p2p/rdma/rdma_wire.h"

#define PAIR_CONTENT (8u << 20)

struct pair;

/* A message under way. */
struct pair_msg {
	struct pair_msg *next;
	struct rdma_msg m;
};

struct side {
	struct pair *pair;
	struct side *other;
	struct rdma *r;
	struct rdma_link *l;
	/* Look at a message that this side tells, change it; false: it is
	 * lost.  May be NULL. */
	bool (*meddle)(struct side *s, struct rdma_msg *m);
	void (*on_arrived)(struct side *s); /* may be NULL */
	bool is_held; /* what it tells waits for pair_release() */
	struct pair_msg *first, **last; /* what it told, not heard yet */

	unsigned int arrived, wrong, sent, fell_back, faults;
	uint64_t arrived_bytes;
	unsigned int told[RDMA_CLOSE + 1 - RDMA_OFFER];
	char fault[128];
	int heard; /* the last failure of rdma_link_hear() */
};

struct pair {
	struct loop *loop;
	struct loop_timer deliver, check;
	struct side a, b;
	bool (*is_done)(struct pair *p);
	int64_t deadline;
	int fd; /* PAIR_CONTENT bytes to be sent */
	char *content;
	uint64_t tags;
};

/* Configs lack loop and events; they fail the process when they do not work. */
struct pair *pair_new(struct rdma_config a, struct rdma_config b);
void pair_free(struct pair *p);
/* Links that are new and have moved nothing. */
void pair_connect(struct pair *p);
void pair_disconnect(struct pair *p);
/* Both ends saw so much pass by TCP. */
void pair_moved(struct pair *p, uint64_t bytes);
/* Send these bytes of the content. */
bool pair_send(struct side *from, uint32_t off, uint32_t len);
void pair_release(struct side *s);
/* Run the loop until then; false: not within so many seconds. */
bool pair_until(struct pair *p, bool (*is_done)(struct pair *p), int seconds);

bool pair_is_up(struct pair *p);
bool pair_is_down(struct pair *p);
/* What was sent either way has an outcome. */
bool pair_is_quiet(struct pair *p);

#endif
