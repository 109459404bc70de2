// SPDX-License-Identifier: Apache-2.0
/*
 * The catalog of a store alone, made of objects that are written on conditions.  A process that
 * waits for a lease also looks for the snapshot, and for a mark that the command failed since the
 * wait began; either ends the wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "envcache/catalog_priv.h"

static int store_get(struct env_catalog *c, const struct digest *key,
		     struct env_snapshot *ret, struct error *err)
{
	return env_snapshot_get(c->store, key, ret, err);
}

static int store_list(struct env_catalog *c, env_list_fn *fn, void *arg,
		      struct error *err)
{
	return env_snapshot_list(c->store, fn, arg, err);
}

static int store_find(struct env_catalog *c, const char *text,
		      struct digest *ret, struct error *err)
{
	return env_key_find(c->store, text, ret, err);
}

static int store_pass_over(struct env_catalog *c,
			   const struct env_snapshot *snap, struct error *err)
{
	return env_snapshot_expire(c->store, snap, err);
}

static int store_marks(struct env_catalog *c, const struct env_snapshot *snap,
		       bool is_bad_alone, struct env_marks *ret,
		       struct error *err)
{
	return is_bad_alone ? env_marks_get_bad(c->store, snap, ret, err)
			    : env_marks_get(c->store, snap, ret, err);
}

static int store_mark_bad(struct env_catalog *c,
			  const struct env_snapshot *snap, const char *host,
			  const char *why, struct error *err)
{
	return env_snapshot_mark_bad(c->store, snap, host, why, err);
}

static void store_touch(struct env_catalog *c, const struct env_snapshot *snap,
			int64_t now_ms)
{
	env_snapshot_touch(c->store, &snap->key.digest, now_ms);
}

static int store_pin(struct env_catalog *c, const struct digest *key,
		     bool is_pinned, struct error *err)
{
	return env_snapshot_pin(c->store, key, is_pinned, err);
}

static int store_remove(struct env_catalog *c, const struct digest *key,
			struct error *err)
{
	int rc = env_snapshot_check_unpinned(c->store, key, err);

	return rc < 0 ? rc : env_snapshot_remove(c->store, key, err);
}

static int store_commit(struct env_catalog *c, const struct env_snapshot *snap,
			struct error *err)
{
	const struct object_put_options opts = {
		.condition = c->replaces ? OBJECT_MATCH : OBJECT_NEW,
		.tag = c->replaces,
	};
	int rc = env_snapshot_commit(c->store, snap, &opts, err);

	/* Another process replaced or removed it first. */
	if (rc == -ESTALE)
		rc = error_set(err, EEXIST, "it was replaced meanwhile");
	return rc < 0 ? env_snapshot_settle(c->store, snap, rc, err) : 0;
}

/* ----------------------------------------------------------------------- lease --- */

struct env_store_lease {
	struct env_lease base;
	struct object_store *store;
	struct digest key;
	struct object_lease *lease;
};

static void store_lease_renew(struct env_lease *l)
{
	struct env_store_lease *s =
		container_of(l, struct env_store_lease, base);

	(void)!object_lease_renew(s->lease, NULL);
}

static void store_lease_end(struct env_lease *l, bool has_failed)
{
	struct env_store_lease *s =
		container_of(l, struct env_store_lease, base);
	char name[ENV_NAME_ROOM];

	env_object_name(ENV_FAILED_FOLDER, &s->key, name);
	/* Written before the lease is released, so that a waiting process finds it and does not
	 * start. */
	if (has_failed)
		(void)!object_put(s->store, name, "failed\n", 7, NULL, NULL,
				  NULL);
	(void)!object_lease_drop(s->lease, NULL);
	free(s);
}

struct turn_wait {
	struct object_store *store;
	char index[ENV_NAME_ROOM], failed[ENV_NAME_ROOM];
	char failed_tag[OBJECT_TAG_MAX]; /* tag of the mark when the wait
	                                  * began; "": none */
	enum env_turn_kind kind;
	const struct env_turn_options *opts;
	bool is_told;
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

	if (!w->opts->may_be_made &&
	    object_stat(w->store, w->index, &st, NULL) == 0) {
		w->kind = ENV_TURN_MADE;
		return true;
	}
	failed_tag(w, tag);
	if (!*tag || strcmp(tag, w->failed_tag) == 0)
		return false;
	w->kind = ENV_TURN_FAILED;
	return true;
}

static int wrap_lease(struct env_catalog *c, const struct digest *key,
		      struct object_lease *lease, struct env_lease **ret,
		      struct error *err)
{
	struct env_store_lease *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)!object_lease_drop(lease, NULL);
		return error_nomem(err);
	}
	*s = (struct env_store_lease){
		.base = { .renew = store_lease_renew, .end = store_lease_end },
		.store = c->store,
		.key = *key,
		.lease = lease,
	};
	*ret = &s->base;
	return 0;
}

static void turn_is_held(void *arg, const char *owner)
{
	struct turn_wait *w = arg;

	if (!w->is_told && w->opts->waits)
		w->opts->waits(w->opts->arg, owner);
	w->is_told = true;
}

static int store_take(struct env_catalog *c, const struct digest *key,
		      const char *owner, const struct env_turn_options *opts,
		      enum env_turn_kind *ret_kind, struct env_lease **ret,
		      struct error *err)
{
	struct turn_wait w = { .store = c->store,
			       .kind = ENV_TURN_MINE,
			       .opts = opts };
	char name[ENV_NAME_ROOM];
	const struct object_lease_options lease_opts = {
		.owner = owner,
		.ttl_ms = opts->ttl_ms,
		.deadline_ns = opts->deadline_ns,
		.is_over = turn_is_over,
		.is_held = turn_is_held,
		.arg = &w
	};
	struct object_lease *lease = NULL;
	/* A store that ignores conditions would give two processes the turn. */
	int rc = object_store_probe_conditions(c->store, err);

	if (rc < 0)
		return rc;
	env_object_name(ENV_INDEX_FOLDER, key, w.index);
	env_object_name(ENV_FAILED_FOLDER, key, w.failed);
	env_object_name(ENV_LEASE_FOLDER, key, name);
	failed_tag(&w, w.failed_tag);
	rc = object_lease_take(c->store, name, &lease_opts, &lease, err);
	if (rc == 0)
		rc = wrap_lease(c, key, lease, ret, err);
	if (rc == -EBUSY)
		w.kind = ENV_TURN_TIMEOUT;
	if (rc < 0 && rc != -EBUSY && rc != -ECANCELED)
		return rc;
	*ret_kind = w.kind;
	return 0;
}

/* ------------------------------------------------------------------------ kind --- */

static void store_free(struct env_catalog *c)
{
	free(c);
}

static const struct env_catalog_ops store_ops = {
	.get = store_get,
	.list = store_list,
	.find = store_find,
	.pass_over = store_pass_over,
	.marks = store_marks,
	.mark_bad = store_mark_bad,
	.touch = store_touch,
	.pin = store_pin,
	.remove = store_remove,
	.commit = store_commit,
	.take = store_take,
	.free = store_free,
};

int env_catalog_of_store(struct object_store *s, struct env_catalog **ret,
			 struct error *err)
{
	struct env_catalog *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	*c = (struct env_catalog){ .ops = &store_ops, .store = s };
	*ret = c;
	return 0;
}
