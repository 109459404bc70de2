// SPDX-License-Identifier: Apache-2.0
/*
 * A lease is one object: JSON with its holder, its generation, and a number that each renewal
 * raises. It is replaced on the condition that it is unchanged since it was read. A lease that was
 * given back stays, without a holder, so that generations continue.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "objects/store/backend.h"
#include "objects/store/store_lease_priv.h"

#define NONCE 16
#define TTL_MAX_MS (3600u * 1000)

struct object_lease {
	struct object_store *store;
	char *name;
	struct lease_text text;
	/* Tag of the object that this process wrote. */
	char tag[OBJECT_TAG_MAX];
};

int lease_text_parse(const char *data, size_t len, struct lease_text *ret)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	const char *owner, *nonce;
	json_int_t generation, ttl, beat;
	int rc = json_unpack(j, "{s:s, s:s, s:I, s:I, s:I}", "owner", &owner,
			     "nonce", &nonce, "generation", &generation,
			     "ttl_ms", &ttl, "beat", &beat);

	if (rc == 0 && strlen(owner) <= LEASE_OWNER_MAX &&
	    strlen(nonce) <= NONCE && generation > 0 && beat >= 0 && ttl >= 0 &&
	    ttl <= TTL_MAX_MS) {
		*ret = (struct lease_text){
			.generation = (uint64_t)generation,
			.beat = (uint64_t)beat,
			.ttl_ms = (uint32_t)ttl,
		};
		memcpy(ret->owner, owner, strlen(owner) + 1);
		memcpy(ret->nonce, nonce, strlen(nonce) + 1);
	} else {
		rc = -EBADMSG;
	}
	return rc;
}

static char *format_lease(const struct lease_text *t)
{
	json_t *j =
		json_pack("{s:s, s:s, s:I, s:I, s:I}", "owner", t->owner,
			  "nonce", t->nonce, "generation",
			  (json_int_t)t->generation, "ttl_ms",
			  (json_int_t)t->ttl_ms, "beat", (json_int_t)t->beat);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text;
}

static int put_text(struct object_store *s, const char *name,
		    const struct lease_text *t, const char *match,
		    char ret_tag[OBJECT_TAG_MAX], struct error *err)
{
	struct object_put_options opts = { .condition = match ? OBJECT_MATCH
							      : OBJECT_NEW,
					   .tag = match };
	AUTO_FREE char *text = format_lease(t);
	struct object_stat st;
	int rc;

	if (!text)
		return error_nomem(err);
	rc = object_put(s, name, text, strlen(text), &opts, &st, err);
	if (rc == 0)
		memcpy(ret_tag, st.tag, OBJECT_TAG_MAX);
	return rc;
}

/* Read the present lease. -ENOENT: there is none. */
static int get_text(struct object_store *s, const char *name,
		    struct lease_text *ret, char ret_tag[OBJECT_TAG_MAX],
		    struct error *err)
{
	char data[LEASE_TEXT_MAX];
	struct object_range range = { .buf = data };
	struct object *o;
	int rc = object_open(s, name, &o, err);

	if (rc < 0)
		return rc;
	if (o->stat.size > sizeof(data)) {
		object_close(o);
		return error_set(err, EINVAL,
				 "'%s' is not a lease: take another name",
				 name);
	}
	range.len = (size_t)o->stat.size;
	rc = object_read(o, &range, 1, store_deadline(s), err);
	memcpy(ret_tag, o->stat.tag, OBJECT_TAG_MAX);
	object_close(o);
	if (rc == 0 && lease_text_parse(data, range.len, ret) < 0)
		rc = error_set(err, EINVAL,
			       "'%s' is not a lease: take another name", name);
	return rc;
}

static bool wait_ms(int64_t ms, int64_t deadline_ns)
{
	int64_t now = clock_now_ns(), until = now + ms * NS_PER_MS;
	struct timespec t;

	if (now >= deadline_ns)
		return false;
	t = clock_timespec(until < deadline_ns ? until : deadline_ns);
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	return true;
}

/* The last seen version of another holder's lease, and since when. */
struct sight {
	char tag[OBJECT_TAG_MAX];
	int64_t since_ns;
};

static bool lease_owner_is_dead(struct sight *seen, const char *tag,
				const struct lease_text *t)
{
	int64_t now = clock_now_ns();

	if (strcmp(seen->tag, tag) != 0) {
		memcpy(seen->tag, tag, OBJECT_TAG_MAX);
		seen->since_ns = now;
	}
	return !*t->owner || now - seen->since_ns > t->ttl_ms * NS_PER_MS;
}

static int take_lease(struct object_lease *l,
		      const struct object_lease_options *opts,
		      struct error *err)
{
	struct sight seen = { .since_ns = 0 };

	for (;;) {
		struct lease_text now = { .generation = 0 };
		char tag[OBJECT_TAG_MAX];
		bool none;
		int rc;

		if (opts->is_over && opts->is_over(opts->arg))
			return error_set(err, ECANCELED,
					 "'%s' is not wanted any more",
					 l->name);
		rc = get_text(l->store, l->name, &now, tag, err);
		none = rc == -ENOENT;

		/* it was replaced while being read, so it has a holder */
		if (rc == -ESTALE && wait_ms(10, store_deadline(l->store)))
			continue;
		if (rc < 0 && !none)
			return rc;
		if (!none && *now.owner && opts->is_held)
			opts->is_held(opts->arg, now.owner);
		if (none || lease_owner_is_dead(&seen, tag, &now)) {
			l->text.generation = now.generation + 1;
			rc = put_text(l->store, l->name, &l->text,
				      none ? NULL : tag, l->tag, err);
			if (rc != -EEXIST && rc != -ESTALE)
				return rc;
		} else if (!opts->deadline_ns ||
			   !wait_ms(now.ttl_ms / 8 + 1, opts->deadline_ns)) {
			return error_set(err, EBUSY, "%s: '%s' is held by '%s'",
					 l->store->url, l->name, now.owner);
		}
	}
}

int object_lease_take(struct object_store *s, const char *name,
		      const struct object_lease_options *opts,
		      struct object_lease **ret, struct error *err)
{
	AUTO(object_lease) l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return error_nomem(err);
	if (opts->ttl_ms == 0 || opts->ttl_ms > TTL_MAX_MS || !*opts->owner ||
	    strlen(opts->owner) > LEASE_OWNER_MAX)
		return error_set(err, EINVAL,
				 "a lease needs an owner of 1 to %d bytes and "
				 "a time of at most an hour",
				 LEASE_OWNER_MAX);
	l->store = s;
	l->name = strdup(name);
	if (!l->name)
		return error_nomem(err);
	memcpy(l->text.owner, opts->owner, strlen(opts->owner) + 1);
	store_random(l->text.nonce, NONCE);
	l->text.ttl_ms = opts->ttl_ms;
	rc = take_lease(l, opts, err);
	if (rc == 0)
		*ret = steal_ptr(&l);
	return rc;
}

uint64_t object_lease_generation(const struct object_lease *l)
{
	return l->text.generation;
}

/* Replace this process's lease object by `t`. If the answer to an earlier try was lost, the
 * object is already ours under another tag. */
static int replace_lease(struct object_lease *l, const struct lease_text *t,
			 struct error *err)
{
	int rc = put_text(l->store, l->name, t, l->tag, l->tag, err);
	struct lease_text now;

	if (rc != -ESTALE || get_text(l->store, l->name, &now, l->tag, NULL) ||
	    strcmp(now.nonce, l->text.nonce) != 0)
		return rc;
	return put_text(l->store, l->name, t, l->tag, l->tag, err);
}

int object_lease_renew(struct object_lease *l, struct error *err)
{
	struct lease_text next = l->text;
	int rc;

	next.beat++;
	rc = replace_lease(l, &next, err);
	if (rc == 0)
		l->text = next;
	return rc;
}

int object_lease_drop(struct object_lease *l, struct error *err)
{
	struct lease_text none = l->text;
	int rc;

	none.owner[0] = none.nonce[0] = '\0';
	rc = replace_lease(l, &none, err);
	object_lease_free(l);
	return rc;
}

void object_lease_free(struct object_lease *l)
{
	if (!l)
		return;
	free(l->name);
	free(l);
}
