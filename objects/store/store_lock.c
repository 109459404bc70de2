// SPDX-License-Identifier: Apache-2.0
#include "objects/store/store_lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/digest.h"

#define NONCE 16
#define WAIT_MS 20u
#define WAIT_MAX_MS 400u

/* Lock objects of other processes in the folder, and how long the same one has been seen. */
struct watch {
	const char *own; /* this process's object; NULL: none yet */
	unsigned int n_others;
	char other[OBJECT_NAME_MAX + 1]; /* the first of them by name */
	char seen[OBJECT_NAME_MAX + 1];  /* the one being watched */
	int64_t since_ns;
};

static int folder_of(const char *name, char *ret, size_t size,
		     struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	if (digest_of(name, strlen(name), &d) < 0)
		return error_nomem(err);
	digest_format(&d, text);
	(void)snprintf(ret, size, "%s/%.32s", STORE_LOCKS,
		       text + strlen("sha256:"));
	return 0;
}

static int put_own_lock(struct object_store *s, const char *name,
			struct error *err)
{
	static const struct object_put_options opts = { .size = 1 };
	struct object_stat st;
	AUTO(object_put) p = NULL;
	int rc = s->ops->put_open(s, name, &opts, &p, err);

	return rc < 0 ? rc : s->ops->put_commit(p, &st, err);
}

static int note_other_lock(void *arg, const struct object_entry *e,
			   struct error *err)
{
	struct watch *w = arg;

	(void)err;
	if (e->is_folder || (w->own && strcmp(e->name, w->own) == 0))
		return 0;
	/* Take the first by name, so that all processes watch the same one. */
	if (w->n_others++ == 0 || strcmp(e->name, w->other) < 0)
		(void)snprintf(w->other, sizeof(w->other), "%s", e->name);
	return 0;
}

static int other_locks_list(struct object_store *s, const char *folder,
			    const char *own, struct watch *w, struct error *err)
{
	w->own = own;
	w->n_others = 0;
	return s->ops->list(s, folder, false, note_other_lock, w, err);
}

/* Remove a lock whose holder is gone; its name is never used again. */
static void remove_stale_lock(struct object_store *s, struct watch *w)
{
	int64_t now = clock_now_ns();

	if (strcmp(w->other, w->seen) != 0) {
		(void)snprintf(w->seen, sizeof(w->seen), "%s", w->other);
		w->since_ns = now;
	} else if (now - w->since_ns > STORE_LOCK_MS * NS_PER_MS) {
		(void)s->ops->remove(s, w->seen, NULL, NULL);
	}
}

static void wait_before_next_try(unsigned int n)
{
	uint32_t ms = WAIT_MS << (n < 5 ? n : 5), chance = 0;
	struct timespec t;

	if (ms > WAIT_MAX_MS)
		ms = WAIT_MAX_MS;
	(void)getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	t = clock_timespec(clock_now_ns() + (chance % ms + 1) * NS_PER_MS);
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Put a lock object and list the folder; *ret_alone: there is no other, so the lock is taken. */
static int try_lock(struct object_store *s, const char *folder, struct watch *w,
		    struct store_lock *l, bool *ret_alone, struct error *err)
{
	char nonce[NONCE + 1];
	int rc;

	store_random(nonce, NONCE);
	free(l->name);
	if (asprintf(&l->name, "%s/%s", folder, nonce) < 0) {
		l->name = NULL;
		return error_nomem(err);
	}
	l->taken_ns = clock_now_ns();
	rc = put_own_lock(s, l->name, err);
	if (rc == 0)
		rc = other_locks_list(s, folder, l->name, w, err);
	/* The server may just have removed this folder. */
	if (rc == -ENOTDIR)
		rc = w->n_others = 0;
	else
		*ret_alone = rc == 0 && w->n_others == 0;
	if (!*ret_alone)
		store_unlock(s, l);
	return rc;
}

int store_lock(struct object_store *s, const char *name, struct store_lock *ret,
	       struct error *err)
{
	int64_t give_up = store_deadline(s);
	char folder[128];
	struct watch w = { .own = NULL };
	int rc = folder_of(name, folder, sizeof(folder), err);

	ret->name = NULL;
	for (unsigned int n = 0; rc == 0; n++) {
		bool alone = false;

		rc = other_locks_list(s, folder, NULL, &w, err);
		if (rc == 0 && w.n_others == 0)
			rc = try_lock(s, folder, &w, ret, &alone, err);
		if (alone)
			return 0;
		if (rc == 0 && w.n_others)
			remove_stale_lock(s, &w);
		if (rc == 0 && clock_now_ns() >= give_up)
			rc = error_set(err, EBUSY,
				       "others have it locked by '%.200s': try "
				       "again later, or remove that if nobody "
				       "writes",
				       w.other);
		if (rc == 0)
			wait_before_next_try(n);
	}
	return rc;
}

int store_lock_check(const struct store_lock *l, struct error *err)
{
	if (clock_now_ns() - l->taken_ns < STORE_LOCK_MS / 2 * NS_PER_MS)
		return 0;
	return error_set(err, EBUSY,
			 "the store was too slow for its lock to be kept: try "
			 "again");
}

void store_unlock(struct object_store *s, struct store_lock *l)
{
	/* If it cannot be removed, others break the lock after STORE_LOCK_MS. */
	if (l->name)
		(void)s->ops->remove(s, l->name, NULL, NULL);
	free(l->name);
	l->name = NULL;
}

struct lock_sweep {
	struct object_store *store;
	int64_t before_ms;
	size_t n;
};

static int sweep_lock(void *arg, const struct object_entry *e,
		      struct error *err)
{
	struct lock_sweep *w = arg;
	int rc;

	/* Lock files of the file: back end are kept; they are not in a folder. */
	if (e->is_folder || !strchr(e->name + strlen(STORE_LOCKS "/"), '/') ||
	    !object_is_old(e->stat.modified_ms, w->before_ms))
		return 0;
	rc = w->store->ops->remove(w->store, e->name, NULL, err);
	w->n += rc == 0;
	return rc == -ENOENT ? 0 : rc;
}

int store_lock_sweep(struct object_store *s, int64_t before_ms, size_t *ret_n,
		     struct error *err)
{
	struct lock_sweep w = { .store = s, .before_ms = before_ms };
	int rc = s->ops->list(s, STORE_LOCKS, true, sweep_lock, &w, err);

	*ret_n = w.n;
	return rc;
}

int store_condition(struct object_store *s, const struct object_put *p,
		    struct error *err)
{
	struct object_stat st;
	int rc;

	if (p->condition == OBJECT_ANY)
		return 0;
	rc = s->ops->stat(s, p->name, &st, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (p->condition == OBJECT_NEW)
		return rc < 0 ? 0
			      : error_set(err, EEXIST,
					  "there is one of this name");
	if (rc < 0 || strcmp(st.tag, p->tag) != 0)
		return error_set(err, ESTALE,
				 "another has replaced or removed it");
	return 0;
}
