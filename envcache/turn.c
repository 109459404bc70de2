// SPDX-License-Identifier: Apache-2.0
/*
 * One node runs the command of a key: whoever has the lease, which a thread renews.
 * The others look for what makes their waiting pointless: the snapshot, or the mark of
 * a command that failed since they began to wait.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "envcache/names.h"

#define NS_PER_MS INT64_C(1000000)
#define OWNER_ROOM 200

struct env_turn {
	struct object_store *store;
	struct digest key;
	struct object_lease *lease;
	int64_t every_ns;
	pthread_t thread;
	pthread_mutex_t lock; /* is_ending */
	pthread_cond_t ending;
	bool is_ending;
};

/* ------------------------------------------------------------------------- waiting --- */

struct turn_wait {
	struct object_store *store;
	char index[ENV_NAME_ROOM], failed[ENV_NAME_ROOM];
	char failed_tag[OBJECT_TAG_MAX]; /* as it was in the beginning, or "" */
	enum env_turn_kind kind;
	const struct env_turn_options *opts;
	uint64_t n_looks;
};

static void failed_tag(const struct turn_wait *w, char ret[OBJECT_TAG_MAX])
{
	struct object_stat st;

	ret[0] = '\0';
	if (object_stat(w->store, w->failed, &st, NULL) == 0)
		memcpy(ret, st.tag, OBJECT_TAG_MAX);
}

static bool turn_is_over(void *arg)
{
	struct turn_wait *w = arg;
	char tag[OBJECT_TAG_MAX];
	struct object_stat st;

	if (object_stat(w->store, w->index, &st, NULL) == 0) {
		w->kind = ENV_TURN_MADE;
		return true;
	}
	/* A second look: another node had it at the first one. */
	if (++w->n_looks == 2 && w->opts->waits)
		w->opts->waits(w->opts->arg);
	failed_tag(w, tag);
	if (!*tag || strcmp(tag, w->failed_tag) == 0)
		return false;
	w->kind = ENV_TURN_FAILED;
	return true;
}

/* ------------------------------------------------------------------------ renewing --- */

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
		(void)!object_lease_renew(t->lease, NULL);
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

static int begin_turn(struct object_store *s, const struct digest *key,
		      struct object_lease *lease, uint32_t ttl_ms,
		      struct env_turn **ret, struct error *err)
{
	struct env_turn *t = calloc(1, sizeof(*t));
	int rc = t ? 0 : error_nomem(err);

	if (rc == 0) {
		*t = (struct env_turn){ .store = s,
					.key = *key,
					.lease = lease,
					.every_ns = ttl_ms / 4 * NS_PER_MS };
		rc = start_thread(t, err);
	}
	if (rc < 0) {
		(void)!object_lease_drop(lease, NULL);
		free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

int env_turn_take(struct object_store *s, const struct digest *key,
		  const struct env_turn_options *opts,
		  enum env_turn_kind *ret_kind, struct env_turn **ret,
		  struct error *err)
{
	struct turn_wait w = { .store = s,
			       .kind = ENV_TURN_MINE,
			       .opts = opts };
	char owner[OWNER_ROOM], host[128] = "", name[ENV_NAME_ROOM];
	const struct object_lease_options lease_opts = {
		.owner = owner,
		.ttl_ms = opts->ttl_ms,
		.deadline_ns = opts->deadline_ns,
		.is_over = turn_is_over,
		.arg = &w
	};
	struct object_lease *lease = NULL;
	int rc;

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(owner, sizeof(owner), "%s:%d", *host ? host : "?",
		       getpid());
	env_object_name(ENV_INDEX_FOLDER, key, w.index);
	env_object_name(ENV_FAILED_FOLDER, key, w.failed);
	env_object_name(ENV_LEASE_FOLDER, key, name);
	failed_tag(&w, w.failed_tag);
	rc = object_lease_take(s, name, &lease_opts, &lease, err);
	if (rc == 0)
		rc = begin_turn(s, key, lease, opts->ttl_ms, ret, err);
	if (rc == -EBUSY)
		w.kind = ENV_TURN_TIMEOUT;
	if (rc < 0 && rc != -EBUSY && rc != -ECANCELED)
		return rc;
	*ret_kind = w.kind;
	return 0;
}

void env_turn_end(struct env_turn *t, bool has_failed)
{
	char name[ENV_NAME_ROOM];

	if (!t)
		return;
	(void)pthread_mutex_lock(&t->lock);
	t->is_ending = true;
	(void)pthread_cond_signal(&t->ending);
	(void)pthread_mutex_unlock(&t->lock);
	(void)pthread_join(t->thread, NULL);
	env_object_name(ENV_FAILED_FOLDER, &t->key, name);
	/* Before the lease goes: who waits must not begin in between. */
	if (has_failed)
		(void)!object_put(t->store, name, "failed\n", 7, NULL, NULL,
				  NULL);
	(void)!object_lease_drop(t->lease, NULL);
	(void)pthread_cond_destroy(&t->ending);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}
