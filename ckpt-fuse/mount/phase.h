// SPDX-License-Identifier: Apache-2.0
/*
 * Detects when programs load from a mount and when they save: a phase begins with the first call of
 * its kind, and ends when none has come for a while.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_PHASE_H
#define BOOTSEER_CKPT_FUSE_MOUNT_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/mutex.h"

struct ckpt_phase {
	pthread_mutex_t lock;
	unsigned int n_calls; /* running calls */
	int64_t waiting_ns;   /* if n_calls > 0: since when */
	int64_t first_ns,
		/* first and last time of calls not reported yet; 0: none */
		last_ns;
	uint64_t waited_ns; /* time in which at least one call was running */
	bool is_told;       /* the begin of the phase was reported */
};

/* Changes of a phase since the last report. */
struct ckpt_phase_news {
	/* 0: the phase did not begin, or did not end */
	int64_t begin_ns, end_ns;
	uint64_t waited_ns; /* set when the phase ended */
};

void ckpt_phase_init(struct ckpt_phase *p);
void ckpt_phase_fini(struct ckpt_phase *p);

/* Note the begin and end of a call; times are of clock_now_ns(). */
void ckpt_phase_enter(struct ckpt_phase *p, int64_t now_ns);
void ckpt_phase_leave(struct ckpt_phase *p, int64_t now_ns);
/* The same for a call that begins or ends now; its length is added to `*ns`. */
int64_t ckpt_phase_begin_call(struct ckpt_phase *p) MUST_CHECK;
void ckpt_phase_end_call(struct ckpt_phase *p, atomic_uint_fast64_t *ns,
			 int64_t begun_ns);

/* Get the changes of a phase, which ends when no call was running for `quiet_ns`; 0: end it now,
 * even if calls are running. */
struct ckpt_phase_news ckpt_phase_look(struct ckpt_phase *p, int64_t now_ns,
				       int64_t quiet_ns);

#endif
