// SPDX-License-Identifier: Apache-2.0
/* Tells whether a mount is still at its path although the kernel has ended it. */
#include <errno.h>
#include <sys/sysmacros.h>

#include "common/mount.h"
#include "fuse/session_priv.h"

/* limit of the wait for an answer; an aborted mount answers at once */
#define ANSWER_MS 5000

/* Another mount at the path may have got the device number of a session that was unmounted;
 * so a request is sent, which a living mount answers or lets wait. */
bool session_is_aborted(const struct session *s)
{
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	bool is_there;

	if (mount_find(s->path, &line, &err) != 1)
		return false;
	is_there = s->dev == makedev(line.major, line.minor);
	mount_line_fini(&line);
	return is_there && mount_ask(s->path, ANSWER_MS) == ENOTCONN;
}
