// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/p2p/crowd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"

#define WAIT_NS (110 * NS_PER_S)
#define POLL_NS 5000000L

const struct crowd_config crowd_two = {
	.nodes = 2,
	.blocks = CROWD_TWO_BLOCKS,
	.per_pack = 25,
	.usize = 64 << 10,
	.relay = 64 << 20,
};

/* Whom a node knows, as an earlier life of it wrote it down. */
static void write_members(struct crowd_node *n, const struct crowd_config *cfg,
			  unsigned int known)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_FREE char *path = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(buf_puts(&text, "bootseer-members 1\n"), 0);
	for (unsigned int k = cfg->chain && known ? known - 1 : 0;
	     k < known && !cfg->alone; k++)
		if (n->crowd->node[k].p2p)
			cr_assert_eq(buf_printf(&text,
						"node-%02u\t127.0.0.1:%u"
						"\t\t\t\n",
						k,
						p2p_port(
							n->crowd->node[k].p2p)),
				     0);
	if (cfg->address)
		cr_assert_eq(buf_printf(&text, "rogue\t%s\t\t\t\n",
					cfg->address),
			     0);
	cr_assert_gt(asprintf(&path, "%s/members", n->dir.path), 0);
	cr_assert_eq(fs_replace_file(path, text.data, text.len, 0600, &err), 0,
		     "%s", err.msg);
}

static void open_image(struct crowd_node *n)
{
	struct crowd *c = n->crowd;
	struct source *packs[CROWD_PACKS_MAX];
	struct error err = ERROR_INIT;
	struct p2p_image_config cfg = {
		.image = c->digest,
		.map = &c->img.map,
		.label = "crowd",
		.repo = n->repo,
		.packs = packs,
		.authorization = n->authorization,
		.arg = n,
	};

	for (size_t k = 0; k < c->img.n_packs; k++) {
		n->origin[k] = fault_source_new(
			memory_source_new(c->img.packs[k], c->img.pack_size[k],
					  16384));
		packs[k] = &n->origin[k]->base;
	}
	cr_assert_eq(p2p_image_open(n->p2p, &cfg, &n->image, &err), 0, "%s",
		     err.msg);
}

void crowd_open_metadata(struct crowd_node *n)
{
	const struct fault_plan plan = { .n_fail = UINT32_MAX,
					 .fail_rc = -EIO };
	const struct image *img = &n->crowd->img;
	struct source *packs[CROWD_PACKS_MAX];
	struct error err = ERROR_INIT;
	struct p2p_image_config cfg = {
		.image = n->crowd->digest,
		.kind = P2P_SWARM_METADATA_WHOLE,
		.map = &img->map,
		.label = "crowd",
		.repo = n->repo,
		.packs = packs,
	};

	for (size_t k = 0; k < img->n_packs; k++) {
		struct fault_source *f = fault_source_new(
			memory_source_new(img->packs[k], img->pack_size[k],
					  16384));

		fault_set(f, n->metadata_plan ? n->metadata_plan : &plan);
		packs[k] = &f->base;
	}
	cr_assert_eq(p2p_image_open(n->p2p, &cfg, &n->metadata, &err), 0, "%s",
		     err.msg);
}

static void open_p2p(struct crowd_node *n, const struct crowd_config *cfg)
{
	struct error err = ERROR_INIT;
	char name[16];
	AUTO_FREE char *url = cfg->tracker ? strdup(cfg->tracker) : NULL;
	char *const trackers[] = { url, NULL };
	AUTO_FREE char *keys = NULL;
	struct p2p_config p2p = {
		.listen = "127.0.0.1:0",
		.node = name,
		.trackers = trackers,
		.neighbours = cfg->neighbours ? cfg->neighbours : 16,
		.relay_bytes = cfg->relay,
		.upload_rate = cfg->upload_rate,
		.memory = 64 << 20,
		.dir = n->dir.path,
		.cache = n->cache,
	};

	(void)snprintf(name, sizeof(name), "node-%02u", n->number);
	if (cfg->keys) {
		cr_assert_gt(asprintf(&keys, "%s/keys.pem", n->dir.path), 0);
		cr_assert_eq(fs_replace_file(keys, cfg->keys, strlen(cfg->keys),
					     0600, &err),
			     0, "%s", err.msg);
		p2p.capability_keys = keys;
	}
	cr_assert_eq(p2p_open(&p2p, &n->p2p, &err), 0, "%s", err.msg);
}

struct crowd_node *crowd_add(struct crowd *c, const struct crowd_config *cfg)
{
	struct crowd_node *n = &c->node[c->n];

	cr_assert_lt(c->n, CROWD_MAX);
	n->crowd = c;
	n->number = c->n++;
	n->priority = SOURCE_HOT;
	n->repo = cfg->repo ? cfg->repo : CROWD_REPO;
	cache_dir_make(&n->cache_dir);
	cache_dir_make(&n->dir);
	n->cache = cache_dir_open(&n->cache_dir,
				  cfg->quota ? cfg->quota : 1 << 30);
	write_members(n, cfg, n->number);
	open_p2p(n, cfg);
	open_image(n);
	return n;
}

void crowd_image(struct digest *ret)
{
	cr_assert_eq(digest_of("crowd", 5, ret), 0);
}

void crowd_swarm(struct digest *ret)
{
	struct digest image;

	crowd_image(&image);
	cr_assert_eq(p2p_swarm_name(&image, CROWD_REPO, P2P_SWARM_BLOCKS, ret,
				    NULL),
		     0);
}

void crowd_make(struct crowd *c, const struct crowd_config *cfg)
{
	memset(c, 0, sizeof(*c));
	image_make(&c->img, cfg->hollow ? IMAGE_HOLLOW : 7, cfg->blocks,
		   cfg->usize, cfg->per_pack);
	cr_assert_leq(c->img.n_packs, CROWD_PACKS_MAX);
	crowd_image(&c->digest);
	for (unsigned int k = 0; k < cfg->nodes; k++)
		(void)crowd_add(c, cfg);
}

void crowd_kill(struct crowd_node *n)
{
	if (!n->p2p)
		return;
	__atomic_store_n(&n->cancel, true, __ATOMIC_RELAXED);
	if (n->is_fetching)
		(void)crowd_join(n);
	p2p_image_close(n->metadata);
	p2p_image_close(n->image);
	p2p_close(n->p2p);
	n->p2p = NULL;
	n->image = n->metadata = NULL;
}

void crowd_remove(struct crowd *c)
{
	for (unsigned int k = 0; k < c->n; k++)
		crowd_kill(&c->node[k]);
	for (unsigned int k = 0; k < c->n; k++) {
		cache_close(c->node[k].cache);
		cache_dir_remove(&c->node[k].cache_dir);
		cache_dir_remove(&c->node[k].dir);
		free(c->node[k].order);
	}
	image_fini(&c->img);
}

static void have(void *arg, uint32_t block, uint32_t bytes)
{
	struct crowd_node *n = arg;

	(void)block;
	atomic_fetch_add(&n->n_have, 1);
	atomic_fetch_add(&n->n_bytes, bytes);
}

static void *fetch_main(void *arg)
{
	struct crowd_node *n = arg;
	size_t blocks = n->crowd->img.map.n_blocks;
	struct device_list list = { .n = blocks,
				    .priority = n->priority,
				    .streams = 1,
				    .have = have,
				    .arg = n,
				    .pause = n->pause,
				    .cancel = &n->cancel };

	if (!n->order) {
		n->order = calloc(blocks, sizeof(*n->order));
		for (uint32_t k = 0; k < blocks; k++)
			n->order[k] = k;
	}
	list.blocks = n->order;
	n->rc = p2p_image_fetch(n->image, &list, &n->err);
	return NULL;
}

void crowd_fetch(struct crowd_node *n)
{
	atomic_store(&n->n_have, 0);
	n->is_fetching = true;
	cr_assert_eq(pthread_create(&n->thread, NULL, fetch_main, n), 0);
}

int crowd_join(struct crowd_node *n)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += WAIT_NS / NS_PER_S;
	cr_assert_eq(pthread_timedjoin_np(n->thread, NULL, &ts), 0,
		     "node %u has not ended: %zu of %zu blocks", n->number,
		     atomic_load(&n->n_have), n->crowd->img.map.n_blocks);
	n->is_fetching = false;
	return n->rc;
}

void crowd_expect_whole(struct crowd_node *n)
{
	const struct image *img = &n->crowd->img;

	for (size_t k = 0; k < img->map.n_blocks; k++)
		cr_assert_eq(get_block(n->cache, img, k), 0,
			     "node %u: block %zu", n->number, k);
}

void crowd_fetch_all(struct crowd *c)
{
	for (unsigned int k = 0; k < c->n; k++)
		crowd_fetch(&c->node[k]);
	for (unsigned int k = 0; k < c->n; k++)
		cr_assert_eq(crowd_join(&c->node[k]), 0, "node %u: %s", k,
			     c->node[k].err.msg);
	for (unsigned int k = 0; k < c->n; k++)
		crowd_expect_whole(&c->node[k]);
}

void crowd_put(struct crowd_node *n, size_t first, size_t count)
{
	for (size_t k = first; k < first + count; k++)
		cr_assert_eq(put_block(n->cache, &n->crowd->img, k), 0);
}

void crowd_reopen(struct crowd_node *n)
{
	p2p_image_close(n->image);
	open_image(n);
}

uint64_t crowd_origin_bytes(struct crowd *c)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < c->n; k++) {
		struct p2p_stats s;

		if (!c->node[k].p2p)
			continue;
		p2p_get_stats(c->node[k].p2p, &s);
		sum += s.origin_bytes_total;
	}
	return sum;
}

uint64_t crowd_stored_bytes(const struct crowd *c)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < c->img.n_packs; k++)
		sum += c->img.pack_size[k];
	return sum;
}

double crowd_copies(struct crowd *c)
{
	return (double)crowd_origin_bytes(c) / (double)crowd_stored_bytes(c);
}

void crowd_origin_dies(struct crowd_node *n)
{
	crowd_origin_refuses(n, -EIO);
}

void crowd_origin_refuses(struct crowd_node *n, int rc)
{
	struct fault_plan plan = { .n_fail = UINT32_MAX, .fail_rc = rc };

	for (size_t k = 0; k < n->crowd->img.n_packs; k++)
		fault_set(n->origin[k], &plan);
}

/* Until `is_so` says so. */
static void wait_until(bool (*is_so)(struct crowd_node *n, size_t want),
		       struct crowd_node *n, size_t want, const char *what)
{
	int64_t until = clock_now_ns() + WAIT_NS;
	const struct timespec poll = { .tv_nsec = POLL_NS };

	while (!is_so(n, want)) {
		cr_assert_lt(clock_now_ns(), until, "node %u: not %zu %s",
			     n->number, want, what);
		(void)nanosleep(&poll, NULL);
	}
}

static bool has_peers(struct crowd_node *n, size_t want)
{
	struct p2p_stats s;

	p2p_get_stats(n->p2p, &s);
	return s.peers >= want;
}

void crowd_wait_peers(struct crowd_node *n, unsigned int peers)
{
	wait_until(has_peers, n, peers, "peers");
}

static void count_neighbours(void *arg, const struct p2p_image_info *i)
{
	size_t *n = arg;

	*n += i->peers;
}

static bool has_neighbours(struct crowd_node *n, size_t want)
{
	struct error err = ERROR_INIT;
	size_t found = 0;

	cr_assert_eq(p2p_each_image(n->p2p, count_neighbours, &found, &err), 0,
		     "%s", err.msg);
	return found >= want;
}

void crowd_wait_neighbours(struct crowd_node *n, unsigned int neighbours)
{
	wait_until(has_neighbours, n, neighbours, "neighbours");
}

static bool has_come(struct crowd_node *n, size_t want)
{
	return atomic_load(&n->n_have) >= want;
}

void crowd_wait_have(struct crowd_node *n, size_t blocks)
{
	wait_until(has_come, n, blocks, "blocks");
}

struct device *crowd_device(struct crowd_node *n, struct fetcher **ret_fetcher)
{
	struct fetcher_config cfg = { .threads = 4,
				      .demand_timeout_ns = 30 * NS_PER_S,
				      .cache = n->cache };
	struct block_source *packs[CROWD_PACKS_MAX];
	struct error err = ERROR_INIT;
	struct device *dev;

	cr_assert_eq(fetcher_new(&cfg, ret_fetcher, &err), 0, "%s", err.msg);
	for (uint32_t k = 0; k < n->crowd->img.n_packs; k++)
		cr_assert_eq(p2p_image_source(n->image, k, &packs[k], &err), 0);
	cr_assert_eq(device_new(*ret_fetcher, &n->crowd->img.map, "crowd",
				n->repo, packs, &dev, &err),
		     0, "%s", err.msg);
	return dev;
}

int crowd_read_block(struct crowd_node *n, struct device *dev, size_t k,
		     struct error *err)
{
	const struct image *img = &n->crowd->img;
	AUTO_FREE uint8_t *got = NULL;
	struct block b;
	int rc;

	blockmap_block(&img->map, k, &b);
	got = malloc(b.usize);
	cr_assert(got);
	rc = device_read_sync(dev, b.voff, got, b.usize, err);
	if (rc == 0)
		cr_assert_eq(memcmp(got, image_plain(img, k), b.usize), 0);
	return rc;
}
