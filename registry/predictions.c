// SPDX-License-Identifier: Apache-2.0
#include "registry/predictions.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "recorder/trace.h"

#define KEPT_MAX 16u /* prefixes whose lists are in memory */
#define FRESH_NS (5 * NS_PER_S)
#define EMPTY_FRESH_NS NS_PER_S
#define MAKE_NS \
	(NS_PER_S / 4) /* a start waits; the next one finds more lists merged */
#define OWNERS_KNOWN_MAX 4096u      /* the newest */
#define PAUSE_FACTOR 4              /* between two, of what the first took */
#define MEMORY_MAX (64u << 20)      /* of these, decoded */
#define ENTRIES_BEFORE (256u << 10) /* of its donors */

/* A list; never changes. */
struct prediction_text {
	struct buf trace;  /* encoded; empty: there is nothing to tell */
	unsigned int refs; /* predictions.lock */
};

struct prediction_slot {
	char *prefix; /* NULL: free */
	struct prediction_text *text;
	int64_t made_ns, used_ns;
	bool busy; /* somebody makes it anew */
};

struct predictions {
	struct db *db;
	struct hot *hot;
	pthread_mutex_t lock; /* protects what follows */
	bool is_making;       /* one at once: its memory */
	int64_t next_ns; /* none is made before: it is a part of what a core does */
	struct prediction_slot slots[KEPT_MAX];
	struct prediction_stats stats;
};

int predictions_new(struct db *db, struct hot *hot, struct predictions **ret,
		    struct error *err)
{
	struct predictions *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->db = db;
	p->hot = hot;
	pthread_mutex_init(&p->lock, NULL);
	*ret = p;
	return 0;
}

/* With the lock. */
static void unref_text(struct prediction_text *t)
{
	if (!t || --t->refs > 0)
		return;
	buf_fini(&t->trace);
	free(t);
}

void predictions_free(struct predictions *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < KEPT_MAX; i++) {
		unref_text(p->slots[i].text);
		free(p->slots[i].prefix);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ------------------------------------------------------------------- owners --- */

bool prediction_owner(const char *repo, char *ret)
{
	const char *slash = strchr(repo, '/');
	size_t len;

	if (!slash || slash == repo)
		return false;
	len = (size_t)(slash - repo) + 1 + strcspn(slash + 1, "/");
	if (slash[1] == '\0' || len >= PREDICTION_OWNER_MAX)
		return false;
	memcpy(ret, repo, len);
	ret[len] = '\0';
	return true;
}

struct owner_names {
	char *v[OWNERS_KNOWN_MAX];
	size_t n;
};

/* Its number; -ENOSPC, -ENOMEM. */
static int owner_number(struct owner_names *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->v[i], name) == 0)
			return (int)i;
	if (o->n == OWNERS_KNOWN_MAX)
		return -ENOSPC;
	o->v[o->n] = strdup(name);
	return o->v[o->n] ? (int)o->n++ : -ENOMEM;
}

static bool is_below(const char *repo, const char *prefix)
{
	size_t len = strlen(prefix);

	return len == 0 || (strncmp(repo, prefix, len) == 0 &&
			    (repo[len] == '/' || repo[len] == '\0'));
}

/* ------------------------------------------------------------------ choosing --- */

/* A start that may take part. */
struct prediction_donor {
	struct start start;
	uint32_t owner, turn; /* turn: how many of the owner are newer */
	uint32_t order;
	bool is_own;
};

struct donor_choice {
	const char *prefix;
	struct owner_names owners;
	uint32_t turns[OWNERS_KNOWN_MAX];
	struct prediction_donor *v;
	size_t n;
};

static void donor_choice_free(struct donor_choice *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->owners.n; i++)
		free(c->owners.v[i]);
	free(c->v);
	free(c);
}

static int note_donor(void *arg, const struct donor_line *l)
{
	struct donor_choice *c = arg;
	char name[PREDICTION_OWNER_MAX];
	int owner;

	if (c->n == DONOR_LINES_MAX || !prediction_owner(l->repo, name))
		return 0;
	owner = owner_number(&c->owners, name);
	if (owner < 0)
		return owner == -ENOSPC ? 0 : owner;
	c->v[c->n] = (struct prediction_donor){
		.start = l->start,
		.owner = (uint32_t)owner,
		.turn = c->turns[owner]++,
		.order = (uint32_t)c->n,
		.is_own = is_below(l->repo, c->prefix),
	};
	c->n++;
	return 0;
}

/* By turns, so that no owner's many starts crowd out those of others. */
static int by_turn(const void *a, const void *b)
{
	const struct prediction_donor *x = a, *y = b;

	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int choose_donors(struct predictions *p, const char *prefix,
			 struct donor_choice **ret, struct error *err)
{
	struct donor_choice *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return error_nomem(err);
	c->prefix = prefix;
	c->v = calloc(DONOR_LINES_MAX, sizeof(*c->v));
	rc = c->v ? trace_db_donors(p->db, note_donor, c, err)
		  : error_nomem(err);
	if (rc < 0) {
		donor_choice_free(c);
		return rc;
	}
	qsort(c->v, c->n, sizeof(*c->v), by_turn);
	*ret = c;
	return 0;
}

/* -------------------------------------------------------------------- making --- */

struct donor_traces {
	struct trace_donor v[PREDICTION_DONORS_MAX];
	struct trace *traces[PREDICTION_DONORS_MAX];
	uint32_t owners[PREDICTION_DONORS_MAX]; /* as of the choice */
	size_t n, n_owners, entries;
	uint64_t memory;
};

/* A small number for an owner: no more of them than donors. */
static uint32_t small_owner(struct donor_traces *all, uint32_t owner)
{
	for (uint32_t i = 0; i < all->n_owners; i++)
		if (all->owners[i] == owner)
			return i;
	all->owners[all->n_owners] = owner;
	return (uint32_t)all->n_owners++;
}

/* One whose list cannot be had is left out. */
static void load_donor(struct predictions *p, const struct prediction_donor *d,
		       struct donor_traces *all)
{
	struct hot_list_text *list;
	struct trace *t = NULL;

	if (hot_get(p->hot, &d->start, &list, NULL) < 0)
		return;
	if (trace_decode_within(list->trace.data, list->trace.len,
				MEMORY_MAX - all->memory, &t, NULL) == 0 &&
	    all->entries + t->n <= ENTRIES_BEFORE) {
		all->memory += trace_memory(t);
		all->entries += t->n;
		all->traces[all->n] = t;
		all->v[all->n++] = (struct trace_donor){
			.trace = steal_ptr(&t),
			.owner = small_owner(all, d->owner),
			.is_own = d->is_own,
		};
	}
	trace_free(t);
	hot_put(p->hot, list);
}

static int predict_of(const struct donor_traces *all, struct buf *ret,
		      size_t *ret_entries, struct error *err)
{
	AUTO(trace) t = NULL;
	int rc = trace_predict(all->v, all->n, PREDICTION_OWNERS_MIN, &t, err);

	*ret_entries = 0;
	if (rc < 0 || t->n == 0)
		return rc;
	*ret_entries = t->n;
	return prediction_encode(t, ret, err);
}

static int make_text(struct predictions *p, const char *prefix,
		     struct prediction_text *ret, size_t *ret_entries,
		     struct error *err)
{
	struct donor_traces *all = calloc(1, sizeof(*all));
	int64_t until = clock_now_ns() + MAKE_NS;
	struct donor_choice *c = NULL;
	int rc = all ? choose_donors(p, prefix, &c, err) : error_nomem(err);

	for (size_t i = 0;
	     rc == 0 && i < c->n && all->n < PREDICTION_DONORS_MAX &&
	     clock_now_ns() < until;
	     i++)
		load_donor(p, &c->v[i], all);
	if (rc == 0)
		rc = predict_of(all, &ret->trace, ret_entries, err);
	for (size_t i = 0; all && i < all->n; i++)
		trace_free(all->traces[i]);
	donor_choice_free(c);
	free(all);
	return rc;
}

/* ----------------------------------------------------------------------- get --- */

/* With the lock: the prefix's slot, or the one that was used least recently of those that
 * nobody fills; NULL: all are being filled. */
static struct prediction_slot *find_slot(struct predictions *p,
					 const char *prefix)
{
	struct prediction_slot *oldest = NULL;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		struct prediction_slot *s = &p->slots[i];

		if (s->prefix && strcmp(s->prefix, prefix) == 0)
			return s;
		if (!s->busy && (!oldest || s->used_ns < oldest->used_ns))
			oldest = s;
	}
	if (!oldest)
		return NULL;
	unref_text(oldest->text);
	free(oldest->prefix);
	*oldest = (struct prediction_slot){ .prefix = strdup(prefix) };
	return oldest->prefix ? oldest : NULL;
}

/* With the lock, which is given up meanwhile. */
static int fill_slot(struct predictions *p, struct prediction_slot *s,
		     struct error *err)
{
	struct prediction_text *t = calloc(1, sizeof(*t));
	int64_t begun = clock_now_ns();
	size_t entries = 0;
	int rc;

	if (!t)
		return error_nomem(err);
	t->refs = 1;
	s->busy = p->is_making = true;
	pthread_mutex_unlock(&p->lock);
	rc = make_text(p, s->prefix, t, &entries, err);
	pthread_mutex_lock(&p->lock);
	s->busy = p->is_making = false;
	p->stats.made_total++;
	p->stats.made_ns_total += (uint64_t)(clock_now_ns() - begun);
	p->next_ns = clock_now_ns() + PAUSE_FACTOR * (clock_now_ns() - begun);
	p->stats.entries = entries;
	s->made_ns = clock_now_ns();
	if (rc < 0) {
		unref_text(t);
		return rc;
	}
	unref_text(s->text);
	s->text = t;
	return 0;
}

static bool is_old(const struct prediction_slot *s, int64_t now)
{
	bool is_empty = !s->text || s->text->trace.len == 0;

	return !s->made_ns ||
	       now - s->made_ns >= (is_empty ? EMPTY_FRESH_NS : FRESH_NS);
}

int predictions_get(struct predictions *p, const char *prefix,
		    struct prediction_text **ret, struct error *err)
{
	struct prediction_slot *s;
	int64_t now = clock_now_ns();
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	p->stats.asked_total++;
	s = find_slot(p, prefix);
	if (s) {
		s->used_ns = now;
		if (!p->is_making && now >= p->next_ns && is_old(s, now))
			rc = fill_slot(p, s, err);
	}
	/* What was there before is better than nothing. */
	if (s && s->text && s->text->trace.len) {
		s->text->refs++;
		p->stats.told_total++;
		*ret = s->text;
		rc = 0;
	} else if (rc == 0) {
		rc = error_set(err, ENOENT, "there is no trace yet");
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

const struct buf *prediction_trace(const struct prediction_text *t)
{
	return &t->trace;
}

void predictions_put(struct predictions *p, struct prediction_text *t)
{
	pthread_mutex_lock(&p->lock);
	unref_text(t);
	pthread_mutex_unlock(&p->lock);
}

void predictions_get_stats(struct predictions *p, struct prediction_stats *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = p->stats;
	pthread_mutex_unlock(&p->lock);
}
