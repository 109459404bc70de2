// SPDX-License-Identifier: Apache-2.0
/*
 * Reading pieces from the origin for the core: adjacent pieces with one request, each passed on as
 * soon as its last byte is here.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/engine/engine_peer.h"

#define RANGE_MAX (8 * MIB)
/* Wait after "busy" if the origin names no time. */
#define BUSY_WAIT_NS NS_PER_S

struct origin_read {
	LIST_ENTRY(origin_read) link; /* used on the loop only */
	struct host_job job;
	struct source_sink sink;
	struct pace pace;
	struct p2p_image *i;
	enum source_priority priority;
	/* When the last waiting reader gives up; 0: no reader waits. */
	int64_t deadline;
	atomic_bool stop;
	uint32_t first;
	size_t n, next;     /* pieces of the request; pieces passed on */
	struct bytes *room; /* buffer of the piece that is arriving */
	uint32_t filled;
	int rc;
	struct error err;
	struct block blocks[];
};

int origin_open(struct p2p_image *i, struct source *const *packs, size_t n,
		struct error *err)
{
	struct image_origin *o = &i->origin;

	LIST_INIT(&o->reads);
	o->packs = calloc(n + 1, sizeof(*o->packs));
	for (size_t k = 0; k < n; k++) {
		if (o->packs)
			o->packs[o->n_packs++] = packs[k];
		else
			source_free(packs[k]);
	}
	return o->packs ? 0 : error_nomem(err);
}

void origin_close(struct p2p_image *i)
{
	for (size_t k = 0; k < i->origin.n_packs; k++)
		source_free(i->origin.packs[k]);
	free(i->origin.packs);
}

void origin_failed(struct p2p_image *i, const struct error *err)
{
	i->origin.error = *err;
}

const struct error *origin_error(const struct p2p_image *i)
{
	return &i->origin.error;
}

static enum pace_level origin_level(struct pace *p)
{
	const struct origin_read *r = container_of(p, struct origin_read, pace);

	return atomic_load(&r->stop) ? PACE_STOP : PACE_GO;
}

/* Pass on the piece that is complete. */
static int piece_pass_on(struct origin_read *r, struct error *err)
{
	struct bytes *in = r->room;
	uint32_t piece = r->first + (uint32_t)r->next;

	r->room = NULL;
	r->filled = 0;
	if (arrive(r->i, NULL, piece, NET_STORED, r->priority, in) < 0)
		return error_nomem(err);
	r->next++;
	return 0;
}

static int origin_put(struct source_sink *sink, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	struct origin_read *r = container_of(sink, struct origin_read, sink);
	const uint8_t *from = data;
	int rc = 0;

	image_moves(r->i);
	while (rc == 0 && len && r->next < r->n) {
		const struct block *b = &r->blocks[r->next];
		size_t n = b->csize - r->filled;

		if (!r->room)
			r->room = bytes_new(r->i->p, b->csize, true);
		if (!r->room)
			return error_nomem(err);
		n = len < n ? len : n;
		memcpy(r->room->data + r->filled, from, n);
		r->filled += (uint32_t)n;
		from += n;
		len -= n;
		if (r->filled == b->csize)
			rc = piece_pass_on(r, err);
	}
	if (rc == 0 && len)
		rc = error_set(err, EIO, "the origin sent more than asked for");
	return rc;
}

static void origin_run(struct host_job *e)
{
	struct origin_read *r = container_of(e, struct origin_read, job);
	const struct block *last = &r->blocks[r->n - 1];
	struct source_req req = { .off = r->blocks[0].poff,
				  .priority = r->priority,
				  .deadline_ns = r->deadline,
				  .pace = &r->pace };

	req.len = last->poff + last->csize - req.off;
	if (atomic_load(&r->stop))
		r->rc = error_set(&r->err, ECANCELED, "not wanted any more");
	else
		r->rc = source_read(r->i->origin.packs[r->blocks[0].pack], &req,
				    &r->sink, &r->err);
	if (r->rc == 0 && r->next < r->n)
		r->rc = error_set(&r->err, EIO, "the origin ended early");
	bytes_unref(r->room);
}

static void origin_done(struct host_job *e, bool has_run)
{
	struct origin_read *r = container_of(e, struct origin_read, job);
	struct p2p_image *i = r->i;
	int64_t now = clock_now_ns();

	LIST_REMOVE(r, link);
	if (!has_run)
		r->rc = error_set(&r->err, ECANCELED, "not wanted any more");
	if (r->rc < 0 && !atomic_load(&r->stop))
		origin_failed(i, &r->err);
	if (r->rc == -EBUSY)
		tracker_wait(i, BUSY_WAIT_NS);
	for (size_t k = r->next; k < r->n && !i->is_closing; k++) {
		uint32_t piece = r->first + (uint32_t)k;
		bool is_here = swarm_has(i->swarm, piece);

		tracker_done(i, piece, is_here ? 0 : r->rc);
		swarm_lost(i->swarm, SWARM_NONE, piece, r->rc, now);
	}
	image_settle(i);
	image_release(i);
	free(r);
}

/* When the last reader that waits for pieces [first, first + n) gives up. */
static int64_t deadline_of(const struct p2p_image *i, uint32_t first, size_t n)
{
	int64_t last = 0;

	for (size_t k = 0; k < n; k++) {
		int64_t ns = want_deadline(i, first + (uint32_t)k);

		last = ns > last ? ns : last;
	}
	return last;
}

/* Read pieces [first, first + n) by one request. */
static void origin_read_start(struct p2p_image *i, uint32_t first, size_t n,
			      enum source_priority priority)
{
	struct origin_read *r =
		calloc(1, sizeof(*r) + n * sizeof(r->blocks[0]));

	/* Without memory nothing is read; the core asks again after a while. */
	if (!r)
		return;
	r->i = i;
	r->priority = priority;
	r->first = first;
	r->n = n;
	r->sink.put = origin_put;
	r->pace = (struct pace){ .level = origin_level,
				 .is_urgent = priority == SOURCE_DEMAND };
	r->job.run = origin_run;
	r->job.done = origin_done;
	for (size_t k = 0; k < n; k++)
		image_block(i, first + (uint32_t)k, &r->blocks[k]);
	if (priority == SOURCE_DEMAND)
		r->deadline = deadline_of(i, first, n);
	LIST_INSERT_HEAD(&i->origin.reads, r, link);
	image_hold(i);
	/* The queue of jobs has no limit of its own: the core limits what is in flight. */
	host_job_submit(i,
			priority == SOURCE_DEMAND ? HOST_JOB_URGENT
						  : HOST_JOB_BULK,
			&r->job);
}

/* Does `piece` directly follow `last` in its pack? */
static bool piece_follows(const struct p2p_image *i, uint32_t last,
			  uint32_t piece)
{
	struct block a, b;

	if (piece != last + 1)
		return false;
	image_block(i, last, &a);
	image_block(i, piece, &b);
	return a.pack == b.pack && a.poff + a.csize == b.poff;
}

void origin_start(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority)
{
	size_t first = 0;
	uint64_t bytes = 0;

	if (i->is_closing)
		return;
	for (size_t k = 0; k < n; k++) {
		if (k > first && (!piece_follows(i, pieces[k - 1], pieces[k]) ||
				  bytes + i->sizes[pieces[k]] > RANGE_MAX)) {
			origin_read_start(i, pieces[first], k - first,
					  priority);
			first = k;
			bytes = 0;
		}
		bytes += i->sizes[pieces[k]];
		tracker_reads(i, pieces[k]);
	}
	if (n)
		origin_read_start(i, pieces[first], n - first, priority);
}

static void stop_origin_read(struct origin_read *r)
{
	atomic_store(&r->stop, true);
	host_job_take_back(&r->job);
}

static bool origin_read_is_wanted(const struct origin_read *r)
{
	for (size_t k = 0; k < r->n; k++)
		if (swarm_wants(r->i->swarm, r->first + (uint32_t)k))
			return true;
	return false;
}

void origin_stop_unwanted(struct p2p_image *i)
{
	struct origin_read *r = LIST_FIRST(&i->origin.reads), *next;

	for (; r; r = next) {
		next = LIST_NEXT(r, link);
		if (!atomic_load(&r->stop) && !origin_read_is_wanted(r))
			stop_origin_read(r);
	}
}

void origin_stop(struct p2p_image *i)
{
	struct origin_read *r = LIST_FIRST(&i->origin.reads), *next;

	for (; r; r = next) {
		next = LIST_NEXT(r, link);
		stop_origin_read(r);
	}
}
