// SPDX-License-Identifier: Apache-2.0
/* Bounds on what a member may hold of another; all with group.lock. */
#ifndef BOOTSEER_GROUPIO_BOUNDS_H
#define BOOTSEER_GROUPIO_BOUNDS_H

#include "groupio/group_priv.h"

/* A unit on its way to a member; its memory is not free before.  group.lock */
struct group_send {
	TAILQ_ENTRY(group_send) of_peer;
	struct group_unit *unit;
	struct group_peer *peer;
	int64_t since_ns;
};

/* The member has sent `n` bytes of what it was asked for, or all of a piece. */
void bounds_gained(struct group_peer *p, uint32_t n);
void bounds_came(struct group_peer *p);
/* May the member have another unit, is there memory to send one? */
bool bounds_may_want(const struct group *g, const struct group_peer *p);
bool bounds_may_send(const struct group *g);
struct group_send *send_begin(struct group_unit *u, struct group_peer *p);
struct group_unit *send_end(struct group_send *s); /* one of its n_users */
void bounds_fetched(struct group *g, int64_t took_ns);
/* Find the members that hold others up. */
void bounds_look(struct group *g, int64_t now_ns);
void bounds_shun(struct group *g, const struct group_peer *p);
int64_t bounds_shunned_ns(struct group *g, const char *name);

#endif
