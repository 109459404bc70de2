// SPDX-License-Identifier: Apache-2.0
#include "registry/predictions.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/compare.h"
#include "common/log.h"
#include "common/registry_host.h"
#include "recorder/trace.h"

#define KEPT_MAX 16u /* prefixes whose predictions are cached */
#define FRESH_NS (5 * NS_PER_S)
#define EMPTY_FRESH_NS NS_PER_S
/* time to make a prediction: a start waits for it, and the next attempt finds more lists merged */
#define MAKE_NS (NS_PER_S / 4)
/* a choice of donors is kept so many times longer than it took to make */
#define CHOICE_FACTOR 100
#define CHOICE_KEPT_NS (60 * NS_PER_S)
/* pause after making a prediction, as a multiple of the time it took */
#define PAUSE_FACTOR 4
#define MEMORY_MAX (64u << 20) /* memory of decoded donor lists */
/* entries of all donor lists of a prediction */
#define ENTRIES_BEFORE (256u << 10)
/* starts whose lists are tried */
#define LOOKED_AT_MAX (4 * PREDICTION_DONORS_MAX)

/* A prediction; it never changes. */
struct prediction_text {
	struct buf trace;  /* encoded trace; empty: nothing can be predicted */
	unsigned int refs; /* users; protected by predictions.lock */
};

struct prediction_slot {
	char *prefix; /* NULL: the slot is free */
	struct prediction_text *text;
	int64_t made_ns, used_ns;
	bool busy; /* a thread makes a new prediction */
};

struct donor_choice;

struct predictions {
	struct db *db;
	struct hot *hot;
	/* choice, merge_first: used only by the thread that makes a prediction */
	struct donor_choice *choice;
	size_t merge_first;
	pthread_mutex_t lock; /* protects the members below */
	/* predictions are made one at a time, to bound memory */
	bool is_making;
	/* the next prediction is made no earlier, to bound the use of the CPU */
	int64_t next_ns;
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

/* Called with the lock held. */
static void unref_text(struct prediction_text *t)
{
	if (!t || --t->refs > 0)
		return;
	buf_fini(&t->trace);
	free(t);
}

static void donor_choice_free(struct donor_choice *c);

void predictions_free(struct predictions *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < KEPT_MAX; i++) {
		unref_text(p->slots[i].text);
		free(p->slots[i].prefix);
	}
	donor_choice_free(p->choice);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Copy the owner of a repository, HOST/FIRST of HOST/FIRST/MORE, to a text of PREDICTION_OWNER_MAX
 * bytes. False: the name has no owner. */
static bool prediction_owner(const char *repo, char *ret)
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

/* ------------------------------------------------------------------ choosing --- */

/* A donor: a start whose list may be used in predictions. */
struct prediction_donor {
	struct start start;
	char *repo;
	/* length of the owner at the beginning of `repo` */
	size_t owner_len;
	/* turn: how many of the owner's starts are newer */
	uint32_t owner, turn;
	uint32_t order;
};

/* Donors of all repositories, the same for all callers. The newest start of each owner comes first,
 * then the second newest of each, so that an owner with many starts does not crowd out others. */
struct donor_choice {
	struct prediction_donor *v;
	size_t n;
	int64_t until_ns; /* until then the choice is used */
};

static void donor_choice_free(struct donor_choice *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].repo);
	free(c->v);
	free(c);
}

static int note_donor(void *arg, const struct donor_line *l)
{
	struct donor_choice *c = arg;
	char name[PREDICTION_OWNER_MAX];
	struct prediction_donor *d = &c->v[c->n];

	if (c->n == DONOR_LINES_MAX || !prediction_owner(l->repo, name))
		return 0;
	*d = (struct prediction_donor){
		.start = l->start,
		.repo = strdup(l->repo),
		.owner_len = strlen(name),
		.order = (uint32_t)c->n,
	};
	if (!d->repo)
		return -ENOMEM;
	c->n++;
	return 0;
}

static int compare_owners(const struct prediction_donor *x,
			  const struct prediction_donor *y)
{
	int c = ORDER(x->owner_len, y->owner_len);

	return c ? c : memcmp(x->repo, y->repo, x->owner_len);
}

static int compare_donors_by_owner(const void *a, const void *b)
{
	const struct prediction_donor *x = a, *y = b;
	int c = compare_owners(x, y);

	return c ? c : ORDER(x->order, y->order);
}

static int compare_donors_by_turn(const void *a, const void *b)
{
	const struct prediction_donor *x = a, *y = b;
	int c = ORDER(x->turn, y->turn);

	return c ? c : ORDER(x->order, y->order);
}

static void number_turns(struct donor_choice *c)
{
	struct prediction_donor *v = c->v;

	qsort(v, c->n, sizeof(*v), compare_donors_by_owner);
	for (size_t i = 1; i < c->n; i++) {
		bool is_same = compare_owners(&v[i - 1], &v[i]) == 0;

		v[i].owner = v[i - 1].owner + !is_same;
		v[i].turn = is_same ? v[i - 1].turn + 1 : 0;
	}
	qsort(v, c->n, sizeof(*v), compare_donors_by_turn);
}

/* Make a new choice of donors if the old one has expired. Called by the thread that makes a
 * prediction. */
static int renew_choice(struct predictions *p, struct error *err)
{
	int64_t begun = clock_now_ns(), kept;
	struct donor_choice *c;
	int rc;

	if (p->choice && begun < p->choice->until_ns)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_nomem(err);
	c->v = calloc(DONOR_LINES_MAX + 1, sizeof(*c->v));
	rc = c->v ? trace_db_donors(p->db, note_donor, c, err)
		  : error_nomem(err);
	if (rc < 0) {
		donor_choice_free(c);
		return rc;
	}
	number_turns(c);
	kept = CHOICE_FACTOR * (clock_now_ns() - begun);
	c->until_ns = clock_now_ns() +
		      (kept < CHOICE_KEPT_NS ? kept : CHOICE_KEPT_NS);
	donor_choice_free(p->choice);
	p->choice = c;
	return 0;
}

/* Order the choice: first the caller's own starts, up to half of all donors, then the others. */
static void put_own_first(const struct donor_choice *c, const char *prefix,
			  uint32_t *ret)
{
	size_t n = 0, n_own, next = 0;

	for (uint32_t i = 0; i < c->n && n < PREDICTION_DONORS_MAX / 2; i++)
		if (registry_host_is_below(c->v[i].repo, prefix,
					   strlen(prefix)))
			ret[n++] = i;
	n_own = n;
	for (uint32_t i = 0; i < c->n; i++) {
		if (next < n_own && ret[next] == i)
			next++;
		else
			ret[n++] = i;
	}
}

/* -------------------------------------------------------------------- making --- */

struct donor_traces {
	const char *prefix;
	int64_t until_ns;
	bool is_cut; /* some lists could not be loaded in time */
	struct trace_donor v[PREDICTION_DONORS_MAX];
	struct trace *traces[PREDICTION_DONORS_MAX];
	/* numbers of the owners in the choice */
	uint32_t owners[PREDICTION_DONORS_MAX];
	size_t n, n_owners, entries;
	uint64_t memory;
};

/* Map an owner's number in the choice to a small number, below the number of donors. */
static uint32_t compact_owner_number(struct donor_traces *all, uint32_t owner)
{
	for (uint32_t i = 0; i < all->n_owners; i++)
		if (all->owners[i] == owner)
			return i;
	all->owners[all->n_owners] = owner;
	return (uint32_t)all->n_owners++;
}

static void add_donor(const struct prediction_donor *d,
		      const struct hot_list_text *list,
		      struct donor_traces *all)
{
	struct trace *t = NULL;

	if (trace_decode_within(list->trace.data, list->trace.len,
				MEMORY_MAX - all->memory, &t, NULL) == 0 &&
	    all->entries + t->n <= ENTRIES_BEFORE) {
		all->memory += trace_memory(t);
		all->entries += t->n;
		all->traces[all->n] = t;
		all->v[all->n++] = (struct trace_donor){
			.trace = steal_ptr(&t),
			.owner = compact_owner_number(all, d->owner),
			.is_own = registry_host_is_below(d->repo, all->prefix,
							 strlen(all->prefix)),
		};
	}
	trace_free(t);
}

typedef int get_list(struct hot *h, const struct start *s,
		     struct hot_list_text **ret, struct error *err);

/* Add the list of donor `i` of the choice. -ENOENT: the start has no list. */
static int load_donor(struct predictions *p, uint32_t i, get_list *get,
		      struct donor_traces *all)
{
	const struct prediction_donor *d = &p->choice->v[i];
	struct hot_list_text *list;
	int rc = get(p->hot, &d->start, &list, NULL);

	if (rc < 0) {
		all->is_cut |= rc != -ENOENT;
		return rc;
	}
	add_donor(d, list, all);
	hot_put(p->hot, list);
	return 0;
}

static bool is_in_time(struct donor_traces *all)
{
	bool is = clock_now_ns() < all->until_ns;

	all->is_cut |= !is;
	return is;
}

/* Load existing lists first, then merge lists of the first donors in the time that is left. Each
 * call begins at another donor, so that a few large recordings do not exclude the rest for long. */
static void load_donors(struct predictions *p, const uint32_t *order,
			struct donor_traces *all)
{
	size_t n = p->choice->n, i = 0, n_unmerged = 0;
	uint32_t unmerged[PREDICTION_DONORS_MAX];

	for (; i < n && i < PREDICTION_DONORS_MAX && is_in_time(all); i++)
		if (load_donor(p, order[i], hot_get_merged, all) == -ENOENT)
			unmerged[n_unmerged++] = order[i];
	for (size_t k = 0; k < n_unmerged && is_in_time(all); k++)
		(void)load_donor(p, unmerged[(k + p->merge_first) % n_unmerged],
				 hot_get, all);
	p->merge_first++;
	n = n < LOOKED_AT_MAX ? n : LOOKED_AT_MAX;
	for (; i < n && all->n < PREDICTION_DONORS_MAX && is_in_time(all); i++)
		(void)load_donor(p, order[i], hot_get_merged, all);
}

static int predict_from_donors(const struct donor_traces *all, struct buf *ret,
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
	AUTO_FREE struct donor_traces *all = calloc(1, sizeof(*all));
	AUTO_FREE uint32_t *order = NULL;
	int rc = all ? renew_choice(p, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	order = calloc(p->choice->n + 1, sizeof(*order));
	if (!order)
		return error_nomem(err);
	put_own_first(p->choice, prefix, order);
	all->prefix = prefix;
	all->until_ns = clock_now_ns() + MAKE_NS;
	load_donors(p, order, all);
	rc = predict_from_donors(all, &ret->trace, ret_entries, err);
	for (size_t i = 0; i < all->n; i++)
		trace_free(all->traces[i]);
	/* An empty prediction is a result only if all lists could be loaded. */
	if (rc == 0 && ret->trace.len == 0 && all->is_cut)
		rc = error_set(err, EBUSY,
			       "too few lists could be had in time");
	return rc;
}

/* ----------------------------------------------------------------------- get --- */

/* Find the prefix's slot. Without one, and if `may_fill`, reuse the least recently used slot; else
 * NULL. Called with the lock held. */
static struct prediction_slot *find_slot(struct predictions *p,
					 const char *prefix, bool may_fill)
{
	struct prediction_slot *oldest = NULL;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		struct prediction_slot *s = &p->slots[i];

		if (s->prefix && strcmp(s->prefix, prefix) == 0)
			return s;
		if (!s->busy && (!oldest || s->used_ns < oldest->used_ns))
			oldest = s;
	}
	if (!oldest || !may_fill)
		return NULL;
	unref_text(oldest->text);
	free(oldest->prefix);
	*oldest = (struct prediction_slot){ .prefix = strdup(prefix) };
	return oldest->prefix ? oldest : NULL;
}

/* Make the slot's prediction. Called with the lock held, and releases it meanwhile. */
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

static bool is_prediction_old(const struct prediction_slot *s, int64_t now)
{
	bool is_empty = !s->text || s->text->trace.len == 0;

	return !s->made_ns ||
	       now - s->made_ns >= (is_empty ? EMPTY_FRESH_NS : FRESH_NS);
}

int predictions_get(struct predictions *p, const char *prefix,
		    struct prediction_text **ret, struct error *err)
{
	struct prediction_slot *s;
	struct error why = ERROR_INIT;
	int64_t now = clock_now_ns();
	bool may_fill, is_told;
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	p->stats.asked_total++;
	may_fill = !p->is_making && now >= p->next_ns;
	s = find_slot(p, prefix, may_fill);
	if (s) {
		s->used_ns = now;
		if (may_fill && is_prediction_old(s, now))
			rc = fill_slot(p, s, &why);
	}
	/* Return the slot's prediction even if it is old. */
	is_told = s && s->text && s->text->trace.len;
	if (is_told) {
		s->text->refs++;
		p->stats.told_total++;
		*ret = s->text;
	}
	pthread_mutex_unlock(&p->lock);
	if (rc < 0)
		log_warning("predictions",
			    "a prediction could not be made reason=\"%s\"",
			    why.msg);
	return is_told ? 0 : error_set(err, ENOENT, "there is no trace yet");
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
