// SPDX-License-Identifier: Apache-2.0
/*
 * How much of the network a transfer may take now.  The answer changes while the transfer runs, so
 * the transfer asks again and again.
 */
#ifndef BOOTSEER_COMMON_PACE_H
#define BOOTSEER_COMMON_PACE_H

#include <stdbool.h>

enum pace_level {
	PACE_GO,   /* as fast as the link is, but without filling the
	            * network's queues, in which other traffic would wait */
	PACE_WAIT, /* more urgent bytes are on their way: send nothing until
	            * pace.wait() returns */
	PACE_STOP, /* the transfer is not wanted any more: end soon, with
	            * -ECANCELED */
};

/* All functions are called by the transfer's thread. */
struct pace {
	/* Called often, so it must not block. */
	enum pace_level (*level)(struct pace *p);
	/* Called when bytes of the transfer arrive.  May be NULL. */
	void (*moves)(struct pace *p);
	/* Block while more urgent bytes come, a second at most; then a little may be sent.  May be
	 * NULL if level() never is PACE_WAIT. */
	void (*wait)(struct pace *p);
	/* From its first byte on, a reader waits for this transfer. */
	bool is_urgent;
};

/* Without a pace (NULL) the transfer goes at full speed. */
static inline enum pace_level pace_level(struct pace *p)
{
	return p ? p->level(p) : PACE_GO;
}

static inline void pace_moves(struct pace *p)
{
	if (p && p->moves)
		p->moves(p);
}

#endif
