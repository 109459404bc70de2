// SPDX-License-Identifier: Apache-2.0
/* Two or more nets of one process on one loop; each keeps what it was told. */
#ifndef BOOTSEER_TESTS_P2P_NODES_H
#define BOOTSEER_TESTS_P2P_NODES_H

#include <criterion/criterion.h>

#include "common/clock.h"
#include "p2p/net/net.h"

#define NODES_PIECES 64u
#define NODES_PIECE_SIZE (300u << 10)
#define NODES_MAX 4

struct node {
	struct nodes *all;
	struct net *net;
	struct net_link *link; /* the last one that came up, or is begun */
	int verdict;           /* of may_open() */
	bool opens_back;       /* who lets somebody in takes part too */
	enum { SERVES_FILE, SERVES_MEMORY, HOLDS, REFUSES } serves;
	bool no_room;

	int ups, downs, openeds, closeds, news, wants, unwanteds, sents, gots,
		losts, refuseds, member_calls, rooms, bad_bytes, faults, lefts;
	struct error why; /* of the last down() */
	int failures;     /* and of the last of them: */
	enum net_fault fault;
	bool fault_outgoing;
	char fault_why[ERROR_MSG_MAX], fault_addr[64];
	enum swarm_refusal refusal;
	int64_t retry_ns;
	size_t last_n; /* pieces of the last wanted() */
	uint32_t last_piece, last_got, have_pieces, lost_pieces,
		promised_pieces;
	int64_t eta_ns;
	enum source_priority last_priority;
	uint64_t moved;
	struct net_node member;
	struct digest members_of; /* zeros: no image was named */
	char capability[64];
	/* May be set by a test: called first in got(). */
	void (*on_got)(struct node *n, struct net_link *l);
};

struct nodes {
	struct loop *loop;
	struct loop_timer timer;
	struct net_config cfg; /* what new nodes get */
	struct node node[NODES_MAX];
	int n;
	char *content; /* of all pieces */
	int fd;        /* the same */
	struct digest image;
	uint32_t n_pieces; /* as it is opened: NODES_PIECES */
};

void nodes_init(struct nodes *all);
void nodes_fini(struct nodes *all);
/* The next node, listening. */
struct node *nodes_add(struct nodes *all, const char *name);
/* "127.0.0.1:PORT" of a node; overwritten by the next call. */
const char *nodes_addr(struct node *n, char text[64]);
/* Link a to b, wait until it is up on both. */
void nodes_link(struct node *a, struct node *b);
/* Both take part in the image. */
void nodes_open(struct node *a, struct node *b);
/* Run the loop for a moment. */
void nodes_turn(struct nodes *all);
/* Ask for the pieces [first, first + n). */
void nodes_ask(struct node *n, uint32_t first, uint32_t count,
	       enum source_priority priority);

#define until(all, cond) \
	do { \
		int64_t until_ = clock_now_ns() + INT64_C(110000000000); \
\
		while (!(cond)) { \
			cr_assert(clock_now_ns() < until_, \
				  "waited in vain for %s", #cond); \
			nodes_turn(all); \
		} \
	} while (0)

#endif
