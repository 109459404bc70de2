// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/fuse.h"

/* Lists that nobody waits for: they leave turns to those that somebody does. */
#define LISTS_AHEAD (LISTS_AT_ONCE / 2)

/* A folder's list that nobody has asked for yet. */
struct ahead_item {
	struct work work;
	struct ahead *all;
	char *folder; /* NULL: the place is free */
	bool is_running;
	int rc;
	int64_t begun_ns;
	struct folder_list list;
};

/* A folder whose folders are listed, and which of them was last. */
struct ahead_walk {
	char *parent, *last;
	int64_t last_ns;
	size_t n_ahead; /* 0: none is worth it yet */
};

struct ahead {
	struct ahead_config cfg;
	pthread_mutex_t lock; /* the rest */
	pthread_cond_t done;  /* with a list */
	struct ahead_item items[AHEAD_ALL];
	struct ahead_walk walks[AHEAD_WALKS];
	unsigned int n_lists; /* that are made now */
	unsigned int n_ahead; /* of them ahead */
};

int ahead_new(const struct ahead_config *cfg, struct ahead **ret,
	      struct error *err)
{
	struct ahead *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->cfg = *cfg;
	(void)pthread_mutex_init(&a->lock, NULL);
	(void)pthread_cond_init(&a->done, NULL);
	*ret = a;
	return 0;
}

static void item_clear(struct ahead_item *i)
{
	folder_list_fini(&i->list);
	free(i->folder);
	i->folder = NULL;
}

void ahead_free(struct ahead *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < AHEAD_ALL; i++)
		item_clear(&a->items[i]);
	for (size_t i = 0; i < AHEAD_WALKS; i++) {
		free(a->walks[i].parent);
		free(a->walks[i].last);
	}
	(void)pthread_cond_destroy(&a->done);
	(void)pthread_mutex_destroy(&a->lock);
	free(a);
}

/* ---------------------------------------------------------------------- a list --- */

struct ahead_listing {
	struct folder_list *list;
	struct listed_list *told;
};

static int ahead_add(void *arg, const struct ckpt_entry *e, struct error *err)
{
	const struct ahead_listing *f = arg;
	struct folder_list *l = f->list;

	listed_add(f->told, e);
	/* A file hides a folder of its name. */
	if (e->is_folder && l->n &&
	    strcmp(folder_list_name(l, l->n - 1), e->name) == 0)
		return 0;
	return folder_list_add(l, e->name, e->is_folder) < 0 ? error_nomem(err)
							     : 0;
}

static bool has_turn(const struct ahead *a, bool is_ahead)
{
	return a->n_lists < LISTS_AT_ONCE &&
	       (!is_ahead || a->n_ahead < LISTS_AHEAD);
}

static void wait_for_turn(struct ahead *a, bool is_ahead)
{
	(void)pthread_mutex_lock(&a->lock);
	while (!has_turn(a, is_ahead))
		(void)pthread_cond_wait(&a->done, &a->lock);
	a->n_lists++;
	a->n_ahead += is_ahead;
	(void)pthread_mutex_unlock(&a->lock);
}

static void end_turn(struct ahead *a, bool is_ahead)
{
	(void)pthread_mutex_lock(&a->lock);
	a->n_lists--;
	a->n_ahead -= is_ahead;
	(void)pthread_cond_broadcast(&a->done);
	(void)pthread_mutex_unlock(&a->lock);
}

/* By the store. */
static int list_now(struct ahead *a, const char *folder, bool is_ahead,
		    struct folder_list *ret, int64_t *ret_begun_ns,
		    struct error *err)
{
	const size_t most = is_ahead ? LISTED_SHORT : SIZE_MAX;
	struct ahead_listing f = { .list = ret };
	int rc;

	wait_for_turn(a, is_ahead);
	f.told = listed_begin(a->cfg.listed, folder);
	*ret_begun_ns = f.told ? listed_begun_ns(f.told) : 0;
	rc = ckpt_list_short(a->cfg.store, folder, most, ahead_add, &f, err);
	listed_end(a->cfg.listed, f.told, rc, clock_now_ns());
	end_turn(a, is_ahead);
	return rc;
}

static void ahead_run(struct work *work)
{
	struct ahead_item *i = container_of(work, struct ahead_item, work);
	struct ahead *a = i->all;
	struct error ignored = ERROR_INIT;

	i->rc = list_now(a, i->folder, true, &i->list, &i->begun_ns, &ignored);
	(void)pthread_mutex_lock(&a->lock);
	i->is_running = false;
	(void)pthread_cond_broadcast(&a->done);
	(void)pthread_mutex_unlock(&a->lock);
}

/* -------------------------------------------------------------------- the walks --- */

/* With the lock: of the parent, or the one that is longest unused, for it.  NULL: no memory. */
static struct ahead_walk *walk_of(struct ahead *a, const char *parent,
				  size_t len)
{
	struct ahead_walk *w = &a->walks[0];
	char *own;

	for (size_t i = 0; i < AHEAD_WALKS; i++) {
		struct ahead_walk *x = &a->walks[i];

		if (x->parent && strlen(x->parent) == len &&
		    strncmp(x->parent, parent, len) == 0)
			return x;
		if (x->last_ns < w->last_ns)
			w = x;
	}
	own = strndup(parent, len);
	if (!own)
		return NULL;
	free(w->parent);
	free(w->last);
	*w = (struct ahead_walk){ .parent = own };
	return w;
}

/* With the lock: the walk has come to the folder.  Lists that it does not come to within a
 * second are for nothing: their number grows with those that were for something. */
static void walk_on(struct ahead_walk *w, const char *name, int64_t now_ns)
{
	const bool goes_on = w->last && strcmp(w->last, name) < 0 &&
			     now_ns - w->last_ns < LISTED_VALID_NS;
	char *own = strdup(name);

	w->n_ahead = goes_on && own ? w->n_ahead * 2 : 0;
	if (goes_on && own && !w->n_ahead)
		w->n_ahead = 1;
	if (w->n_ahead > AHEAD_MOST)
		w->n_ahead = AHEAD_MOST;
	free(w->last);
	w->last = own;
	w->last_ns = now_ns;
}

/* --------------------------------------------------------------------- the items --- */

/* With the lock. */
static struct ahead_item *item_find(struct ahead *a, const char *folder)
{
	for (size_t i = 0; i < AHEAD_ALL; i++)
		if (a->items[i].folder &&
		    strcmp(a->items[i].folder, folder) == 0)
			return &a->items[i];
	return NULL;
}

static bool is_old(const struct ahead_item *i, int64_t now_ns)
{
	return now_ns - i->begun_ns >= LISTED_VALID_NS;
}

/* With the lock: a place for one more; NULL: there is none. */
static struct ahead_item *item_take_place(struct ahead *a, int64_t now_ns)
{
	for (size_t i = 0; i < AHEAD_ALL; i++) {
		struct ahead_item *it = &a->items[i];

		if (it->folder && (it->is_running || !is_old(it, now_ns)))
			continue;
		item_clear(it);
		return it;
	}
	return NULL;
}

/* With the lock: list it ahead.  Takes `folder`. */
static void item_begin(struct ahead *a, char *folder, int64_t now_ns)
{
	struct ahead_item *i = item_find(a, folder);

	if (i && (i->is_running || !is_old(i, now_ns)))
		i = NULL;
	else
		i = item_take_place(a, now_ns);
	if (!i) {
		free(folder);
		return;
	}
	*i = (struct ahead_item){ .work.run = ahead_run,
				  .all = a,
				  .folder = folder,
				  .is_running = true };
	(void)!pool_submit(a->cfg.pool, &i->work);
}

/* A program lists the folder: begin with those that it will want next. */
static void go_on(struct ahead *a, const char *folder)
{
	const char *slash = strrchr(folder, '/');
	const char *name = slash ? slash + 1 : folder;
	const size_t len = slash ? (size_t)(slash - folder) : 0;
	const int64_t now_ns = clock_now_ns();
	char *next[AHEAD_MOST];
	struct ahead_walk *w;
	size_t n = 0;

	if (!*folder)
		return;
	(void)pthread_mutex_lock(&a->lock);
	w = walk_of(a, folder, len);
	if (w) {
		walk_on(w, name, now_ns);
		n = listed_folders_behind(a->cfg.listed, w->parent, name,
					  now_ns, next, w->n_ahead);
	}
	for (size_t i = 0; i < n; i++)
		item_begin(a, next[i], now_ns);
	(void)pthread_mutex_unlock(&a->lock);
}

/* Take the list that was made ahead, if that is true still: nothing was changed here
 * since, and it is young. */
static bool take_listed(struct ahead *a, const char *folder,
			struct folder_list *ret)
{
	struct ahead_item *i;
	int64_t asked_ns;
	bool is_good = false;

	(void)pthread_mutex_lock(&a->lock);
	while ((i = item_find(a, folder)) && i->is_running)
		(void)pthread_cond_wait(&a->done, &a->lock);
	if (i) {
		is_good = i->rc == 0 &&
			  listed_has_folder(a->cfg.listed, folder,
					    clock_now_ns(), &asked_ns) &&
			  asked_ns == i->begun_ns;
		if (is_good) {
			*ret = i->list;
			i->list = (struct folder_list){ .n = 0 };
		}
		item_clear(i);
	}
	(void)pthread_mutex_unlock(&a->lock);
	return is_good;
}

/* A store that hangs holds up lists for long, and each has a thread of the mount, which
 * others need for their reads. */
int ahead_list(struct ahead *a, const char *folder, struct folder_list *ret,
	       struct error *err)
{
	int64_t ignored;
	int rc = 0;

	session_begin_wait();
	go_on(a, folder);
	if (!take_listed(a, folder, ret))
		rc = list_now(a, folder, false, ret, &ignored, err);
	session_end_wait();
	return rc;
}
