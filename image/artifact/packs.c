// SPDX-License-Identifier: Apache-2.0
/* Reads every pack once, in order, and unpacks every block of it that the map names. */
#include "image/artifact/packs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "image/spans/spans.h"
#include "objects/source.h"

struct packs {
	struct oci_store *store;
	const struct artifact *artifact;
	const struct blockmap *map;
	struct packs_sink *sink;
	uint32_t *order;      /* blocks by place: pack, offset, voff */
	uint64_t done, total; /* stored bytes */
};

int packs_check_map(const struct artifact *a, const struct blockmap *map,
		    struct error *err)
{
	if (map->n_packs != a->n_packs || map->device_size != a->device_size ||
	    blockmap_is_index(map) != (a->format == ARTIFACT_FORMAT_INDEX))
		return error_set(err, EBADMSG, "it is not of this artifact");
	for (size_t i = 0; i < a->n_packs; i++) {
		struct pack p;

		blockmap_pack(map, i, &p);
		if (!digest_equal(&p.digest, &a->packs[i].digest) ||
		    p.size != a->packs[i].size)
			return error_set(err, EBADMSG,
					 "pack %zu is not the artifact's", i);
	}
	return 0;
}

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct packs *p = arg;
	struct block x, y;

	blockmap_block(p->map, *(const uint32_t *)a, &x);
	blockmap_block(p->map, *(const uint32_t *)b, &y);
	if (x.pack != y.pack)
		return x.pack < y.pack ? -1 : 1;
	if (x.poff != y.poff)
		return x.poff < y.poff ? -1 : 1;
	return x.voff < y.voff ? -1 : x.voff > y.voff;
}

/* Reads one pack, which holds the blocks [at, end) of `order`. */
struct pack_reader {
	struct source_sink sink;
	struct packs *packs;
	size_t at, end;
	/* NULL for the content of an index, which has no digest of its own */
	struct hasher *hash;
	struct buf stored; /* of the block at `at`, so far */
	uint8_t *plain;
	bool is_zero; /* `plain` holds only zeros */
};

static int packs_unpack(struct pack_reader *r, const struct block *b,
			struct error *err)
{
	int rc = block_unpack(b, r->stored.data, r->plain, err);

	if (rc < 0)
		return error_wrap(err, rc, "block at %" PRIu64, b->voff);
	r->is_zero = r->plain[0] == 0 &&
		     memcmp(r->plain, r->plain + 1, b->usize - 1) == 0;
	return 0;
}

static bool is_same_block(const struct block *a, const struct block *b)
{
	return digest_equal(&a->digest, &b->digest) && a->usize == b->usize &&
	       a->codec == b->codec;
}

/* Give the sink all entries of the map that share the stored bytes just read. */
static int put_blocks(struct pack_reader *r, struct error *err)
{
	const struct packs *p = r->packs;
	struct block b, next;
	int rc;

	blockmap_block(p->map, p->order[r->at], &b);
	next = b;
	rc = packs_unpack(r, &b, err);
	while (rc == 0 && r->at < r->end && next.poff == b.poff) {
		if (next.csize != b.csize)
			return error_set(err, EBADMSG,
					 "blocks overlap in a pack");
		if (!is_same_block(&next, &b))
			rc = packs_unpack(r, &next, err);
		if (rc == 0)
			rc = p->sink->put(p->sink, &next,
					  r->is_zero ? NULL : r->plain, err);
		b = next;
		if (++r->at < r->end)
			blockmap_block(p->map, p->order[r->at], &next);
	}
	buf_reset(&r->stored);
	return rc;
}

/* Collect from the bytes just read those that belong to the next blocks. */
static int gather_blocks(struct pack_reader *r, uint64_t pos,
			 const uint8_t *data, size_t len, struct error *err)
{
	const struct packs *k = r->packs;
	const uint8_t *p = data;
	int rc = 0;

	while (rc == 0 && r->at < r->end) {
		uint64_t want, have;
		struct block b;

		blockmap_block(k->map, k->order[r->at], &b);
		want = b.poff + r->stored.len; /* next byte of the block */
		have = pos + (size_t)(p - data);
		if (want < have)
			return error_set(err, EBADMSG,
					 "blocks overlap in a pack");
		if (want >= pos + len)
			break;
		p += want - have;
		have = pos + len - want;
		if (have > b.csize - r->stored.len)
			have = b.csize - r->stored.len;
		if (buf_append(&r->stored, p, (size_t)have) < 0)
			return error_nomem(err);
		p += have;
		if (r->stored.len == b.csize)
			rc = put_blocks(r, err);
	}
	return rc;
}

static int packs_take(struct source_sink *s, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	struct pack_reader *r = container_of(s, struct pack_reader, sink);
	struct packs *p = r->packs;
	int rc = r->hash ? hasher_update(r->hash, data, len) : 0;

	if (rc < 0)
		return error_errno(err, -rc, "hash");
	p->done += len;
	if (p->sink->step)
		p->sink->step(p->sink, p->done, p->total);
	return gather_blocks(r, pos, data, len, err);
}

/* Unpacked spans kept in memory: several small files lie in one span. */
#define CACHE_BYTES (32 * MIB)

/* Read the files' content of an index, which has no digest of its own. */
static int read_content(struct pack_reader *r, struct error *err)
{
	const struct packs *p = r->packs;
	struct source_req req = { .priority = SOURCE_COLD };
	struct block last;
	AUTO(span_cache) cache = span_cache_new(CACHE_BYTES);
	AUTO_FREE struct source **blobs =
		(struct source **)calloc(p->map->n_packs,
					 sizeof(struct source *));
	AUTO(source) content = NULL;
	int rc = cache && blobs ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < p->map->n_packs; i++)
		rc = oci_open_blob(p->store, &p->artifact->packs[i].digest,
				   p->artifact->packs[i].size, &blobs[i], err);
	if (rc == 0)
		rc = span_source_new(p->map, blobs, cache, &content, err);
	for (size_t i = 0; blobs && i < p->map->n_packs; i++)
		source_free(blobs[i]);
	if (rc == 0 && r->end) {
		blockmap_block(p->map, p->order[r->end - 1], &last);
		req.len = last.poff + last.csize;
		rc = source_read(content, &req, &r->sink, err);
	}
	source_free(steal_ptr(&content));
	if (rc == 0 && r->at != r->end)
		rc = error_set(err, EBADMSG, "a block lies behind its end");
	return rc;
}

static int read_blob(struct pack_reader *r, const struct oci_descriptor *pack,
		     struct error *err)
{
	struct source_req req = { .len = pack->size, .priority = SOURCE_COLD };
	AUTO(source) s = NULL;
	struct digest d;
	int rc = oci_open_blob(r->packs->store, &pack->digest, pack->size, &s,
			       err);

	if (rc == 0 && pack->size)
		rc = source_read(s, &req, &r->sink, err);
	if (rc == 0 && hasher_final(r->hash, &d) < 0)
		rc = error_nomem(err);
	if (rc == 0 && !digest_equal(&d, &pack->digest))
		rc = error_set(err, EBADMSG, "its content has another digest");
	if (rc == 0 && r->at != r->end)
		rc = error_set(err, EBADMSG, "a block lies behind its end");
	return rc;
}

static int read_pack(struct packs *p, size_t pack, size_t *at,
		     struct error *err)
{
	struct pack_reader r = {
		.sink.put = packs_take, .packs = p, .at = *at, .end = *at
	};
	char text[DIGEST_STR_MAX];
	int rc;

	while (r.end < p->map->n_blocks) {
		struct block b;

		blockmap_block(p->map, p->order[r.end], &b);
		if (b.pack != pack)
			break;
		r.end++;
	}
	*at = r.end;
	if (!blockmap_is_index(p->map))
		r.hash = hasher_new();
	r.plain = malloc(BLOCK_USIZE_MAX);
	if ((!r.hash && !blockmap_is_index(p->map)) || !r.plain)
		rc = error_nomem(err);
	else if (blockmap_is_index(p->map))
		rc = read_content(&r, err);
	else
		rc = read_blob(&r, &p->artifact->packs[pack], err);
	hasher_free(r.hash);
	free(r.plain);
	buf_fini(&r.stored);
	digest_format(&p->artifact->packs[pack].digest, text);
	return rc < 0 ? error_wrap(err, rc, "pack %s", text) : 0;
}

int packs_read(struct oci_store *store, const struct artifact *a,
	       const struct blockmap *map, struct packs_sink *sink,
	       struct error *err)
{
	AUTO_FREE uint32_t *order = calloc(map->n_blocks + 1, sizeof(*order));
	struct packs p = { .store = store,
			   .artifact = a,
			   .map = map,
			   .sink = sink,
			   .order = order };
	size_t at = 0;
	int rc = 0;

	if (!order)
		return error_nomem(err);
	for (size_t i = 0; i < map->n_blocks; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, map->n_blocks, sizeof(*order), compare_places, &p);
	for (size_t i = 0; i < map->n_packs; i++)
		p.total += a->packs[i].size;
	if (blockmap_is_index(map))
		p.total = map->content_size;
	for (size_t i = 0;
	     rc == 0 && i < (blockmap_is_index(map) ? 1 : map->n_packs); i++)
		rc = read_pack(&p, i, &at, err);
	return rc;
}
