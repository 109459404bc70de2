// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/listed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/mutex.h"

/* names of all folders; 22 MiB if all have the greatest length */
#define NAMES_MOST 65536u
#define FOLDERS_MOST 128u
/* a folder is listed after so many look-ups of its names within LISTED_VALID_NS */
#define WANTED_AFTER 3u
/* If our own change invalidated a list, more look-ups are needed before the next: one for each so
 * many names of the folder. */
#define CHANGED_SHARE 16u
#define STRIPED_FIRST 4u
/* a folder with too many names is not tried again for this time */
#define LONG_NS (60 * NS_PER_S)

struct listed_entry {
	char *name;
	bool is_folder, is_striped;
	uint64_t size;
	int64_t mtime_ns, asked_ns;
	/* Attributes of a striped file; NULL: not read from the store. */
	struct ckpt_stat *stat;
	int64_t stat_asked_ns;
};

struct listed_list {
	TAILQ_ENTRY(listed_list) link;
	char *folder;
	struct listed_entry *entries; /* owns the names */
	size_t n, cap;
	int64_t begun_ns;
	/* the folder was changed during the list, is too long, or memory is short */
	bool is_void;
};

struct listed_folder {
	char *path;                   /* NULL: the slot is free */
	uint64_t used;                /* clock of the last use */
	struct listed_entry *entries; /* sorted by name; NULL: not known */
	size_t n;
	int64_t begun_ns;
	/* how many striped files to ask for together; 0: none was looked up yet */
	size_t n_striped;
	/* Look-ups of single names since asked_since_ns; how many of them make a list worthwhile;
	 * and the time before which the folder is not listed for that. */
	unsigned int n_asked, wanted_after;
	int64_t asked_since_ns, rest_until_ns;
	bool is_being_listed; /* a list that look-ups caused is running */
};

struct listed {
	pthread_mutex_t lock; /* protects the members below */
	struct listed_folder all[FOLDERS_MOST];
	uint64_t clock;
	size_t n_names;
	TAILQ_HEAD(, listed_list) under_way;
};

/* ------------------------------------------------------------------- the table --- */

static void free_entries(struct listed_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(e[i].name);
		free(e[i].stat);
	}
	free(e);
}

static void forget_names(struct listed *t, struct listed_folder *f)
{
	t->n_names -= f->n;
	free_entries(f->entries, f->n);
	f->entries = NULL;
	f->n = 0;
}

static void forget_all_names(struct listed *t)
{
	for (size_t i = 0; i < FOLDERS_MOST; i++)
		forget_names(t, &t->all[i]);
}

/* Find the folder whose path is the first `len` bytes of `path`; NULL: unknown. */
static struct listed_folder *find_prefix(struct listed *t, const char *path,
					 size_t len)
{
	for (size_t i = 0; i < FOLDERS_MOST; i++) {
		struct listed_folder *f = &t->all[i];

		if (f->path && strncmp(f->path, path, len) == 0 &&
		    !f->path[len])
			return f;
	}
	return NULL;
}

static struct listed_folder *find_listed_folder(struct listed *t,
						const char *path)
{
	return find_prefix(t, path, strlen(path));
}

/* Find or add a folder, as the most recently used; a new one replaces the least recently used.
 * NULL: memory is short. */
static struct listed_folder *find_or_add_folder(struct listed *t,
						const char *path)
{
	struct listed_folder *f = find_listed_folder(t, path);
	char *own = f ? NULL : strdup(path);

	if (!f && !own)
		return NULL;
	if (!f) {
		f = &t->all[0];
		for (size_t i = 1; i < FOLDERS_MOST; i++)
			if (t->all[i].used < f->used)
				f = &t->all[i];
		forget_names(t, f);
		free(f->path);
		*f = (struct listed_folder){ .path = own,
					     .wanted_after = WANTED_AFTER };
	}
	f->used = ++t->clock;
	return f;
}

int listed_new(struct listed **ret, struct error *err)
{
	struct listed *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	(void)pthread_mutex_init(&t->lock, NULL);
	TAILQ_INIT(&t->under_way);
	*ret = t;
	return 0;
}

void listed_free(struct listed *t)
{
	if (!t)
		return;
	forget_all_names(t);
	for (size_t i = 0; i < FOLDERS_MOST; i++)
		free(t->all[i].path);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ----------------------------------------------------------------------- lists --- */

/* The list could not be made for lack of memory: let the next look-up try. */
static void abandon_list(struct listed *t, const char *folder)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_listed_folder(t, folder);

	if (f)
		f->is_being_listed = false;
}

struct listed_list *listed_begin(struct listed *t, const char *folder)
{
	struct listed_list *l = calloc(1, sizeof(*l));

	if (l)
		l->folder = strdup(folder);
	if (!l || !l->folder) {
		free(l);
		abandon_list(t, folder);
		return NULL;
	}
	l->begun_ns = clock_now_ns();
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	TAILQ_INSERT_TAIL(&t->under_way, l, link);
	return l;
}

static int add_name(struct listed_list *l, const struct ckpt_entry *e)
{
	struct listed_entry entry = {
		.is_folder = e->is_folder,
		.is_striped = e->is_striped,
		.size = e->size,
		.mtime_ns = clock_scale(e->modified_ms, NS_PER_MS, 0),
		.asked_ns = e->asked_ns,
	};

	if (l->n >= NAMES_MOST)
		return -E2BIG;
	if (array_grow(&l->entries, l->n, &l->cap, 64) < 0)
		return -ENOMEM;
	entry.name = strdup(e->name);
	if (!entry.name)
		return -ENOMEM;
	l->entries[l->n++] = entry;
	return 0;
}

void listed_add(struct listed_list *l, const struct ckpt_entry *e)
{
	/* Skip a folder that has the same name as a file, which hides it. */
	if (!l || l->is_void ||
	    (l->n && strcmp(l->entries[l->n - 1].name, e->name) == 0))
		return;
	if (add_name(l, e) == 0)
		return;
	l->is_void = true;
	free_entries(l->entries, l->n);
	l->entries = NULL;
	l->n = 0;
}

/* With the lock. */
static void keep_names(struct listed *t, struct listed_folder *f,
		       struct listed_list *l)
{
	forget_names(t, f);
	/* A single list always fits. */
	if (t->n_names + l->n > NAMES_MOST)
		forget_all_names(t);
	f->entries = l->entries;
	f->n = l->n;
	f->begun_ns = l->begun_ns;
	f->n_striped = 0;
	f->wanted_after = WANTED_AFTER;
	t->n_names += l->n;
	l->entries = NULL;
	l->n = 0;
}

void listed_end(struct listed *t, struct listed_list *l, int rc, int64_t now_ns)
{
	struct listed_folder *f;

	if (!l)
		return;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	TAILQ_REMOVE(&t->under_way, l, link);
	f = find_or_add_folder(t, l->folder);
	if (f) {
		f->is_being_listed = false;
		if (rc == -E2BIG)
			f->rest_until_ns = now_ns + LONG_NS;
		if (rc == 0 && !l->is_void)
			keep_names(t, f, l);
	}
	free_entries(l->entries, l->n);
	free(l->folder);
	free(l);
}

/* --------------------------------------------------------------------- questions --- */

static int compare_name(const void *name, const void *entry)
{
	return strcmp(name, ((const struct listed_entry *)entry)->name);
}

static bool is_answer_valid(int64_t asked_ns, int64_t now_ns)
{
	return now_ns - asked_ns < LISTED_VALID_NS;
}

/* Find an entry. NULL: there is none, or it is too old. Called with the lock held. */
static struct listed_entry *find_entry(struct listed_folder *f,
				       const char *name, int64_t now_ns)
{
	struct listed_entry *e = NULL;

	if (f && f->n)
		e = bsearch(name, f->entries, f->n, sizeof(*e), compare_name);
	return e && is_answer_valid(e->asked_ns, now_ns) ? e : NULL;
}

static bool has_stat(const struct listed_entry *e, int64_t now_ns)
{
	return e->stat && is_answer_valid(e->stat_asked_ns, now_ns);
}

static struct listed_name name_of(const struct listed_entry *e, int64_t now_ns)
{
	struct listed_name l = { .is_folder = e->is_folder,
				 .is_striped = e->is_striped,
				 .has_stat = !e->is_folder && !e->is_striped,
				 .asked_ns = e->asked_ns };

	l.stat = ckpt_plain_stat(e->size, e->mtime_ns);
	if (e->is_striped && has_stat(e, now_ns)) {
		l.has_stat = true;
		l.stat = *e->stat;
		l.asked_ns = e->stat_asked_ns;
	}
	return l;
}

bool listed_find(struct listed *t, const char *folder, const char *name,
		 int64_t now_ns, struct listed_name *ret)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	const struct listed_entry *e =
		find_entry(find_listed_folder(t, folder), name, now_ns);

	if (e)
		*ret = name_of(e, now_ns);
	return e != NULL;
}

size_t listed_n_striped(struct listed *t, const char *folder)
{
	size_t n = 1;
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_listed_folder(t, folder);

	if (f && f->n && f->n_striped) {
		n = f->n_striped;
		f->n_striped = n * 2 < LISTED_STRIPED_MOST
				       ? n * 2
				       : LISTED_STRIPED_MOST;
	} else if (f && f->n) {
		f->n_striped = STRIPED_FIRST;
	}
	return n;
}

/* Index of the first entry whose name is not less than `name`. Called with the lock held. */
static size_t find_first_entry(const struct listed_folder *f, const char *name)
{
	size_t from = 0, to = f->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (strcmp(f->entries[mid].name, name) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

size_t listed_striped(struct listed *t, const char *folder, const char *from,
		      int64_t now_ns, struct listed_striped *ret, size_t most)
{
	size_t n = 0;
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_listed_folder(t, folder);

	for (size_t i = f ? find_first_entry(f, from) : 0;
	     f && i < f->n && n < most; i++) {
		const struct listed_entry *e = &f->entries[i];

		if (!e->is_striped || !is_answer_valid(e->asked_ns, now_ns) ||
		    has_stat(e, now_ns))
			continue;
		ret[n] = (struct listed_striped){ .name = strdup(e->name),
						  .asked_ns = e->asked_ns };
		if (!ret[n].name)
			break;
		n++;
	}
	return n;
}

/* With the lock. */
static void keep_stat(struct listed_entry *e, const struct ckpt_stat *st,
		      int64_t asked_ns)
{
	if (!e->stat)
		e->stat = malloc(sizeof(*e->stat));
	if (!e->stat)
		return;
	*e->stat = *st;
	e->stat_asked_ns = asked_ns;
}

void listed_tell(struct listed *t, const char *folder,
		 const struct listed_striped *file, const struct ckpt_stat *st,
		 int64_t asked_ns)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_entry *e =
		find_entry(find_listed_folder(t, folder), file->name, asked_ns);

	/* An entry of a later list may be another file, made by this mount since: compare the
	 * list's time. */
	if (e && e->is_striped && e->asked_ns == file->asked_ns)
		keep_stat(e, st, asked_ns);
}

bool listed_has_folder(struct listed *t, const char *folder, int64_t now_ns,
		       int64_t *ret_asked_ns)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_listed_folder(t, folder);

	if (!f || !f->n || !is_answer_valid(f->begun_ns, now_ns))
		return false;
	*ret_asked_ns = f->begun_ns;
	return true;
}

/* With the lock. */
static void restart_lookup_count(struct listed_folder *f, int64_t now_ns)
{
	if (is_answer_valid(f->asked_since_ns, now_ns))
		return;
	f->asked_since_ns = now_ns;
	f->n_asked = 0;
}

/* With the lock. */
static bool should_list_folder(struct listed_folder *f, int64_t now_ns)
{
	restart_lookup_count(f, now_ns);
	if (f->n_asked < f->wanted_after || f->is_being_listed ||
	    now_ns < f->rest_until_ns)
		return false;
	f->n_asked = 0;
	f->is_being_listed = true;
	return true;
}

void listed_count(struct listed *t, const char *folder, int64_t now_ns)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_or_add_folder(t, folder);

	if (f) {
		restart_lookup_count(f, now_ns);
		f->n_asked++;
	}
}

bool listed_is_wanted(struct listed *t, const char *folder, int64_t now_ns)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct listed_folder *f = find_or_add_folder(t, folder);

	return f && should_list_folder(f, now_ns);
}

/* ----------------------------------------------------------------------- changes --- */

/* Invalidate the list of the folder whose path is the first `len` bytes of `path`. Called with the
 * lock held. */
static void change_folder(struct listed *t, const char *path, size_t len)
{
	struct listed_folder *f = find_prefix(t, path, len);
	struct listed_list *l;

	if (f && f->n / CHANGED_SHARE > f->wanted_after)
		f->wanted_after = (unsigned int)(f->n / CHANGED_SHARE);
	if (f)
		forget_names(t, f);
	TAILQ_FOREACH(l, &t->under_way, link)
	if (strlen(l->folder) == len && strncmp(l->folder, path, len) == 0)
		l->is_void = true;
}

void listed_change(struct listed *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	change_folder(t, path, slash ? (size_t)(slash - path) : 0);
	change_folder(t, path, strlen(path));
}

void listed_change_all(struct listed *t)
{
	struct listed_list *l;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	forget_all_names(t);
	TAILQ_FOREACH(l, &t->under_way, link)
	l->is_void = true;
}
