// SPDX-License-Identifier: Apache-2.0
/* A node, a friend of it, and a stranger who says whatever a test likes. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_STRANGER_H
#define BOOTSEER_TESTS_UNIT_P2P_STRANGER_H

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/bytes.h"
#include "p2p/net/net_priv.h"
#include "tests/unit/p2p/nodes.h"

#define MS INT64_C(1000000)

/* The node under test, a friend of it, and the stranger's sockets. */
struct scene {
	struct nodes all;
	struct node *a, *friend;
	int control, bulk;
	struct buf in; /* from control */
	uint32_t wants;
	uint32_t last_req; /* of the last WANT that came */
	char goodbye[WIRE_TEXT_MAX + 1];
	bool mute; /* answers no ping */
};

/* A friend is linked; the stranger has said nothing. */
void begin(struct scene *s, int64_t handshake_ns, int64_t idle_ns);
/* The same with `idle_ns`, but time stands still until expect_down() wants
 * ETIMEDOUT: nothing before is too slow for it. */
void begin_held(struct scene *s, int64_t idle_ns);
/* Nothing but what comes wakes the node: its tick is far away. */
void begin_without_tick(struct scene *s);
/* The friend noticed nothing. */
void end(struct scene *s);

/* A socket that the node accepts. */
int call(struct scene *s);
/* As much as the node takes; it may have closed already. */
void say(int fd, const void *data, size_t n);
/* Frees what is in it. */
void say_buf(int fd, struct buf *b);
void say_head(int fd, uint8_t type, uint16_t flags, uint32_t len);
/* That `n` bytes of a piece follow; as many as `really` do. */
void say_data(int fd, uint32_t req, const struct wire_data *d, uint32_t n,
	      uint32_t really);
void say_zeros(int fd, size_t n);
void say_hello(int fd, const char *name);
/* Shake hands. */
void greet(struct scene *s);
/* ... and both take part in the image. */
void enter(struct scene *s);

/* Read what came on control, answer pings, note the rest; the type looked for
 * ends it, with its body in `body`. */
bool hear(struct scene *s, uint8_t wanted, uint8_t body[64]);
/* The node has closed him. */
bool gone(struct scene *s);
/* The stranger is closed with this, and told so. */
void expect_down(struct scene *s, int code, const char *text);
struct net_stats stats(struct scene *s);

#endif
