// SPDX-License-Identifier: Apache-2.0
/*
 * The only place that decides what is prefetched of an image, and when.  No I/O.
 *
 *                                                 --prefetch   off       hot       all
 *     PREFETCH_ON_TRACE                  nothing   hot       hot
 *     PREFETCH_ON_TRACE_START            nothing   hot       hot, rest when idle
 *     PREFETCH_ON_START_KNOWN            nothing   hot       hot, rest when idle
 *     PREFETCH_ON_START_UNKNOWN          nothing   nothing   hot, rest when idle
 *     PREFETCH_ON_ORDER_HOT              hot       hot       hot
 *     PREFETCH_ON_ORDER_ALL              hot and rest now
 *     PREFETCH_ON_UNPACK                 hot and rest now
 *     PREFETCH_ON_DAMAGE                 hot and rest now
 *     PREFETCH_ON_RESTART_HOT            hot       hot       hot
 *     PREFETCH_ON_RESTART_ALL            hot, rest when idle
 *
 * "hot" is the event's hot set, or else the image's last one; if there is neither, nothing hot
 * is fetched.
 */
#ifndef BOOTSEER_NODE_PREFETCH_CHOICE_H
#define BOOTSEER_NODE_PREFETCH_CHOICE_H

/* --prefetch */
enum prefetch_mode {
	PREFETCH_MODE_OFF,
	PREFETCH_MODE_HOT,
	PREFETCH_MODE_ALL,
	PREFETCH_MODES
};

/* Events after which a prefetch is decided about. */
enum prefetch_event {
	/* a trace was found before a container came */
	PREFETCH_ON_TRACE,
	/* a trace was found, and a container waits */
	PREFETCH_ON_TRACE_START,
	PREFETCH_ON_START_KNOWN,   /* a container starts, with a trace */
	PREFETCH_ON_START_UNKNOWN, /* a container starts, without a trace */
	PREFETCH_ON_ORDER_HOT,     /* image.prefetch, or an order to preheat */
	PREFETCH_ON_ORDER_ALL,
	/* a client unpacks all of it, without a mount; ends when no user has the image */
	PREFETCH_ON_UNPACK,
	PREFETCH_ON_DAMAGE, /* a block under a complete mount is lost */
	/* state.json says that the prefetch was not done */
	PREFETCH_ON_RESTART_HOT,
	PREFETCH_ON_RESTART_ALL,
	PREFETCH_EVENTS
};

enum prefetch_choice {
	PREFETCH_CHOICE_NOTHING,
	PREFETCH_CHOICE_HOT,
	/* the rest of the image while no reader and no start is there */
	PREFETCH_CHOICE_HOT_THEN_IDLE,
	PREFETCH_CHOICE_ALL_NOW, /* the rest directly after the hot set */
};

/* The mode of the option's text: "off", "hot" or "all". */
enum prefetch_mode prefetch_mode_of(const char *text);

enum prefetch_choice prefetch_choose(enum prefetch_mode mode,
				     enum prefetch_event event);

#endif
