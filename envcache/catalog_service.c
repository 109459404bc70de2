// SPDX-License-Identifier: Apache-2.0
/*
 * The catalog that bootseer-registry keeps beside a store.  The service knows each key's capture
 * and the digest of its description, which is a blob of the capture; so a mere writer to the store
 * cannot forge a snapshot.  The store's own index is written too, for nodes without the service.
 * If the service does not answer, that index is used from then on; a refusal by the service is
 * final.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "envcache/catalog_priv.h"
#include "envcache/index.h"
#include "envcache/service_calls.h"
#include "net/service_client.h"

#define HOUR_MS INT64_C(3600000)
#define PATIENT_LOOKS 8 /* after so many requests a waiter asks less often */
#define LAZY 4          /* pauses then get longer by this factor */
/* attempts to write a published index to the store's own catalog */
#define COMMITS 3

struct service_catalog {
	struct env_catalog base;
	struct env_catalog *store; /* catalog of the store alone */
	struct env_service service;
	struct env_calls calls;
	bool is_away;
	char passed_over[ENV_CAPTURE_ROOM]; /* ignored capture; "": none */
	uint64_t generation;                /* generation of the lease held
	                                     * now; 0: none */
};

static struct service_catalog *service_of(struct env_catalog *c)
{
	return container_of(c, struct service_catalog, base);
}

/* Has the service refused the request?  Other failures count as no answer, also those of a service
 * too old to know environments. */
static bool is_service_refusal(int rc)
{
	return rc == -EACCES || rc == -EINVAL || rc == -EFBIG ||
	       rc == -EREMOTEIO || rc == -ENOMEM;
}

/* Did the service fail?  Then the store's own index is used from now on. */
static bool use_store_alone(struct service_catalog *s, int rc,
			    const struct error *err)
{
	if (rc >= 0 || is_service_refusal(rc))
		return false;
	if (!s->is_away && s->service.is_away)
		s->service.is_away(s->service.arg,
				   err ? err->msg : "no answer");
	s->is_away = true;
	return true;
}

/* ------------------------------------------------------------------------- get --- */

static void describe_name(const struct digest *key, const char *capture,
			  const struct digest *description,
			  char ret[ENV_NAME_ROOM + ENV_KEY_HEX])
{
	char folder[ENV_NAME_ROOM], hex[ENV_KEY_HEX];

	env_blob_folder(key, capture, folder);
	env_key_hex(description, hex);
	(void)snprintf(ret, ENV_NAME_ROOM + ENV_KEY_HEX, "%s/%s", folder, hex);
}

static int check_text(const struct env_said *said, const char *text, size_t len,
		      struct error *err)
{
	struct digest d;

	if (digest_of(text, len, &d) < 0)
		return error_nomem(err);
	return digest_equal(&d, &said->description)
		       ? 0
		       : error_set(err, EBADMSG,
				   "the store's description of the snapshot "
				   "is not the one that the service knows");
}

/* Read the snapshot that the service named.  -ENOENT: the store does not have it. */
static int read_said_snapshot(struct service_catalog *s,
			      const struct env_said *said,
			      struct env_snapshot *ret, struct error *err)
{
	char name[ENV_NAME_ROOM + ENV_KEY_HEX];
	AUTO_FREE char *text = NULL;
	struct object_stat st;
	int rc;

	describe_name(&said->key, said->capture, &said->description, name);
	rc = env_index_text(s->base.store, name, &text, &st, err);
	if (rc == 0)
		rc = check_text(said, text, (size_t)st.size, err);
	if (rc == 0)
		rc = env_index_decode(text, (size_t)st.size, ret, err);
	if (rc < 0)
		return rc;
	if (!digest_equal(&ret->key.digest, &said->key) ||
	    strcmp(ret->folder, said->capture) != 0) {
		env_snapshot_fini(ret);
		return error_set(err, EBADMSG,
				 "the description is of another snapshot");
	}
	ret->made_ms = clock_wall_ms() - said->age_ms;
	ret->marks = said->marks;
	ret->marks.used_ms = clock_wall_ms() - said->unused_ms;
	ret->has_marks = true;
	return 0;
}

static int service_get(struct env_catalog *c, const struct digest *key,
		       struct env_snapshot *ret, struct error *err)
{
	struct service_catalog *s = service_of(c);
	struct env_said said;
	int rc;

	if (s->is_away)
		return env_catalog_get(s->store, key, ret, err);
	rc = env_calls_get(&s->calls, key, &said, err);
	if (use_store_alone(s, rc, err))
		return env_catalog_get(s->store, key, ret, err);
	if (rc < 0)
		return rc;
	if (!said.has_snapshot || strcmp(said.capture, s->passed_over) == 0)
		return error_set(err, ENOENT, "there is no such snapshot");
	rc = read_said_snapshot(s, &said, ret, err);
	/* Its blobs were removed without the service, so a new one is to be made: ignore it. */
	if (rc == -ENOENT)
		memcpy(s->passed_over, said.capture, ENV_CAPTURE_ROOM);
	return rc;
}

/* ------------------------------------------------------------------------ list --- */

struct service_listing {
	struct service_catalog *catalog;
	env_list_fn *fn;
	void *arg;
	bool is_begun;
	bool has_failed; /* the callback failed, not the service */
};

static int list_said_snapshot(void *arg, const struct env_said *said,
			      struct error *err)
{
	struct service_listing *l = arg;
	struct env_snapshot snap;
	struct error why = ERROR_INIT;
	int rc = read_said_snapshot(l->catalog, said, &snap, &why);

	l->is_begun = true;
	if (rc < 0) {
		rc = l->fn(l->arg, &said->key, NULL, &why, err);
	} else {
		rc = l->fn(l->arg, &said->key, &snap, NULL, err);
		env_snapshot_fini(&snap);
	}
	l->has_failed = rc < 0;
	return rc;
}

static int service_list(struct env_catalog *c, env_list_fn *fn, void *arg,
			struct error *err)
{
	struct service_catalog *s = service_of(c);
	struct service_listing l = { .catalog = s, .fn = fn, .arg = arg };
	int rc;

	if (s->is_away)
		return env_catalog_list(s->store, fn, arg, err);
	rc = env_calls_list(&s->calls, "", list_said_snapshot, &l, err);
	/* Only if no snapshot was listed yet, so that none is listed twice. */
	if (!l.is_begun && !l.has_failed && use_store_alone(s, rc, err))
		return env_catalog_list(s->store, fn, arg, err);
	return rc;
}

struct service_search {
	struct digest found;
	unsigned int n;
};

static int note_matching_key(void *arg, const struct env_said *said,
			     struct error *err)
{
	struct service_search *f = arg;

	(void)err;
	f->found = said->key;
	f->n++;
	return 0;
}

static int service_find(struct env_catalog *c, const char *text,
			struct digest *ret, struct error *err)
{
	struct service_catalog *s = service_of(c);
	struct service_search f = { .n = 0 };
	const char *hex;
	int rc = env_key_digits(text, &hex, err);

	if (rc < 0)
		return rc;
	if (s->is_away)
		return env_catalog_find(s->store, text, ret, err);
	rc = env_calls_list(&s->calls, hex, note_matching_key, &f, err);
	if (use_store_alone(s, rc, err))
		return env_catalog_find(s->store, text, ret, err);
	if (rc < 0)
		return rc;
	if (f.n > 1)
		return error_set(err, EINVAL,
				 "%u snapshots have a key that begins with "
				 "%.64s: give more of it",
				 f.n, hex);
	/* Snapshots that nodes made without the service are only in the store's index. */
	if (f.n == 0)
		return env_catalog_find(s->store, text, ret, err);
	*ret = f.found;
	return 0;
}

/* ----------------------------------------------------------------------- marks --- */

static int service_pass_over(struct env_catalog *c,
			     const struct env_snapshot *snap, struct error *err)
{
	struct service_catalog *s = service_of(c);

	if (s->is_away)
		return env_catalog_pass_over(s->store, snap, err);
	/* The snapshot stays until a new one is published in its place. */
	memcpy(s->passed_over, snap->folder, ENV_CAPTURE_ROOM);
	return 0;
}

static int service_marks(struct env_catalog *c, const struct env_snapshot *snap,
			 bool is_bad_alone, struct env_marks *ret,
			 struct error *err)
{
	if (!snap->has_marks)
		return service_of(c)->store->ops->marks(service_of(c)->store,
							snap, is_bad_alone, ret,
							err);
	*ret = snap->marks;
	return 0;
}

/* Marks are also put into the store, for nodes and `env gc` without the service. */
static int service_mark_bad(struct env_catalog *c,
			    const struct env_snapshot *snap, const char *host,
			    const char *why, struct error *err)
{
	struct service_catalog *s = service_of(c);
	int rc =
		s->is_away ? 0 : env_calls_bad(&s->calls, snap, host, why, err);
	int own = env_catalog_mark_bad(s->store, snap, host, why, err);

	return rc < 0 ? rc : own;
}

static void service_touch(struct env_catalog *c,
			  const struct env_snapshot *snap, int64_t now_ms)
{
	struct service_catalog *s = service_of(c);

	/* The service is only told once an hour, whatever the number of nodes. */
	if (!s->is_away && snap->has_marks &&
	    now_ms - snap->marks.used_ms > HOUR_MS)
		(void)!env_calls_used(&s->calls, snap, NULL);
	env_catalog_touch(s->store, snap, now_ms);
}

/* Pin in the service first, as it may refuse.  -ESTALE: the service does not know the snapshot,
 * which then is only in the store. */
static int service_pin(struct env_catalog *c, const struct digest *key,
		       bool is_pinned, struct error *err)
{
	struct service_catalog *s = service_of(c);
	int rc = env_calls_pin(&s->calls, key, is_pinned, err);

	return rc < 0 && rc != -ESTALE
		       ? rc
		       : env_catalog_pin(s->store, key, is_pinned, err);
}

/* Check that the snapshot is pinned neither in the service nor in the store: it may have been
 * pinned by a command without the service. */
static int check_unpinned(struct service_catalog *s, const struct digest *key,
			  struct error *err)
{
	struct env_said said;
	int rc = env_calls_get(&s->calls, key, &said, err);

	if (rc < 0)
		return rc;
	if (said.has_snapshot && said.marks.is_pinned)
		return env_pinned_error(key, err);
	return env_snapshot_check_unpinned(s->base.store, key, err);
}

/* Check both sides before removing from either, so that nothing is removed in part. */
static int service_remove(struct env_catalog *c, const struct digest *key,
			  struct error *err)
{
	struct service_catalog *s = service_of(c);
	int rc = check_unpinned(s, key, err);

	if (rc == 0)
		rc = env_calls_remove(&s->calls, key, err);
	return rc < 0 && rc != -ESTALE ? rc
				       : env_catalog_remove(s->store, key, err);
}

/* ---------------------------------------------------------------------- commit --- */

/* Store the description among the capture's blobs, named by its digest. */
static int put_description(struct service_catalog *s,
			   const struct env_snapshot *snap, struct digest *ret,
			   struct error *err)
{
	char name[ENV_NAME_ROOM + ENV_KEY_HEX];
	AUTO_BUF text = BUF_INIT;
	int rc = env_index_encode(snap, &text, err);

	if (rc < 0)
		return rc;
	if (digest_of(text.data, text.len, ret) < 0)
		return error_nomem(err);
	describe_name(&snap->key.digest, snap->folder, ret, name);
	return object_put(s->base.store, name, text.data, text.len, NULL, NULL,
			  err);
}

static int publish_snapshot(struct service_catalog *s,
			    const struct env_snapshot *snap, struct error *err)
{
	struct digest description;
	int rc = put_description(s, snap, &description, err);

	if (rc < 0)
		return rc;
	rc = env_calls_publish(&s->calls, s->generation, snap, &description,
			       s->service.ttl_ms, err);
	/* The turn was lost to another node, which now makes the snapshot. */
	if (rc == -ESTALE)
		return error_set(err, EEXIST, "another node has the turn now");
	/* Without a reply it may be published, so it is put into the store's index too. */
	return use_store_alone(s, rc, err) ? 0 : rc;
}

static int service_commit(struct env_catalog *c,
			  const struct env_snapshot *snap, struct error *err)
{
	struct service_catalog *s = service_of(c);
	struct error why = ERROR_INIT;
	bool is_known;
	int rc;

	if (!s->generation)
		return env_catalog_commit(s->store, snap, err);
	rc = publish_snapshot(s, snap, err);
	if (rc < 0)
		return rc;
	/* The snapshot that it replaces has the same key, and is garbage from now on. */
	is_known = !s->is_away;
	rc = -EIO;
	for (int i = 0; i < COMMITS && rc < 0; i++) {
		rc = env_snapshot_commit(c->store, snap, NULL, &why);
		if (rc < 0)
			rc = env_snapshot_settle(c->store, snap, rc, &why);
	}
	if (rc == 0)
		return 0;
	if (!is_known) {
		if (err)
			*err = why;
		return rc;
	}
	if (s->service.is_unlisted)
		s->service.is_unlisted(s->service.arg, why.msg);
	return 0;
}

/* ----------------------------------------------------------------------- lease --- */

struct env_service_lease {
	struct env_lease base;
	struct service_catalog *catalog;
	struct env_calls calls;
	struct digest key;
	uint64_t generation;
};

static void service_lease_renew(struct env_lease *l)
{
	struct env_service_lease *s =
		container_of(l, struct env_service_lease, base);

	(void)!env_calls_renew(&s->calls, &s->key, s->generation, NULL);
}

static void service_lease_end(struct env_lease *l, bool has_failed)
{
	struct env_service_lease *s =
		container_of(l, struct env_service_lease, base);

	/* A lease that is not released expires by itself. */
	if (!s->catalog->is_away)
		(void)!env_calls_drop(&s->calls, &s->key, s->generation,
				      has_failed, NULL);
	s->catalog->generation = 0;
	free(s);
}

static int make_lease(struct service_catalog *c, const struct digest *key,
		      uint64_t generation, struct env_lease **ret,
		      struct error *err)
{
	struct env_service_lease *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)!env_calls_drop(&c->calls, key, generation, false, NULL);
		return error_nomem(err);
	}
	*s = (struct env_service_lease){
		.base = { .renew = service_lease_renew,
			  .end = service_lease_end },
		.catalog = c,
		.calls = c->calls,
		.key = *key,
		.generation = generation,
	};
	c->generation = generation;
	*ret = &s->base;
	return 0;
}

/* State of waiting for the lease. */
struct service_wait {
	struct service_catalog *catalog;
	const struct digest *key;
	const char *owner;
	const struct env_turn_options *opts;
	struct env_lease_said said;
	int64_t failures; /* the count at the beginning of the wait */
	uint64_t n_looks;
	int64_t silent_since_ns; /* time of the first request without reply;
	                          * 0: the last one had a reply */
};

/* Request the lease once.  1: no reply, but the service may come back. */
static int ask_lease(struct service_wait *w, struct error *err)
{
	struct service_catalog *s = w->catalog;
	const struct env_lease_ask want = {
		.by = w->owner,
		.ttl_ms = w->opts->ttl_ms,
		.instead = s->passed_over,
		.failures = w->n_looks ? w->failures : -1,
	};
	int64_t now = clock_now_ns();
	int rc = env_calls_take(&s->calls, w->key, &want, &w->said, err);

	if (rc == 0) {
		w->silent_since_ns = 0;
		if (w->n_looks++ == 0)
			w->failures = w->said.failures;
		return 0;
	}
	if (is_service_refusal(rc) || w->n_looks == 0)
		return rc;
	/* A service that restarts keeps its leases, so wait for it; but no longer than a lease
	 * lasts, as a node's death is not noticed meanwhile. */
	if (!w->silent_since_ns)
		w->silent_since_ns = now;
	return now - w->silent_since_ns > w->opts->ttl_ms * NS_PER_MS ? rc : 1;
}

static bool pause_wait(const struct service_wait *w)
{
	int64_t now = clock_now_ns(), deadline = w->opts->deadline_ns;
	int64_t ms = w->said.retry_ms;
	struct timespec t;

	if (now >= deadline)
		return false;
	if (w->n_looks > PATIENT_LOOKS)
		ms *= LAZY;
	now += ms * NS_PER_MS;
	t = clock_timespec(now < deadline ? now : deadline);
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	return true;
}

/* Does the last reply end the wait? */
static bool is_lease_wait_over(const struct service_wait *w,
			       enum env_turn_kind *ret)
{
	if (w->said.state == ENV_LEASE_YOURS)
		*ret = ENV_TURN_MINE;
	else if (w->said.state == ENV_LEASE_MADE)
		*ret = ENV_TURN_MADE;
	else if (w->said.state == ENV_LEASE_FAILED)
		*ret = ENV_TURN_FAILED;
	else
		return false;
	return true;
}

static int wait_lease(struct service_wait *w, enum env_turn_kind *ret,
		      struct error *err)
{
	int rc;

	for (;;) {
		rc = ask_lease(w, err);
		if (rc < 0 || (rc == 0 && is_lease_wait_over(w, ret)))
			return rc;
		if (w->n_looks == 1 && rc == 0 && w->opts->waits)
			w->opts->waits(w->opts->arg, w->said.holder);
		if (!pause_wait(w)) {
			*ret = ENV_TURN_TIMEOUT;
			return 0;
		}
	}
}

static int service_take(struct env_catalog *c, const struct digest *key,
			const char *owner, const struct env_turn_options *opts,
			enum env_turn_kind *ret_kind, struct env_lease **ret,
			struct error *err)
{
	struct service_catalog *s = service_of(c);
	struct service_wait w = {
		.catalog = s, .key = key, .owner = owner, .opts = opts
	};
	int rc = s->is_away ? 0 : wait_lease(&w, ret_kind, err);

	if (s->is_away || use_store_alone(s, rc, err))
		return s->store->ops->take(s->store, key, owner, opts, ret_kind,
					   ret, err);
	if (rc == 0 && *ret_kind == ENV_TURN_MINE)
		rc = make_lease(s, key, w.said.generation, ret, err);
	return rc;
}

/* ------------------------------------------------------------------------ kind --- */

static void service_free(struct env_catalog *c)
{
	struct service_catalog *s = service_of(c);

	env_catalog_free(s->store);
	free(s);
}

static const struct env_catalog_ops service_ops = {
	.get = service_get,
	.list = service_list,
	.find = service_find,
	.pass_over = service_pass_over,
	.marks = service_marks,
	.mark_bad = service_mark_bad,
	.touch = service_touch,
	.pin = service_pin,
	.remove = service_remove,
	.commit = service_commit,
	.take = service_take,
	.free = service_free,
};

int env_catalog_of_service(struct object_store *s, const struct env_service *v,
			   struct env_catalog **ret, struct error *err)
{
	struct service_catalog *c = calloc(1, sizeof(*c));
	int rc = c ? env_catalog_of_store(s, &c->store, err) : error_nomem(err);

	if (rc < 0) {
		free(c);
		return rc;
	}
	c->base = (struct env_catalog){ .ops = &service_ops, .store = s };
	c->service = *v;
	c->calls = (struct env_calls){ .client = v->client, .repo = v->repo };
	*ret = &c->base;
	return 0;
}

char *env_service_repo(const char *url)
{
	static const char docker[] = "docker://";
	size_t n;

	if (strncmp(url, docker, strlen(docker)) == 0)
		url += strlen(docker);
	n = strcspn(url, "?#");
	while (n > 1 && url[n - 1] == '/')
		n--;
	return strndup(url, n);
}
