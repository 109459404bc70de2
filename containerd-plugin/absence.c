// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/absence.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"

/* When no call has found bootseerd absent for so long, the absence is forgotten: bootseerd
 * may have returned and gone again. */
#define FORGET_NS (60 * NS_PER_S)

static uint32_t get_patience_left_ms(struct control_patience *p,
				     const struct error *why)
{
	struct absence *a = container_of(p, struct absence, patience);
	int64_t now = clock_now_ns(), left;
	bool is_new;

	(void)pthread_mutex_lock(&a->lock);
	is_new = !a->since_ns || now - a->last_ns > FORGET_NS;
	if (is_new)
		a->since_ns = now;
	a->last_ns = now;
	left = a->since_ns + a->timeout_ns - now;
	(void)pthread_mutex_unlock(&a->lock);
	if (is_new)
		log_warning("node",
			    "waiting for bootseerd for_ms=%" PRId64
			    " reason=\"%s\"",
			    a->timeout_ns / NS_PER_MS, why->msg);
	return left > 0 ? (uint32_t)((left + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

static void on_node_answered(struct control_patience *p)
{
	struct absence *a = container_of(p, struct absence, patience);
	int64_t since;

	(void)pthread_mutex_lock(&a->lock);
	since = a->since_ns;
	a->since_ns = 0;
	(void)pthread_mutex_unlock(&a->lock);
	if (since)
		log_info("node", "bootseerd is there again after_ms=%" PRId64,
			 (clock_now_ns() - since) / NS_PER_MS);
}

void absence_init(struct absence *a, int64_t timeout_ns)
{
	*a = (struct absence){
		.patience = { .left_ms = get_patience_left_ms,
			      .is_there = on_node_answered },
		.timeout_ns = timeout_ns,
	};
	(void)pthread_mutex_init(&a->lock, NULL);
}

void absence_fini(struct absence *a)
{
	(void)pthread_mutex_destroy(&a->lock);
}
