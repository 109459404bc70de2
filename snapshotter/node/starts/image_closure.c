// SPDX-License-Identifier: Apache-2.0
/*
 * The search (image/closure) finds what a start reads in an image that has no trace, and none
 * of a related image at the service.  It runs at the same time as the pull and the start, which
 * never wait for it.
 */
#include "snapshotter/node/starts/image_closure.h"

#include <errno.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "image/closure/closure.h"
#include "net/pool.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/prefetch.h"

#define THREADS 2
#define QUEUE_MAX 32
#define WORDS_MAX 256u
/* Longest search: a longer one would come too late for its start. */
#define SEARCH_NS (10 * NS_PER_S)
/* The bytes that the start has read, and those that the search has requested, are compared once
 * both are at least this many. */
#define COMPARED_BYTES (4 * MIB)

struct closure_searches {
	struct origins *origins;
	struct prefetches *prefetches;
	const atomic_bool *is_ending;
	struct pool *pool;
	volatile bool is_closing; /* atomic: the fetcher reads it */
	pthread_mutex_t lock;
	struct closure_search *first; /* searches under way, under the lock */
};

/* The search of one image. */
struct closure_search {
	struct work work;
	struct closure_searches *all;
	/* next in the list of searches; this and `for_start` are under the lock */
	struct closure_search *next;
	bool for_start;
	struct image *image; /* a use */
	/* hot set to be prefetched before the blocks that are found */
	struct hot_list hot;
	struct image_index index;
	/* a bit for each block that the search has requested */
	uint8_t *is_asked;
	struct remote_call call;
};

/* ------------------------------------------------------------------ config --- */

/* The command of the image's config; texts belong to the JSON. */
struct config_start {
	json_t *root;
	const char *words[WORDS_MAX], *env[WORDS_MAX];
	struct closure_start start;
};

static size_t add_texts(const json_t *list, const char **to, size_t n)
{
	for (size_t k = 0; k < json_array_size(list) && n < WORDS_MAX; k++) {
		const char *text = json_string_value(json_array_get(list, k));

		if (text)
			to[n++] = text;
	}
	return n;
}

static int read_config(struct closure_search *s, struct config_start *ret,
		       struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	const json_t *c;
	size_t n;
	int rc = image_config(s->all->origins, s->image, &text, err);

	if (rc == 0)
		rc = bounded_json_load(text.data, text.len, "image config",
				       &ret->root, err);
	if (rc < 0)
		return rc;
	c = json_object_get(ret->root, "config");
	n = add_texts(json_object_get(c, "Entrypoint"), ret->words, 0);
	ret->start.n_words =
		add_texts(json_object_get(c, "Cmd"), ret->words, n);
	ret->start.n_env = add_texts(json_object_get(c, "Env"), ret->env, 0);
	ret->start.words = ret->words;
	ret->start.env = ret->env;
	ret->start.folder = json_string_value(json_object_get(c, "WorkingDir"));
	return 0;
}

/* ------------------------------------------------- --- reads of the search --- */

/* Fails when the search's deadline is over, or bootseerd ends. */
static int check_time(struct closure_search *s, struct error *err)
{
	return pace_level(&s->call.pace) == PACE_STOP ||
			       __atomic_load_n(&s->all->is_closing,
					       __ATOMIC_RELAXED)
		       ? error_set(err, ECANCELED, "it took too long")
		       : 0;
}

/* Fails if the start reads little of what was found: it probably runs another program than the
 * image's command, as a pod may choose. */
static int check_reads(struct closure_search *s, struct error *err)
{
	uint32_t n = s->index.map.n_blocks;
	AUTO_FREE uint8_t *is_read = calloc(n / 8 + 1, 1);
	uint64_t read = 0, asked = 0, both = 0, least;
	struct block b;

	if (!is_read)
		return error_nomem(err);
	node_prefetch_mark_read(s->all->prefetches, s->image, &s->index.map,
				is_read);
	for (uint32_t k = 0; k < n; k++) {
		uint8_t bit = (uint8_t)(1u << k % 8);

		blockmap_block(&s->index.map, k, &b);
		read += is_read[k / 8] & bit ? b.csize : 0;
		asked += s->is_asked[k / 8] & bit ? b.csize : 0;
		both += is_read[k / 8] & s->is_asked[k / 8] & bit ? b.csize : 0;
	}
	least = read < asked ? read : asked;
	return least >= COMPARED_BYTES && both < least / 4
		       ? error_set(err, ECANCELED,
				   "the start reads something else")
		       : 0;
}

static int closure_fetch_spans(void *arg, const struct device_span *spans,
			       size_t n, struct error *err)
{
	struct closure_search *s = arg;
	struct hot_list list = { .n = 0 };
	AUTO_FREE uint32_t *blocks = NULL;
	int rc = check_time(s, err);

	if (rc == 0)
		rc = check_reads(s, err);
	if (rc == 0)
		rc = hot_list_add(&list, &s->index.map, spans, n, err);
	if (rc == 0) {
		blocks = calloc(list.n + 1, sizeof(*blocks));
		if (!blocks)
			rc = error_nomem(err);
	}
	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		uint32_t k = list.blocks[i].index;

		blocks[i] = k;
		s->is_asked[k / 8] |= (uint8_t)(1u << k % 8);
	}
	if (rc == 0)
		rc = node_prefetch_ahead(s->all->prefetches, s->image, blocks,
					 list.n, &s->all->is_closing, &s->call,
					 err);
	hot_list_fini(&list);
	return rc;
}

static int closure_read_bytes(void *arg, uint64_t voff, void *buf, size_t len,
			      struct error *err)
{
	struct closure_search *s = arg;
	int rc = check_time(s, err);

	return rc < 0 ? rc
		      : node_prefetch_read(s->all->prefetches, s->image, voff,
					   buf, len, &s->call, err);
}

/* ----------------------------------------------------------------- searches --- */

static int find_spans(struct closure_search *s, struct error *err)
{
	static const struct closure_ops ops = { closure_fetch_spans,
						closure_read_bytes };
	struct config_start *config = calloc(1, sizeof(*config));
	AUTO_FREE struct device_span *spans = NULL;
	size_t n = 0;
	int rc = config ? read_config(s, config, err) : error_nomem(err);

	if (rc == 0)
		rc = image_index_open(s->image, &s->index, err);
	if (rc == 0) {
		s->is_asked = calloc(s->index.map.n_blocks / 8 + 1, 1);
		rc = s->is_asked ? 0 : error_nomem(err);
	}
	if (rc == 0)
		rc = closure_find(&s->index.meta, &config->start, &ops, s,
				  &spans, &n, err);
	if (rc == 0)
		rc = hot_list_add(&s->hot, &s->index.map, spans, n, err);
	s->hot.is_predicted = true;
	image_index_close(&s->index);
	if (config)
		json_decref(config->root);
	free(config);
	return rc;
}

/* Remove the search from the list, so that the image may be searched again; returns whether it
 * was for a start. */
static bool search_leave(struct closure_search *s)
{
	struct closure_searches *all = s->all;
	struct closure_search **at = &all->first;
	bool for_start;

	(void)pthread_mutex_lock(&all->lock);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	for_start = s->for_start;
	(void)pthread_mutex_unlock(&all->lock);
	return for_start;
}

static void closure_search_run(struct work *w)
{
	struct closure_search *s = container_of(w, struct closure_search, work);
	struct error err = ERROR_INIT;
	int64_t begun = clock_now_ns();
	size_t known = s->hot.n;
	bool for_start;
	int rc;

	remote_call_init(&s->call, s->all->is_ending, NULL, begun, SEARCH_NS);
	rc = find_spans(s, &err);
	for_start = search_leave(s);
	if (rc == 0)
		log_info("prefetch",
			 "searched image=%.12s blocks=%zu known=%zu "
			 "bytes=%llu ms=%lld",
			 s->image->hex, s->hot.n, known,
			 (unsigned long long)s->hot.bytes,
			 (long long)((clock_now_ns() - begun) / NS_PER_MS));
	else
		log_info("prefetch", "not searched image=%.12s reason=\"%s\"",
			 s->image->hex, err.msg);
	if (s->hot.n && node_prefetch(s->all->prefetches, s->image,
				      for_start ? PREFETCH_ON_TRACE_START
						: PREFETCH_ON_TRACE,
				      &s->hot, NULL, &err) < 0)
		log_info("prefetch", "not begun image=%.12s reason=\"%s\"",
			 s->image->hex, err.msg);
	/* If a hot set was begun, it counts as the image's prefetch by now. */
	node_prefetch_ahead_forget(s->image);
	hot_list_fini(&s->hot);
	images_put(s->image);
	free(s->is_asked);
	free(s);
}

/* The search of the image that is under way; NULL: none.  The lock is held. */
static struct closure_search *find_search(const struct closure_searches *all,
					  const struct image *i)
{
	struct closure_search *s = all->first;

	while (s && s->image != i)
		s = s->next;
	return s;
}

void closure_searches_begin(struct closure_searches *all, struct image *i,
			    struct hot_list *hot, bool for_start)
{
	struct closure_search *s = calloc(1, sizeof(*s)), *other;
	struct prefetch_stats known;
	bool is_submitted = false;

	(void)node_prefetch_stats(i, &known);
	(void)pthread_mutex_lock(&all->lock);
	other = find_search(all, i);
	if (other) {
		other->for_start |= for_start;
	} else if (s && known.hot_blocks == 0) {
		*s = (struct closure_search){ .all = all,
					      .image = i,
					      .hot = *hot,
					      .for_start = for_start,
					      .next = all->first };
		s->work.run = closure_search_run;
		images_ref(i);
		is_submitted = pool_submit(all->pool, &s->work) == 0;
		if (is_submitted)
			all->first = s;
		else
			images_put(i);
	}
	(void)pthread_mutex_unlock(&all->lock);
	if (is_submitted)
		return;
	hot_list_fini(hot);
	free(s);
}

struct prefetches *closure_searches_prefetches(const struct closure_searches *s)
{
	return s->prefetches;
}

int closure_searches_new(struct origins *origins, struct prefetches *prefetches,
			 const atomic_bool *is_ending,
			 struct closure_searches **ret, struct error *err)
{
	struct closure_searches *all = calloc(1, sizeof(*all));
	int rc;

	if (!all)
		return error_nomem(err);
	all->origins = origins;
	all->prefetches = prefetches;
	all->is_ending = is_ending;
	rc = pool_new(NULL, THREADS, QUEUE_MAX, &all->pool, err);
	if (rc < 0) {
		free(all);
		return rc;
	}
	(void)pthread_mutex_init(&all->lock, NULL);
	*ret = all;
	return 0;
}

void closure_searches_free(struct closure_searches *all)
{
	if (!all)
		return;
	__atomic_store_n(&all->is_closing, true, __ATOMIC_RELAXED);
	pool_free(all->pool);
	(void)pthread_mutex_destroy(&all->lock);
	free(all);
}
