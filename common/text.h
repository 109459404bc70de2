// SPDX-License-Identifier: Apache-2.0
/* What a text of a stranger may be. */
#ifndef BOOTSEER_COMMON_TEXT_H
#define BOOTSEER_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* At most `max` bytes of printable ASCII without a space; "" is one, too. */
static inline bool text_is_word(const char *s, size_t max)
{
	for (; *s; s++, max--)
		if (max == 0 || *s <= ' ' || *s > '~')
			return false;
	return true;
}

#endif
