// SPDX-License-Identifier: Apache-2.0
/* Moves the bytes of a save: from other nodes into memory, and from memory to the store. */
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

#define PULL_THREADS 4u
#define PULL_ROW 4u /* chunks of one tensor in a request */
#define RUN 4u      /* neighbouring units that one thread takes together */
#define COLUMNS 8u  /* columns of a file, of all nodes together */
/* columns of one node, where more objects spare requests */
#define COLUMNS_FEW 4u

/* ---------------------------------------------------------------------- what is here --- */

const char *chunk_here(const struct save *v, const struct save_entry *e,
		       uint32_t chunk)
{
	static const char zeros[SAVE_CHUNK];

	if (save_chunk_is_zero(&e->tensor->chunks[chunk]))
		return zeros;
	if (e->data)
		return e->data + (size_t)chunk * SAVE_CHUNK;
	return v->pulled ? v->pulled[e->first_chunk + chunk] : NULL;
}

static const char *chunk_of(struct save *v, const struct save_entry *e,
			    uint32_t chunk)
{
	const char *at;

	(void)pthread_mutex_lock(&v->all->lock);
	at = chunk_here(v, e, chunk);
	(void)pthread_mutex_unlock(&v->all->lock);
	return at;
}

/* ------------------------------------------------------------------- from other nodes --- */

/* A run of chunks received from another node, each into memory of its own; `run` has their
 * numbers in the plan. */
struct pull_sink {
	struct http_sink base;
	struct save_chunks run;
	unsigned int i; /* index in the run of the chunk being received */
	size_t at;      /* bytes of that chunk received so far */
	char *chunks[SAVE_PULL_CHUNKS];
	uint64_t n_came; /* bytes received in this try */
};

static int pull_sink_put(struct http_sink *base, const struct http_response *r,
			 const void *data, size_t len, struct error *err)
{
	struct pull_sink *s = container_of(base, struct pull_sink, base);
	const char *from = data;

	(void)r;
	if (!s->n_came)
		s->i = s->at = 0;
	s->n_came += len;
	/* Surplus bytes are only counted, and make the check fail. */
	while (len && s->i < s->run.n) {
		const size_t room = s->run.len[s->i], left = room - s->at;
		const size_t n = len < left ? len : left;

		if (!s->chunks[s->i])
			s->chunks[s->i] = malloc(room);
		if (!s->chunks[s->i])
			return error_nomem(err);
		memcpy(s->chunks[s->i] + s->at, from, n);
		from += n;
		len -= n;
		s->at += n;
		if (s->at == room) {
			s->at = 0;
			s->i++;
		}
	}
	return 0;
}

/* Check each chunk against the digest that its owner has sent. */
static int check_chunks(const struct save_plan *p, const struct pull_sink *s,
			struct error *err)
{
	if (s->n_came != s->run.bytes)
		return error_set(err, EBADMSG,
				 "it sent %" PRIu64 " bytes of %" PRIu64,
				 s->n_came, s->run.bytes);
	for (unsigned int i = 0; i < s->run.n; i++) {
		const struct save_chunk at =
			save_plan_chunk(p, s->run.first + i);
		struct digest d;

		if (digest_of(s->chunks[i], s->run.len[i], &d) < 0)
			return error_nomem(err);
		if (!digest_equal(&d, &at.entry->tensor->chunks[at.index]))
			return error_set(err, EBADMSG,
					 "it sent other bytes of '%.60s' than "
					 "it had said",
					 at.entry->key);
	}
	return 0;
}

static int keep_chunks(struct save *v, struct pull_sink *s, struct error *err)
{
	int rc = 0;

	for (unsigned int i = 0; i < s->run.n && rc == 0; i++)
		rc = save_keep_chunk(v, &v->pulled[s->run.first + i],
				     &s->chunks[i], s->run.len[i], err);
	return rc;
}

static int pull_chunks_from_node(struct save *v, size_t node,
				 const struct save_chunks *run,
				 struct error *err)
{
	struct pull_sink s = { .base = { pull_sink_put }, .run = *run };
	char what[64];
	const struct peer_question q = { .what = what,
					 .sink = &s.base,
					 .n_sunk = &s.n_came };
	int rc;

	(void)snprintf(what, sizeof(what), "chunks/%" PRIu32 "/%u", run->first,
		       run->n);
	rc = peer_ask(v, node, &q, NULL, err);
	if (rc == 0)
		rc = check_chunks(v->plan, &s, err);
	if (rc == -EBADMSG) {
		log_warning("save",
			    "a node's bytes are not believed node=\"%s\" "
			    "reason=\"%s\"",
			    v->terms.members[node], err->msg);
		(void)pthread_mutex_lock(&v->all->lock);
		v->all->stats.wrong_total++;
		(void)pthread_mutex_unlock(&v->all->lock);
	}
	if (rc == 0)
		rc = keep_chunks(v, &s, err);
	for (unsigned int i = 0; i < run->n; i++)
		free(s.chunks[i]);
	return rc;
}

/* Fetch a run of chunks. Different runs begin with different nodes among those that have the
 * chunks; after a failure the next node is tried. */
static int pull_chunks(struct save *v, const struct save_chunks *run,
		       struct error *err)
{
	const struct save_chunk at = save_plan_chunk(v->plan, run->first);
	const size_t nodes = v->terms.n_nodes;
	int rc = error_set(err, ENOTCONN, "no node has '%.60s' any more",
			   at.entry->key);

	for (size_t i = 0; i < nodes; i++) {
		const size_t node =
			(v->terms.self + at.index / PULL_ROW + i) % nodes;

		if (node == v->terms.self || !(at.entry->holders >> node & 1) ||
		    atomic_load(&v->gone[node]))
			continue;
		rc = pull_chunks_from_node(v, node, run, err);
		if (rc == 0)
			return 0;
		error_wrap(err, rc, "node %s", v->terms.members[node]);
		if (rc != -ENOTCONN && rc != -EBADMSG && rc != -EINVAL &&
		    rc != -EFBIG)
			break;
	}
	return rc;
}

/* May a request for the run include this next chunk? Chunks of one tensor are sent without a
 * copy, others are copied. */
static bool can_run_take_chunk(const struct save_plan *p,
			       const struct save_chunks *run,
			       const struct save_chunk *at, size_t len)
{
	const struct save_entry *first = save_plan_chunk(p, run->first).entry;

	if (at->entry == first)
		return run->n < PULL_ROW;
	return run->n < SAVE_PULL_CHUNKS && run->bytes + len <= SAVE_CHUNK &&
	       at->entry->holders == first->holders;
}

/* Fetch those of the chunks first..end-1 of the plan that are not here. */
static int pull_missing_chunks(struct save *v, uint32_t first, uint32_t end,
			       struct error *err)
{
	int rc = 0;

	while (first < end && rc == 0) {
		struct save_chunks run = { .first = first };

		for (uint32_t c = first; c < end; c++) {
			const struct save_chunk at =
				save_plan_chunk(v->plan, c);
			const uint32_t len =
				save_chunk_len(at.entry->tensor->len, at.index);

			if (chunk_of(v, at.entry, at.index) ||
			    (run.n &&
			     !can_run_take_chunk(v->plan, &run, &at, len)))
				break;
			run.len[run.n++] = len;
			run.bytes += len;
		}
		if (run.n)
			rc = pull_chunks(v, &run, err);
		first += run.n ? run.n : 1;
	}
	return rc;
}

/* The part of an entry that lies within a range of the file. */
struct entry_range {
	const struct save_entry *entry;
	uint64_t from, to; /* bytes of the entry */
};

static struct entry_range entry_range(const struct save_entry *e, uint64_t from,
				      uint64_t to)
{
	const uint64_t end = e->start + e->tensor->len;

	return (struct entry_range){ e, from > e->start ? from - e->start : 0,
				     (to < end ? to : end) - e->start };
}

static int keep_unit(struct save *v, uint64_t u, struct error *err)
{
	const struct save_plan *p = v->plan;
	const uint64_t from = u * p->unit, to = from + p->stored[u];
	uint32_t first = UINT32_MAX, end = 0;
	int rc;

	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct entry_range s =
			entry_range(&p->entries[i], from, to);
		const uint32_t before = s.entry->first_chunk;

		if (s.from >= s.to)
			continue;
		if (!end)
			first = before + (uint32_t)(s.from / SAVE_CHUNK);
		end = before + (uint32_t)((s.to + SAVE_CHUNK - 1) / SAVE_CHUNK);
	}
	rc = pull_missing_chunks(v, first, end, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&v->all->lock);
	v->is_kept[u] = 1;
	(void)pthread_cond_broadcast(&v->all->changed);
	(void)pthread_mutex_unlock(&v->all->lock);
	return 0;
}

struct keeping {
	struct save *save;
	size_t next; /* in the order of units; saves.lock */
};

/* Take the next run of units, since neighbouring units share chunks; returns how many. */
static size_t take_run(struct keeping *k, size_t *ret_first)
{
	const struct save *v = k->save;
	size_t n = 0;

	(void)pthread_mutex_lock(&v->all->lock);
	*ret_first = k->next;
	while (k->next < v->n_order && n < RUN &&
	       (!n || v->order[k->next] == v->order[k->next - 1] + 1)) {
		k->next++;
		n++;
	}
	(void)pthread_mutex_unlock(&v->all->lock);
	return n;
}

static int keep_units_of_order(void *arg, unsigned int index, struct error *err)
{
	struct keeping *k = arg;
	struct save *v = k->save;
	size_t first, n;
	int rc = 0;

	(void)index;
	while (rc == 0 && (n = take_run(k, &first)))
		for (size_t i = 0; i < n && rc == 0; i++)
			rc = keep_unit(v, v->order[first + i], err);
	if (rc < 0) {
		/* Stop the other threads, too. */
		(void)pthread_mutex_lock(&v->all->lock);
		k->next = v->n_order;
		(void)pthread_mutex_unlock(&v->all->lock);
	}
	return rc;
}

/* Count bytes of the unit's chunks that are not here; `seen` marks chunks that were counted
 * before. */
static uint64_t count_missing(struct save *v, uint64_t u, uint8_t *seen)
{
	const struct save_plan *p = v->plan;
	const uint64_t from = u * p->unit, to = from + p->stored[u];
	uint64_t n = 0;

	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct save_entry *e = &p->entries[i];
		const struct entry_range s = entry_range(e, from, to);

		for (uint64_t at = s.from - s.from % SAVE_CHUNK; at < s.to;
		     at += SAVE_CHUNK) {
			const uint32_t c = (uint32_t)(at / SAVE_CHUNK);

			if (seen[e->first_chunk + c] || chunk_of(v, e, c))
				continue;
			seen[e->first_chunk + c] = 1;
			n += save_chunk_len(e->tensor->len, c);
		}
	}
	return n;
}

/* Fail at once, and not at its deadline, if the save can never fit into the memory. */
static int check_room(struct save *v, struct error *err)
{
	const struct save_plan *p = v->plan;
	AUTO_FREE uint8_t *seen = calloc(p->n_chunks + 1, 1);
	uint64_t n = 0, own = 0;

	if (!seen)
		return error_nomem(err);
	for (uint64_t u = 0; u < p->n_units; u++)
		if (p->stored[u] &&
		    save_unit_is_kept(&p->units[u], v->terms.self))
			n += count_missing(v, u, seen);
	for (size_t i = 0; i < v->n_local; i++)
		own += v->ranks[i].size;
	if (own + n <= v->all->cfg.memory)
		return 0;
	return error_set(err, ENOBUFS,
			 "this node's ranks save %" PRIu64
			 " bytes, and it is to keep %" PRIu64
			 " of others: --group-staging is %" PRIu64,
			 own, n, v->all->cfg.memory);
}

int stage_units(struct save *v, struct error *err)
{
	struct keeping k = { .save = v };
	const unsigned int n = v->n_order < PULL_THREADS
				       ? (unsigned int)v->n_order
				       : PULL_THREADS;
	const int rc = check_room(v, err);

	return rc < 0 || !n ? rc
			    : side_by_side(n, keep_units_of_order, &k, err);
}

/* ------------------------------------------------------------------------ to the store --- */

static int wait_until_unit_kept(struct save *v, uint64_t u, struct error *err)
{
	struct saves *s = v->all;
	bool in_time = true, is_kept;

	(void)pthread_mutex_lock(&s->lock);
	while (!v->is_kept[u] && !v->is_given_up && in_time)
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	is_kept = v->is_kept[u] && !v->is_given_up &&
		  clock_now_ns() < v->until_ns;
	(void)pthread_mutex_unlock(&s->lock);
	return is_kept ? 0
		       : error_set(err, ECANCELED,
				   "the bytes of a unit, or the store, did not "
				   "come in time");
}

static void copy_range(struct save *v, const struct entry_range *s, char *to)
{
	uint64_t at = s->from;

	while (at < s->to) {
		const uint32_t chunk = (uint32_t)(at / SAVE_CHUNK);
		const uint64_t in = at % SAVE_CHUNK;
		const uint64_t left = SAVE_CHUNK - in;
		const size_t n =
			(size_t)(s->to - at < left ? s->to - at : left);

		memcpy(to, chunk_of(v, s->entry, chunk) + in, n);
		to += n;
		at += n;
	}
}

static void fill_unit(struct save *v, uint64_t u, char *ret)
{
	const struct save_plan *p = v->plan;
	const uint64_t from = u * p->unit, to = from + p->stored[u];

	if (from < p->head.len)
		memcpy(ret, p->head.data + from,
		       (size_t)((to < p->head.len ? to : p->head.len) - from));
	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct entry_range s =
			entry_range(&p->entries[i], from, to);

		if (s.from < s.to)
			copy_range(v, &s,
				   ret + (s.entry->start + s.from - from));
	}
}

static bool is_unit_to_write(const struct save *v, size_t of, uint64_t u)
{
	const struct save_unit *x = &v->plan->units[u];

	return v->plan->stored[u] && x->writer == of &&
	       save_unit_is_kept(x, v->terms.self);
}

/* State of writing a part: the units of node `of`, written by this node. */
struct part_writing {
	struct save *save;
	size_t of;
	struct ckpt_writer *writer;
	uint8_t *fates; /* enum unit_fate, by unit */
	/* buffer for a unit that the store has no room for yet */
	char *unit;
};

static void count_bytes(struct save *v, uint64_t *total, uint64_t *of_save,
			uint64_t n)
{
	(void)pthread_mutex_lock(&v->all->lock);
	*total += n;
	*of_save += n;
	(void)pthread_mutex_unlock(&v->all->lock);
}

static int write_unit(struct part_writing *w, uint64_t u, struct error *err)
{
	struct save *v = w->save;
	const uint32_t len = v->plan->stored[u];
	void *to = NULL;
	uint32_t place;
	int rc = wait_until_unit_kept(v, u, err);

	if (rc == 0)
		rc = ckpt_writer_add(w->writer, u, len, &place, err);
	if (rc == 0)
		rc = ckpt_writer_room(w->writer, place, len, &to, err);
	if (rc < 0)
		return rc;
	to = to ? to : w->unit;
	fill_unit(v, u, to);
	rc = ckpt_write_placed(w->writer, u, place, to, len, err);
	if (rc == 0)
		count_bytes(v, &v->all->stats.stored_bytes,
			    &v->report.stored_bytes, len);
	return rc;
}

/* Number of columns for `n` units. In a bucket a few more objects, each stored by one
 * request, cost less than a multipart upload. */
static uint32_t count_columns(const struct save *v, uint64_t n)
{
	const uint64_t once =
		object_store_caps(v->all->cfg.store).put_once / v->plan->unit;
	const uint64_t least = COLUMNS / v->terms.n_nodes;
	uint64_t columns = once ? (n + once - 1) / once : 0;

	if (columns > COLUMNS_FEW)
		columns = 0;
	if (columns < least)
		columns = least;
	if (columns > n)
		columns = n;
	return columns ? (uint32_t)columns : 1;
}

/* Write all units of one fate, in their order, to columns of their own. */
static int write_units(struct part_writing *w, enum unit_fate fate,
		       struct error *err)
{
	const struct save *v = w->save;
	uint64_t n = 0;
	int rc;

	for (size_t i = 0; i < v->n_order; i++)
		n += w->fates[v->order[i]] == fate;
	if (!n)
		return 0;
	rc = ckpt_writer_begin_segment(w->writer, count_columns(w->save, n),
				       err);
	for (size_t i = 0; i < v->n_order && rc == 0; i++)
		if (w->fates[v->order[i]] == fate)
			rc = write_unit(w, v->order[i], err);
	return rc < 0 ? rc : ckpt_writer_end_segment(w->writer, err);
}

/* Name units that are in the store already, after checking that they are. */
static int name_known_units(struct part_writing *w, struct error *err)
{
	struct save *v = w->save;
	const struct save_plan *p = v->plan;
	AUTO_FREE struct ckpt_place *at = calloc(p->n_units + 1, sizeof(*at));
	uint64_t bytes = 0;
	int rc = at ? known_units_choose(v->all->known, p, w->fates, at, err)
		    : error_nomem(err);

	for (uint64_t u = 0; u < p->n_units && rc == 0; u++) {
		if (w->fates[u] != UNIT_NAMED)
			continue;
		rc = ckpt_writer_name_unit(w->writer, u, &at[u], err);
		bytes += p->stored[u];
	}
	if (rc == 0 && bytes)
		rc = ckpt_writer_check_named(w->writer, err);
	if (rc == 0)
		count_bytes(v, &v->all->stats.named_bytes,
			    &v->report.named_bytes, bytes);
	return rc;
}

static int open_part(struct part_writing *w, struct error *err)
{
	struct save *v = w->save;
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN,
					      .unit_chunks = v->plan->unit /
							     CKPT_PART_CHUNK };

	return ckpt_write_open(v->all->cfg.store, v->terms.path, &o, &w->writer,
			       err);
}

/* Begin the part with the named units; any unit that cannot be named is stored instead, as
 * its bytes are here. */
static int begin_part(struct part_writing *w, struct error *err)
{
	struct save *v = w->save;
	struct error why = ERROR_INIT;
	int rc = open_part(w, err);

	for (uint64_t u = 0; u < v->plan->n_units; u++)
		w->fates[u] = is_unit_to_write(v, w->of, u) ? UNIT_CHANGED
							    : UNIT_OTHERS;
	if (rc < 0 || w->of != v->terms.self || !v->all->known ||
	    name_known_units(w, &why) == 0)
		return rc;
	log_info("save",
		 "unchanged units are stored again id=\"%s\" "
		 "reason=\"%s\"",
		 v->terms.id, why.msg);
	for (uint64_t u = 0; u < v->plan->n_units; u++)
		if (w->fates[u] == UNIT_NAMED)
			w->fates[u] = UNIT_UNCHANGED;
	ckpt_writer_free(steal_ptr(&w->writer));
	return open_part(w, err);
}

static int make_part(struct save *v, size_t of, struct buf *ret,
		     struct error *err)
{
	AUTO_FREE char *unit = malloc(v->plan->unit);
	AUTO_FREE uint8_t *fates = calloc(v->plan->n_units + 1, 1);
	struct part_writing w = {
		.save = v, .of = of, .fates = fates, .unit = unit
	};
	int rc;

	if (!unit || !fates)
		return error_nomem(err);
	rc = begin_part(&w, err);
	if (rc == 0)
		rc = write_units(&w, UNIT_CHANGED, err);
	if (rc == 0)
		rc = write_units(&w, UNIT_UNCHANGED, err);
	if (rc == 0)
		rc = ckpt_writer_give_part(w.writer, v->plan->size, ret, err);
	ckpt_writer_free(w.writer);
	return rc;
}

int part_write(struct save *v, size_t of, struct error *err)
{
	struct saves *s = v->all;
	struct save_part *part = &v->parts[of];
	AUTO_BUF text = BUF_INIT;
	bool in_time = true, is_busy, is_ready;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	while (part->state == PART_BUSY && in_time)
		in_time = cond_wait_until(&s->changed, &s->lock, v->until_ns);
	is_busy = part->state == PART_BUSY;
	is_ready = part->state == PART_READY;
	if (!is_busy && !is_ready)
		part->state = PART_BUSY;
	(void)pthread_mutex_unlock(&s->lock);
	if (is_ready)
		return 0;
	if (is_busy)
		return error_set(err, ETIMEDOUT,
				 "the store did not take the bytes in time");
	rc = make_part(v, of, &text, err);
	(void)pthread_mutex_lock(&s->lock);
	part->state = rc < 0 ? PART_FAILED : PART_READY;
	if (rc == 0) {
		part->text = text;
		text = (struct buf)BUF_INIT;
	}
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
	peers_kick(s);
	return rc;
}
