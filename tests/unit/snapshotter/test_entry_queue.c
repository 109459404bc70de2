// SPDX-License-Identifier: Apache-2.0
/* Entries of layers that several threads put, and one thread takes in order. */
#include "snapshotter/convert/entry_queue.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(entry_queue, .timeout = 120);

#define LAYERS 40u
#define READERS 4u

struct putting {
	struct entry_queue *queue;
	unsigned int n_entries; /* of each layer */
	size_t value_len;       /* bytes of each entry's xattr */
	/* held: the reader of the first layer has to wait */
	pthread_mutex_t first;
	atomic_int rc; /* last failure */
	/* layers; the queue may already count one more */
	atomic_size_t n_taken;
	atomic_size_t n_begun, most_ahead;
};

/* Make entry `k` of layer `i`, whose texts and xattrs are in `text` and `x`. */
static struct layer_entry entry_of(size_t i, unsigned int k, size_t value_len,
				   char text[3][64], struct xattr x[2])
{
	static const char value[4096] = "value";

	(void)snprintf(text[0], 64, "layer%zu/entry%u", i, k);
	(void)snprintf(text[1], 64, "to%u", k);
	(void)snprintf(text[2], 64, "user.%zu", i);
	x[0] = (struct xattr){ .next = &x[1],
			       .name = text[2],
			       .value = value,
			       .size = (uint32_t)value_len };
	x[1] = (struct xattr){ .name = "user.empty" };
	return (struct layer_entry){
		.path = text[0],
		.link = k & 1 ? text[1] : NULL,
		.mode = k & 1 ? S_IFLNK | 0777 : S_IFREG | 0644,
		.uid = k,
		.mtime = -(int64_t)i,
		.size = k,
		.xattrs = k % 3 ? x : NULL,
	};
}

static void *put_layers(void *arg)
{
	struct putting *p = arg;
	struct error err = ERROR_INIT;
	size_t i;

	while (entry_queue_begin(p->queue, &i)) {
		size_t ahead = i - atomic_load(&p->n_taken);
		int rc = 0;

		atomic_fetch_add(&p->n_begun, 1);
		if (ahead <= i && ahead > atomic_load(&p->most_ahead))
			atomic_store(&p->most_ahead, ahead);
		if (i == 0) {
			pthread_mutex_lock(&p->first);
			pthread_mutex_unlock(&p->first);
		}
		for (unsigned int k = 0; rc == 0 && k < p->n_entries; k++) {
			char text[3][64];
			struct xattr x[2];
			struct layer_entry e =
				entry_of(i, k, p->value_len, text, x);

			rc = entry_queue_put(p->queue, i, &e, &err);
			/* The queue must have copied the texts: overwrite them. */
			memset(text, 'x', sizeof(text));
		}
		if (rc < 0)
			p->rc = rc;
		entry_queue_end(p->queue, i);
	}
	return NULL;
}

static void expect_text(const char *is, const char *want)
{
	cr_assert_eq(is == NULL, want == NULL);
	if (want)
		cr_assert_str_eq(is, want);
}

static void expect_entry(const struct layer_entry *e, size_t i, unsigned int k,
			 size_t value_len)
{
	char text[3][64];
	struct xattr x[2];
	struct layer_entry want = entry_of(i, k, value_len, text, x);
	const struct xattr *a = e->xattrs, *b = want.xattrs;

	expect_text(e->path, want.path);
	expect_text(e->link, want.link);
	cr_assert_eq(e->mode, want.mode);
	cr_assert_eq(e->uid, want.uid);
	cr_assert_eq(e->mtime, want.mtime);
	cr_assert_eq(e->size, want.size);
	for (; a && b; a = a->next, b = b->next) {
		expect_text(a->name, b->name);
		cr_assert_eq(a->size, b->size);
		if (b->size)
			cr_assert_arr_eq(a->value, b->value, b->size);
	}
	cr_assert(!a && !b);
}

/* Take all entries of all layers, and check them. */
static void take_all(struct putting *p)
{
	for (size_t i = 0; i < LAYERS; i++) {
		const struct layer_entry *e;
		enum entry_taken taken;
		unsigned int k = 0;

		while ((taken = entry_queue_take(p->queue, &e)) != ENTRY_END) {
			cr_assert_eq(taken, ENTRY_TAKEN);
			expect_entry(e, i, k++, p->value_len);
		}
		cr_assert_eq(k, p->n_entries);
		atomic_fetch_add(&p->n_taken, 1);
	}
}

static void start(struct putting *p, pthread_t threads[READERS])
{
	p->queue = entry_queue_new(LAYERS);
	cr_assert_not_null(p->queue);
	for (unsigned int i = 0; i < READERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, put_layers, p),
			     0);
}

static void end(struct putting *p, pthread_t threads[READERS])
{
	for (unsigned int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	entry_queue_free(p->queue);
}

Test(entry_queue, gives_the_entries_of_layers_in_their_order)
{
	struct putting p = { .first = PTHREAD_MUTEX_INITIALIZER,
			     .n_entries = 1500,
			     .value_len = 100 };
	pthread_t threads[READERS];

	start(&p, threads);
	take_all(&p);
	end(&p, threads);
}

/* The first layer is slow; the entries of all others together have four times the limit. */
Test(entry_queue, has_no_more_bytes_than_its_bound_whatever_is_read_ahead)
{
	struct putting p = { .first = PTHREAD_MUTEX_INITIALIZER,
			     .n_entries = 1600,
			     .value_len = 4096 };
	pthread_t threads[READERS];
	uint64_t peak;

	pthread_mutex_lock(&p.first);
	start(&p, threads);
	while (entry_queue_peak(p.queue) < ENTRY_QUEUE_BYTES)
		sched_yield();
	pthread_mutex_unlock(&p.first);
	take_all(&p);
	peak = entry_queue_peak(p.queue);
	/* The limit does not count one batch, nor batches of the layer in turn. */
	cr_expect_leq(peak, ENTRY_QUEUE_BYTES + 2 * MIB, "%llu",
		      (unsigned long long)peak);
	end(&p, threads);
}

Test(entry_queue, begins_no_layer_too_far_before_its_turn)
{
	struct putting p = { .first = PTHREAD_MUTEX_INITIALIZER,
			     .n_entries = 1,
			     .value_len = 1 };
	pthread_t threads[READERS];

	pthread_mutex_lock(&p.first);
	start(&p, threads);
	while (atomic_load(&p.n_begun) <= ENTRY_QUEUE_AHEAD)
		sched_yield();
	pthread_mutex_unlock(&p.first);
	take_all(&p);
	end(&p, threads);
	cr_expect_leq(atomic_load(&p.most_ahead), ENTRY_QUEUE_AHEAD + 1);
}

Test(entry_queue, lets_all_who_wait_go_when_it_is_stopped)
{
	struct putting p = { .first = PTHREAD_MUTEX_INITIALIZER,
			     .n_entries = 100000,
			     .value_len = 4096 };
	pthread_t threads[READERS];

	start(&p, threads);
	while (entry_queue_peak(p.queue) < ENTRY_QUEUE_BYTES)
		sched_yield();
	entry_queue_stop(p.queue);
	end(&p, threads);
	cr_expect_eq(p.rc, -ECANCELED);
}

/* Entries of a layer that ended must come before the failure of a later layer. */
Test(entry_queue, gives_what_an_ended_layer_has_after_it_was_stopped)
{
	struct entry_queue *q = entry_queue_new(2);
	const struct layer_entry *e;
	struct xattr x[2];
	char text[3][64];
	size_t i;

	cr_assert(entry_queue_begin(q, &i));
	for (unsigned int k = 0; k < 3; k++) {
		struct layer_entry put = entry_of(0, k, 10, text, x);

		cr_assert_eq(entry_queue_put(q, 0, &put, NULL), 0);
	}
	entry_queue_end(q, 0);
	entry_queue_stop(q);
	for (unsigned int k = 0; k < 3; k++) {
		cr_assert_eq(entry_queue_take(q, &e), ENTRY_TAKEN);
		expect_entry(e, 0, k, 10);
	}
	cr_assert_eq(entry_queue_take(q, &e), ENTRY_END);
	cr_assert_eq(entry_queue_take(q, &e), ENTRY_STOPPED);
	entry_queue_free(q);
}

/* The image is not at fault if a hard link leads to an entry that was dropped. */
Test(entry_queue, does_not_end_a_layer_of_which_entries_were_dropped)
{
	struct entry_queue *q = entry_queue_new(1);
	const struct layer_entry *e;
	struct xattr x[2];
	char text[3][64];
	struct layer_entry put = entry_of(0, 0, 10, text, x);
	size_t i;

	cr_assert(entry_queue_begin(q, &i));
	cr_assert_eq(entry_queue_put(q, 0, &put, NULL), 0);
	entry_queue_stop(q);
	entry_queue_end(q, 0);
	cr_assert_eq(entry_queue_take(q, &e), ENTRY_STOPPED);
	entry_queue_free(q);
}

Test(entry_queue, wakes_its_taker)
{
	struct entry_queue *q = entry_queue_new(1);
	const struct layer_entry *e;

	entry_queue_wake(q);
	cr_assert_eq(entry_queue_take(q, &e), ENTRY_WAKE);
	entry_queue_stop(q);
	cr_assert_eq(entry_queue_take(q, &e), ENTRY_STOPPED);
	entry_queue_free(q);
}
