// SPDX-License-Identifier: Apache-2.0
/*
 * How much of the network a transfer may take, as whoever began it thinks now.
 * It changes while the transfer is under way, so it is asked again and again.
 */
#ifndef BOOTSEER_COMMON_PACE_H
#define BOOTSEER_COMMON_PACE_H

#include <stdbool.h>

enum pace_level {
	PACE_GO,   /* as fast as the link is, without a queue of its bytes in
	            * the network behind which others would wait */
	PACE_WAIT, /* bytes of something more urgent are coming: nothing, until
	            * pace.wait() returns */
	PACE_STOP, /* not wanted any more: end soon, with -ECANCELED */
};

/* Called by the thread of the transfer. */
struct pace {
	/* Often; must not block. */
	enum pace_level (*level)(struct pace *p);
	/* Bytes of it are coming.  NULL: nobody wants to know. */
	void (*moves)(struct pace *p);
	/* Give way; at most a second, then a little may be taken.  NULL where level() never
	 * is PACE_WAIT. */
	void (*wait)(struct pace *p);
	/* Requests of this pace have a waiting reader from their beginning. */
	bool is_urgent;
};

/* NULL is PACE_GO. */
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
