// SPDX-License-Identifier: Apache-2.0
/*
 * Checks whether the trackers accept this node's calls: at the start, so that a wrong token or URL
 * is reported before the first image; then repeatedly for trackers that do not.
 */
#include <stdatomic.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/tracker/tracker_client.h"

#define AGAIN_NS (30 * NS_PER_S)

struct probe {
	struct work work;
	struct pace pace;
	struct p2p *p;
	/* Stale: check again when this check ends. */
	bool is_under_way, is_stale;
	atomic_bool stop;
};

static enum pace_level probe_level(struct pace *pace)
{
	const struct probe *b = container_of(pace, struct probe, pace);

	return atomic_load(&b->stop) ? PACE_STOP : PACE_GO;
}

static void run_probe(struct work *w)
{
	struct probe *b = container_of(w, struct probe, work);
	struct tracker_client *c = b->p->trackers;
	struct tracker_place all[TRACKER_URLS_MAX];
	size_t n = tracker_client_places(c, all);

	/* on_tracker() reports each result. */
	for (size_t k = 0; k < n && !atomic_load(&b->stop); k++)
		if (all[k].state != TRACKER_GOOD)
			(void)!tracker_client_probe(c, k, b->p->self.name,
						    &b->pace, NULL);
}

static void end_probe(struct work *w)
{
	struct probe *b = container_of(w, struct probe, work);
	struct p2p *p = b->p;
	int64_t chance = (int64_t)(engine_random(p) % (AGAIN_NS / 2));

	b->is_under_way = false;
	if (atomic_load(&b->stop))
		return;
	engine_arm(p, &p->probe_timer,
		   b->is_stale ? 0 : AGAIN_NS / 4 * 3 + chance);
	b->is_stale = false;
}

static void on_probe(struct loop_timer *t)
{
	struct p2p *p = container_of(t, struct p2p, probe_timer);
	struct probe *b = p->probe;

	b->is_stale = b->is_under_way;
	if (b->is_under_way)
		return;
	b->is_under_way = true;
	/* Cannot fail: the queue has no limit. */
	(void)!pool_submit(p->calls, &b->work);
}

int probe_start(struct p2p *p, struct error *err)
{
	struct probe *b;

	if (!p->trackers)
		return 0;
	p->probe = b = calloc(1, sizeof(*b));
	if (!b)
		return error_nomem(err);
	b->p = p;
	b->work.run = run_probe;
	b->work.done = end_probe;
	b->pace = (struct pace){ .level = probe_level, .is_urgent = true };
	p->probe_timer.fn = on_probe;
	return loop_timer_start(p->loop, &p->probe_timer, 0, err);
}

void probe_reload(struct p2p *p)
{
	if (p->probe)
		engine_arm(p, &p->probe_timer, 0);
}

void probe_stop(struct p2p *p)
{
	if (!p->probe)
		return;
	atomic_store(&p->probe->stop, true);
	if (p->probe_timer.fn)
		loop_timer_stop(&p->probe_timer);
}

void probe_free(struct p2p *p)
{
	free(p->probe);
}

void p2p_probe_trackers(struct p2p *p,
			void (*each)(void *arg, const char *url,
				     const char *why),
			void *arg)
{
	struct tracker_place all[TRACKER_URLS_MAX];
	size_t n = p->trackers ? tracker_client_places(p->trackers, all) : 0;

	for (size_t k = 0; k < n; k++) {
		struct error err = ERROR_INIT;
		int rc = tracker_client_probe(p->trackers, k, p->self.name,
					      NULL, &err);

		each(arg, all[k].url, rc < 0 ? err.msg : "");
	}
}
