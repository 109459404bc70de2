// SPDX-License-Identifier: Apache-2.0
/* The waits of a start, as stages and their facts (docs/profiler.md). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/images/outages.h"
#include "snapshotter/node/starts/starts_priv.h"

/* The image's name "HOST/REPOSITORY:TAG", or with the manifest's digest; the caller frees it;
 * or NULL. */
char *container_start_image_name(const struct container_start *s)
{
	struct image *i = s->image;
	AUTO_FREE char *label = image_label(i);
	AUTO_FREE char *repo = NULL;
	char digest[DIGEST_STR_MAX], *name;
	struct digest manifest = image_manifest(i);

	if (label && strchr(label, '/'))
		return steal_ptr(&label);
	repo = image_repo(i);
	digest_format(&manifest, digest);
	return repo && asprintf(&name, "%s@%s", repo, digest) >= 0 ? name
								   : NULL;
}

void container_start_back_offs(const struct container_start *s,
			       struct back_off_sums *ret)
{
	char host[BACK_OFFS_HOST_ROOM] = "";

	images_lock(s->image->all);
	if (s->image->state.host)
		(void)snprintf(host, sizeof(host), "%s", s->image->state.host);
	images_unlock(s->image->all);
	back_offs_get(outages_back_offs(origins_outages(s->all->of.origins)),
		      host, clock_now_ns(), ret);
}

void container_start_say_begin(struct container_start *s,
			       const struct start_owner *owner)
{
	AUTO_FREE char *name = container_start_image_name(s);
	const struct start_stages stages = {
		.owner = owner,
		.image = name,
		.prepare = { .begin_ns = s->asked.begin_ns,
			     .end_ns = s->asked.end_ns },
		.resolve = { .begin_ns = s->asked.resolved_ns
						 ? s->asked.begin_ns
						 : 0,
			     .end_ns = s->asked.resolved_ns },
		.start = { .begin_ns = s->begun_ns },
	};

	s->is_said = true;
	start_events_begin(s->all->events, &stages);
}

static uint64_t counter_increase(uint64_t after, uint64_t before)
{
	return after > before ? after - before : 0;
}

static uint64_t time_increase_ms(int64_t after_ns, int64_t before_ns)
{
	return after_ns > before_ns
		       ? (uint64_t)((after_ns - before_ns) / NS_PER_MS)
		       : 0;
}

/* Add the waits of all requests to the image's registry to a stage: the start waited with them. */
static void add_back_offs(const struct container_start *s, uint64_t *facts)
{
	struct back_off_sums now;

	container_start_back_offs(s, &now);
	facts[STAGE_FACT_RETRIES] =
		counter_increase(now.n, s->back_offs_before.n);
	facts[STAGE_FACT_RETRY_MS] =
		time_increase_ms(now.waited_ns, s->back_offs_before.waited_ns);
	facts[STAGE_FACT_THROTTLED_MS] =
		time_increase_ms(now.throttled_ns,
				 s->back_offs_before.throttled_ns);
}

static int64_t clamp_time(int64_t at, int64_t from, int64_t to)
{
	return at < from ? from : at > to ? to : at;
}

/* The stage in which the hot set came, since the image was prepared or the
 * start began; it ends with the start at the latest. */
static void fill_hot_stage(const struct container_start *s,
			   const struct prefetch_stats *p,
			   struct start_stages *ret)
{
	int64_t from = s->asked.end_ns ? s->asked.end_ns : s->begun_ns;
	uint64_t before = s->asked.end_ns
				  ? s->asked.hot_fetched_bytes
				  : s->prefetch_before.hot_fetched_bytes;
	uint64_t fetched = counter_increase(p->hot_fetched_bytes, before);

	if (!p->hot_blocks)
		return;
	ret->hot.begin_ns = from;
	ret->hot.end_ns = clamp_time(p->hot_at_ns ? p->hot_at_ns : s->end_ns,
				     from, s->end_ns);
	/* Hot bytes that were on the node when the start began, without those that were fetched
	 * since `before`. */
	ret->hot.facts[STAGE_FACT_CACHE_BYTES] =
		counter_increase(s->prefetch_before.hot_have_bytes,
				 counter_increase(s->prefetch_before
							  .hot_fetched_bytes,
						  before));
	add_back_offs(s, ret->hot.facts);
	/* With peers it is not known for which stage a block was fetched. */
	if (!s->all->of.peers)
		ret->hot.facts[STAGE_FACT_ORIGIN_BYTES] = fetched;
}

static void fill_start_stage(const struct container_start *s, size_t n_missed,
			     struct start_stages *ret)
{
	const struct image_swarm_bytes asked = { s->asked.peer_bytes,
						 s->asked.origin_bytes };
	const struct image_swarm_bytes *before =
		s->asked.end_ns ? &asked : &s->swarm_before;
	uint64_t *facts = ret->start.facts;
	struct image_swarm_bytes now;

	ret->start.begin_ns = s->begun_ns;
	ret->start.end_ns = s->end == START_READY ? s->end_ns : 0;
	facts[STAGE_FACT_MISSES] = n_missed;
	facts[STAGE_FACT_MISS_MS] =
		time_increase_ms(s->device_after.waited_ns,
				 s->device_before.waited_ns);
	add_back_offs(s, facts);
	facts[STAGE_FACT_ORIGIN_BYTES] =
		counter_increase(s->device_after.fetched_bytes,
				 s->device_before.fetched_bytes);
	if (!s->all->of.peers)
		return;
	image_swarm_get_bytes(s->all->of.peers, s->image, &now);
	facts[STAGE_FACT_PEER_BYTES] =
		counter_increase(now.peers, before->peers);
	facts[STAGE_FACT_ORIGIN_BYTES] =
		counter_increase(now.origin, before->origin);
}

/* Read the owner of a start that ended before the watching thread had read it. */
void container_start_read_owner(struct container_start *s)
{
	struct bundle b = { .key = NULL };

	if (s->bundle && bundle_read(s->bundle, &b, NULL) == 0)
		s->owner = b.owner;
	bundle_fini(&b);
}

void container_start_say_end(struct container_start *s,
			     const struct prefetch_stats *prefetch,
			     size_t n_missed)
{
	struct start_stages stages = { .owner = &s->owner };
	AUTO_FREE char *name = NULL;

	if (!s->all->events)
		return;
	if (!s->is_said) {
		container_start_read_owner(s);
		container_start_say_begin(s, &s->owner);
	}
	stages.image = name = container_start_image_name(s);
	fill_hot_stage(s, prefetch, &stages);
	fill_start_stage(s, n_missed, &stages);
	start_events_end(s->all->events, &stages);
}
