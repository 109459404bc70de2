// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/phase.h"

#include "common/clock.h"

void ckpt_phase_init(struct ckpt_phase *p)
{
	*p = (struct ckpt_phase){ .n_calls = 0 };
	(void)pthread_mutex_init(&p->lock, NULL);
}

void ckpt_phase_fini(struct ckpt_phase *p)
{
	(void)pthread_mutex_destroy(&p->lock);
}

void ckpt_phase_enter(struct ckpt_phase *p, int64_t now_ns)
{
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	if (!p->n_calls++)
		p->waiting_ns = now_ns;
	if (!p->first_ns)
		p->first_ns = now_ns;
}

/* Add the time since the last update. `now_ns` may be earlier, because threads read the clock
 * before they take the lock. */
static void add_wait(struct ckpt_phase *p, int64_t now_ns)
{
	if (now_ns > p->waiting_ns)
		p->waited_ns += (uint64_t)(now_ns - p->waiting_ns);
	if (now_ns > p->last_ns)
		p->last_ns = now_ns;
}

void ckpt_phase_leave(struct ckpt_phase *p, int64_t now_ns)
{
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	if (!--p->n_calls)
		add_wait(p, now_ns);
}

int64_t ckpt_phase_begin_call(struct ckpt_phase *p)
{
	int64_t now_ns = clock_now_ns();

	ckpt_phase_enter(p, now_ns);
	return now_ns;
}

void ckpt_phase_end_call(struct ckpt_phase *p, atomic_uint_fast64_t *ns,
			 int64_t begun_ns)
{
	int64_t now_ns = clock_now_ns();

	atomic_fetch_add(ns, (uint64_t)(now_ns - begun_ns));
	ckpt_phase_leave(p, now_ns);
}

struct ckpt_phase_news ckpt_phase_look(struct ckpt_phase *p, int64_t now_ns,
				       int64_t quiet_ns)
{
	struct ckpt_phase_news news = { .begin_ns = 0 };
	AUTO_UNLOCK held = mutex_hold(&p->lock);

	if (p->first_ns && !p->is_told) {
		news.begin_ns = p->first_ns;
		p->is_told = true;
	}
	if (!quiet_ns && p->n_calls) {
		add_wait(p, now_ns);
		p->waiting_ns = now_ns;
	}
	if (p->is_told && p->last_ns &&
	    (!quiet_ns || (!p->n_calls && now_ns - p->last_ns >= quiet_ns))) {
		news.end_ns = p->last_ns;
		news.waited_ns = p->waited_ns;
		p->first_ns = 0;
		p->last_ns = 0;
		p->waited_ns = 0;
		p->is_told = false;
	}
	return news;
}
