// SPDX-License-Identifier: Apache-2.0
/*
 * When programs load from a mount, and when they save: a phase begins with the first
 * call of its kind, and is over when none has come for a while.
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
	unsigned int n_calls; /* that are under way */
	int64_t waiting_ns;   /* since then, if there are any */
	int64_t first_ns,
		last_ns;    /* of calls that nobody was told of; 0: none */
	uint64_t waited_ns; /* in which some call was under way */
	bool is_told;       /* that it began */
};

/* News of a phase, to be told. */
struct ckpt_phase_news {
	int64_t begin_ns, end_ns; /* 0: it did not begin, or end, since */
	uint64_t waited_ns;       /* with its end */
};

void ckpt_phase_init(struct ckpt_phase *p);
void ckpt_phase_fini(struct ckpt_phase *p);

/* A call begins and ends; times are of clock_now_ns(). */
void ckpt_phase_enter(struct ckpt_phase *p, int64_t now_ns);
void ckpt_phase_leave(struct ckpt_phase *p, int64_t now_ns);
/* The same of one that begins, or ends, now; its time is added to `*ns`. */
int64_t ckpt_phase_begin_call(struct ckpt_phase *p) MUST_CHECK;
void ckpt_phase_end_call(struct ckpt_phase *p, atomic_uint_fast64_t *ns,
			 int64_t begun_ns);

/* Look at the phase, which ends when no call was under way for `quiet_ns`; 0: now,
 * whatever is under way. */
struct ckpt_phase_news ckpt_phase_look(struct ckpt_phase *p, int64_t now_ns,
				       int64_t quiet_ns);

#endif
