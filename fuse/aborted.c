// SPDX-License-Identifier: Apache-2.0
/* Is a mount still at its path that the kernel has ended? */
#include <errno.h>
#include <sys/sysmacros.h>

#include "common/mount.h"
#include "fuse/session_priv.h"

/* An aborted mount says so at once. */
#define ANSWER_MS 5000

/* A session that was unmounted may have given its device number to the next mount there,
 * which answers or does not. */
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
