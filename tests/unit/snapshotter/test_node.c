// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/snapshotter/test_node.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "snapshotter/node/starts/prefetch.h"

void test_node_open(struct test_node *t)
{
	static char off[] = "off", automatic[] = "auto", no[] = "no";

	strcpy(t->dir, "/tmp/node-unit.XXXXXX");
	cr_assert(mkdtemp(t->dir));
	t->cfg = (struct node_config){ .root = t->dir,
				       .run = t->dir,
				       .prefetch = off,
				       .record = automatic,
				       .trace_oci = no };
	t->node.cfg = &t->cfg;
	t->node.gate = keyed_lock_new();
	cr_assert(t->node.gate);
	cr_assert_eq(images_open(t->dir, t->dir, &t->node.images, NULL), 0);
}

void test_node_open_prefetches(struct test_node *t)
{
	AUTO_FREE char *dir = fs_join(t->dir, "cache");
	const struct cache_config cache = { .dir = dir, .quota = 1 << 20 };
	struct prefetches_of of = {
		.cfg = &t->cfg,
		.images = t->node.images,
		.opens = { .gate = t->node.gate,
			   .is_ending = &t->node.is_ending },
		.n_unready = &t->node.n_unready_starts,
	};

	cr_assert_eq(cache_open(&cache, &t->node.cache, NULL), 0);
	of.opens.cache = t->node.cache;
	cr_assert_eq(node_prefetch_open(&of, &t->node.prefetches, NULL), 0);
}

void test_node_close(struct test_node *t)
{
	node_prefetch_close(t->node.prefetches);
	if (t->node.cache)
		cache_close(t->node.cache);
	images_close(t->node.images);
	keyed_lock_free(t->node.gate);
	cr_assert_eq(fs_remove_tree(t->dir, NULL), 0);
}

struct image *test_node_add_from(struct test_node *t, size_t k,
				 const char *host, const char *repo)
{
	AUTO_FREE char *staged = NULL;
	struct artifact a = { .image_size = 1 };
	struct image *i = NULL;
	struct digest id;

	cr_assert_eq(digest_of(&k, sizeof(k), &a.digest), 0);
	a.image = a.digest;
	cr_assert_eq(image_id_of(&a.digest, host, repo, &id), 0);
	cr_assert_eq(buf_puts(&a.manifest_json, "{}"), 0);
	cr_assert_eq(buf_puts(&a.config_json, "{}"), 0);
	cr_assert_eq(images_stage(t->node.images, &id, &staged, NULL), 0);
	cr_assert_eq(images_stage_texts(staged, &a, NULL), 0);
	cr_assert_eq(images_add(t->node.images, staged, &a,
				&(struct image_place){ .host = host,
						       .repo = repo },
				&i, NULL),
		     0);
	artifact_fini(&a);
	return i;
}

struct image *test_node_add(struct test_node *t, size_t k)
{
	struct image *i = test_node_add_from(t, k, "h:5000", "r");
	AUTO_FREE char *path = NULL;

	path = image_path(i, "image.json");
	cr_assert_eq(fs_replace_file(path, TEST_NODE_CONFIG,
				     strlen(TEST_NODE_CONFIG), 0600, NULL),
		     0);
	return i;
}

/* ------------------------------------------------------------ store of traces --- */

static int fake_traces_get(struct trace_store *s, const struct trace_query *q,
			   struct trace_found *ret, struct error *err)
{
	struct fake_traces *f = container_of(s, struct fake_traces, base);
	struct trace_info info = { .image = q->image,
				   .repo = (char *)(uintptr_t)q->repo,
				   .workload = (char *)(uintptr_t)q->workload,
				   .window_ms = 120000,
				   .ready_ms = f->ready_ms,
				   .runs = 1 };
	struct trace_builder *b = NULL;

	f->n_asked++;
	snprintf(f->workload, sizeof(f->workload), "%s", q->workload);
	snprintf(f->repo, sizeof(f->repo), "%s", q->repo);
	sem_post(&f->asked);
	while (f->is_held && sem_wait(&f->go) < 0)
		;
	if (f->rc < 0)
		return error_set(err, -f->rc, "as the test wants");
	cr_assert_eq(trace_builder_new(&info, &b, err), 0);
	ret->match = f->match;
	ret->wanted = f->wanted;
	return trace_builder_finish(b, &ret->trace, err);
}

static int fake_traces_put(struct trace_store *s, const struct trace *t,
			   struct error *err)
{
	struct fake_traces *f = container_of(s, struct fake_traces, base);

	f->n_kept++;
	return f->put_rc < 0 ? error_set(err, -f->put_rc, "as the test wants")
			     : 0;
}

static void fake_traces_free(struct trace_store *s)
{
	(void)s;
}

void fake_traces_init(struct fake_traces *f)
{
	static const struct trace_store_ops ops = { .name = "fake",
						    .get = fake_traces_get,
						    .put = fake_traces_put,
						    .free = fake_traces_free };

	*f = (struct fake_traces){ .base = { .ops = &ops }, .rc = -ENOENT };
	sem_init(&f->asked, 0, 0);
	sem_init(&f->go, 0, 0);
}

void fake_traces_fini(struct fake_traces *f)
{
	sem_destroy(&f->asked);
	sem_destroy(&f->go);
}
