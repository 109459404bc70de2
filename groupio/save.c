// SPDX-License-Identifier: Apache-2.0
/* The list of saves, and their memory. */
#include "groupio/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "groupio/groupio.h"
#include "groupio/save_peers.h"

#define SAVES_MAX 64u
/* A save is kept so long after its end, since other nodes may ask for its result. */
#define KEPT_NS (60 * NS_PER_S)

/* ------------------------------------------------------------------------ parts --- */

void save_terms_fini(struct save_terms *t)
{
	free(t->path);
	free(t->members);
	free(t->node_of);
	*t = (struct save_terms){ .path = NULL };
}

bool save_id_parse(const char *id, char job[SAVE_JOB_LEN + 1], uint32_t *number)
{
	int end = 0;

	return sscanf(id, "%32[0-9a-f]-%9" SCNu32 "%n", job, number, &end) ==
		       2 &&
	       strlen(job) == SAVE_JOB_LEN && !id[end];
}

void rank_fini(struct save_rank *r)
{
	if (r->map)
		(void)munmap(r->map, r->size);
	save_table_fini(&r->table);
	*r = (struct save_rank){ .map = NULL };
}

/* Free the save's bytes: they are in the store, or will never be. */
static void free_save_bytes(struct save *v)
{
	v->is_dropped = true;
	for (size_t i = 0; i < v->n_here; i++)
		if (v->ranks[i].map) {
			(void)munmap(v->ranks[i].map, v->ranks[i].size);
			v->ranks[i].map = NULL;
		}
	for (uint32_t i = 0; v->pulled && i < v->plan->n_chunks; i++)
		free(v->pulled[i]);
	free((void *)v->pulled);
	v->pulled = NULL;
	v->all->used -= v->memory;
	v->memory = 0;
	v->all->stats.memory_bytes = v->all->used;
	(void)pthread_cond_broadcast(&v->all->changed);
}

static void save_free(struct save *v)
{
	free_save_bytes(v);
	for (size_t i = 0; i < v->n_here; i++)
		rank_fini(&v->ranks[i]);
	free(v->ranks);
	for (size_t i = 0; v->tables && i < v->terms.n_nodes; i++)
		save_table_fini(&v->tables[i]);
	free(v->tables);
	buf_fini(&v->text);
	buf_fini(&v->bundle);
	save_plan_free(v->plan);
	free(v->order);
	free(v->is_kept);
	for (size_t i = 0; i < SAVE_NODES_MAX; i++) {
		buf_fini(&v->parts[i].text);
		buf_fini(&v->told.table[i]);
		buf_fini(&v->told.part[i]);
	}
	save_terms_fini(&v->terms);
	free(v);
}

/* Release a reference; the last one to a finished save frees its bytes. */
void save_unref(struct save *v)
{
	if (--v->refs == 0 && v->is_over)
		free_save_bytes(v);
}

void save_put(struct save *v)
{
	struct saves *s = v->all;

	(void)pthread_mutex_lock(&s->lock);
	save_unref(v);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Is a later save of the same file in the list? It may still need to know which save made
 * the file. */
static bool is_followed(const struct save *v)
{
	for (const struct save *w = TAILQ_NEXT(v, of_all); w;
	     w = TAILQ_NEXT(w, of_all))
		if (!w->is_over && strcmp(w->terms.path, v->terms.path) == 0)
			return true;
	return false;
}

/* Free saves that ended a while ago. Without the lock, since joining their threads needs
 * them to take it. */
static void reap_saves(struct saves *s, int64_t before_ns)
{
	struct save *v, *next;
	TAILQ_HEAD(, save) over = TAILQ_HEAD_INITIALIZER(over);

	(void)pthread_mutex_lock(&s->lock);
	for (v = TAILQ_FIRST(&s->list); v; v = next) {
		next = TAILQ_NEXT(v, of_all);
		if (!v->is_over || v->refs || v->ended_ns > before_ns ||
		    is_followed(v))
			continue;
		TAILQ_REMOVE(&s->list, v, of_all);
		TAILQ_INSERT_TAIL(&over, v, of_all);
	}
	(void)pthread_mutex_unlock(&s->lock);
	while ((v = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, v, of_all);
		thread_join(&v->thread);
		(void)pthread_mutex_lock(&s->lock);
		save_free(v);
		(void)pthread_mutex_unlock(&s->lock);
	}
}

/* ----------------------------------------------------------------------- states --- */

struct save *saves_find(struct saves *s, const char *id)
{
	struct save *v;

	TAILQ_FOREACH(v, &s->list, of_all)
	if (strcmp(v->terms.id, id) == 0)
		return v;
	return NULL;
}

bool saves_have_later(const struct saves *s, const char *job, uint32_t number)
{
	const struct save *v;

	TAILQ_FOREACH(v, &s->list, of_all)
	if (v->terms.number > number && strcmp(v->terms.job, job) == 0)
		return true;
	return false;
}

void save_set_state(struct save *v, enum save_state state)
{
	struct saves *s = v->all;

	(void)pthread_mutex_lock(&s->lock);
	s->stats.buffered += (state == SAVE_BUFFERED);
	s->stats.buffered -= (v->state == SAVE_BUFFERED);
	s->stats.durable_total += (state == SAVE_DURABLE);
	s->stats.failed_total += (state == SAVE_FAILED);
	s->stats.lost_total +=
		(state == SAVE_FAILED && v->state == SAVE_BUFFERED);
	v->state = state;
	(void)pthread_cond_broadcast(&s->changed);
	if (state >= SAVE_BUFFERED)
		(void)pthread_cond_broadcast(&s->told);
	(void)pthread_mutex_unlock(&s->lock);
	peers_kick(s);
}

void save_end_phase(struct save *v, enum save_phase phase)
{
	(void)pthread_mutex_lock(&v->all->lock);
	v->report.end_ns[phase] = clock_now_ns();
	(void)pthread_mutex_unlock(&v->all->lock);
}

void save_report(struct save *v)
{
	struct saves *s = v->all;
	uint64_t *const totals[] = { &s->stats.ranks_ns, &s->stats.plan_ns,
				     &s->stats.buffer_ns, &s->stats.store_ns };
	struct save_report *r = &v->report;
	int64_t before_ns = r->begin_ns;
	size_t n = 0;

	/* The phase in which the save failed ends with the save. */
	while (n < SAVE_PHASES - 1 && r->end_ns[n])
		n++;
	r->end_ns[n] = v->ended_ns;
	for (size_t i = 0; i <= n; i++) {
		*totals[i] += (uint64_t)(r->end_ns[i] - before_ns);
		before_ns = r->end_ns[i];
	}
	r->is_durable = v->state == SAVE_DURABLE;
	s->reports[s->n_reports++ % SAVE_REPORTS] = *r;
}

bool saves_take_report(struct saves *s, struct save_report *ret)
{
	bool has;

	(void)pthread_mutex_lock(&s->lock);
	if (s->n_reports - s->n_taken > SAVE_REPORTS)
		s->n_taken = s->n_reports - SAVE_REPORTS;
	has = s->n_taken < s->n_reports;
	if (has)
		*ret = s->reports[s->n_taken++ % SAVE_REPORTS];
	(void)pthread_mutex_unlock(&s->lock);
	return has;
}

void save_fail(struct save *v, const struct error *why)
{
	(void)pthread_mutex_lock(&v->all->lock);
	v->err = *why;
	(void)pthread_mutex_unlock(&v->all->lock);
	log_error("save", "failed id=\"%s\" path=\"%s\" reason=\"%s\"",
		  v->terms.id, v->terms.path, why->msg);
	save_set_state(v, SAVE_FAILED);
}

/* Order in which unbuffered saves may take memory; it is the same on all nodes. */
static bool save_comes_before(const struct save_terms *a,
			      const struct save_terms *b)
{
	if (a->number != b->number)
		return a->number < b->number;
	return strcmp(a->job, b->job) < 0;
}

/* May the save take so many bytes? With the lock. Free memory may be taken by any save. The
 * first unbuffered save may take as if the later ones held none: otherwise saves that each hold
 * half of what they need would wait for each other, on one node or across two. Buffered saves
 * free their memory once stored, so waiting for them is safe. */
static bool has_room(const struct saves *s, const struct save_terms *t,
		     uint64_t bytes)
{
	const struct save *v;
	uint64_t held = 0;

	if (s->used + bytes <= s->cfg.memory)
		return true;
	TAILQ_FOREACH(v, &s->list, of_all)
	if (v->were_all_staged || v->is_over || strcmp(v->terms.id, t->id) == 0)
		held += v->memory;
	else if (save_comes_before(&v->terms, t))
		return false;
	return held + bytes <= s->cfg.memory;
}

static int fail_no_staging_memory(uint64_t bytes, struct error *err)
{
	return error_set(err, ENOBUFS,
			 "%" PRIu64 " bytes more were not within "
			 "--group-staging in time: give the mount more, or "
			 "save less often",
			 bytes);
}

/* Count memory that a save has taken. With the lock. */
static void count_memory_taken(struct saves *s, uint64_t bytes)
{
	s->used += bytes;
	s->stats.memory_bytes = s->used;
}

int save_keep_chunk(struct save *v, char **place, char **chunk, uint32_t len,
		    struct error *err)
{
	struct saves *s = v->all;
	bool in_time = true;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	while (!*place && !has_room(s, &v->terms, len) && in_time &&
	       !atomic_load(&s->is_ending))
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	if (!*place && has_room(s, &v->terms, len)) {
		*place = steal_ptr(chunk);
		count_memory_taken(s, len);
		v->memory += len;
		s->stats.copied_bytes += len;
		v->report.copied_bytes += len;
		/* Another thread may be waiting to store the same chunk. */
		(void)pthread_cond_broadcast(&s->changed);
	} else if (!*place) {
		rc = fail_no_staging_memory(len, err);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

void saves_give(struct saves *s, uint64_t bytes)
{
	(void)pthread_mutex_lock(&s->lock);
	s->used -= bytes;
	s->stats.memory_bytes = s->used;
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------------- joining --- */

static bool terms_are_equal(const struct save_terms *a,
			    const struct save_terms *b)
{
	return strcmp(a->path, b->path) == 0 && a->n_nodes == b->n_nodes &&
	       a->n_ranks == b->n_ranks && a->self == b->self &&
	       memcmp(a->members, b->members,
		      a->n_nodes * sizeof(*a->members)) == 0 &&
	       memcmp(a->node_of, b->node_of, a->n_ranks) == 0;
}

static bool has_rank(const struct save *v, unsigned int rank)
{
	for (size_t i = 0; i < v->n_here; i++)
		if (v->ranks[i].rank == rank)
			return true;
	return false;
}

void save_doom(struct save *v, const struct error *why)
{
	if (v->state >= SAVE_PLANNED || v->is_doomed)
		return;
	v->is_doomed = true;
	v->err = *why;
	(void)pthread_cond_broadcast(&v->all->changed);
}

/* With the lock. A rank saves in the order of numbers, so earlier saves that lack this rank
 * will never get it: fail them. Returns whether an earlier save may still take memory. */
static bool fail_or_find_earlier_saves(struct saves *s,
				       const struct save_terms *t,
				       unsigned int rank)
{
	struct error why = ERROR_INIT;
	struct save *v;
	bool has = false;

	TAILQ_FOREACH(v, &s->list, of_all)
	{
		if (v->terms.number >= t->number || v->state >= SAVE_STAGED ||
		    strcmp(v->terms.job, t->job) != 0)
			continue;
		has = true;
		if (v->state != SAVE_BEGUN || has_rank(v, rank))
			continue;
		(void)error_set(&why, ECANCELED,
				"rank %u has left it out, and saves '%.100s' "
				"now",
				rank, t->path);
		save_doom(v, &why);
	}
	return has;
}

/* Does a later save of the job have a rank that this save lacks? Then this save fails. With
 * the lock. */
static int check_left_out(struct saves *s, const struct save_terms *t,
			  struct error *err)
{
	struct save *v = saves_find(s, t->id);
	const struct save *w;

	TAILQ_FOREACH(w, &s->list, of_all)
	{
		if (w->terms.number <= t->number ||
		    strcmp(w->terms.job, t->job) != 0)
			continue;
		for (size_t i = 0; i < w->n_here; i++) {
			if (v && has_rank(v, w->ranks[i].rank))
				continue;
			(void)error_set(err, ECANCELED,
					"rank %u has left it out, and saves "
					"'%.100s' now",
					w->ranks[i].rank, w->terms.path);
			if (v)
				save_doom(v, err);
			return -ECANCELED;
		}
	}
	return 0;
}

/* Check that the bytes of the save's ranks can fit into the memory at all. With the lock. */
static int check_ranks_fit(struct saves *s, const struct save_terms *t,
			   uint64_t bytes, struct error *err)
{
	struct save *v = saves_find(s, t->id);
	const uint64_t all = bytes + (v ? v->memory : 0);

	if (all <= s->cfg.memory)
		return 0;
	(void)error_set(err, ENOBUFS,
			"this node's ranks save %" PRIu64
			" bytes and more, and --group-staging is %" PRIu64,
			all, s->cfg.memory);
	if (v)
		save_doom(v, err);
	return -ENOBUFS;
}

int saves_take_rank(struct saves *s, const struct save_terms *t,
		    const struct save_rank *r, const bool *has_left,
		    int64_t until_ns, struct error *err)
{
	bool in_time = true;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	for (;;) {
		rc = *has_left ? error_set(err, ECANCELED, "the rank has ended")
			       : check_ranks_fit(s, t, r->size, err);
		if (rc == 0)
			rc = check_left_out(s, t, err);
		if (rc < 0)
			break;
		if (!fail_or_find_earlier_saves(s, t, r->rank) &&
		    has_room(s, t, r->size)) {
			count_memory_taken(s, r->size);
			break;
		}
		if (!in_time || atomic_load(&s->is_ending)) {
			rc = fail_no_staging_memory(r->size, err);
			break;
		}
		in_time = cond_wait_until(&s->changed, &s->lock, until_ns);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Create a save. With the lock. */
static int new_save(struct saves *s, const struct save_terms *t,
		    struct save **ret, struct error *err)
{
	struct save *v = calloc(1, sizeof(*v));
	const struct save *other;
	size_t n = 0;

	TAILQ_FOREACH(other, &s->list, of_all)
	n += !other->is_over;
	if (n >= SAVES_MAX) {
		free(v);
		return error_set(err, EBUSY, "%u saves are under way",
				 SAVES_MAX);
	}
	if (!v)
		return error_nomem(err);
	v->all = s;
	for (size_t i = 0; i < t->n_ranks; i++)
		v->n_local += t->node_of[i] == t->self;
	v->ranks = calloc(v->n_local, sizeof(*v->ranks));
	v->tables = calloc(t->n_nodes, sizeof(*v->tables));
	v->report.begin_ns = clock_now_ns();
	v->until_ns = v->report.begin_ns + t->stage_ns;
	if (!v->ranks || !v->tables) {
		free(v->ranks);
		free(v->tables);
		free(v);
		return error_nomem(err);
	}
	*ret = v;
	return 0;
}

static int add_rank(struct save *v, struct save_rank *r, struct error *err)
{
	if (has_rank(v, r->rank))
		return error_set(err, EEXIST,
				 "rank %u has saved with the same job and "
				 "number: give each run of the job a name of "
				 "its own",
				 r->rank);
	if (v->is_doomed || v->state != SAVE_BEGUN)
		return error_set(err, EEXIST, "%.200s",
				 v->err.code ? v->err.msg : "the save is over");
	v->ranks[v->n_here++] = *r;
	v->last_rank = r->rank;
	v->report.given_bytes += r->size;
	v->memory += r->size;
	v->refs++;
	*r = (struct save_rank){ .map = NULL };
	(void)pthread_cond_broadcast(&v->all->changed);
	return 0;
}

bool save_has_earlier(const struct save *v)
{
	const struct save *other;

	TAILQ_FOREACH(other, &v->all->list, of_all)
	{
		if (other == v)
			return false;
		if (!other->is_over &&
		    strcmp(other->terms.path, v->terms.path) == 0)
			return true;
	}
	return false;
}

int saves_look_id(const struct saves *s, const char *path,
		  char ret[SAVE_ID_MAX], struct error *err)
{
	AUTO_BUF list = BUF_INIT;
	const void *id;
	size_t len;
	int rc = ckpt_get_xattrs(s->cfg.store, path, false, &list, err);

	ret[0] = '\0';
	if (rc == 0 &&
	    xattrs_get(list.data, list.len, SAVE_XATTR, &id, &len) == 0 &&
	    len < SAVE_ID_MAX) {
		memcpy(ret, id, len);
		ret[len] = '\0';
	}
	return rc;
}

int saves_look(const struct saves *s, const char *path, struct save_seen *ret,
	       struct error *err)
{
	struct ckpt_stat st;
	const int rc = ckpt_look(s->cfg.store, path, &ret->version, &st, err);

	ret->owner = -1;
	if (rc == 0)
		ret->owner = st.is_striped ? st.attr.uid : s->cfg.plain_owner;
	return rc == -ENOENT ? 0 : rc;
}

int save_check_owner(const struct save *v, const struct save_seen *seen,
		     uid_t uid, struct error *err)
{
	if (seen->owner < 0 || !uid || seen->owner == (int64_t)uid)
		return 0;
	return error_set(err, EACCES, "'%.100s' is of user %" PRId64,
			 v->terms.path, seen->owner);
}

/* Create a save for its first rank here, and start its thread. With the lock. */
static int begin_save(struct saves *s, struct save_terms *t,
		      struct save_rank *r, struct save **ret, struct error *err)
{
	struct save *v = NULL;
	int rc = new_save(s, t, &v, err);

	if (rc < 0)
		return rc;
	v->terms = *t;
	*t = (struct save_terms){ .path = NULL };
	rc = add_rank(v, r, err);
	TAILQ_INSERT_TAIL(&s->list, v, of_all);
	v->seen.is_behind = save_has_earlier(v);
	if (rc == 0)
		rc = thread_start(&v->thread, save_main, v, err);
	if (rc == 0) {
		*ret = v;
		return 0;
	}
	TAILQ_REMOVE(&s->list, v, of_all);
	/* The caller, which took the rank's memory, gives it back. */
	if (v->n_here) {
		*r = v->ranks[0];
		v->n_here = 0;
	}
	v->memory = 0;
	save_free(v);
	return rc;
}

int saves_join(struct saves *s, struct save_terms *t, struct save_rank *r,
	       struct save **ret, bool *ret_is_new, struct error *err)
{
	const uint64_t bytes = r->size;
	struct save *v;
	int rc = 0;

	reap_saves(s, clock_now_ns() - KEPT_NS);
	(void)pthread_mutex_lock(&s->lock);
	v = saves_find(s, t->id);
	*ret_is_new = !v;
	rc = check_left_out(s, t, err);
	if (rc < 0)
		v = NULL;
	else if (!v)
		rc = begin_save(s, t, r, &v, err);
	else if (!terms_are_equal(&v->terms, t))
		rc = error_set(err, EINVAL,
			       "ranks of one save do not agree on its path, "
			       "members or ranks");
	else
		rc = add_rank(v, r, err);
	if (rc == 0) {
		*ret = v;
		s->stats.given_bytes += bytes;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

/* ------------------------------------------------------------------- new and free --- */

static void saves_free_parts(struct saves *s)
{
	(void)pthread_cond_destroy(&s->changed);
	(void)pthread_cond_destroy(&s->told);
	(void)pthread_mutex_destroy(&s->lock);
	(void)pthread_mutex_destroy(&s->peers_lock);
	known_units_free(s->known);
	free(s->socket);
	free(s->mount);
	free(s);
}

int saves_new(const struct saves_config *cfg, struct saves **ret,
	      struct error *err)
{
	struct saves *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->listen_fd = s->end_fd = s->wake_fd = -1;
	s->socket = strdup(cfg->socket);
	s->mount = strdup(cfg->mount);
	s->known = cfg->is_full ? NULL : known_units_new();
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_mutex_init(&s->peers_lock, NULL);
	cond_init(&s->changed);
	cond_init(&s->told);
	TAILQ_INIT(&s->list);
	TAILQ_INIT(&s->parked);
	if (!s->socket || !s->mount || (!s->known && !cfg->is_full))
		rc = error_nomem(err);
	if (rc == 0)
		rc = ranks_begin(s, err);
	if (rc < 0)
		saves_free_parts(s);
	else
		*ret = s;
	return rc;
}

unsigned int saves_end(struct saves *s)
{
	if (!s)
		return 0;
	if (atomic_exchange(&s->is_ending, true))
		return (unsigned int)s->stats.lost_total;
	(void)pthread_mutex_lock(&s->lock);
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
	blocks_cancel(s->cfg.blocks);
	group_cancel_waits(s->cfg.group);
	ranks_end(s);
	for (struct save *v = TAILQ_FIRST(&s->list); v;
	     v = TAILQ_NEXT(v, of_all))
		thread_join(&v->thread);
	blocks_end(s->cfg.blocks);
	peers_end(s);
	reap_saves(s, INT64_MAX);
	return (unsigned int)s->stats.lost_total;
}

void saves_free(struct saves *s)
{
	if (!s)
		return;
	(void)saves_end(s);
	saves_free_parts(s);
}

void saves_stats(struct saves *s, struct saves_stats *ret)
{
	(void)pthread_mutex_lock(&s->lock);
	*ret = s->stats;
	(void)pthread_mutex_unlock(&s->lock);
}
