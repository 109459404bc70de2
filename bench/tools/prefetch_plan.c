// SPDX-License-Identifier: Apache-2.0
/*
 * What fetching a hot set costs, as a model:
 *
 *	prefetch-plan MAP BLOBS LIST WARM GAP RANGE STREAMS LINK...
 *
 * MAP is a block map, BLOBS the folder of its packs, LIST the hot set in order:
 * lines "sha256:PACK OFFSET" of blocks.  RANGE is device_list.range_max, or that, a
 * colon and range_grown.  The requests are those that
 * device_fetch_list() makes with GAP, RANGE and STREAMS over the real packs.
 * Printed are megabytes, those of them that nobody asked for, requests, and for
 * each LINK (MBIT:RTT_MS) two times to ready, in seconds.  A request waits one
 * round trip, then all that are under way share the link evenly.  A start reads
 * the blocks in their order, with WARM seconds of work spread evenly over them,
 * and waits for what is not there; or it waits for all of them first.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "blockstore/device.h"
#include "common/fs.h"

#define PATH_SIZE 4096
#define FOREVER 1e12

struct request {
	struct block *blocks;
	size_t n;
	size_t next; /* the block that arrives next */
	double left; /* bytes of it still to come */
	double begins;
};

struct plan {
	struct blockmap map;
	pthread_mutex_t lock; /* protects `requests` */
	struct request *requests;
	size_t n;
	uint32_t *list; /* entries of the map */
	size_t n_list;
	bool *is_wanted;
	double *arrives;
};

struct noted {
	struct block_source base;
	struct block_source *next;
	struct plan *plan;
};

static void die(const char *what)
{
	fprintf(stderr, "prefetch-plan: %s\n", what);
	exit(1);
}

static void must(int rc, const struct error *err)
{
	if (rc < 0)
		die(err->msg);
}

static void *need(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

/* ------------------------------------------------------------ the requests --- */

static int noted_read(struct block_source *s, const struct block_req *req,
		      struct block_sink *sink, struct error *err)
{
	struct noted *n = container_of(s, struct noted, base);
	struct plan *p = n->plan;
	size_t size = req->n_blocks * sizeof(*req->blocks);
	struct request *r;

	(void)pthread_mutex_lock(&p->lock);
	p->requests =
		need(realloc(p->requests, (p->n + 1) * sizeof(*p->requests)));
	r = &p->requests[p->n++];
	*r = (struct request){ .blocks = need(malloc(size)),
			       .n = req->n_blocks };
	memcpy(r->blocks, req->blocks, size);
	(void)pthread_mutex_unlock(&p->lock);
	return block_source_read(n->next, req, sink, err);
}

static void noted_free(struct block_source *s)
{
	struct noted *n = container_of(s, struct noted, base);

	block_source_free(n->next);
	free(n);
}

static const struct block_source_ops noted_ops = {
	.name = "noted",
	.read = noted_read,
	.free = noted_free,
};

static struct block_source *open_pack(struct plan *p, const char *dir, size_t i)
{
	struct noted *n = need(calloc(1, sizeof(*n)));
	char path[PATH_SIZE], digest[DIGEST_STR_MAX];
	struct error err = ERROR_INIT;
	struct source *stored;
	struct pack pack;

	blockmap_pack(&p->map, i, &pack);
	digest_format(&pack.digest, digest);
	(void)snprintf(path, sizeof(path), "%s/%s", dir,
		       strchr(digest, ':') + 1);
	n->base.ops = &noted_ops;
	n->plan = p;
	must(posix_source_new(path, &stored, &err), &err);
	must(verify_source_new(stored, &n->next, &err), &err);
	return &n->base;
}

static void fetch(struct plan *p, const char *dir, struct cache *cache,
		  char **args)
{
	struct fetcher_config cfg = { .threads = 32,
				      .window = 1 << 20,
				      .window_max = 64 << 20,
				      .demand_timeout_ns = INT64_C(1) << 40,
				      .cache = cache };
	struct block_source **packs = (struct block_source **)need(
		calloc(p->map.n_packs + 1, sizeof(struct block_source *)));
	struct device_list list = { .blocks = p->list,
				    .n = p->n_list,
				    .priority = SOURCE_HOT };
	struct error err = ERROR_INIT;
	struct fetcher *f;
	struct device *d;
	char *grown;

	list.gap = (uint32_t)strtoul(args[0], NULL, 10);
	list.range_max = (uint32_t)strtoul(args[1], &grown, 10);
	if (*grown == ':')
		list.range_grown = (uint32_t)strtoul(grown + 1, NULL, 10);
	list.streams = (unsigned int)strtoul(args[2], NULL, 10);
	for (size_t i = 0; i < p->map.n_packs; i++)
		packs[i] = open_pack(p, dir, i);
	must(fetcher_new(&cfg, &f, &err), &err);
	must(device_new(f, &p->map, "plan", "localhost", packs, &d, &err),
	     &err);
	must(device_fetch_list(d, &list, &err), &err);
	device_free(d);
	fetcher_free(f);
	free(packs);
}

/* --------------------------------------------------------------- the model --- */

/* First entry at this place, which several entries may share. */
static size_t entry_of(const struct plan *p, uint32_t pack, uint64_t poff)
{
	struct block b;

	for (size_t i = 0; i < p->map.n_blocks; i++) {
		blockmap_block(&p->map, i, &b);
		if (b.pack == pack && b.poff == poff)
			return i;
	}
	die("a block that the map has not");
	return 0;
}

/* Advance a request by `bytes`; true: it is complete. */
static bool move(struct plan *p, struct request *r, double bytes, double now)
{
	const struct block *b = &r->blocks[r->next];

	r->left -= bytes;
	if (r->left > 1e-3)
		return false;
	p->arrives[entry_of(p, b->pack, b->poff)] = now;
	if (++r->next == r->n)
		return true;
	r->left = b[1].csize;
	return false;
}

/* Simulate the requests [*begun, n), at most `streams` at a time; returns the end. */
static double transfer(struct plan *p, size_t streams, double bps, double rtt)
{
	struct request **now_on = need(calloc(streams + 1, sizeof(*now_on)));
	size_t n_on = 0, begun = 0;
	double t = 0;

	while (begun < p->n || n_on) {
		double step = FOREVER;
		size_t flows = 0, kept = 0;

		for (; begun < p->n && n_on < streams; begun++) {
			now_on[n_on] = &p->requests[begun];
			now_on[n_on]->next = 0;
			now_on[n_on]->left = now_on[n_on]->blocks[0].csize;
			now_on[n_on++]->begins = t + rtt;
		}
		for (size_t i = 0; i < n_on; i++)
			flows += now_on[i]->begins <= t;
		for (size_t i = 0; i < n_on; i++) {
			double own = now_on[i]->begins > t
					     ? now_on[i]->begins - t
					     : now_on[i]->left / (bps / flows);

			step = own < step ? own : step;
		}
		for (size_t i = 0; i < n_on; i++)
			if (now_on[i]->begins > t ||
			    !move(p, now_on[i], step * (bps / flows), t + step))
				now_on[kept++] = now_on[i];
		n_on = kept;
		t += step;
	}
	free(now_on);
	return t;
}

static void print_link(struct plan *p, const char *link, size_t streams,
		       double warm)
{
	double mbit, rtt_ms, end, t = 0;

	if (sscanf(link, "%lf:%lf", &mbit, &rtt_ms) != 2 || mbit <= 0)
		die("a link is MBIT:RTT_MS");
	end = transfer(p, streams, mbit * 1e6 / 8, rtt_ms / 1e3);
	for (size_t i = 0; i < p->n_list; i++) {
		double there = p->arrives[p->list[i]];

		t = (there > t ? there : t) + warm / (double)p->n_list;
	}
	printf(" %.2f %.2f", t, end + warm);
}

static void print_cost(const struct plan *p)
{
	uint64_t bytes = 0, waste = 0;

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->requests[i].n; k++) {
			const struct block *b = &p->requests[i].blocks[k];

			bytes += b->csize;
			if (!p->is_wanted[entry_of(p, b->pack, b->poff)])
				waste += b->csize;
		}
	}
	printf("%.1f %.1f %zu", (double)bytes / 1e6, (double)waste / 1e6, p->n);
}

/* ------------------------------------------------------------------- input --- */

static uint32_t pack_of(const struct plan *p, const char *digest)
{
	struct error err = ERROR_INIT;
	struct digest d;
	struct pack pack;

	must(digest_parse(digest, &d, &err), &err);
	for (size_t i = 0; i < p->map.n_packs; i++) {
		blockmap_pack(&p->map, i, &pack);
		if (digest_equal(&pack.digest, &d))
			return (uint32_t)i;
	}
	die("a pack that the map has not");
	return 0;
}

static void read_list(struct plan *p, const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned long long off;
	char digest[128];

	if (!f)
		die(strerror(errno));
	p->list = need(calloc(p->map.n_blocks + 1, sizeof(*p->list)));
	p->is_wanted = need(calloc(p->map.n_blocks + 1, sizeof(bool)));
	p->arrives = need(calloc(p->map.n_blocks + 1, sizeof(double)));
	while (fscanf(f, "%127s %llu", digest, &off) == 2) {
		size_t i = entry_of(p, pack_of(p, digest), off);

		if (!p->is_wanted[i])
			p->list[p->n_list++] = (uint32_t)i;
		p->is_wanted[i] = true;
	}
	(void)fclose(f);
}

int main(int argc, char **argv)
{
	struct plan p = { .lock = PTHREAD_MUTEX_INITIALIZER };
	char dir[] = "/var/tmp/prefetch-plan.XXXXXX";
	struct cache_config cfg = { .dir = dir, .quota = UINT64_C(1) << 40 };
	struct error err = ERROR_INIT;
	AUTO_BUF map = BUF_INIT;
	struct cache *cache;

	if (argc < 9)
		die("see the head of its source");
	must(fs_read_file(argv[1], BLOCKMAP_BYTES_MAX, &map, &err), &err);
	must(blockmap_open(map.data, map.len, &p.map, &err), &err);
	read_list(&p, argv[3]);
	if (!mkdtemp(dir))
		die(strerror(errno));
	must(cache_open(&cfg, &cache, &err), &err);
	fetch(&p, argv[2], cache, argv + 5);
	cache_close(cache);
	must(fs_remove_tree(dir, &err), &err);
	print_cost(&p);
	for (int i = 8; i < argc; i++)
		print_link(&p, argv[i], strtoul(argv[7], NULL, 10),
			   strtod(argv[4], NULL));
	putchar('\n');
	return 0;
}
