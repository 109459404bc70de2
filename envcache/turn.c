// SPDX-License-Identifier: Apache-2.0
/* One node runs the command of a key: whoever has the lease, which a thread renews. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "envcache/catalog_priv.h"

#define NS_PER_MS INT64_C(1000000)

struct env_turn {
	struct env_lease *lease;
	int64_t every_ns;
	pthread_t thread;
	pthread_mutex_t lock; /* is_ending */
	pthread_cond_t ending;
	bool is_ending;
};

static void *renew_main(void *arg)
{
	struct env_turn *t = arg;

	(void)pthread_mutex_lock(&t->lock);
	while (!t->is_ending) {
		struct timespec at =
			clock_timespec(clock_now_ns() + t->every_ns);

		if (pthread_cond_timedwait(&t->ending, &t->lock, &at) !=
		    ETIMEDOUT)
			continue;
		/* Who lost it learns so at the commit, which one node wins. */
		(void)pthread_mutex_unlock(&t->lock);
		t->lease->renew(t->lease);
		(void)pthread_mutex_lock(&t->lock);
	}
	(void)pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int start_thread(struct env_turn *t, struct error *err)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int rc;

	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&t->ending, &attr);
	(void)pthread_condattr_destroy(&attr);
	/* Signals are the command's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t->thread, NULL, renew_main, t);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? error_set(err, rc, "start a thread: %s", strerror(rc)) : 0;
}

static int begin_turn(struct env_lease *lease, uint32_t ttl_ms,
		      struct env_turn **ret, struct error *err)
{
	struct env_turn *t = calloc(1, sizeof(*t));
	int rc = t ? 0 : error_nomem(err);

	if (rc == 0) {
		*t = (struct env_turn){ .lease = lease,
					.every_ns = ttl_ms / 4 * NS_PER_MS };
		rc = start_thread(t, err);
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
	(void)pthread_mutex_lock(&t->lock);
	t->is_ending = true;
	(void)pthread_cond_signal(&t->ending);
	(void)pthread_mutex_unlock(&t->lock);
	(void)pthread_join(t->thread, NULL);
	t->lease->end(t->lease, has_failed);
	(void)pthread_cond_destroy(&t->ending);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}
