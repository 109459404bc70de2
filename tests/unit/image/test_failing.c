// SPDX-License-Identifier: Apache-2.0
/* Conversion's threads that cannot begin, and parsers whose memory is short. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "image/artifact/artifact.h"
#include "image/artifact/parts.h"
#include "image/writer/ordered_pool.h"
#include "image/writer/upload.h"
#include "tests/unit/failures.h"

TestSuite(image_failing, .timeout = 120);

#define MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define JOBS 4u

static int code_of(enum failure_kind kind)
{
	return kind == FAIL_THREAD ? EAGAIN : ENOMEM;
}

static void expect(struct failures *f, int rc, const struct error *err)
{
	cr_expect_eq(rc, failures_hit(f) ? -code_of(f->kind) : 0,
		     "round %u: %d %s", f->n, rc, err->msg);
	cr_expect_eq(err->msg[0] != '\0', rc < 0, "%s", err->msg);
}

static void *worker_new(void *arg)
{
	return arg;
}

static void worker_free(void *worker)
{
	(void)worker;
}

static int work(void *arg, void *worker, struct ordered_pool_item *item,
		struct error *err)
{
	(void)arg, (void)worker, (void)item, (void)err;
	return 0;
}

static int write_item(void *arg, struct ordered_pool_item *item,
		      struct error *err)
{
	(void)arg, (void)item, (void)err;
	return 0;
}

Test(image_failing, an_ordered_pool_ends_the_threads_that_it_has)
{
	struct ordered_pool_config cfg = {
		.jobs = JOBS,
		.in_cap = 16,
		.out_cap = 16,
		.arg = &cfg,
		.worker_new = worker_new,
		.worker_free = worker_free,
		.work = work,
		.write = write_item,
	};

	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct ordered_pool *p = NULL;

			expect(&f, ordered_pool_new(&cfg, &p, &err), &err);
			ordered_pool_free(p);
		}
		cr_expect_gt(f.n, JOBS);
	}
}

static int store(struct upload_target *t, const struct digest *d, uint64_t size,
		 int fd, struct error *err)
{
	(void)t, (void)d, (void)size, (void)fd, (void)err;
	return 0;
}

Test(image_failing, an_upload_does_not_begin)
{
	struct upload_target t = { .store = store };

	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct upload *u = NULL;

			expect(&f, upload_new(&t, &u, &err), &err);
			upload_free(u);
		}
		cr_expect_eq(f.n, 2);
	}
}

static void make_artifact(struct buf *manifest, struct buf *config)
{
	struct digest chain_ids[2] = { { .b = { 4 } }, { .b = { 5 } } };
	struct oci_descriptor packs[2] = {
		{ .digest = { .b = { 6 } }, .size = 1000 },
		{ .digest = { .b = { 7 } }, .size = 2000 }
	};
	struct artifact a = { .image = { .b = { 1 } },
			      .chunking = "c1",
			      .chain_ids = chain_ids,
			      .n_chain_ids = 2,
			      .meta_size = 4096,
			      .map_size = 100,
			      .packs = packs,
			      .n_packs = 2,
			      .device_size = 1 << 20,
			      .image_size = 12345,
			      .n_inodes = 7,
			      .meta = { .size = 900 },
			      .map = { .size = 90 } };
	struct error err = ERROR_INIT;

	cr_assert_eq(artifact_format_config(&a, config, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(artifact_format_manifest(&a, config, 500, MANIFEST,
					      manifest, &err),
		     0, "%s", err.msg);
}

/* The JSON library's memory is short, too: what it could not read is then no JSON,
 * which is an error as well.  Some of its calls are for tables that may stay small. */
Test(image_failing, an_artifact_is_whole_or_an_error)
{
	struct failures f = { .kind = FAIL_MEMORY };
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	unsigned int n_failed = 0;

	make_artifact(&manifest, &config);
	json_set_alloc_funcs(malloc, free);
	while (failures_next(&f)) {
		struct error err = ERROR_INIT;
		struct artifact a;
		int rc = artifact_parse(manifest.data, manifest.len,
					config.data, config.len, &a, &err);

		cr_expect(rc == 0 || failures_hit(&f), "round %u: %d %s", f.n,
			  rc, err.msg);
		cr_expect_eq(err.msg[0] != '\0', rc < 0);
		n_failed += rc < 0;
		if (rc < 0)
			continue;
		cr_expect_eq(a.n_packs, 2);
		cr_expect_eq(a.n_chain_ids, 2);
		cr_expect_eq(a.packs[1].size, 2000);
		artifact_fini(&a);
	}
	cr_expect_gt(n_failed, 100);
}
