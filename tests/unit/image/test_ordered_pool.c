// SPDX-License-Identifier: Apache-2.0
#include "image/writer/ordered_pool.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ordered_pool, .timeout = 60);

#define N_ITEMS 200u
#define NEVER UINT32_MAX

/* What the callbacks of one test share. */
struct seen {
	pthread_mutex_t lock;
	pthread_cond_t second_done;
	bool hold_first; /* until the second item is done */
	bool is_second_done;
	uint32_t fail_work, fail_write; /* tags */
	uint32_t written[N_ITEMS];
	size_t n_written;
	size_t n_workers;
};

static void *worker_new(void *arg)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->n_workers++;
	pthread_mutex_unlock(&s->lock);
	return s;
}

static void worker_free(void *worker)
{
	struct seen *s = worker;

	pthread_mutex_lock(&s->lock);
	s->n_workers--;
	pthread_mutex_unlock(&s->lock);
}

static int work(void *arg, void *worker, struct ordered_pool_item *item,
		struct error *err)
{
	struct seen *s = arg;

	cr_expect_eq(worker, arg);
	if (item->tag == s->fail_work)
		return error_set(err, EILSEQ, "item %u", item->tag);
	pthread_mutex_lock(&s->lock);
	while (s->hold_first && item->tag == 0 && !s->is_second_done)
		pthread_cond_wait(&s->second_done, &s->lock);
	if (item->tag == 1) {
		s->is_second_done = true;
		pthread_cond_broadcast(&s->second_done);
	}
	pthread_mutex_unlock(&s->lock);
	memcpy(item->out, item->in, item->in_len);
	item->out_len = item->in_len;
	return 0;
}

static int write_item(void *arg, struct ordered_pool_item *item,
		      struct error *err)
{
	struct seen *s = arg;
	uint32_t tag;

	if (item->tag == s->fail_write)
		return error_set(err, ENOSPC, "item %u", item->tag);
	cr_assert_eq(item->out_len, sizeof(tag));
	memcpy(&tag, item->out, sizeof(tag));
	cr_expect_eq(tag, item->tag);
	cr_assert_lt(s->n_written, N_ITEMS);
	s->written[s->n_written++] = tag;
	return 0;
}

/* Items 0 to N_ITEMS - 1 through a pool; what came first of all failures. */
static int run_pool(struct seen *s, unsigned int jobs, struct error *err)
{
	struct ordered_pool_config cfg = {
		.jobs = jobs,
		.in_cap = sizeof(uint32_t),
		.out_cap = sizeof(uint32_t),
		.arg = s,
		.worker_new = worker_new,
		.worker_free = worker_free,
		.work = work,
		.write = write_item,
	};
	uint8_t *buf = malloc(cfg.in_cap);
	struct ordered_pool *p;
	int rc;

	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->second_done, NULL);
	cr_assert_eq(ordered_pool_new(&cfg, &p, err), 0);
	for (uint32_t tag = 0; tag < N_ITEMS; tag++) {
		memcpy(buf, &tag, sizeof(tag));
		rc = ordered_pool_put(p, &buf, sizeof(tag), tag, err);
		if (rc < 0)
			break;
	}
	if (rc == 0)
		rc = ordered_pool_finish(p, err);
	ordered_pool_free(p);
	free(buf);
	cr_expect_eq(s->n_workers, 0);
	return rc;
}

Test(ordered_pool, writes_in_the_order_of_putting_whoever_is_faster)
{
	struct seen s = { .hold_first = true,
			  .fail_work = NEVER,
			  .fail_write = NEVER };
	struct error err = ERROR_INIT;

	cr_assert_eq(run_pool(&s, 4, &err), 0, "%s", err.msg);
	cr_assert_eq(s.n_written, N_ITEMS);
	for (uint32_t i = 0; i < N_ITEMS; i++)
		cr_expect_eq(s.written[i], i);
}

Test(ordered_pool, returns_what_a_worker_failed_with)
{
	struct seen s = { .fail_work = 50, .fail_write = NEVER };
	struct error err = ERROR_INIT;

	cr_assert_eq(run_pool(&s, 3, &err), -EILSEQ);
	cr_expect_str_eq(err.msg, "item 50");
	cr_expect_leq(s.n_written, 50);
}

Test(ordered_pool, writes_nothing_after_a_failed_write)
{
	struct seen s = { .fail_work = NEVER, .fail_write = 20 };
	struct error err = ERROR_INIT;

	cr_assert_eq(run_pool(&s, 3, &err), -ENOSPC);
	cr_expect_str_eq(err.msg, "item 20");
	cr_expect_eq(s.n_written, 20);
}

Test(ordered_pool, refuses_a_number_of_jobs_that_it_cannot_have)
{
	struct ordered_pool_config cfg = { .jobs = ORDERED_POOL_JOBS_MAX + 1 };
	struct ordered_pool *p = NULL;
	struct error err = ERROR_INIT;

	cr_expect_eq(ordered_pool_new(&cfg, &p, &err), -EINVAL);
	cfg.jobs = 0;
	cr_expect_eq(ordered_pool_new(&cfg, &p, &err), -EINVAL);
	cr_expect_null(p);
}
