// SPDX-License-Identifier: Apache-2.0
/* Recordings for stores: which are kept, when they are sent, and how often a store is tried
 * that cannot be reached.  The test sets the clock. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"
#include "tests/unit/snapshotter/test_node.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

#define FIRST_PAUSE (5 * NS_PER_S)
/* the first pause that is not below 600 s */
#define LAST_PAUSE (640 * NS_PER_S)

TestSuite(trace_send, .timeout = 120);

/* A store that takes recordings, or fails with `rc`. */
struct taker {
	pthread_mutex_t lock; /* protects the rest */
	int rc;
	unsigned int n_asked, n_taken;
	char note[16]; /* of the last recording */
};

static struct test_node n;
static struct fake_traces folder;
static struct trace_lookup *t;
static struct image *image;
static struct taker service, oci;

static int take(struct taker *s, const char *note, struct error *err)
{
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	s->n_asked++;
	(void)snprintf(s->note, sizeof(s->note), "%s", note);
	rc = s->rc;
	s->n_taken += rc == 0;
	(void)pthread_mutex_unlock(&s->lock);
	return rc < 0 ? error_set(err, -rc, "as the test wants") : 0;
}

static int take_service(void *arg, const struct trace *trace, const char *note,
			struct error *err)
{
	(void)arg;
	(void)trace;
	return take(&service, note, err);
}

static int take_oci(void *arg, const struct trace *trace, const char *note,
		    struct error *err)
{
	(void)arg;
	(void)trace;
	return take(&oci, note, err);
}

static void open_sink(enum sink_kind kind,
		      int (*send)(void *arg, const struct trace *t,
				  const char *note, struct error *err))
{
	cr_assert_eq(trace_send_open_sink(t, kind, NULL), 0);
	t->sinks[kind].send = send;
}

static void found(void *arg, struct image *i, const struct trace *trace,
		  bool for_start)
{
	(void)arg;
	(void)i;
	(void)trace;
	(void)for_start;
}

static void begin(void)
{
	static const struct trace_user user = { .found = found };

	test_clock_hold();
	test_node_open(&n);
	fake_traces_init(&folder);
	image = test_node_add(&n, 1);
	cr_assert_eq(trace_lookup_open(&n.cfg, NULL, &n.node.is_ending, &user,
				       &t, NULL),
		     0);
	trace_store_free(t->folder);
	t->folder = &folder.base;
	service = (struct taker){ .lock = PTHREAD_MUTEX_INITIALIZER };
	oci = (struct taker){ .lock = PTHREAD_MUTEX_INITIALIZER };
	open_sink(SINK_SERVICE, take_service);
}

static void end(void)
{
	trace_lookup_close(t);
	images_put(image);
	test_node_close(&n);
	fake_traces_fini(&folder);
}

static void keep(void)
{
	char workload[] = "w", repo[] = "h/r";
	struct trace_info info = { .workload = workload,
				   .runs = 1,
				   .repo = repo };
	struct trace_entry e = { .path = "/f", .len = 1, .confidence = 1000 };
	struct trace_builder *b = NULL;
	AUTO(trace) trace = NULL;

	cr_assert_eq(trace_builder_new(&info, &b, NULL), 0);
	cr_assert_eq(trace_builder_add(b, &e, NULL), 0);
	cr_assert_eq(trace_builder_finish(b, &trace, NULL), 0);
	cr_assert_eq(trace_keep(t, image, trace, NULL), 0);
}

/* Wait until the sink is idle. */
static void settle(enum sink_kind kind)
{
	bool is_busy;

	do {
		unit_pause();
		(void)pthread_mutex_lock(&t->lock);
		is_busy = t->sinks[kind].busy;
		(void)pthread_mutex_unlock(&t->lock);
	} while (is_busy);
}

static uint64_t n_sent(void)
{
	uint64_t sent;

	(void)pthread_mutex_lock(&t->lock);
	sent = t->stats.sent;
	(void)pthread_mutex_unlock(&t->lock);
	return sent;
}

static void set_rc(struct taker *s, int rc)
{
	(void)pthread_mutex_lock(&s->lock);
	s->rc = rc;
	(void)pthread_mutex_unlock(&s->lock);
}

/* Is the store tried `ns` after the last try, and not earlier? */
static void expect_asked_after(int64_t ns)
{
	unsigned int before = service.n_asked;

	test_clock_step(ns - 1);
	trace_send_due(t);
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_asked, before);
	test_clock_step(1);
	trace_send_due(t);
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_asked, before + 1);
}

Test(trace_send, keeps_a_recording_and_sends_it_at_once)
{
	begin();
	keep();
	settle(SINK_SERVICE);
	cr_assert_eq(folder.n_kept, 1);
	cr_assert_eq(service.n_taken, 1);
	cr_assert_eq(n_sent(), 1);
	cr_assert_eq(spool_waiting(t->sinks[SINK_SERVICE].spool), 0);
	/* Nothing waits, so the store is not tried. */
	test_clock_step(LAST_PAUSE);
	trace_send_due(t);
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_asked, 1);
	end();
}

Test(trace_send, asks_a_store_that_is_away_less_and_less_often)
{
	int64_t pause;

	begin();
	service.rc = -ECONNREFUSED;
	keep();
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_asked, 1);
	for (pause = 2 * FIRST_PAUSE; pause < LAST_PAUSE; pause *= 2)
		expect_asked_after(pause);
	expect_asked_after(LAST_PAUSE);
	expect_asked_after(LAST_PAUSE);
	cr_assert_eq(n_sent(), 0);
	cr_assert_eq(spool_waiting(t->sinks[SINK_SERVICE].spool), 1);
	end();
}

Test(trace_send, does_not_ask_a_store_that_is_away_for_each_recording)
{
	begin();
	service.rc = -ECONNREFUSED;
	keep();
	settle(SINK_SERVICE);
	keep();
	keep();
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_asked, 1);
	cr_assert_eq(folder.n_kept, 3);
	/* Once the store is back, all recordings are sent, and the next one at once. */
	set_rc(&service, 0);
	test_clock_step(2 * FIRST_PAUSE);
	trace_send_due(t);
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_taken, 3);
	keep();
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_taken, 4);
	cr_assert_eq(n_sent(), 4);
	end();
}

Test(trace_send, has_no_store_wait_for_another)
{
	begin();
	open_sink(SINK_OCI, take_oci);
	service.rc = -ECONNREFUSED;
	keep();
	settle(SINK_SERVICE);
	settle(SINK_OCI);
	keep();
	settle(SINK_OCI);
	cr_assert_eq(service.n_asked, 1);
	cr_assert_eq(oci.n_taken, 2);
	cr_assert_eq(n_sent(), 2);
	end();
}

Test(trace_send, says_how_the_registry_was_spoken_to)
{
	begin();
	open_sink(SINK_OCI, take_oci);
	image->state.plain_http = true;
	keep();
	settle(SINK_OCI);
	cr_assert_str_eq(oci.note, "plain");
	image->state.plain_http = false;
	keep();
	settle(SINK_OCI);
	cr_assert_str_eq(oci.note, "tls");
	end();
}

Test(trace_send, has_another_bootseerd_send_what_waits)
{
	begin();
	service.rc = -ECONNREFUSED;
	keep();
	settle(SINK_SERVICE);
	trace_lookup_close(t);
	cr_assert_eq(trace_lookup_open(&n.cfg, NULL, &n.node.is_ending,
				       &(struct trace_user){ .found = found },
				       &t, NULL),
		     0);
	trace_store_free(t->folder);
	t->folder = &folder.base;
	service.rc = 0;
	open_sink(SINK_SERVICE, take_service);
	trace_send_due(t);
	settle(SINK_SERVICE);
	cr_assert_eq(service.n_taken, 1);
	cr_assert_eq(folder.n_kept, 1);
	end();
}
