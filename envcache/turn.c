// SPDX-License-Identifier: Apache-2.0
/* The turn to run a key's command: the node that has the key's lease, which a thread renews, runs
 * it. */
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/periodic.h"
#include "envcache/catalog_priv.h"

struct env_turn {
	struct env_lease *lease;
	int64_t every_ns;
	struct periodic *renewal;
};

/* Renew the lease.  If another node has taken it, this is only noticed at the commit, which one
 * node wins. */
static int64_t turn_renew(void *arg)
{
	struct env_turn *t = arg;

	t->lease->renew(t->lease);
	return clock_now_ns() + t->every_ns;
}

static int begin_turn(struct env_lease *lease, uint32_t ttl_ms,
		      struct env_turn **ret, struct error *err)
{
	struct env_turn *t = calloc(1, sizeof(*t));
	int rc = t ? 0 : error_nomem(err);

	if (rc == 0) {
		*t = (struct env_turn){ .lease = lease,
					.every_ns = ttl_ms / 4 * NS_PER_MS };
		rc = periodic_start(turn_renew, t, t->every_ns, &t->renewal,
				    err);
	}
	if (rc < 0) {
		lease->end(lease, false);
		free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

int env_turn_take(struct env_catalog *c, const struct digest *key,
		  const struct env_turn_options *opts,
		  enum env_turn_kind *ret_kind, struct env_turn **ret,
		  struct error *err)
{
	enum env_turn_kind kind = ENV_TURN_MINE;
	char owner[ENV_OWNER_ROOM], host[128] = "";
	struct env_lease *lease = NULL;
	int rc;

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(owner, sizeof(owner), "%s:%d", *host ? host : "?",
		       getpid());
	rc = c->ops->take(c, key, owner, opts, &kind, &lease, err);
	if (rc == 0 && kind == ENV_TURN_MINE)
		rc = begin_turn(lease, opts->ttl_ms, ret, err);
	if (rc == 0)
		*ret_kind = kind;
	return rc;
}

void env_turn_end(struct env_turn *t, bool has_failed)
{
	if (!t)
		return;
	periodic_stop(t->renewal);
	t->lease->end(t->lease, has_failed);
	free(t);
}
