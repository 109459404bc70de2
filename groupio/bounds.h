// SPDX-License-Identifier: Apache-2.0
/* Limits on what a member may cost this node; all functions are called with group.lock. */
#ifndef BOOTSEER_GROUPIO_BOUNDS_H
#define BOOTSEER_GROUPIO_BOUNDS_H

#include "groupio/group_priv.h"

/* A unit being sent to a member; until it has arrived, its memory is not free. group.lock */
struct group_send {
	TAILQ_ENTRY(group_send) of_peer;
	struct group_unit *unit;
	struct group_peer *peer;
	int64_t since_ns;
};

/* Note that the member sent `n` bytes (bounds_gained), or all of a piece (bounds_came) that
 * it was asked for. */
void bounds_gained(struct group_peer *p, uint32_t n);
void bounds_came(struct group_peer *p);
/* May the member want another unit (bounds_may_want)? Is there memory to send one
 * (bounds_may_send)? */
bool bounds_may_want(const struct group *g, const struct group_peer *p);
bool bounds_may_send(const struct group *g);
struct group_send *send_begin(struct group_unit *u, struct group_peer *p);
/* the caller releases one of the unit's n_users */
struct group_unit *send_end(struct group_send *s);
void bounds_fetched(struct group *g, int64_t took_ns);
/* Find the members that delay others. */
void bounds_look(struct group *g, int64_t now_ns);
void bounds_shun(struct group *g, const struct group_peer *p);
int64_t bounds_shunned_ns(struct group *g, const char *name);

#endif
