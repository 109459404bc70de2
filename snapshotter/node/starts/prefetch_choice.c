// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/prefetch_choice.h"

#include <string.h>

#define NOTHING PREFETCH_CHOICE_NOTHING
#define HOT PREFETCH_CHOICE_HOT
#define IDLE PREFETCH_CHOICE_HOT_THEN_IDLE
#define NOW PREFETCH_CHOICE_ALL_NOW

/* clang-format off */
static const enum prefetch_choice
choices[PREFETCH_EVENTS][PREFETCH_MODES] = {
	/*                              off      hot      all */
	[PREFETCH_ON_TRACE]         = { NOTHING, HOT,     HOT },
	[PREFETCH_ON_TRACE_START]   = { NOTHING, HOT,     IDLE },
	[PREFETCH_ON_START_KNOWN]   = { NOTHING, HOT,     IDLE },
	[PREFETCH_ON_START_UNKNOWN] = { NOTHING, NOTHING, IDLE },
	[PREFETCH_ON_ORDER_HOT]     = { HOT,     HOT,     HOT },
	[PREFETCH_ON_ORDER_ALL]     = { NOW,     NOW,     NOW },
	[PREFETCH_ON_UNPACK]        = { NOW,     NOW,     NOW },
	[PREFETCH_ON_DAMAGE]        = { NOW,     NOW,     NOW },
	[PREFETCH_ON_RESTART_HOT]   = { HOT,     HOT,     HOT },
	[PREFETCH_ON_RESTART_ALL]   = { IDLE,    IDLE,    IDLE },
};
/* clang-format on */

enum prefetch_mode prefetch_mode_of(const char *text)
{
	if (strcmp(text, "off") == 0)
		return PREFETCH_MODE_OFF;
	return strcmp(text, "all") == 0 ? PREFETCH_MODE_ALL : PREFETCH_MODE_HOT;
}

enum prefetch_choice prefetch_choose(enum prefetch_mode mode,
				     enum prefetch_event event)
{
	return choices[event][mode];
}
