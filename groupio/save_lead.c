// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of a save that need all nodes. In each step every node sends what it has to the
 * leader, which is the first living node, and gets an answer once all have sent. The leader
 * sends requests to late nodes one after the other, and so finds nodes that are dead, have
 * failed, or cannot reach it. When the leader dies, the others turn to the next node; no
 * election is needed.
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

#define FETCH_THREADS 4u

/* A step in which the leader gathers something from all other nodes. */
struct lead_step {
	const char *
		/* name of the thing in requests; "part/": followed by the node's number */
		what;
	/* bit mask of the nodes that have sent it; with saves.lock */
	uint64_t *told;
	/* received text of each node; NULL: the step has no text, only the news */
	struct buf *texts;
	/* Handle a node's failure; 0: the save goes on without the node. */
	int (*failed)(struct save *v, size_t node, int rc, struct error *err);
};

/* ------------------------------------------------------------------------ gathering --- */

struct lead_wait {
	uint64_t late;  /* nodes that have not sent it */
	uint64_t large; /* nodes whose text is large and must be fetched */
	uint64_t failed;
};

/* Look which nodes are missing in a step. With the lock. */
static struct lead_wait find_missing_nodes(const struct save *v,
					   const struct lead_step *step)
{
	struct lead_wait w = { .late = 0 };

	for (size_t i = 0; i < v->terms.n_nodes; i++) {
		const uint64_t bit = UINT64_C(1) << i;

		if (i == v->terms.self || atomic_load(&v->gone[i]))
			continue;
		if (!(*step->told & bit))
			w.late |= bit;
		else if (step->texts && !step->texts[i].len)
			w.large |= bit;
	}
	w.failed = v->told.failures & (w.late | w.large);
	return w;
}

/* Wait until all have sent, one has failed, a text must be fetched, or it is time to send
 * requests to the late nodes. */
static int lead_wait(struct save *v, const struct lead_step *step,
		     int64_t look_ns, struct lead_wait *ret, struct error *err)
{
	struct saves *s = v->all;
	const int64_t until_ns = look_ns < v->until_ns ? look_ns : v->until_ns;
	bool in_time = true, is_to_stop;

	(void)pthread_mutex_lock(&s->lock);
	for (;;) {
		*ret = find_missing_nodes(v, step);
		is_to_stop = save_is_to_stop(v);
		if (!ret->late || ret->large || ret->failed || is_to_stop ||
		    !in_time)
			break;
		in_time = cond_wait_until(&s->changed, &s->lock, until_ns);
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (!ret->late && !ret->large)
		return 0;
	if (is_to_stop)
		return error_set(err, ECANCELED, "the save was given up");
	if (clock_now_ns() < v->until_ns)
		return 0;
	return error_set(err, ETIMEDOUT,
			 "node %s: it has not answered '%s' in time",
			 v->terms.members[__builtin_ctzll(ret->late |
							  ret->large)],
			 step->what);
}

static void keep_node_answer(struct save *v, const struct lead_step *step,
			     size_t node, struct buf *text)
{
	(void)pthread_mutex_lock(&v->all->lock);
	if (step->texts && !step->texts[node].len) {
		step->texts[node] = *text;
		*text = (struct buf)BUF_INIT;
	}
	*step->told |= UINT64_C(1) << node;
	(void)pthread_mutex_unlock(&v->all->lock);
}

/* Send a request to a late node. 0: its text is here or the save goes on without the node;
 * 1: not yet. */
static int ask_node_for_step(struct save *v, const struct lead_step *step,
			     size_t node, bool has_failed, int64_t *heard_ns,
			     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char what[32];
	int rc;

	(void)snprintf(what, sizeof(what), "%s", step->what);
	if (what[strlen(what) - 1] == '/')
		(void)snprintf(what, sizeof(what), "%s%zu", step->what, node);
	if (has_failed) {
		(void)pthread_mutex_lock(&v->all->lock);
		*err = v->told.why;
		(void)pthread_mutex_unlock(&v->all->lock);
		rc = -EREMOTEIO;
	} else {
		rc = peer_look(v, node, what, heard_ns, &text, err);
	}
	if (rc == 1 || rc == -EAGAIN)
		return 1;
	if (rc == 0 && step->texts && !text.len)
		rc = error_set(err, EBADMSG, "it sent nothing");
	if (rc < 0)
		return step->failed(v, node, rc, err);
	keep_node_answer(v, step, node, &text);
	return 0;
}

/* Gather a step's texts. Late nodes get a request soon, then less and less often: most are
 * just about to send. */
static int lead_gather(struct save *v, const struct lead_step *step,
		       struct error *err)
{
	const int64_t most_ns = v->all->cfg.wait_ns / 2;
	int64_t heard_ns[SAVE_NODES_MAX], every_ns = most_ns / 8;
	int64_t look_ns = clock_now_ns() + every_ns;
	struct lead_wait w;
	int rc;

	for (size_t i = 0; i < SAVE_NODES_MAX; i++)
		heard_ns[i] = clock_now_ns();
	for (;;) {
		bool is_due, is_soon = false;

		rc = lead_wait(v, step, look_ns, &w, err);
		if (rc < 0 || (!w.late && !w.large))
			return rc;
		is_due = clock_now_ns() >= look_ns;
		for (size_t i = 0; i < v->terms.n_nodes; i++) {
			const uint64_t bit = UINT64_C(1) << i;
			const int64_t before_ns = heard_ns[i];

			if (!((w.failed | w.large | (is_due ? w.late : 0)) &
			      bit))
				continue;
			rc = ask_node_for_step(v, step, i, w.failed & bit,
					       &heard_ns[i], err);
			if (rc < 0)
				return rc;
			is_soon |= rc == 1 &&
				   (heard_ns[i] == before_ns || w.large & bit);
		}
		/* A node that gave no answer is asked again soon, until it answers or counts
		 * as dead. */
		if (is_soon)
			peer_pause(v->all);
		if (is_due && !is_soon && every_ns < most_ns)
			every_ns *= 2;
		if (is_due)
			look_ns = clock_now_ns() + (is_soon ? 0 : every_ns);
	}
}

/* --------------------------------------------------------------------------- tables --- */

static int add_node_to_error(struct save *v, size_t node, int rc,
			     struct error *err)
{
	return error_wrap(err, rc, "node %s", v->terms.members[node]);
}

static int check_table(const struct save *v, size_t node, struct error *err)
{
	const struct save_table *t = &v->tables[node];

	for (size_t i = 0; i < t->n; i++)
		if (t->tensors[i].rank >= v->terms.n_ranks ||
		    v->terms.node_of[t->tensors[i].rank] != node)
			return error_set(err, EBADMSG,
					 "node %s: it has a tensor of rank %u, "
					 "which is not its",
					 v->terms.members[node],
					 t->tensors[i].rank);
	return 0;
}

static int decode_table(struct save *v, size_t node, const struct buf *text,
			struct error *err)
{
	const int rc = save_table_decode(text->data ? text->data : "",
					 text->len, &v->tables[node], err);

	return rc < 0 ? add_node_to_error(v, node, rc, err)
		      : check_table(v, node, err);
}

/* Wait for the look at the file's path: its version must be known before any node has all
 * tables, and so before any node can commit. */
static int wait_for_look(struct save *v, struct error *err)
{
	struct saves *s = v->all;
	bool in_time = true;

	(void)pthread_mutex_lock(&s->lock);
	while (v->look == LOOK_NONE && in_time && !save_is_to_stop(v))
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	in_time = v->look == LOOK_DONE;
	(void)pthread_mutex_unlock(&s->lock);
	return in_time ? 0
		       : error_set(err, ETIMEDOUT,
				   "the store has not said in time what is at "
				   "'%.100s'",
				   v->terms.path);
}

static int gather_tables(struct save *v, struct error *err)
{
	const struct lead_step step = { .what = "table",
					.told = &v->told.tables,
					.texts = v->told.table,
					.failed = add_node_to_error };
	struct buf *texts = v->told.table;
	AUTO_BUF bundle = BUF_INIT;
	int rc = lead_gather(v, &step, err);

	for (size_t i = 1; i < v->terms.n_nodes && rc == 0; i++)
		rc = decode_table(v, i, &texts[i], err);
	if (rc == 0)
		rc = wait_for_look(v, err);
	/* This node's own text is lent to the array, and taken back afterwards. */
	texts[0] = v->text;
	if (rc == 0)
		rc = save_bundle_encode(texts, v->terms.n_nodes, &v->seen,
					&bundle, err);
	texts[0] = (struct buf)BUF_INIT;
	(void)pthread_mutex_lock(&v->all->lock);
	for (size_t i = 1; i < v->terms.n_nodes; i++)
		buf_fini(&texts[i]);
	if (rc == 0) {
		v->bundle = bundle;
		bundle = (struct buf)BUF_INIT;
	}
	(void)pthread_mutex_unlock(&v->all->lock);
	peers_kick(v->all);
	return rc;
}

struct fetching {
	struct save *save;
	uint64_t nodes;
};

static int fetch_node_tables(void *arg, unsigned int index, struct error *err)
{
	const struct fetching *f = arg;
	struct save *v = f->save;
	int rc = 0;

	for (size_t i = index; i < v->terms.n_nodes && rc == 0;
	     i += FETCH_THREADS) {
		AUTO_BUF text = BUF_INIT;

		if (!(f->nodes >> i & 1))
			continue;
		rc = peer_get(v, i, "table", &text, err);
		rc = rc < 0 ? add_node_to_error(v, i, rc, err)
			    : decode_table(v, i, &text, err);
	}
	return rc;
}

static int receive_tables(struct save *v, struct error *err)
{
	const bool is_large = v->text.len > SAVE_TOLD_MAX;
	struct fetching f = { .save = v };
	AUTO_BUF bundle = BUF_INIT;
	struct save_seen seen;
	char what[16];
	const struct peer_question q = { .what = what,
					 .is_told = true,
					 .text = v->text.data,
					 .len = is_large ? 0 : v->text.len };
	int rc;

	(void)snprintf(what, sizeof(what), "table/%zu", v->terms.self);
	rc = peer_ask(v, 0, &q, &bundle, err);
	if (rc == 0)
		rc = save_bundle_decode(bundle.data ? bundle.data : "",
					bundle.len, v->terms.n_nodes,
					v->terms.self, v->tables, &f.nodes,
					&seen, err);
	if (rc < 0)
		return add_node_to_error(v, 0, rc, err);
	seen.is_behind |= v->seen.is_behind;
	v->seen = seen;
	if (f.nodes)
		rc = side_by_side(FETCH_THREADS, fetch_node_tables, &f, err);
	for (size_t i = 0; i < v->terms.n_nodes && rc == 0; i++)
		if (i != v->terms.self)
			rc = check_table(v, i, err);
	return rc;
}

int lead_tables(struct save *v, struct error *err)
{
	int rc = v->terms.self == 0 ? gather_tables(v, err)
				    : receive_tables(v, err);

	for (size_t i = 0; i < v->n_here && rc == 0; i++)
		rc = save_check_owner(v, &v->seen, v->ranks[i].uid, err);
	return rc;
}

/* --------------------------------------------------------------------------- staged --- */

static int excuse_failed_staging(struct save *v, size_t node, int rc,
				 struct error *err)
{
	return rc == -ENOTCONN ? 0 : add_node_to_error(v, node, rc, err);
}

/* Mark the nodes as dead that the leader has reported. */
static void note_reported_gone_nodes(struct save *v, size_t lead,
				     const struct buf *text)
{
	const char *at = text->data ? text->data : "";
	unsigned int n;
	int end;

	while (sscanf(at, "%2u %n", &n, &end) == 1) {
		if (n == v->terms.self)
			v->is_single = true;
		else if (n < v->terms.n_nodes && n != lead)
			note_gone(v, n, "the node that leads says so");
		at += end;
	}
}

int lead_staged(struct save *v, struct error *err)
{
	const struct lead_step step = { .what = "staged",
					.told = &v->told.staged,
					.failed = excuse_failed_staging };
	char what[16];
	const struct peer_question q = { .what = what, .is_told = true };

	(void)snprintf(what, sizeof(what), "staged/%zu", v->terms.self);
	for (size_t i = 0; i < v->terms.self; i++) {
		AUTO_BUF gone = BUF_INIT;
		int rc;

		if (atomic_load(&v->gone[i]))
			continue;
		rc = peer_ask(v, i, &q, &gone, err);
		if (rc == 0)
			note_reported_gone_nodes(v, i, &gone);
		if (rc != -ENOTCONN)
			return rc < 0 ? add_node_to_error(v, i, rc, err) : 0;
	}
	return lead_gather(v, &step, err);
}

/* ---------------------------------------------------------------------------- parts --- */

int lead_excuse(struct save *v, size_t node, int rc, const struct error *why)
{
	if (rc != -EREMOTEIO && rc != -EBADMSG && rc != -EFBIG &&
	    rc != -EINVAL && rc != -ENOTCONN)
		return rc;
	note_gone(v, node, why->msg);
	return 1;
}

static int excuse_failed_part(struct save *v, size_t node, int rc,
			      struct error *err)
{
	rc = lead_excuse(v, node, rc, err);
	return rc < 0 ? add_node_to_error(v, node, rc, err) : 0;
}

int lead_parts(struct save *v, struct error *err)
{
	const struct lead_step step = { .what = "part/",
					.told = &v->told.parts,
					.texts = v->told.part,
					.failed = excuse_failed_part };
	int rc = lead_gather(v, &step, err);

	for (size_t i = 0; i < v->terms.n_nodes && rc == 0; i++) {
		if (i == v->terms.self || atomic_load(&v->gone[i]))
			continue;
		rc = ckpt_check_part(&v->told.part[i], v->plan->size,
				     v->plan->unit, err);
		if (rc < 0)
			rc = excuse_failed_part(v, i, rc, err);
	}
	return rc;
}

void lead_tell_failure(struct save *v)
{
	if (atomic_load(&v->all->is_ending))
		return;
	for (size_t i = 0; i < v->terms.self; i++)
		if (!atomic_load(&v->gone[i])) {
			peer_tell_failure(v, i);
			return;
		}
}
