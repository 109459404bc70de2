// SPDX-License-Identifier: Apache-2.0
/* Images whose registries say nothing, beside one that is good. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "tests/unit/p2p/crowd.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/wait.h"
#include "tests/unit/test_clock.h"

TestSuite(engine_hang, .timeout = 120);

#define IMAGES 6u  /* of registries that hang: enough for all threads */
#define READERS 8u /* of each */
#define LONG_NS (100 * NS_PER_S)

struct hanging {
	struct p2p_image *image;
	struct fault_source *origin;
};

/* One wait for a block. */
struct waiting {
	struct pace pace;
	struct p2p_image *image;
	struct block b;
	int64_t deadline;
	atomic_bool stop;
	pthread_t thread;
	int rc;
	struct error err;
};

static struct crowd c;
static struct hanging hanging[IMAGES];
static struct waiting waiting[IMAGES][READERS];
static atomic_uint n_asked, n_ended;
static bool is_one_host; /* all that hang are of one registry */

static enum pace_level level(struct pace *p)
{
	return atomic_load(&container_of(p, struct waiting, pace)->stop)
		       ? PACE_STOP
		       : PACE_GO;
}

static int take(struct block_sink *sink, size_t index, const void *data,
		struct error *err)
{
	return 0;
}

static void *read_one(void *arg)
{
	struct waiting *w = arg;
	struct block_req req = { .blocks = &w->b,
				 .n_blocks = 1,
				 .priority = SOURCE_DEMAND,
				 .deadline_ns = w->deadline,
				 .pace = &w->pace };
	struct block_sink sink = { .put = take };
	struct block_source *pack;

	w->pace.level = level;
	cr_assert_eq(p2p_image_source(w->image, 0, &pack, &w->err), 0);
	w->rc = block_source_read(pack, &req, &sink, &w->err);
	block_source_free(pack);
	return NULL;
}

static void begin(struct waiting *w, struct p2p_image *i, size_t block,
		  int64_t patience_ns)
{
	w->image = i;
	w->deadline = clock_now_ns() + patience_ns;
	blockmap_block(&c.img.map, block, &w->b);
	cr_assert_eq(pthread_create(&w->thread, NULL, read_one, w), 0);
}

static int end(struct waiting *w)
{
	cr_assert_eq(pthread_join(w->thread, NULL), 0);
	return w->rc;
}

/* The same blocks, from a repository whose registry says nothing. */
static void open_hanging(struct hanging *h, unsigned int k,
			 char *(*authorization)(void *arg, struct pace *pace))
{
	const struct fault_plan plan = { .held = true, .heeds_pace = true };
	struct source *packs[1];
	struct error err = ERROR_INIT;
	char repo[64];
	struct p2p_image_config cfg = { .image = c.digest,
					.map = &c.img.map,
					.label = "hangs",
					.repo = repo,
					.packs = packs,
					.authorization = authorization };

	(void)snprintf(repo, sizeof(repo), "hangs%u.example/hangs%u",
		       is_one_host ? 0 : k, k);
	h->origin = fault_source_new(
		memory_source_new(c.img.packs[0], c.img.pack_size[0], 16384));
	fault_set(h->origin, &plan);
	packs[0] = &h->origin->base;
	cr_assert_eq(p2p_image_open(c.node[0].p2p, &cfg, &h->image, &err), 0,
		     "%s", err.msg);
}

static unsigned int n_held(struct fault_source *f)
{
	unsigned int n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->n_waiting;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}

static unsigned int all_held(unsigned int images)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < images; k++)
		n += n_held(hanging[k].origin);
	return n;
}

struct look {
	struct p2p_image *image;
	bool is_to_be_read;
	unsigned int n_running;
};

static void look(void *arg)
{
	struct look *l = arg;

	l->is_to_be_read = !LIST_EMPTY(&l->image->origin.reads);
	l->n_running = l->image->jobs.n_running[HOST_JOB_URGENT];
}

/* Some of it, from the origin. */
static bool is_to_be_read(struct p2p_image *i)
{
	struct look l = { .image = i };

	engine_run(i->p, look, &l);
	return l.is_to_be_read;
}

static unsigned int n_running(struct p2p_image *i)
{
	struct look l = { .image = i };

	engine_run(i->p, look, &l);
	return l.n_running;
}

/* They do not read neighbouring blocks. */
static void begin_readers(unsigned int k)
{
	for (unsigned int j = 0; j < READERS; j++)
		begin(&waiting[k][j], hanging[k].image, 3 * j, LONG_NS);
}

/* One node, that knows nobody, and so many images that hang. */
static void open_all(unsigned int images)
{
	struct crowd_config cfg = crowd_two;

	cfg.nodes = 1;
	cfg.per_pack = cfg.blocks;
	cfg.alone = true;
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < images; k++)
		open_hanging(&hanging[k], k, NULL);
}

/* And their readers. */
static void make_hanging(unsigned int images)
{
	open_all(images);
	for (unsigned int k = 0; k < images; k++)
		begin_readers(k);
}

static void remove_hanging(unsigned int images)
{
	for (unsigned int k = 0; k < images; k++) {
		for (unsigned int j = 0; j < READERS; j++)
			atomic_store(&waiting[k][j].stop, true);
		for (unsigned int j = 0; j < READERS; j++)
			cr_expect_eq(end(&waiting[k][j]), -ECANCELED);
		p2p_image_close(hanging[k].image);
	}
	crowd_remove(&c);
}

Test(engine_hang, readers_of_one_image_keep_no_other_image_waiting)
{
	struct waiting good = { .rc = 1 };

	make_hanging(1);
	wait_for(all_held(1) >= 4);
	begin(&good, c.node[0].image, 50, 10 * NS_PER_S);
	cr_expect_eq(end(&good), 0, "%s", good.err.msg);
	remove_hanging(1);
}

Test(engine_hang, nor_do_those_of_a_few)
{
	struct waiting good = { .rc = 1 };

	make_hanging(3);
	wait_for(all_held(3) >= 4 && n_held(hanging[0].origin));
	begin(&good, c.node[0].image, 50, 10 * NS_PER_S);
	cr_expect_eq(end(&good), 0, "%s", good.err.msg);
	remove_hanging(3);
}

/* What waits for a thread when the image closes waits no more. */
Test(engine_hang, an_image_is_closed_whatever_others_wait_for)
{
	/* Threads that each registry gets; the last one is kept for a registry without any. */
	static const unsigned int threads[IMAGES] = { 4, 3, 3, 1, 1, 0 };
	struct waiting good = { .rc = 1 };

	open_all(IMAGES);
	/* One after another: were all of them to begin at once, the last thread might stay
	 * free. */
	for (unsigned int k = 0; k < IMAGES; k++) {
		begin_readers(k);
		wait_for(n_running(hanging[k].image) == threads[k]);
	}
	wait_for(all_held(IMAGES) == 12);
	begin(&good, c.node[0].image, 50, LONG_NS);
	wait_for(is_to_be_read(c.node[0].image));
	cr_expect_eq(fault_reads(c.node[0].origin[0]), 0, "no thread is left");
	atomic_store(&good.stop, true);
	cr_expect_eq(end(&good), -ECANCELED, "%s", good.err.msg);
	p2p_image_close(c.node[0].image);
	c.node[0].image = NULL;
	cr_expect_eq(all_held(IMAGES), 12, "they hang on");
	remove_hanging(IMAGES);
}

/* However many images of one registry there are, others have as many threads. */
Test(engine_hang, images_of_one_registry_take_half_of_the_threads)
{
	struct waiting good[4];

	is_one_host = true;
	make_hanging(IMAGES);
	wait_for(all_held(IMAGES) == 6);
	for (unsigned int k = 0; k < ARRAY_SIZE(good); k++) {
		good[k] = (struct waiting){ .rc = 1 };
		begin(&good[k], c.node[0].image, 30 + 9 * k, 10 * NS_PER_S);
	}
	for (unsigned int k = 0; k < ARRAY_SIZE(good); k++)
		cr_expect_eq(end(&good[k]), 0, "%s", good[k].err.msg);
	cr_expect_eq(all_held(IMAGES), 6);
	remove_hanging(IMAGES);
}

Test(engine_hang, a_registry_that_brought_nothing_for_long_has_one_thread)
{
	struct waiting good = { .rc = 1 };

	is_one_host = true;
	open_all(2);
	begin_readers(0);
	wait_for(n_running(hanging[0].image) == 4);
	begin_readers(1);
	wait_for(all_held(2) == 6);
	cr_expect_eq(n_running(hanging[1].image), 2);
	test_clock_hold();
	test_clock_step(4 * NS_PER_S);
	for (unsigned int j = 0; j < READERS; j++)
		atomic_store(&waiting[0][j].stop, true);
	wait_for(!is_to_be_read(hanging[0].image));
	/* No other read of the registry took the place of those. */
	cr_expect_eq(n_running(hanging[1].image), 2);
	begin(&good, c.node[0].image, 50, 10 * NS_PER_S);
	cr_expect_eq(end(&good), 0, "%s", good.err.msg);
	remove_hanging(2);
}

Test(engine_hang, a_read_that_nobody_wants_any_more_stops)
{
	make_hanging(1);
	wait_for(all_held(1) >= 4);
	for (unsigned int j = 0; j < READERS; j++)
		atomic_store(&waiting[0][j].stop, true);
	wait_for(all_held(1) == 0);
	remove_hanging(1);
}

/* A registry that does not say whether the image may be pulled. */
static char *say_nothing(void *arg, struct pace *pace)
{
	atomic_fetch_add(&n_asked, 1);
	wait_for(pace_level(pace) == PACE_STOP);
	atomic_fetch_add(&n_ended, 1);
	return NULL;
}

Test(engine_hang, registries_that_do_not_say_yes_keep_no_tracker_waiting)
{
	struct crowd_config cfg = crowd_two;
	struct p2p_stats before, s;
	struct fake_tracker *t;

	t = fake_tracker_start();
	fake_tracker_sign(t, 3600);
	cfg.nodes = 1;
	cfg.per_pack = cfg.blocks;
	cfg.tracker = fake_tracker_url(t);
	cfg.keys = fake_tracker_pem;
	crowd_make(&c, &cfg);
	for (unsigned int k = 0; k < IMAGES; k++)
		open_hanging(&hanging[k], k, say_nothing);
	wait_for(atomic_load(&n_asked) >= 4);
	p2p_get_stats(c.node[0].p2p, &before);
	/* Announcements of seven images. */
	wait_for((p2p_get_stats(c.node[0].p2p, &s),
		  s.tracker_calls_total >= before.tracker_calls_total + 8 ||
			  atomic_load(&n_ended)));
	cr_expect_eq(atomic_load(&n_ended), 0);
	/* Those that wait for a thread first: they wait for nobody. */
	for (unsigned int k = IMAGES; k-- > 4;)
		p2p_image_close(hanging[k].image);
	cr_expect_eq(atomic_load(&n_ended), 0);
	for (unsigned int k = 0; k < 4; k++)
		p2p_image_close(hanging[k].image);
	crowd_remove(&c);
	fake_tracker_free(t);
}
