// SPDX-License-Identifier: Apache-2.0
/*
 * Traces that wait for a store that cannot be reached: a folder of encoded traces, one file
 * each, the oldest sent first.  If there are too many, the oldest is dropped.
 */
#ifndef BOOTSEER_NODE_SPOOL_H
#define BOOTSEER_NODE_SPOOL_H

#include "recorder/recorder.h"

#define SPOOL_FILES_MAX 64

struct spool;

/* The folder is created if it is missing. */
int spool_open(const char *dir, struct spool **ret,
	       struct error *err) MUST_CHECK;
void spool_close(struct spool *s); /* NULL is allowed */

/* Keep a trace, durably.  `note` is a word of letters that is given back when it is sent. */
int spool_add(struct spool *s, const struct trace *t, const char *note,
	      struct error *err) MUST_CHECK;

/* How many traces wait.  Any thread, as all functions here. */
size_t spool_waiting(struct spool *s);

/* Where `send` sends the traces. */
enum spool_target {
	SPOOL_TO_ONE,      /* all to the same store */
	SPOOL_TO_REGISTRY, /* each to the registry of its repository */
};

/*
 * Call `send` for each trace, oldest first.  Traces that were sent, or that no store will ever
 * take (-EINVAL, -EFBIG, -EBADMSG, -ENOTSUP), are removed.  Refused ones (-EACCES, -EPERM,
 * -ENOENT) stay, and the others go on, as they may be for other repositories.  Any other
 * failure may go away with time, so all traces for the same store stay: SPOOL_TO_ONE ends then,
 * SPOOL_TO_REGISTRY goes on with other hosts; -ECANCELED ends both.  The first failure is
 * returned.  One thread at a time.
 */
int spool_drain(struct spool *s, enum spool_target target,
		int (*send)(void *arg, const struct trace *t, const char *note,
			    struct error *err),
		void *arg, struct error *err) MUST_CHECK;

#endif
