// SPDX-License-Identifier: Apache-2.0
/*
 * Decides what is prefetched of an image, and when; nothing else does.  Pure.
 *
 *                         --prefetch   off       hot       all
 *   PREFETCH_ON_TRACE                  nothing   hot       hot
 *   PREFETCH_ON_TRACE_START            nothing   hot       hot, rest when idle
 *   PREFETCH_ON_START_KNOWN            nothing   hot       hot, rest when idle
 *   PREFETCH_ON_START_UNKNOWN          nothing   nothing   hot, rest when idle
 *   PREFETCH_ON_ORDER_HOT              hot       hot       hot
 *   PREFETCH_ON_ORDER_ALL              hot and rest now
 *   PREFETCH_ON_UNPACK                 hot and rest now
 *   PREFETCH_ON_DAMAGE                 hot and rest now
 *   PREFETCH_ON_RESTART_HOT            hot       hot       hot
 *   PREFETCH_ON_RESTART_ALL            hot, rest when idle
 *
 * "hot" is the hot set that the image has had, unless the event brings one; with
 * neither, and nothing but that wanted, there is nothing to do.
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
	PREFETCH_ON_TRACE,         /* one was found before a container came */
	PREFETCH_ON_TRACE_START,   /* one was found, and a container waits */
	PREFETCH_ON_START_KNOWN,   /* a container comes, with a trace */
	PREFETCH_ON_START_UNKNOWN, /* and without one */
	PREFETCH_ON_ORDER_HOT,     /* image.prefetch, or an order to preheat */
	PREFETCH_ON_ORDER_ALL,
	PREFETCH_ON_UNPACK, /* all of it is read soon, without a mount: only for
	                          * as long as somebody has the image */
	PREFETCH_ON_DAMAGE, /* a block under a complete mount is lost */
	PREFETCH_ON_RESTART_HOT, /* as state.json says, it was not done */
	PREFETCH_ON_RESTART_ALL,
	PREFETCH_EVENTS
};

enum prefetch_choice {
	PREFETCH_CHOICE_NOTHING,
	PREFETCH_CHOICE_HOT,
	PREFETCH_CHOICE_HOT_THEN_IDLE, /* the rest when nobody reads or starts */
	PREFETCH_CHOICE_ALL_NOW,       /* the rest right behind the hot set */
};

/* "off", "hot" or "all", as the option table lets through. */
enum prefetch_mode prefetch_mode_of(const char *text);

enum prefetch_choice prefetch_choose(enum prefetch_mode mode,
				     enum prefetch_event event);

#endif
