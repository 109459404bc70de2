// SPDX-License-Identifier: Apache-2.0
#include "net/shortage.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define TOLD_NS (60 * NS_PER_S) /* between warnings */

bool shortage_is(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOBUFS ||
	       code == ENOMEM;
}

void shortage_note(struct accept_shortage *s, const char *name, int code)
{
	int64_t now = clock_now_ns();

	s->total++;
	if (s->told_ns && now - s->told_ns < TOLD_NS)
		return;
	s->told_ns = now;
	log_warning(name, "connections wait: cannot accept reason=\"%s\"%s",
		    strerror(code),
		    code == EMFILE ? " cure=\"a higher LimitNOFILE=, or ulimit "
				     "-n, if it stays so\""
				   : "");
}
