// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/remote_call.h"

#include <errno.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/clock.h"

static bool is_late(const struct remote_call *c)
{
	int64_t deadline = atomic_load(&c->deadline_ns);

	return deadline && clock_now_ns() >= deadline;
}

static enum pace_level remote_call_level(struct pace *p)
{
	const struct remote_call *c = container_of(p, struct remote_call, pace);

	return atomic_load(c->is_ending) ||
			       (c->is_gone && atomic_load(c->is_gone)) ||
			       is_late(c)
		       ? PACE_STOP
		       : PACE_GO;
}

void remote_call_init(struct remote_call *c, const atomic_bool *is_ending,
		      const atomic_bool *is_gone, int64_t begun_ns,
		      int64_t timeout_ns)
{
	c->pace =
		(struct pace){ .level = remote_call_level, .is_urgent = true };
	c->is_ending = is_ending;
	c->is_gone = is_gone;
	c->timeout_ns = timeout_ns;
	c->is_local = false;
	atomic_init(&c->deadline_ns, begun_ns + timeout_ns);
}

void remote_call_no_deadline(struct remote_call *c)
{
	atomic_store(&c->deadline_ns, 0);
}

int remote_call_why(const struct remote_call *c, const char *host, int rc,
		    struct error *err)
{
	if (rc != -ECANCELED || atomic_load(c->is_ending))
		return rc;
	if (c->is_gone && atomic_load(c->is_gone))
		return error_set(err, ECANCELED, "whoever asked has left");
	if (!is_late(c))
		return rc;
	return error_set(err, ETIMEDOUT,
			 "registry %.100s did not send all of it within "
			 "%lld s: look at the registry and the way to it, or "
			 "raise --prepare-timeout",
			 host, (long long)(c->timeout_ns / 1000000000));
}
