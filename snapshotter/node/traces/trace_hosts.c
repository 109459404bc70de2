// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/traces/trace_hosts.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* A host is known (trusted to answer) when it has answered for this long without a search that
 * timed out.  A malicious registry would have to behave that long under each of its names. */
#define PROOF_NS (600 * NS_PER_S)
#define DOWN_NS (60 * NS_PER_S)

static bool is_known(const struct trace_host *h, int64_t now)
{
	return h && h->answered_ns && now - h->answered_ns >= PROOF_NS;
}

static struct trace_host *find_host(struct trace_hosts *h, const char *name)
{
	for (size_t k = 0; k < TRACE_HOSTS_MAX; k++)
		if (strcmp(h->v[k].name, name) == 0)
			return &h->v[k];
	return NULL;
}

/* Is `a` to be replaced before `b`? */
static bool is_host_replaced_before(const struct trace_host *a,
				    const struct trace_host *b, int64_t now)
{
	if (!b || is_known(a, now) != is_known(b, now))
		return !b || !is_known(a, now);
	return a->asked_ns < b->asked_ns;
}

/* Find an entry for a host that is not in the table.  NULL: all entries have searches under
 * way, or are known hosts while this one is not. */
static struct trace_host *find_place_for_host(struct trace_hosts *h,
					      const char *name, int64_t now)
{
	struct trace_host *last = NULL;

	for (size_t k = 0; k < TRACE_HOSTS_MAX; k++) {
		struct trace_host *v = &h->v[k];

		if (!v->n_searches && is_host_replaced_before(v, last, now))
			last = v;
	}
	if (!last || is_known(last, now) || strlen(name) >= sizeof(last->name))
		return NULL;
	*last = (struct trace_host){ .asked_ns = now };
	(void)strcpy(last->name, name);
	return last;
}

bool trace_hosts_know(struct trace_hosts *h, const char *host, int64_t now)
{
	return is_known(find_host(h, host), now);
}

bool trace_hosts_begin(struct trace_hosts *h, const char *host, int64_t now,
		       struct trace_host **ret)
{
	struct trace_host *v = find_host(h, host);

	if (v && now < v->down_until_ns)
		return false;
	if (!v)
		v = find_place_for_host(h, host, now);
	*ret = v;
	if (v) {
		v->n_searches++;
		v->asked_ns = now;
	}
	return true;
}

void trace_hosts_end(struct trace_host *v, bool late, int64_t now)
{
	if (!v)
		return;
	v->n_searches--;
	if (late) {
		v->answered_ns = 0;
		v->down_until_ns = now + DOWN_NS;
	} else if (!v->answered_ns) {
		v->answered_ns = now;
	}
}
