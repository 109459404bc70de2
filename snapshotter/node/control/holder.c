// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/holder.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

static void holder_is_gone(struct holder_watch *h)
{
	atomic_store(&h->node->holder_gone, true);
	log_error("main", "the holder ended: nothing keeps the descriptors of "
			  "mounts, and nothing starts bootseerd again "
			  "cure=\"" HOLDER_CURE "\"");
	holder_watch_stop(h);
}

static void on_holder_end(struct loop_watch *w, unsigned int ready)
{
	(void)ready;
	holder_is_gone(container_of(w, struct holder_watch, watch));
}

int holder_watch_start(struct holder_watch *h, struct loop *l, struct node *n,
		       struct error *err)
{
	const char *pid = getenv(HOLDER_ENV);
	int fd, rc;

	*h = (struct holder_watch){ .node = n, .pidfd = -1 };
	if (!n->held)
		return 0;
	fd = (int)syscall(SYS_pidfd_open, getppid(), 0);
	/* If the holder ended before the open, the descriptor is that of our new parent process. */
	if (fd < 0 || atoi(pid) != getppid()) {
		if (fd >= 0)
			close(fd);
		holder_is_gone(h);
		return 0;
	}
	h->watch.fn = on_holder_end;
	rc = loop_watch_start(l, &h->watch, fd, LOOP_READ, err);
	if (rc < 0)
		close(fd);
	else
		h->pidfd = fd;
	return rc;
}

void holder_watch_stop(struct holder_watch *h)
{
	if (!h->node || h->pidfd < 0)
		return;
	loop_watch_stop(&h->watch);
	close(h->pidfd);
	h->pidfd = -1;
}
