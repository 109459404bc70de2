// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/beginning.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"
#include "common/thread.h"

struct beginning {
	int signals, over; /* an eventfd */
	void (*before_end)(void *arg);
	void *arg;
	struct thread thread;
};

static void *beginning_main(void *arg)
{
	struct beginning *b = arg;
	struct pollfd p[] = { { .fd = b->over, .events = POLLIN },
			      { .fd = b->signals, .events = POLLIN } };
	struct signalfd_siginfo si;

	for (;;) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		if (p[0].revents)
			return NULL;
		if (read(b->signals, &si, sizeof(si)) != (ssize_t)sizeof(si) ||
		    si.ssi_signo == SIGHUP)
			continue;
		log_info("ckpt", "ended before it was mounted signal=%u",
			 si.ssi_signo);
		b->before_end(b->arg);
		_exit(EXIT_SUCCESS);
	}
}

int beginning_start(int signals, void (*before_end)(void *arg), void *arg,
		    struct beginning **ret, struct error *err)
{
	struct beginning *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return error_nomem(err);
	*b = (struct beginning){ .signals = signals,
				 .before_end = before_end,
				 .arg = arg };
	b->over = eventfd(0, EFD_CLOEXEC);
	rc = b->over < 0 ? error_set(err, errno, "eventfd: %s", strerror(errno))
			 : thread_start(&b->thread, beginning_main, b, err);
	if (rc == 0) {
		*ret = b;
		return 0;
	}
	if (b->over >= 0)
		(void)close(b->over);
	free(b);
	return rc;
}

void beginning_end(struct beginning *b)
{
	if (!b)
		return;
	(void)!eventfd_write(b->over, 1);
	thread_join(&b->thread);
	(void)close(b->over);
	free(b);
}
