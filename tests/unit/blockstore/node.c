// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/blockstore/node.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/clock.h"

void node_make(struct node *n, const struct node_config *cfg)
{
	struct fetcher_config fetch = {
		.threads = cfg->threads ? cfg->threads : 4,
		.window = cfg->window,
		.window_max = cfg->window_max,
		.demand_timeout_ns =
			(cfg->timeout_ms ? cfg->timeout_ms : 60000) * NS_PER_MS,
		/* Tests say themselves what is under way. */
		.width = cfg->width ? cfg->width : 256,
	};
	struct error err = ERROR_INIT;

	memset(n, 0, sizeof(*n));
	cache_dir_make(&n->dir);
	n->threads = fetch.threads;
	n->cache = cache_dir_open(&n->dir, cfg->quota ? cfg->quota : 1 << 30);
	image_make(&n->img, cfg->hollow ? IMAGE_HOLLOW : 5, cfg->n_blocks,
		   cfg->usize, cfg->per_pack);
	cr_assert_leq(n->img.n_packs, NODE_PACKS_MAX);
	fetch.cache = n->cache;
	cr_assert_eq(fetcher_new(&fetch, &n->fetcher, &err), 0, "%s", err.msg);
	for (unsigned int d = 0; d < cfg->of_one_host; d++)
		node_add_device(n, "one.example");
	for (unsigned int d = 0; !cfg->of_one_host && d < NODE_DEVICES; d++) {
		char host[32];

		(void)snprintf(host, sizeof(host), "host-%u.example", d);
		node_add_device(n, host);
	}
}

void node_add_device(struct node *n, const char *host)
{
	struct block_source *packs[NODE_PACKS_MAX];
	struct error err = ERROR_INIT;
	unsigned int d = n->n_devices++;
	char label[16];

	cr_assert_lt(d, NODE_DEVICES_MAX);
	for (size_t i = 0; i < n->img.n_packs; i++) {
		n->fault[d][i] = fault_source_new(
			memory_source_new(n->img.packs[i], n->img.pack_size[i],
					  5000));
		cr_assert_eq(verify_source_new(&n->fault[d][i]->base, &packs[i],
					       &err),
			     0);
	}
	(void)snprintf(label, sizeof(label), "image-%u", d);
	cr_assert_eq(device_new(n->fetcher, &n->img.map, label, host, packs,
				&n->dev[d], &err),
		     0, "%s", err.msg);
}

void node_remove(struct node *n)
{
	for (unsigned int d = 0; d < n->n_devices; d++)
		device_free(n->dev[d]);
	fetcher_free(n->fetcher);
	cache_close(n->cache);
	image_fini(&n->img);
	cache_dir_remove(&n->dir);
}

int try_read(struct node *n, int dev, uint64_t off, size_t len,
	     struct error *err)
{
	AUTO_FREE uint8_t *buf = malloc(len + 1);
	int rc;

	memset(buf, 0xee, len);
	rc = device_read_sync(n->dev[dev], off, buf, len, err);
	if (rc == 0)
		cr_assert_eq(memcmp(buf, n->img.device + off, len), 0,
			     "%zu bytes at %llu", len, (unsigned long long)off);
	return rc;
}

void expect_read(struct node *n, int dev, uint64_t off, size_t len)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(try_read(n, dev, off, len, &err), 0, "%s", err.msg);
}

int fetch_blocks(struct node *n, int dev, size_t first, size_t count,
		 enum source_priority priority, const volatile bool *cancel,
		 struct error *err)
{
	AUTO_FREE uint32_t *blocks = calloc(count + 1, sizeof(*blocks));
	struct device_list list = { .blocks = blocks,
				    .n = count,
				    .priority = priority,
				    .streams = n->threads,
				    .cancel = cancel };

	for (size_t i = 0; i < count; i++)
		blocks[i] = (uint32_t)(first + i);
	return device_fetch_list(n->dev[dev], &list, err);
}

size_t count_reads(struct node *n, int dev)
{
	size_t sum = 0;

	for (size_t i = 0; i < n->img.n_packs; i++)
		sum += fault_reads(n->fault[dev][i]);
	return sum;
}

static void later_done(struct device_read *r, int rc, const struct error *err)
{
	struct later *l = container_of(r, struct later, base);

	(void)pthread_mutex_lock(&l->lock);
	l->n_done++;
	l->rc = rc;
	if (err)
		l->err = *err;
	(void)pthread_cond_signal(&l->ended);
	(void)pthread_mutex_unlock(&l->lock);
}

void later_start(struct later *l, struct node *n, int dev, uint64_t off,
		 size_t len)
{
	memset(l, 0, sizeof(*l));
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->ended, NULL);
	l->buf = malloc(len);
	l->base.off = off;
	l->base.len = len;
	l->base.buf = l->buf;
	l->base.done = later_done;
	device_submit(n->dev[dev], &l->base);
}

int later_wait(struct later *l)
{
	(void)pthread_mutex_lock(&l->lock);
	while (!l->n_done)
		(void)pthread_cond_wait(&l->ended, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
	return l->rc;
}

void later_fini(struct later *l, struct node *n)
{
	(void)later_wait(l);
	cr_expect_eq(l->n_done, 1, "done %u times", l->n_done);
	if (l->rc == 0)
		cr_expect_eq(memcmp(l->buf, n->img.device + l->base.off,
				    l->base.len),
			     0);
	free(l->buf);
	(void)pthread_cond_destroy(&l->ended);
	(void)pthread_mutex_destroy(&l->lock);
}
