// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches all parts with one call of p2p_image_fetch(); each blob is read, in order, by a
 * source that waits for its parts. Parts that no peer sends are read by range from the
 * registry, checked one by one, and passed on to peers like the others.
 */
#include "snapshotter/node/peers/metadata_swarm.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "common/thread.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm_priv.h"

/* period of checks whether parts still arrive */
#define TICK_NS (20 * NS_PER_MS)
/* How long to wait for other nodes when none is known and nothing comes. */
#define ALONE_NS (500 * NS_PER_MS)
/* How long to wait after the last message from peers or the tracker that promises parts, with a
 * random part up to CHANCE_NS, lest all waiting nodes read the registry at once. */
#define HEARD_NS (2 * NS_PER_S)
#define CHANCE_NS (2 * NS_PER_S)
/* Longest wait for peers that send messages but no parts, and for all parts together. */
#define TALK_NS (8 * NS_PER_S)
#define TOTAL_NS (60 * NS_PER_S)
/* When the registry has sent nothing for this long, its request is given up if peers sent the
 * awaited part meanwhile. */
#define QUIET_NS (500 * NS_PER_MS)
#define RUN_MAX 64u /* parts of one request to the registry */
#define LOST_MAX 8u /* parts that the cache may lose before they are used */
#define BLOBS 2u
/* a blob's pinned parts may take this fraction of the cache: an eighth */
#define CACHE_SHARE 8u

/* A blob of an artifact, borrowed, and the parts by which nodes pass it on. */
struct passed_blob {
	const struct oci_descriptor *blob;
	struct parts parts; /* empty: each node reads the blob itself */
	struct digest own;  /* digest of the only part of a small blob */
};

struct metadata_swarm {
	struct image_swarms *all;
	struct digest id; /* of the artifact */
	struct origin *origin;
	void *bytes; /* bytes that `map` refers to */
	struct blockmap map;
	bool is_pinned;
	int64_t opened;
	uint64_t size; /* counted in all->metadata_bytes */
	struct p2p_image *p2p;
	/* sources of the registry, by pack */
	struct block_source *direct[BLOBS];

	/* State of metadata_swarm_fetch(). */
	int64_t begun, chance_ns;
	struct pace *pace; /* says whether the caller still wants the blobs */
	volatile bool cancel;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	bool has_ended; /* the fetch from peers has ended */
	/* why the parts do not make up the blobs; or unset */
	struct error wrong;
	bool *here; /* by block: it is in the cache */
};

/* ------------------------------------------------------------------ blobs --- */

static void list_passed_blobs(const struct artifact *a,
			      struct passed_blob ret[BLOBS])
{
	ret[0].blob = &a->meta;
	ret[0].parts = parts_passed(&a->meta_parts, &a->meta, &ret[0].own);
	ret[1].blob = &a->map;
	ret[1].parts = parts_passed(&a->map_parts, &a->map, &ret[1].own);
}

static uint64_t sum_passed_bytes(const struct passed_blob blobs[BLOBS])
{
	uint64_t n = 0;

	for (size_t k = 0; k < BLOBS; k++)
		n += blobs[k].parts.n ? blobs[k].blob->size : 0;
	return n;
}

/* The kind of swarm: nodes that cannot pass small blobs on as one part must still be able to
 * share the other parts. */
static enum p2p_swarm_kind
choose_swarm_kind(const struct artifact *a,
		  const struct passed_blob blobs[BLOBS])
{
	return blobs[0].parts.n == a->meta_parts.n &&
			       blobs[1].parts.n == a->map_parts.n
		       ? P2P_SWARM_METADATA
		       : P2P_SWARM_METADATA_WHOLE;
}

/* ----------------------------------------------------------------- joining --- */

static char *metadata_authorization(void *arg, struct pace *pace)
{
	const struct metadata_swarm *m = arg;

	return image_swarms_authorization(m->origin, &m->id, pace);
}

static int make_map(struct metadata_swarm *m,
		    const struct passed_blob blobs[BLOBS], struct error *err)
{
	const struct parts_blob parts[BLOBS] = {
		{ .blob = blobs[0].blob, .parts = &blobs[0].parts },
		{ .blob = blobs[1].blob, .parts = &blobs[1].parts },
	};
	size_t len = 0;
	int rc = parts_map(parts, BLOBS, &m->bytes, &len, err);

	return rc < 0 ? rc : blockmap_open(m->bytes, len, &m->map, err);
}

/* Open sources of the passed blobs, as packs of the map. */
static int open_blobs(const struct metadata_swarm *m,
		      const struct passed_blob blobs[BLOBS],
		      struct source ***ret, struct error *err)
{
	struct oci_descriptor list[BLOBS];
	size_t n = 0;

	for (size_t k = 0; k < BLOBS; k++)
		if (blobs[k].parts.n)
			list[n++] = *blobs[k].blob;
	return origin_blobs(m->origin, list, n, ret, err);
}

static int open_direct(struct metadata_swarm *m,
		       const struct passed_blob blobs[BLOBS], struct error *err)
{
	AUTO_FREE struct source **packs = NULL;
	int rc = open_blobs(m, blobs, &packs, err);

	for (size_t k = 0; rc == 0 && k < m->map.n_packs; k++)
		rc = verify_source_new(steal_ptr(&packs[k]), &m->direct[k],
				       err);
	for (size_t k = 0; packs && k < m->map.n_packs; k++)
		source_free(packs[k]);
	return rc;
}

static bool is_some_block_cached(const struct metadata_swarm *m)
{
	for (size_t k = 0; k < m->map.n_blocks; k++) {
		struct block b;

		blockmap_block(&m->map, k, &b);
		if (cache_has(m->all->of.cache, &b.digest))
			return true;
	}
	return false;
}

static int metadata_join(struct metadata_swarm *m,
			 const struct metadata_swarm_of *of,
			 const struct passed_blob blobs[BLOBS],
			 struct error *err)
{
	AUTO_FREE struct source **packs = NULL;
	AUTO_FREE char *repo = NULL;
	struct p2p_image_config cfg = {
		.image = m->id,
		.kind = choose_swarm_kind(of->artifact, blobs),
		.map = &m->map,
		.label = of->label,
		.authorization = metadata_authorization,
		.arg = m,
	};
	int rc;

	repo = origin_place(of->host, of->repo);
	if (!repo)
		return error_nomem(err);
	cfg.repo = repo;
	rc = cache_pin(m->all->of.cache, &m->map, err);
	m->is_pinned = rc == 0;
	if (rc == 0)
		rc = open_blobs(m, blobs, &packs, err);
	if (rc < 0)
		return rc;
	cfg.packs = packs;
	return p2p_image_open(m->all->p2p, &cfg, &m->p2p, err);
}

/* -------------------------------------------- --- reserving cache space --- */

static bool bytes_reserve(struct image_swarms *s, uint64_t size)
{
	uint64_t share = s->of.cfg->cache_quota / CACHE_SHARE;
	uint64_t had = atomic_load(&s->metadata_bytes);

	do {
		if (size > share || had > share - size)
			return false;
	} while (!atomic_compare_exchange_weak(&s->metadata_bytes, &had,
					       had + size));
	return true;
}

/* Take the metadata that was served longest; NULL: none is served.  The caller closes it. */
static struct metadata_swarm *take_oldest(struct images *images)
{
	struct image **list, *oldest = NULL;
	struct metadata_swarm *m;
	size_t len;

	if (images_list(images, &list, &len, NULL) < 0)
		return NULL;
	images_lock(images);
	for (size_t k = 0; k < len; k++)
		if (list[k]->metadata &&
		    (!oldest ||
		     list[k]->metadata->opened < oldest->metadata->opened))
			oldest = list[k];
	m = oldest ? steal_ptr(&oldest->metadata) : NULL;
	images_unlock(images);
	images_list_free(list, len);
	return m;
}

static bool make_room(struct image_swarms *s, uint64_t size, bool may_close)
{
	while (!bytes_reserve(s, size)) {
		struct metadata_swarm *m = NULL;

		if (may_close && size <= s->of.cfg->cache_quota / CACHE_SHARE)
			m = take_oldest(s->of.images);
		if (!m)
			return false;
		metadata_swarm_close(m);
	}
	return true;
}

/* -------------------------------------------------------- open and close --- */

static struct metadata_swarm *metadata_swarm_new(struct image_swarms *s)
{
	struct metadata_swarm *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->all = s;
	m->opened = clock_now_ns();
	(void)pthread_mutex_init(&m->lock, NULL);
	cond_init(&m->changed);
	return m;
}

int metadata_swarm_open(struct image_swarms *s,
			const struct metadata_swarm_of *of,
			struct metadata_swarm **ret, struct error *err)
{
	struct passed_blob blobs[BLOBS];
	struct metadata_swarm *m;
	uint64_t size;
	int rc;

	list_passed_blobs(of->artifact, blobs);
	size = sum_passed_bytes(blobs);
	*ret = NULL;
	if (!s || size == 0)
		return 0;
	m = metadata_swarm_new(s);
	if (!m)
		return error_nomem(err);
	m->id = of->artifact->digest;
	rc = make_map(m, blobs, err);
	if (rc == 0 && ((of->must_hold && !is_some_block_cached(m)) ||
			!make_room(s, size, !of->must_hold))) {
		metadata_swarm_close(m);
		return 0;
	}
	if (rc == 0)
		m->size = size;
	if (rc == 0)
		rc = origin_get(s->of.origins, of->host, of->repo,
				of->plain_http, &m->origin, err);
	if (rc == 0)
		rc = open_direct(m, blobs, err);
	if (rc == 0)
		rc = metadata_join(m, of, blobs, err);
	if (rc < 0) {
		metadata_swarm_close(m);
		return rc;
	}
	*ret = m;
	return 0;
}

void metadata_swarm_close(struct metadata_swarm *m)
{
	if (!m)
		return;
	p2p_image_close(m->p2p);
	if (m->is_pinned)
		cache_unpin(m->all->of.cache, &m->map);
	(void)atomic_fetch_sub(&m->all->metadata_bytes, m->size);
	for (size_t k = 0; k < BLOBS; k++)
		block_source_free(m->direct[k]);
	origin_put(m->origin);
	(void)pthread_cond_destroy(&m->changed);
	(void)pthread_mutex_destroy(&m->lock);
	free(m->bytes);
	free(m);
}

/* -------------------------------------------------------------- waiting --- */

static void set_here(struct metadata_swarm *m, size_t block, bool is_here)
{
	(void)pthread_mutex_lock(&m->lock);
	m->here[block] = is_here;
	(void)pthread_cond_broadcast(&m->changed);
	(void)pthread_mutex_unlock(&m->lock);
}

static int64_t latest_end(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Is it unlikely that peers send more in reasonable time? */
static bool is_peer_fetch_stuck(const struct metadata_swarm *m, int64_t now)
{
	struct p2p_progress at;
	int64_t moved, any;

	p2p_image_progress(m->p2p, &at);
	moved = latest_end(m->begun, at.moved_ns);
	any = latest_end(moved, at.heard_ns);
	return now - any >= (at.heard_ns || at.told_ns ? HEARD_NS + m->chance_ns
						       : ALONE_NS) ||
	       now - moved >= TALK_NS || now - m->begun >= TOTAL_NS;
}

static bool is_unwanted(const struct metadata_swarm *m)
{
	return pace_level(m->pace) == PACE_STOP;
}

/* Has the fetch failed, or is it not wanted any more? */
static int check_end(struct metadata_swarm *m, struct error *err)
{
	int rc = 0;

	if (is_unwanted(m))
		return error_set(err, ECANCELED, "%s",
				 atomic_load(m->all->of.is_ending)
					 ? "bootseerd ends"
					 : "not wanted any more");
	(void)pthread_mutex_lock(&m->lock);
	if (m->wrong.code)
		rc = error_set(err, m->wrong.code, "%s", m->wrong.msg);
	(void)pthread_mutex_unlock(&m->lock);
	return rc;
}

/* Wait for the block; false: read the registry, after check_end(). */
static bool wait_here(struct metadata_swarm *m, size_t block)
{
	bool is_here;

	(void)pthread_mutex_lock(&m->lock);
	for (;;) {
		int64_t now = clock_now_ns();

		is_here = m->here[block];
		if (is_here || m->has_ended || is_unwanted(m) ||
		    is_peer_fetch_stuck(m, now))
			break;
		(void)cond_wait_until(&m->changed, &m->lock, now + TICK_NS);
	}
	(void)pthread_mutex_unlock(&m->lock);
	return is_here;
}

/* ------------------------------------------------- --- reading a blob --- */

/* Reads a blob once, from begin to end: blocks [first, first + n) of the map. */
struct blob {
	struct source base;
	struct metadata_swarm *m;
	size_t first, n;
	size_t run;        /* parts of the next request to the registry */
	unsigned int lost; /* parts that the cache lost */
};

/* A sink that keeps checked parts of the registry in the cache. */
struct keep {
	struct block_sink sink;
	struct metadata_swarm *m;
	const struct block *blocks;
	size_t first; /* index of the first one in the map */
};

static int put_part_in_cache(struct block_sink *sink, size_t index,
			     const void *data, struct error *err)
{
	struct keep *k = container_of(sink, struct keep, sink);
	size_t block = k->first + index;
	int rc = cache_put(k->m->all->of.cache, &k->blocks[index], data,
			   SOURCE_HOT, err);

	if (rc < 0)
		return rc;
	p2p_image_came(k->m->p2p, (uint32_t)block);
	set_here(k->m, block, true);
	return 0;
}

/* Choose missing parts to read, from a random place, so that nodes which wait for each other in
 * vain read different parts. Returns how many follow each other. */
static size_t choose_parts(struct blob *b, size_t *ret_first)
{
	struct metadata_swarm *m = b->m;
	uint64_t any = 0;
	size_t at, n = 0;

	(void)!getrandom(&any, sizeof(any), 0);
	at = (size_t)(any % b->n);
	(void)pthread_mutex_lock(&m->lock);
	for (size_t k = 0; k < b->n && m->here[b->first + at]; k++)
		at = (at + 1) % b->n;
	while (at + n < b->n && n < b->run && !m->here[b->first + at + n])
		n++;
	(void)pthread_mutex_unlock(&m->lock);
	*ret_first = b->first + at;
	return n;
}

/* A read from the registry while `block` is waited for. */
struct metadata_reading {
	struct pace pace;
	struct metadata_swarm *m;
	size_t block;
	int64_t moved_ns; /* when bytes last came; 0: never */
};

/* Pace of a read from the registry: stop when peers have sent the awaited block while the
 * registry was silent or throttled us.  Other parts from peers, or a read that progresses, are
 * no reason to stop: nodes that read different parts and pass them on would stop each other. */
static enum pace_level reading_level(struct pace *p)
{
	struct metadata_reading *r =
		container_of(p, struct metadata_reading, pace);
	bool is_over = clock_now_ns() - r->moved_ns >= QUIET_NS;

	(void)pthread_mutex_lock(&r->m->lock);
	is_over = is_over && r->m->here[r->block];
	(void)pthread_mutex_unlock(&r->m->lock);
	return is_over || is_unwanted(r->m) ? PACE_STOP : PACE_GO;
}

static void note_reading_progress(struct pace *p)
{
	container_of(p, struct metadata_reading, pace)->moved_ns =
		clock_now_ns();
}

/* Read some of the missing parts from the registry, as long as `block` is missing. */
static int read_registry(struct blob *b, size_t block, struct error *err)
{
	struct metadata_reading reading = {
		.pace = { .level = reading_level,
			  .moves = note_reading_progress,
			  .is_urgent = true },
		.m = b->m,
		.block = block
	};
	struct block blocks[RUN_MAX];
	struct keep keep = { .sink.put = put_part_in_cache,
			     .m = b->m,
			     .blocks = blocks };
	size_t n = choose_parts(b, &keep.first);
	struct block_req req = { .blocks = blocks,
				 .n_blocks = n,
				 .priority = SOURCE_DEMAND,
				 .pace = &reading.pace };

	if (n == 0)
		return 0;
	for (size_t k = 0; k < n; k++)
		blockmap_block(&b->m->map, keep.first + k, &blocks[k]);
	log_debug("p2p", "metadata of the registry off=%" PRIu64 " parts=%zu",
		  blocks[0].poff, n);
	b->run = b->run < RUN_MAX / 2 ? b->run * 2 : RUN_MAX;
	return block_source_read(b->m->direct[blocks[0].pack], &req, &keep.sink,
				 err);
}

/* Read a part from the cache, where it stays pinned. */
static int read_part(struct blob *b, size_t block, const struct block *at,
		     void *room, struct error *err)
{
	struct metadata_swarm *m = b->m;
	int rc = 0;

	for (;;) {
		/* If the registry fails, peers may still send the part. */
		while (!wait_here(m, block)) {
			int end = check_end(m, err);

			if (end < 0 || rc < 0)
				return end < 0 ? end : rc;
			rc = read_registry(b, block, err);
			/* no peer can have other bytes: the registry's are the reference */
			if (rc == -EBADMSG)
				return rc;
		}
		rc = cache_read(m->all->of.cache, at, 0, room, at->usize, err);
		if (rc != -ENOENT || b->lost++ == LOST_MAX)
			return rc;
		set_here(m, block, false);
	}
}

static int blob_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *err)
{
	struct blob *b = container_of(s, struct blob, base);
	AUTO_FREE void *room = malloc(PARTS_SIZE_MAX);
	int rc = 0;

	if (req->off != 0 || req->len != s->size)
		return error_set(err, EINVAL, "only the whole is read");
	if (!room)
		return error_nomem(err);
	for (size_t k = 0; k < b->n && rc == 0; k++) {
		struct block at;

		blockmap_block(&b->m->map, b->first + k, &at);
		rc = read_part(b, b->first + k, &at, room, err);
		if (rc == 0)
			rc = sink->put(sink, at.poff, room, at.usize, err);
	}
	return rc;
}

static void blob_free(struct source *s)
{
	free(container_of(s, struct blob, base));
}

static const struct source_ops blob_ops = {
	.name = "parts",
	.read = blob_read,
	.free = blob_free,
};

/* Make a blob's reader; NULL stays if the blob has no parts. */
static int blob_new(struct metadata_swarm *m, const struct passed_blob *p,
		    size_t first, struct source **ret, struct error *err)
{
	struct blob *b;

	if (!p->parts.n)
		return 0;
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_nomem(err);
	b->base.ops = &blob_ops;
	b->base.size = p->blob->size;
	b->m = m;
	b->first = first;
	b->n = p->parts.n;
	b->run = 1;
	*ret = &b->base;
	return 0;
}

/* --------------------------------------------------------------- fetch --- */

static void on_peer_part(void *arg, uint32_t block, uint32_t bytes)
{
	(void)bytes;
	set_here(arg, block, true);
}

static void *fetch_from_peers_main(void *arg)
{
	struct metadata_swarm *m = arg;
	AUTO_FREE uint32_t *blocks = calloc(m->map.n_blocks, sizeof(*blocks));
	struct device_list list = { .blocks = blocks,
				    .n = m->map.n_blocks,
				    .priority = SOURCE_HOT,
				    .streams = 1,
				    .have = on_peer_part,
				    .arg = m,
				    .cancel = &m->cancel };
	struct error err = ERROR_INIT;
	int rc = 0;

	for (uint32_t k = 0; blocks && k < m->map.n_blocks; k++)
		blocks[k] = k;
	if (blocks)
		rc = p2p_image_fetch(m->p2p, &list, &err);
	if (rc < 0 && rc != -ECANCELED)
		log_debug("p2p", "metadata: %s", err.msg);
	(void)pthread_mutex_lock(&m->lock);
	m->has_ended = true;
	if (rc == -EBADMSG)
		m->wrong = err;
	(void)pthread_cond_broadcast(&m->changed);
	(void)pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* Read the blobs while another thread fetches their parts. */
static int fetch_brought(struct metadata_swarm *m, struct oci_store *store,
			 const struct artifact *a, const char *meta_path,
			 const char *map_path, struct error *err)
{
	AUTO(source) meta = NULL;
	AUTO(source) map = NULL;
	struct passed_blob blobs[BLOBS];
	struct artifact_sources from;
	int rc;

	list_passed_blobs(a, blobs);
	rc = blob_new(m, &blobs[0], 0, &meta, err);
	if (rc == 0)
		rc = blob_new(m, &blobs[1], blobs[0].parts.n, &map, err);
	if (rc < 0)
		return rc;
	from = (struct artifact_sources){
		.meta = meta,
		.map = map,
		.parser = parser_of_artifacts(m->all->of.parser),
	};
	return artifact_fetch(store, a, &from, meta_path, map_path, err);
}

int metadata_swarm_fetch(struct metadata_swarm *m, struct oci_store *store,
			 const struct artifact *a, struct pace *pace,
			 const char *meta_path, const char *map_path,
			 struct error *err)
{
	AUTO_FREE bool *here = calloc(m->map.n_blocks, sizeof(*here));
	uint64_t chance = 0;
	struct thread bringer;
	int rc;

	if (!here)
		return error_nomem(err);
	(void)!getrandom(&chance, sizeof(chance), 0);
	m->chance_ns = (int64_t)(chance % (uint64_t)CHANCE_NS);
	m->begun = clock_now_ns();
	m->here = here;
	m->pace = pace;
	rc = thread_start(&bringer, fetch_from_peers_main, m, err);
	if (rc < 0)
		return rc;
	rc = fetch_brought(m, store, a, meta_path, map_path, err);
	__atomic_store_n(&m->cancel, true, __ATOMIC_RELAXED);
	thread_join(&bringer);
	return rc;
}
