// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the content of an index map readable as a source. A request is served place by place; a
 * span that is not in memory is fetched together with the following spans that the request
 * needs, and each is unpacked as soon as its last byte has arrived.
 *
 * A thread waits for a span of another thread only while it has claimed none itself, so no two
 * threads wait for each other. It also waits for parts of the windows, whose loading waits for
 * nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "image/spans/span_cache.h"

#define RUN_SPANS 24 /* spans that are fetched together */
/* limit of their unpacked size, not counting the first */
#define RUN_BYTES (6 * MIB)
/* bytes of the windows that are read together */
#define WINDOWS_PART (64 * KIB)
#define WINDOWS_KEY (UINT64_C(1) << 63)
#define WAIT_TICK_NS (100 * NS_PER_MS)
/* places of the request that are searched for needed spans */
#define RUN_PLACES 1024
#define ZEROS 4096

struct span_source {
	struct source base;
	const struct blockmap *map;
	struct source **packs;
	struct span_cache *cache;
	uint64_t owner;
};

/* The state of one request. */
struct content_read {
	struct span_source *s;
	const struct source_req *req;
	struct source_sink *sink;
	uint64_t pos, end; /* of the content */
	size_t place;      /* first place that does not end before `pos` */

	/* The run of spans that is fetched together, or was. */
	size_t first, n_run;
	/* of the run's spans that are in memory */
	struct span_room *rooms[RUN_SPANS];
	/* room of a span outside of the run, or NULL */
	struct span_room *extra;
	size_t extra_index;
};

/* ---------------------------------------------------------------- giving on --- */

static struct span_room *get_span_in_memory(struct content_read *r, size_t span)
{
	if (span >= r->first && span < r->first + r->n_run &&
	    r->rooms[span - r->first])
		return r->rooms[span - r->first];
	if (r->extra && r->extra_index == span)
		return r->extra;
	span_cache_give(r->s->cache, r->extra);
	r->extra = span_cache_find(r->s->cache, r->s->owner, span);
	r->extra_index = span;
	return r->extra;
}

static int give_zeros_up_to(struct content_read *r, uint64_t to,
			    struct error *err)
{
	static const uint8_t zeros[ZEROS];
	int rc = 0;

	while (rc == 0 && r->pos < to) {
		size_t n = to - r->pos < ZEROS ? (size_t)(to - r->pos) : ZEROS;

		rc = r->sink->put(r->sink, r->pos, zeros, n, err);
		r->pos += n;
	}
	return rc;
}

/*
 * Pass on the bytes whose spans are in memory, in order. `*ret_span` is the first missing span,
 * or the map's n_spans when everything was passed on.
 */
static int give_spans_in_memory(struct content_read *r, size_t *ret_span,
				struct error *err)
{
	const struct blockmap *m = r->s->map;

	*ret_span = m->n_spans;
	while (r->pos < r->end) {
		struct content_place p = { .at = r->end };
		struct span s;
		struct span_room *room;
		uint64_t plain, n;
		size_t i;
		int rc;

		if (r->place < m->n_places)
			blockmap_place(m, r->place, &p);
		if (p.at > r->end)
			p.at = r->end;
		if (r->pos < p.at) {
			rc = give_zeros_up_to(r, p.at, err);
			if (rc < 0)
				return rc;
			continue;
		}
		plain = p.plain + (r->pos - p.at);
		i = blockmap_find_span(m, p.pack, plain);
		room = get_span_in_memory(r, i);
		if (!room) {
			*ret_span = i;
			return 0;
		}
		blockmap_span(m, i, &s);
		n = room->len - (plain - s.plain);
		if (n > p.at + p.len - r->pos)
			n = p.at + p.len - r->pos;
		if (n > r->end - r->pos)
			n = r->end - r->pos;
		rc = r->sink->put(r->sink, r->pos,
				  room->data + (plain - s.plain), (size_t)n,
				  err);
		if (rc < 0)
			return rc;
		r->pos += n;
		if (r->pos == p.at + p.len)
			r->place++;
	}
	return 0;
}

/* ------------------------------------------------------------------- windows --- */

static int read_part(struct content_read *r, uint64_t key, uint64_t off,
		     size_t len, struct span_room **ret, struct error *err)
{
	struct span_source *s = r->s;
	struct source_req req = *r->req;
	uint8_t *data = malloc(len);
	int rc;

	req.off = off;
	req.len = len;
	rc = data ? source_read_into(s->packs[s->map->n_packs - 1], &req, data,
				     err)
		  : error_nomem(err);
	if (rc < 0) {
		free(data);
		span_cache_drop(s->cache, s->owner, key, req.priority);
		return rc;
	}
	*ret = span_cache_put(s->cache, s->owner, key, req.priority, data, len);
	return *ret ? 0 : error_nomem(err);
}

/* Wait until another thread's claim ended, or a short time has passed. */
static int wait_for_claim(const struct content_read *r, uint64_t key,
			  struct error *err)
{
	int64_t now = clock_now_ns();

	if (pace_level(r->req->pace) == PACE_STOP)
		return error_set(err, ECANCELED, "not wanted any more");
	if (r->req->deadline_ns && now >= r->req->deadline_ns)
		return error_set(err, ETIMEDOUT,
				 "another reader's part of a layer did not "
				 "come in time");
	span_cache_wait(r->s->cache, r->s->owner, key, now + WAIT_TICK_NS);
	return 0;
}

/* Get part number `part` of the windows, loading it if needed. */
static int open_windows_part(struct content_read *r, uint64_t part,
			     struct span_room **ret, struct error *err)
{
	struct span_source *s = r->s;
	uint64_t key = WINDOWS_KEY | part, off = part * WINDOWS_PART;
	struct pack windows;

	blockmap_pack(s->map, s->map->n_packs - 1, &windows);
	for (;;) {
		size_t len = WINDOWS_PART;
		int rc;

		switch (span_cache_claim(s->cache, s->owner, key,
					 r->req->priority, ret)) {
		case SPAN_READY:
			return 0;
		case SPAN_CLAIMED:
			if (len > windows.size - off)
				len = (size_t)(windows.size - off);
			return read_part(r, key, off, len, ret, err);
		case SPAN_AWAITED:
			rc = wait_for_claim(r, key, err);
			if (rc < 0)
				return rc;
		}
	}
}

/* Read the stored window of a span, from the one or two parts in which it lies. */
static int read_window(struct content_read *r, const struct span *s,
		       uint8_t *stored, struct error *err)
{
	size_t done = 0;

	while (done < s->window_len) {
		uint64_t at = s->window + done, in = at % WINDOWS_PART;
		struct span_room *room;
		size_t n;
		int rc = open_windows_part(r, at / WINDOWS_PART, &room, err);

		if (rc < 0)
			return error_wrap(err, rc, "windows of the layers");
		n = room->len - (size_t)in;
		n = n < s->window_len - done ? n : s->window_len - done;
		memcpy(stored + done, room->data + in, n);
		span_cache_give(r->s->cache, room);
		done += n;
	}
	return 0;
}

/* Load the window of a span; `*ret` is NULL when the span needs none. */
static int load_window(struct content_read *r, size_t index, uint8_t *room,
		       const uint8_t **ret, struct error *err)
{
	AUTO_FREE uint8_t *stored = NULL;
	struct span s;
	size_t n;
	int rc;

	blockmap_span(r->s->map, index, &s);
	*ret = NULL;
	if (s.window_len == 0)
		return 0;
	stored = malloc(s.window_len);
	if (!stored)
		return error_nomem(err);
	rc = read_window(r, &s, stored, err);
	if (rc < 0)
		return rc;
	n = ZSTD_decompress(room, SPAN_WINDOW_BYTES, stored, s.window_len);
	if (n != SPAN_WINDOW_BYTES)
		return error_set(err, EBADMSG, "a damaged window");
	*ret = room;
	return 0;
}

/* --------------------------------------------------------------------- runs --- */

/* Receives the stored bytes of a run, and unpacks each span once its bytes have arrived. */
struct span_run {
	struct source_sink base;
	struct content_read *r;
	uint8_t *stored;
	uint64_t off, len, filled;
	size_t next;           /* next span of the run to unpack */
	const uint8_t *window; /* window of the first span */
};

/* End of a span's stored bytes: the byte in which the next span begins belongs to both. */
static uint64_t stored_end(const struct blockmap *m, size_t span)
{
	struct span next;

	blockmap_span(m, span + 1, &next);
	return next.stored + (next.bits ? 1 : 0);
}

/* The window of a span. For all but the first of the run, that is the end of the span
 * before. */
static const uint8_t *window_of(const struct span_run *k, const struct span *s)
{
	const struct span_room *before;

	if (k->next == 0)
		return k->window;
	before = k->r->rooms[k->next - 1];
	if (!s->window_len || before->len < SPAN_WINDOW_BYTES)
		return NULL;
	return before->data + before->len - SPAN_WINDOW_BYTES;
}

static int unpack_next(struct span_run *k, struct error *err)
{
	struct content_read *r = k->r;
	const struct blockmap *m = r->s->map;
	size_t index = r->first + k->next, len;
	AUTO_FREE uint8_t *plain = NULL;
	struct span s, next;
	int rc;

	blockmap_span(m, index, &s);
	blockmap_span(m, index + 1, &next);
	len = (size_t)(next.plain - s.plain);
	plain = malloc(len);
	if (!plain)
		return error_nomem(err);
	rc = span_unpack(&s, window_of(k, &s), k->stored + (s.stored - k->off),
			 (size_t)(stored_end(m, index) - s.stored), plain, len,
			 err);
	if (rc == 0 && crc32_gzip_refl(0, plain, len) != s.crc)
		rc = error_set(err, EBADMSG,
			       "damaged: wrong checksum of a span");
	if (rc < 0)
		return rc;
	r->rooms[k->next] =
		span_cache_put(r->s->cache, r->s->owner, index,
			       r->req->priority, steal_ptr(&plain), len);
	if (!r->rooms[k->next])
		return error_nomem(err);
	k->next++;
	return 0;
}

static int run_put(struct source_sink *sink, uint64_t pos, const void *data,
		   size_t len, struct error *err)
{
	struct span_run *k = container_of(sink, struct span_run, base);
	struct content_read *r = k->r;
	size_t missing;
	int rc = 0;

	if (pos != k->off + k->filled || len > k->len - k->filled)
		return error_set(err, EIO,
				 "source passed on %zu bytes at %" PRIu64
				 " that were not asked for",
				 len, pos);
	memcpy(k->stored + k->filled, data, len);
	k->filled += len;
	while (rc == 0 && k->next < r->n_run &&
	       stored_end(r->s->map, r->first + k->next) <=
		       k->off + k->filled) {
		rc = unpack_next(k, err);
		if (rc == 0)
			rc = give_spans_in_memory(r, &missing, err);
	}
	return rc;
}

static int wrap_layer(const struct content_read *r, uint32_t pack, int rc,
		      struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct pack p;

	blockmap_pack(r->s->map, pack, &p);
	digest_format(&p.digest, text);
	return error_wrap(err, rc, "layer %s", text);
}

/* Load the run, whose spans are all claimed, and end the claims. */
static int load_run(struct content_read *r, struct error *err)
{
	struct span_source *s = r->s;
	AUTO_FREE uint8_t *room = malloc(SPAN_WINDOW_BYTES);
	struct span_run k = { .base.put = run_put, .r = r };
	struct source_req req = *r->req;
	struct span first;
	int rc;

	blockmap_span(s->map, r->first, &first);
	k.off = first.stored;
	k.len = stored_end(s->map, r->first + r->n_run - 1) - k.off;
	k.stored = malloc(k.len + 1);
	rc = room && k.stored ? load_window(r, r->first, room, &k.window, err)
			      : error_nomem(err);
	req.off = k.off;
	req.len = k.len;
	if (rc == 0 && k.len)
		rc = source_read(s->packs[first.pack], &req, &k.base, err);
	if (rc == 0 && k.next < r->n_run)
		rc = error_set(err, EIO, "source ended early");
	for (size_t i = k.next; i < r->n_run; i++)
		span_cache_drop(s->cache, s->owner, r->first + i, req.priority);
	free(k.stored);
	return rc < 0 ? wrap_layer(r, first.pack, rc, err) : 0;
}

static void give_back_span_rooms(struct content_read *r)
{
	for (size_t i = 0; i < r->n_run; i++)
		span_cache_give(r->s->cache, r->rooms[i]);
	span_cache_give(r->s->cache, r->extra);
	r->extra = NULL;
	r->n_run = 0;
	memset(r->rooms, 0, sizeof(r->rooms));
}

/* Bit mask of the spans [first, first + RUN_SPANS) that the rest of the request needs. */
static uint32_t spans_needed(const struct content_read *r, size_t first)
{
	const struct blockmap *m = r->s->map;
	uint64_t pos = r->pos;
	uint32_t needed = 0;

	for (size_t i = r->place; i < m->n_places && i - r->place < RUN_PLACES;
	     i++) {
		struct content_place p;
		uint64_t from, to;
		size_t a, b;

		blockmap_place(m, i, &p);
		if (p.at >= r->end)
			break;
		from = pos > p.at ? pos - p.at : 0;
		to = p.at + p.len < r->end ? p.len : r->end - p.at;
		a = blockmap_find_span(m, p.pack, p.plain + from);
		b = blockmap_find_span(m, p.pack, p.plain + to - 1);
		for (a = a < first ? first : a; a <= b && a - first < RUN_SPANS;
		     a++)
			needed |= UINT32_C(1) << (a - first);
	}
	return needed;
}

/* Extend the run, whose first span is claimed, by the following spans that are needed and
 * lie near enough. */
static void claim_run(struct content_read *r)
{
	struct span_source *s = r->s;
	uint32_t needed = spans_needed(r, r->first);
	struct span first, next;

	blockmap_span(s->map, r->first, &first);
	for (r->n_run = 1; r->n_run < RUN_SPANS; r->n_run++) {
		size_t i = r->first + r->n_run;
		struct span_room *room = NULL;

		/* Record i + 1 exists: the needed span i is no layer's end record, which
		 * would be last. */
		if (!(needed >> r->n_run & 1))
			return;
		blockmap_span(s->map, i + 1, &next);
		if (next.pack != first.pack ||
		    next.plain - first.plain > RUN_BYTES ||
		    next.stored - first.stored > RUN_BYTES)
			return;
		if (span_cache_claim(s->cache, s->owner, i, r->req->priority,
				     &room) != SPAN_CLAIMED) {
			span_cache_give(s->cache, room);
			return;
		}
	}
}

/* Load the span, unless it is in memory or another thread that is loading it was waited for. */
static int load_span(struct content_read *r, size_t span, struct error *err)
{
	struct span_source *s = r->s;
	struct span_room *room = NULL;

	give_back_span_rooms(r);
	switch (span_cache_claim(s->cache, s->owner, span, r->req->priority,
				 &room)) {
	case SPAN_READY:
		r->extra = room;
		r->extra_index = span;
		return 0;
	case SPAN_CLAIMED:
		r->first = span;
		claim_run(r);
		return load_run(r, err);
	case SPAN_AWAITED:
		break;
	}
	return wait_for_claim(r, span, err);
}

/* ------------------------------------------------------------------ damage --- */

static void drop_window_from_cache(const struct content_read *r, size_t index)
{
	struct span s;

	blockmap_span(r->s->map, index, &s);
	if (!s.window_len)
		return;
	for (uint64_t i = s.window / WINDOWS_PART;
	     i <= (s.window + s.window_len - 1) / WINDOWS_PART; i++)
		span_cache_expel(r->s->cache, r->s->owner, WINDOWS_KEY | i);
}

/* Expel all spans and windows that the request used, after a digest did not match: which of
 * them is damaged is unknown, so the next request fetches all of them again. */
static void drop_request_from_cache(const struct content_read *r)
{
	const struct blockmap *m = r->s->map;
	struct content_place p;
	size_t first = blockmap_find_place(m, r->req->off), last = SIZE_MAX;

	if (r->n_run)
		drop_window_from_cache(r, r->first);
	for (size_t i = first; i < m->n_places && i - first < RUN_PLACES; i++) {
		uint64_t from, to;
		size_t a, b;

		blockmap_place(m, i, &p);
		if (p.at > r->pos)
			return;
		from = r->req->off > p.at ? r->req->off - p.at : 0;
		to = r->pos - p.at < p.len ? r->pos - p.at : p.len - 1;
		b = blockmap_find_span(m, p.pack, p.plain + to);
		for (a = blockmap_find_span(m, p.pack, p.plain + from); a <= b;
		     a++) {
			/* Most places of a request lie in the same span as the place before. */
			if (a != last)
				span_cache_expel(r->s->cache, r->s->owner, a);
			last = a;
		}
	}
}

/* ------------------------------------------------------------------- source --- */

static int span_source_read(struct source *base, const struct source_req *req,
			    struct source_sink *sink, struct error *err)
{
	struct span_source *s = container_of(base, struct span_source, base);
	struct content_read r = { .s = s,
				  .req = req,
				  .sink = sink,
				  .pos = req->off,
				  .end = req->off + req->len };
	size_t span;
	int rc;

	r.place = blockmap_find_place(s->map, r.pos);
	do {
		rc = give_spans_in_memory(&r, &span, err);
		if (rc == 0 && span < s->map->n_spans)
			rc = load_span(&r, span, err);
	} while (rc == 0 && r.pos < r.end);
	if (rc == -EBADMSG)
		drop_request_from_cache(&r);
	give_back_span_rooms(&r);
	return rc;
}

static void packs_free(const struct blockmap *map, struct source **packs)
{
	for (size_t i = 0; i < map->n_packs; i++)
		source_free(steal_ptr(&packs[i]));
}

static void span_source_free(struct source *base)
{
	struct span_source *s = container_of(base, struct span_source, base);

	span_cache_forget(s->cache, s->owner);
	packs_free(s->map, s->packs);
	free(s->packs);
	free(s);
}

static const struct source_ops span_source_ops = {
	.name = "layers",
	.read = span_source_read,
	.free = span_source_free,
};

int span_source_new(const struct blockmap *map, struct source **packs,
		    struct span_cache *cache, struct source **ret,
		    struct error *err)
{
	struct span_source *s = calloc(1, sizeof(*s));

	if (s)
		s->packs = (struct source **)calloc(map->n_packs,
						    sizeof(struct source *));
	if (!s || !s->packs) {
		free(s);
		packs_free(map, packs);
		return error_nomem(err);
	}
	for (size_t i = 0; i < map->n_packs; i++)
		s->packs[i] = steal_ptr(&packs[i]);
	s->base.ops = &span_source_ops;
	s->base.size = map->content_size;
	s->map = map;
	s->cache = cache;
	s->owner = span_cache_owner(cache);
	*ret = &s->base;
	return 0;
}

int span_sources_join(const struct blockmap *map, struct source **packs,
		      struct span_cache *cache, struct error *err)
{
	if (!blockmap_is_index(map))
		return 0;
	return span_source_new(map, packs, cache, &packs[0], err);
}
