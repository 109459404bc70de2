// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a save from its first rank to its end, on a thread. Every node does the same: it makes
 * the plan from all tables, keeps and writes its units, and waits for the node that commits. The
 * first living node commits; when it dies, the next does. Two nodes that commit the same save
 * write the same bytes, so no agreement is needed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/parts.h"
#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "common/side_by_side.h"
#include "groupio/save_peers.h"

#define HASH_THREADS 4u
#define HASH_CHUNKS 4u /* fewer chunks are not worth a thread */

/* ------------------------------------------------------------- this node's table --- */

static int wait_for_ranks(struct save *v, struct error *err)
{
	struct saves *s = v->all;
	bool in_time = true, is_doomed;
	size_t n;

	(void)pthread_mutex_lock(&s->lock);
	while (v->n_here < v->n_local && in_time && !v->is_doomed &&
	       !atomic_load(&s->is_ending))
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	n = v->n_here;
	is_doomed = v->is_doomed;
	if (is_doomed)
		*err = v->err;
	(void)pthread_mutex_unlock(&s->lock);
	if (is_doomed)
		return -err->code;
	if (n == v->n_local)
		return 0;
	return error_set(err, in_time ? ECANCELED : ETIMEDOUT,
			 "%zu of this node's %zu ranks have handed in their "
			 "tensors",
			 n, v->n_local);
}

/* Join the tables of all ranks into one; each tensor knows its rank. */
static int join_tables(struct save *v, struct error *err)
{
	struct save_table *all = &v->tables[v->terms.self];
	uint64_t n_chunks = 0;
	size_t n = 0;

	for (size_t i = 0; i < v->n_here; i++) {
		n += v->ranks[i].table.n;
		n_chunks += v->ranks[i].n_chunks;
	}
	if (n_chunks > SAVE_CHUNKS_MAX)
		return error_set(err, EFBIG,
				 "this node's tensors have %" PRIu64
				 " MiB, of at most %u",
				 n_chunks, SAVE_CHUNKS_MAX);
	all->tensors = calloc(n + 1, sizeof(*all->tensors));
	if (!all->tensors)
		return error_nomem(err);
	all->cap = n + 1;
	for (size_t i = 0; i < v->n_here; i++) {
		struct save_table *t = &v->ranks[i].table;

		for (size_t k = 0; k < t->n; k++) {
			all->tensors[all->n] = t->tensors[k];
			all->tensors[all->n++].rank = v->ranks[i].rank;
		}
		t->n = 0;
	}
	return 0;
}

struct hashing {
	struct save *save;
	unsigned int n_threads;
};

static int hash_own_chunks(void *arg, unsigned int index, struct error *err)
{
	const struct hashing *h = arg;
	struct save *v = h->save;
	struct save_table *t = &v->tables[v->terms.self];
	uint64_t k = 0;
	int rc = 0;

	for (size_t i = 0; i < t->n; i++)
		for (uint32_t c = 0; c < t->tensors[i].n_chunks && rc == 0;
		     c++, k++) {
			if (k % h->n_threads != index)
				continue;
			if (atomic_load(&v->all->is_ending))
				return error_set(err, ECANCELED,
						 "the mount ends");
			rc = save_tensor_digest(&t->tensors[i], c, err);
		}
	return rc;
}

static int make_table(struct save *v, struct error *err)
{
	struct save_table *t = &v->tables[v->terms.self];
	struct hashing h = { .save = v };
	uint64_t bytes = 0;
	int rc = join_tables(v, err);

	for (size_t i = 0; i < t->n; i++)
		bytes += t->tensors[i].len;
	h.n_threads = (unsigned int)(bytes / SAVE_CHUNK / HASH_CHUNKS) + 1;
	if (h.n_threads > HASH_THREADS)
		h.n_threads = HASH_THREADS;
	if (rc == 0)
		rc = side_by_side(h.n_threads, hash_own_chunks, &h, err);
	if (rc == 0)
		rc = save_table_finish(t, err);
	return rc < 0 ? rc : save_table_encode(t, &v->text, err);
}

/* ------------------------------------------------------------------------- the plan --- */

/* Compute the id of this node's plan and its ranks' terms. Nodes send it with each message,
 * so that nodes with different plans never mix. */
static int hash_plan_id(const struct save_terms *t, const struct save_plan *p,
			char ret[SAVE_PLAN_LEN + 1], struct error *err)
{
	AUTO(hasher) h = hasher_new();
	struct digest d;
	int rc = h ? hasher_update(h, t->path, strlen(t->path) + 1) : -ENOMEM;

	if (rc == 0)
		rc = hasher_update(h, t->members,
				   t->n_nodes * sizeof(*t->members));
	if (rc == 0)
		rc = hasher_update(h, t->node_of, t->n_ranks);
	if (rc == 0)
		rc = save_plan_hash(p, h);
	if (rc == 0)
		rc = hasher_final(h, &d);
	if (rc < 0)
		return error_nomem(err);
	for (size_t i = 0; i < DIGEST_SIZE; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", d.b[i]);
	return 0;
}

static int make_plan(struct save *v, struct error *err)
{
	struct saves *s = v->all;
	struct save_plan *p = NULL;
	int rc = save_plan_make(v->tables, v->terms.n_nodes, v->terms.self, &p,
				err);
	char plan_id[SAVE_PLAN_LEN + 1];
	uint64_t *order = NULL;
	size_t n_order = 0;
	char **pulled;
	uint8_t *kept;

	if (rc == 0)
		rc = hash_plan_id(&v->terms, p, plan_id, err);
	if (rc == 0)
		rc = save_plan_order(p, v->terms.self, &order, &n_order, err);
	if (rc < 0) {
		save_plan_free(p);
		return rc;
	}
	pulled = (char **)calloc(p->n_chunks + 1, sizeof(*pulled));
	kept = calloc(p->n_units + 1, 1);
	(void)pthread_mutex_lock(&s->lock);
	v->plan = p;
	memcpy(v->plan_id, plan_id, sizeof(plan_id));
	v->order = order;
	v->n_order = n_order;
	v->pulled = pulled;
	v->is_kept = kept;
	(void)pthread_mutex_unlock(&s->lock);
	if (!pulled || !kept)
		return error_nomem(err);
	log_info("save",
		 "planned id=\"%s\" path=\"%s\" nodes=%zu given=%" PRIu64
		 " unique=%" PRIu64 " stored=%" PRIu64,
		 v->terms.id, v->terms.path, v->terms.n_nodes, p->given,
		 p->unique, p->to_store);
	return 0;
}

static unsigned int count_gone(struct save *v)
{
	unsigned int n = 0;

	for (size_t i = 0; i < v->terms.n_nodes; i++)
		n += atomic_load(&v->gone[i]);
	return n;
}

static int check_one_node_gone_at_most(struct save *v, struct error *err)
{
	if (count_gone(v) < 2)
		return 0;
	return error_set(err, ENOTCONN,
			 "%u nodes are gone, and each byte was on two",
			 count_gone(v));
}

/* --------------------------------------------------------------------- the commit --- */

struct gathering {
	struct save *save;
	struct buf parts[2 * SAVE_NODES_MAX];
};

static int copy_own_part(struct save *v, size_t of, struct buf *ret,
			 struct error *err)
{
	int rc = part_write(v, of, err);

	if (rc < 0)
		return rc;
	return buf_append(ret, v->parts[of].text.data, v->parts[of].text.len) <
			       0
		       ? error_nomem(err)
		       : 0;
}

/* Get the part that `node` wrote for the units of the dead node `of`. */
static int get_part(struct save *v, size_t node, size_t of, struct buf *ret,
		    struct error *err)
{
	char what[32];
	int rc;

	if (node == v->terms.self)
		return copy_own_part(v, of, ret, err);
	(void)snprintf(what, sizeof(what), "part/%zu", of);
	rc = peer_get(v, node, what, ret, err);
	return rc < 0 ? error_wrap(err, rc, "node %s", v->terms.members[node])
		      : 0;
}

static bool has_copies(const struct save *v, size_t node, size_t of)
{
	for (uint64_t u = 0; u < v->plan->n_units; u++)
		if (v->plan->units[u].writer == of &&
		    v->plan->units[u].copy == node && v->plan->stored[u])
			return true;
	return false;
}

/* Gather the units of a dead node from the nodes that have copies. */
static int gather_units_of_gone_node(void *arg, unsigned int node,
				     struct error *err)
{
	struct gathering *g = arg;
	struct save *v = g->save;

	for (size_t of = 0; of < v->terms.n_nodes; of++)
		if (atomic_load(&v->gone[of]) && of != node &&
		    !atomic_load(&v->gone[node]) && has_copies(v, node, of))
			return get_part(v, node, of,
					&g->parts[SAVE_NODES_MAX + node], err);
	return 0;
}

static int gather_parts(struct gathering *g, struct error *err)
{
	struct save *v = g->save;
	const unsigned int n = (unsigned int)v->terms.n_nodes;
	int rc = lead_parts(v, err);

	/* The part of a node that died meanwhile does not count. */
	(void)pthread_mutex_lock(&v->all->lock);
	for (unsigned int i = 0; i < n && rc == 0; i++) {
		if (i == v->terms.self || atomic_load(&v->gone[i]))
			continue;
		g->parts[i] = v->told.part[i];
		v->told.part[i] = (struct buf)BUF_INIT;
	}
	(void)pthread_mutex_unlock(&v->all->lock);
	if (rc == 0)
		rc = copy_own_part(v, v->terms.self, &g->parts[v->terms.self],
				   err);
	if (rc == 0)
		rc = check_one_node_gone_at_most(v, err);
	if (rc == 0 && count_gone(v))
		rc = side_by_side(n, gather_units_of_gone_node, g, err);
	return rc;
}

/* Find the save that made the file; "": no save did, or it cannot be told. */
static void find_save_of_file(struct save *v, char ret[SAVE_ID_MAX])
{
	struct error ignored = ERROR_INIT;

	if (saves_look_id(v->all, v->terms.path, ret, &ignored) < 0)
		ret[0] = '\0';
}

static bool is_file_of_this_save(struct save *v)
{
	char id[SAVE_ID_MAX];

	find_save_of_file(v, id);
	return strcmp(id, v->terms.id) == 0;
}

/* Is the file this save's, and complete? A commit that failed, or of a node that died, may
 * not have checked that the columns named in its manifest exist. */
static bool is_committed(struct save *v)
{
	struct error ignored = ERROR_INIT;

	return is_file_of_this_save(v) &&
	       ckpt_check_columns(v->all->cfg.store, v->terms.path, &ignored) ==
		       0;
}

/* Was the file made by a save of the same path that this node knows, before this one or
 * (is_later) after it? */
static bool is_file_of_known_save(struct save *v, bool is_later)
{
	const struct save *other;
	char id[SAVE_ID_MAX];
	bool is_after = false, found = false;

	find_save_of_file(v, id);
	(void)pthread_mutex_lock(&v->all->lock);
	TAILQ_FOREACH(other, &v->all->list, of_all)
	{
		is_after |= other == v;
		found |= other != v && is_after == is_later &&
			 strcmp(other->terms.id, id) == 0 &&
			 strcmp(other->terms.path, v->terms.path) == 0;
	}
	(void)pthread_mutex_unlock(&v->all->lock);
	return found;
}

/* Another node says that it has committed: does the path have this save's file, or already
 * that of a later save? */
static bool is_committed_since(struct save *v)
{
	return is_file_of_this_save(v) || is_file_of_known_save(v, true);
}

static bool version_is(const struct ckpt_version *a,
		       const struct ckpt_version *b)
{
	return a->is_known && b->is_known &&
	       strcmp(a->striped, b->striped) == 0 &&
	       strcmp(a->plain, b->plain) == 0 &&
	       a->generation == b->generation && a->bytes_id == b->bytes_id;
}

/* Check the file before a commit, in the order of its saves on this node. A file that
 * somebody else put there since this save began stays: a node that was stopped for long must
 * not replace a new step by an old one, even if it does not know the later saves. */
static int look_at_file(struct save *v, struct ckpt_version *ret,
			struct error *err)
{
	struct saves *s = v->all;
	const struct save_seen *seen = &v->seen;
	struct save_seen now = { .owner = -1 };
	bool in_time = true;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	while (seen->is_behind && save_has_earlier(v) && in_time)
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	(void)pthread_mutex_unlock(&s->lock);
	if (!in_time)
		return error_set(err, ETIMEDOUT,
				 "the save of this file before is not over");
	rc = saves_look(s, v->terms.path, &now, err);
	if (rc == 0)
		rc = save_check_owner(v, &now, v->ranks[0].uid, err);
	*ret = seen->is_behind ? now.version : seen->version;
	if (rc < 0 || !seen->is_behind ||
	    version_is(&now.version, &seen->version) ||
	    is_file_of_known_save(v, false))
		return rc;
	return error_set(err, ESTALE,
			 "another has written '%.100s' since this save began",
			 v->terms.path);
}

static int commit_parts(struct save *v, struct gathering *g,
			struct ckpt_version *version, struct error *err)
{
	AUTO_BUF xattrs = BUF_INIT;
	const struct xattr_change id = { .name = SAVE_XATTR,
					 .value = v->terms.id,
					 .len = strlen(v->terms.id) };
	struct ckpt_file_parts p = { .parts = g->parts,
				     .size = v->plan->size,
				     .unit = v->plan->unit,
				     .stored = v->plan->stored,
				     .attr = { .mode = 0644,
					       .uid = v->ranks[0].uid,
					       .gid = v->ranks[0].gid,
					       .mtime_ns = clock_wall_ns() },
				     .xattrs = &xattrs,
				     .version = version };
	int rc = xattrs_change(&xattrs, &id, err);

	/* Put the existing parts one behind the other. */
	for (size_t i = 0; i < 2 * SAVE_NODES_MAX; i++)
		if (g->parts[i].len) {
			const struct buf b = g->parts[i];

			g->parts[i] = (struct buf)BUF_INIT;
			g->parts[p.n++] = b;
		}
	return rc < 0 ? rc
		      : ckpt_commit_parts(v->all->cfg.store, v->terms.path, &p,
					  err);
}

/* Commit on this node. The store is checked while others still write. Another node that
 * takes this one for dead may commit at the same time: the put here is conditional on the
 * version that was seen, and fails then. */
static int commit_save_on_this_node(struct save *v, struct error *err)
{
	struct gathering *g = calloc(1, sizeof(*g));
	struct ckpt_version version;
	int rc;

	if (!g)
		return error_nomem(err);
	g->save = v;
	/* A node that takes over may find that an earlier leader has committed. */
	rc = v->terms.self && is_committed(v) ? 1
					      : look_at_file(v, &version, err);
	if (rc == 0)
		rc = gather_parts(g, err);
	if (rc == 0)
		rc = commit_parts(v, g, &version, err);
	for (size_t i = 0; i < 2 * SAVE_NODES_MAX; i++)
		buf_fini(&g->parts[i]);
	free(g);
	return rc < 0 ? rc : 0;
}

/* Have the first living node commit; this node writes its part and sends it. */
static int commit_save(struct save *v, struct error *err)
{
	const struct buf *part = &v->parts[v->terms.self].text;
	char what[16];
	struct peer_question q = { .what = what, .is_told = true };
	int rc = part_write(v, v->terms.self, err);

	(void)snprintf(what, sizeof(what), "part/%zu", v->terms.self);
	if (rc == 0 && part->len <= SAVE_TOLD_MAX) {
		q.text = part->data;
		q.len = part->len;
	}
	for (size_t i = 0; i < v->terms.self && rc == 0; i++) {
		if (atomic_load(&v->gone[i]))
			continue;
		rc = peer_ask(v, i, &q, NULL, err);
		if (rc == 0 && is_committed_since(v))
			return 0;
		if (rc == 0)
			rc = error_set(err, EBADMSG,
				       "it says that the file is in the store, "
				       "which is not so");
		rc = lead_excuse(v, i, rc, err);
		if (rc == 1)
			rc = check_one_node_gone_at_most(v, err);
	}
	return rc < 0 ? rc : commit_save_on_this_node(v, err);
}

/* ----------------------------------------------------------------------- the thread --- */

/* Bring the save up to its plan, which says which units each node keeps and writes. */
static int plan_save(struct save *v, struct error *err)
{
	int rc = wait_for_ranks(v, err);

	if (rc == 0)
		rc = make_table(v, err);
	if (rc < 0)
		return rc;
	save_end_phase(v, SAVE_PHASE_RANKS);
	save_set_state(v, SAVE_TABLED);
	rc = lead_tables(v, err);
	if (rc == 0)
		rc = make_plan(v, err);
	if (rc < 0)
		return rc;
	save_end_phase(v, SAVE_PHASE_PLAN);
	save_set_state(v, SAVE_PLANNED);
	return 0;
}

/* Wait until each byte is on two nodes. If a node has died, some bytes have one copy only,
 * and the save counts as buffered only once it is stored. */
static int buffer_save(struct save *v, struct error *err)
{
	int rc = stage_units(v, err);

	if (rc < 0)
		return rc;
	save_set_state(v, SAVE_STAGED);
	rc = lead_staged(v, err);
	if (rc == 0)
		rc = check_one_node_gone_at_most(v, err);
	if (rc < 0)
		return rc;
	save_end_phase(v, SAVE_PHASE_BUFFER);
	(void)pthread_mutex_lock(&v->all->lock);
	v->until_ns = clock_now_ns() + v->terms.store_ns;
	v->is_single |= count_gone(v) > 0;
	v->were_all_staged = true;
	/* Another save may now be the first that may take memory. */
	(void)pthread_cond_broadcast(&v->all->changed);
	(void)pthread_mutex_unlock(&v->all->lock);
	if (!v->is_single)
		save_set_state(v, SAVE_BUFFERED);
	return 0;
}

/* Write units to the store as they become complete; commit_save() reports errors. */
static void *write_ahead_main(void *arg)
{
	struct error ignored = ERROR_INIT;
	struct save *v = arg;

	(void)!part_write(v, v->terms.self, &ignored);
	return NULL;
}

static void give_save_up(struct save *v)
{
	(void)pthread_mutex_lock(&v->all->lock);
	v->is_given_up = true;
	(void)pthread_cond_broadcast(&v->all->changed);
	(void)pthread_mutex_unlock(&v->all->lock);
}

static int run_save(struct save *v, struct error *err)
{
	struct thread ahead = { .is_started = false };
	int rc = plan_save(v, err);

	if (rc < 0)
		return rc;
	rc = thread_start(&ahead, write_ahead_main, v, err);
	if (rc == 0)
		rc = buffer_save(v, err);
	if (rc == 0)
		rc = commit_save(v, err);
	if (rc < 0)
		give_save_up(v);
	thread_join(&ahead);
	/* The committing node may have done so before this node heard of it. */
	if (rc < 0 && is_committed(v))
		return 0;
	if (rc < 0 && v->parts[v->terms.self].state == PART_READY)
		return error_wrap(err, rc,
				  "look at '%.100s', which another node may "
				  "still commit",
				  v->terms.path);
	return rc;
}

static void end_save(struct save *v)
{
	struct saves *s = v->all;

	(void)pthread_mutex_lock(&s->lock);
	v->is_over = true;
	v->is_given_up = true;
	v->ended_ns = clock_now_ns();
	save_report(v);
	v->refs++;
	save_unref(v);
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_cond_broadcast(&s->told);
	(void)pthread_mutex_unlock(&s->lock);
}

static int64_t phase_ms(const struct save_report *r, enum save_phase phase)
{
	const int64_t from_ns = phase ? r->end_ns[phase - 1] : r->begin_ns;

	/* A phase that failed here has no end when another node committed the save. */
	return r->end_ns[phase] ? (r->end_ns[phase] - from_ns) / NS_PER_MS : 0;
}

/* Log how long each phase took, and which rank or node was last. */
static void log_durable(struct save *v)
{
	struct save_report report;
	const struct save_report *r = &report;

	(void)pthread_mutex_lock(&v->all->lock);
	report = v->report;
	(void)pthread_mutex_unlock(&v->all->lock);
	if (!r->is_durable)
		return;
	log_info("save",
		 "durable id=\"%s\" path=\"%s\" ranks_ms=%" PRId64
		 " last_rank=%zu plan_ms=%" PRId64
		 " last_table=\"%s\" buffer_ms=%" PRId64
		 " last_staged=\"%s\" store_ms=%" PRId64 " given=%" PRIu64
		 " copied=%" PRIu64 " stored=%" PRIu64 " unchanged=%" PRIu64,
		 v->terms.id, v->terms.path, phase_ms(r, SAVE_PHASE_RANKS),
		 v->last_rank, phase_ms(r, SAVE_PHASE_PLAN),
		 v->terms.members[v->last_table],
		 phase_ms(r, SAVE_PHASE_BUFFER),
		 v->terms.members[v->last_staged],
		 phase_ms(r, SAVE_PHASE_STORE), r->given_bytes, r->copied_bytes,
		 r->stored_bytes, r->named_bytes);
}

/* Prefer the reason of save_doom(), that ranks have left, to the error that the save was
 * given up. */
static void get_cancel_reason(struct save *v, struct error *ret)
{
	(void)pthread_mutex_lock(&v->all->lock);
	if (v->is_doomed && v->state < SAVE_PLANNED)
		*ret = v->err;
	(void)pthread_mutex_unlock(&v->all->lock);
}

/* Note the units that this node has stored or named, for later saves. */
static void note_units_for_later_saves(struct save *v)
{
	struct saves *s = v->all;
	const struct save_part *part = &v->parts[v->terms.self];
	struct error err = ERROR_INIT;
	bool is_ready;

	(void)pthread_mutex_lock(&s->lock);
	is_ready = part->state == PART_READY;
	(void)pthread_mutex_unlock(&s->lock);
	if (s->known && is_ready &&
	    known_units_note(s->known, v->plan, &part->text, &err) < 0)
		log_warning("save",
			    "units are stored again by the next save id=\"%s\" "
			    "reason=\"%s\"",
			    v->terms.id, err.msg);
}

void *save_main(void *arg)
{
	struct save *v = arg;
	struct error err = ERROR_INIT;

	if (run_save(v, &err) == 0) {
		note_units_for_later_saves(v);
		save_set_state(v, SAVE_DURABLE);
		end_save(v);
		log_durable(v);
		return NULL;
	}
	get_cancel_reason(v, &err);
	save_fail(v, &err);
	end_save(v);
	lead_tell_failure(v);
	return NULL;
}
