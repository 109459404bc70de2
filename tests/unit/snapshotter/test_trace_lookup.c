// SPDX-License-Identifier: Apache-2.0
/* Which stores are asked for a trace, which callers wait for the answer, and what the user is
 * told. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"
#include "snapshotter/node/traces/workload.h"
#include "tests/unit/snapshotter/test_node.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

TestSuite(trace_lookup, .timeout = 120);

/* A user of found traces; searches of several workloads may call it at once. */
struct fake_user {
	struct trace_user user;
	atomic_uint n_found, n_for_start;
	/* looked up again while found() runs; NULL: not */
	struct trace_lookup *mounts;
	atomic_bool had_answer;
};

struct lookup_fixture {
	struct test_node n;
	struct fake_traces folder, service;
	struct fake_user user;
	struct trace_lookup *t;
	struct image *image;
};

static void fake_user_found(void *arg, struct image *i, const struct trace *t,
			    bool for_start)
{
	struct fake_user *u = arg;

	u->n_found++;
	u->n_for_start += for_start;
	if (u->mounts)
		u->had_answer = trace_lookup_has_any(u->mounts, i);
}

static void setup(struct lookup_fixture *f)
{
	memset(f, 0, sizeof(*f));
	test_clock_hold();
	test_node_open(&f->n);
	fake_traces_init(&f->folder);
	fake_traces_init(&f->service);
	f->user.user = (struct trace_user){ .found = fake_user_found,
					    .arg = &f->user };
	f->image = test_node_add(&f->n, 1);
}

/* Open the look-up, and replace the node's folder and the service by fakes. */
static void start(struct lookup_fixture *f, bool has_service)
{
	cr_assert_eq(trace_lookup_open(&f->n.cfg, f->n.node.origins,
				       &f->n.node.is_ending, &f->user.user,
				       &f->t, NULL),
		     0);
	f->t->wait_ns = 60 * NS_PER_S; /* long, however busy the machine is */
	trace_store_free(f->t->folder);
	f->t->folder = &f->folder.base;
	trace_store_free(f->t->service);
	f->t->service = has_service ? &f->service.base : NULL;
}

static void end(struct lookup_fixture *f)
{
	trace_lookup_close(f->t);
	images_put(f->image);
	test_node_close(&f->n);
	fake_traces_fini(&f->folder);
	fake_traces_fini(&f->service);
}

static struct trace_answer find(struct lookup_fixture *f, const char *workload)
{
	struct trace_answer a;

	cr_assert_eq(trace_lookup_find(f->t, f->image, workload, &a, NULL), 0);
	return a;
}

Test(trace_lookup, says_that_there_is_none_and_that_one_is_wanted)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	start(&f, false);
	a = find(&f, "w");
	cr_expect_not(a.found);
	cr_expect(a.wanted);
	cr_expect_str_eq(a.workload, "w");
	cr_expect_str_eq(f.folder.workload, "w");
	cr_expect_eq(f.user.n_found, 0);
	end(&f);
}

Test(trace_lookup, has_what_a_start_will_read_fetched_before_it_answers)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	f.folder.ready_ms = 1500;
	a = find(&f, "w");
	cr_expect(a.found);
	cr_expect_eq(a.length_ms, 1500);
	cr_expect_not(a.wanted);
	cr_expect_eq(f.user.n_found, 1);
	cr_expect_eq(f.user.n_for_start, 1);
	end(&f);
}

Test(trace_lookup, remembers_an_answer_until_it_is_old)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	(void)find(&f, "w");
	test_clock_step(WORKLOAD_FOUND_NS - 1);
	(void)find(&f, "w");
	cr_expect_eq(f.folder.n_asked, 1);
	test_clock_step(1);
	(void)find(&f, "w");
	cr_expect_eq(f.folder.n_asked, 2);
	end(&f);
}

Test(trace_lookup, asks_again_when_a_recording_was_kept)
{
	char workload[] = "w", repo[] = "h:5000/r";
	const struct trace recorded = {
		.info = { .workload = workload, .repo = repo, .runs = 1 },
	};
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	(void)find(&f, "w");
	cr_assert_eq(trace_keep(f.t, f.image, &recorded, NULL), 0);
	cr_expect_eq(f.folder.n_kept, 1);
	(void)find(&f, "w");
	cr_expect_eq(f.folder.n_asked, 2);
	end(&f);
}

Test(trace_lookup, only_looks_for_who_asks_after_the_start)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	cr_assert_eq(trace_lookup_peek(f.t, f.image, "w", &a, NULL), 0);
	cr_expect(a.found);
	cr_expect_eq(f.user.n_found, 0);
	/* A start needs the trace itself, so it is read again. */
	(void)find(&f, "w");
	cr_expect_eq(f.folder.n_asked, 2);
	cr_expect_eq(f.user.n_found, 1);
	end(&f);
}

Test(trace_lookup, asks_once_where_nobody_uses_what_is_found)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	f.user.user.found = NULL;
	start(&f, false);
	f.folder.rc = 0;
	cr_assert_eq(trace_lookup_peek(f.t, f.image, "w", &a, NULL), 0);
	cr_expect(find(&f, "w").found);
	cr_expect_eq(f.folder.n_asked, 1);
	end(&f);
}

Test(trace_lookup, takes_the_key_of_the_image_when_none_is_said)
{
	AUTO_FREE char *key =
		image_config_key(TEST_NODE_CONFIG, strlen(TEST_NODE_CONFIG));
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	cr_expect_str_eq(find(&f, NULL).workload, key);
	cr_expect_str_eq(f.folder.workload, key);
	/* A caller that gives this key means the same workload. */
	(void)find(&f, key);
	cr_expect_eq(f.folder.n_asked, 1);
	end(&f);
}

Test(trace_lookup, takes_the_nearest_of_all_stores)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, true);
	f.service.rc = f.folder.rc = 0;
	f.service.match = TRACE_MATCH_RELATIVE;
	f.folder.match = TRACE_MATCH_FAR;
	cr_expect_eq(find(&f, "a").match, TRACE_MATCH_RELATIVE);
	f.folder.match = TRACE_MATCH_WORKLOAD;
	f.service.match = TRACE_MATCH_FAR;
	cr_expect_eq(find(&f, "b").match, TRACE_MATCH_WORKLOAD);
	cr_expect_eq(f.folder.n_asked, 2);
	/* No trace is nearer than one of this image, so no other store is asked. */
	f.service.match = TRACE_MATCH_OWN;
	cr_expect_eq(find(&f, "c").match, TRACE_MATCH_OWN);
	cr_expect_eq(f.folder.n_asked, 2);
	end(&f);
}

Test(trace_lookup, takes_a_prediction_for_want_of_a_trace_and_asks_again_soon)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	start(&f, true);
	f.service.rc = f.folder.rc = 0;
	f.service.match = TRACE_MATCH_PREDICTED;
	f.folder.match = TRACE_MATCH_FAR;
	cr_expect_eq(find(&f, "a").match, TRACE_MATCH_FAR);
	f.folder.rc = -ENOENT;
	a = find(&f, "b");
	cr_expect_eq(a.match, TRACE_MATCH_PREDICTED);
	cr_expect_eq(f.user.n_found, 2);
	cr_expect_eq(f.service.n_asked, 2);
	/* After the time for which the absence of a trace is remembered, the stores are asked
	 * again. */
	test_clock_step(WORKLOAD_NONE_NS);
	(void)find(&f, "b");
	cr_expect_eq(f.service.n_asked, 3);
	end(&f);
}

Test(trace_lookup, leaves_a_service_that_failed_alone_for_a_while)
{
	struct trace_lookup_stats s;
	struct lookup_fixture f;

	setup(&f);
	start(&f, true);
	f.service.rc = -EIO;
	f.folder.rc = 0;
	cr_expect(find(&f, "a").found, "the folder has it");
	(void)find(&f, "b");
	cr_expect_eq(f.service.n_asked, 1);
	test_clock_step(INT64_C(10) * 1000000000);
	(void)find(&f, "c");
	cr_expect_eq(f.service.n_asked, 2);
	trace_lookup_get_stats(f.t, &s);
	cr_expect_eq(s.failed, 2);
	cr_expect_eq(s.lookups, 3);
	cr_expect_eq(s.found, 3);
	end(&f);
}

Test(trace_lookup, holds_no_start_up_for_a_store_that_hangs)
{
	struct error err = ERROR_INIT;
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	start(&f, false);
	f.t->wait_ns = 0;
	f.folder.rc = 0;
	f.folder.is_held = true;
	cr_expect_eq(trace_lookup_find(f.t, f.image, "w", &a, &err),
		     -ETIMEDOUT);
	cr_expect_not(a.found);
	cr_expect_str_eq(a.workload, "w");
	/* The search goes on, and a later caller gets its result. */
	f.t->wait_ns = 60 * NS_PER_S;
	sem_post(&f.folder.go);
	cr_expect(find(&f, "w").found);
	cr_expect_eq(f.folder.n_asked, 1);
	cr_expect_eq(f.user.n_for_start, 1);
	end(&f);
}

static void *find_main(void *arg)
{
	struct lookup_fixture *f = arg;

	(void)find(f, NULL);
	return NULL;
}

/* Wait until a container waits for the answer. */
static void await_start(struct lookup_fixture *f)
{
	bool waits = false;

	while (!waits) {
		struct workload_entry *e;

		pthread_mutex_lock(&f->t->lock);
		e = workload_find(f->image->workloads, NULL);
		waits = e && e->most == WORKLOAD_TO_START && e->waiters > 0;
		pthread_mutex_unlock(&f->t->lock);
		unit_pause();
	}
}

Test(trace_lookup, joins_a_start_to_the_search_that_the_pull_began)
{
	struct lookup_fixture f;
	pthread_t thread;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	f.folder.is_held = true;
	trace_lookup_prepare(f.t, f.image, NULL);
	sem_wait(&f.folder.asked);
	cr_assert_eq(pthread_create(&thread, NULL, find_main, &f), 0);
	await_start(&f);
	sem_post(&f.folder.go);
	pthread_join(thread, NULL);
	cr_expect_eq(f.folder.n_asked, 1);
	cr_expect_eq(f.user.n_found, 1);
	cr_expect_eq(f.user.n_for_start, 1, "a container waited for it");
	end(&f);
}

static struct trace_early *begin_early(struct lookup_fixture *f)
{
	const struct lookup_place place = { .host = "h:5000",
					    .repo = "r",
					    .name = "h:5000/r",
					    .image = f->image->artifact.image };
	struct trace_early *early;
	AUTO_BUF config = BUF_INIT;

	cr_assert_eq(buf_puts(&config, TEST_NODE_CONFIG), 0);
	early = trace_early_begin(f->t, &place, &config);
	cr_assert(early);
	return early;
}

Test(trace_lookup, goes_on_with_what_was_begun_before_the_image_came)
{
	struct lookup_fixture f;
	struct trace_early *early;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	f.folder.is_held = true;
	early = begin_early(&f);
	sem_wait(&f.folder.asked);
	trace_lookup_prepare(f.t, f.image, early);
	sem_post(&f.folder.go);
	trace_lookup_await_hot(f.t, f.image);
	cr_expect_eq(f.folder.n_asked, 1);
	cr_expect_eq(f.user.n_found, 1);
	cr_expect_eq(f.user.n_for_start, 0, "no container came yet");
	end(&f);
}

Test(trace_lookup, drops_what_was_begun_for_an_image_that_does_not_come)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	f.folder.rc = 0;
	f.folder.is_held = true;
	trace_early_drop(begin_early(&f));
	sem_wait(&f.folder.asked);
	sem_post(&f.folder.go);
	trace_lookup_close(steal_ptr(&f.t));
	cr_expect_eq(f.user.n_found, 0);
	end(&f);
}

Test(trace_lookup, finds_one_of_whatever_workload)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	cr_expect_not(trace_lookup_has_any(f.t, f.image));
	f.folder.rc = 0;
	(void)find(&f, "other");
	cr_expect(trace_lookup_has_any(f.t, f.image));
	end(&f);
}

/* The prefetch that begins waits for the mount, so the mount must not wait for it. */
Test(trace_lookup, has_an_answer_for_a_mount_before_the_prefetch_is_set_up)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, false);
	/* Longer than the test may take: a caller that waited for found() would not return. */
	f.t->wait_ns = 3600 * NS_PER_S;
	f.folder.rc = 0;
	f.user.mounts = f.t;
	cr_expect(find(&f, "w").found);
	cr_expect(f.user.had_answer);
	end(&f);
}

/* ---- a registry that takes connections and says nothing ---- */

static int listen_silently(char host[32])
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(addr);

	cr_assert_eq(bind(fd, (void *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(fd, 16), 0);
	cr_assert_eq(getsockname(fd, (void *)&addr, &len), 0);
	snprintf(host, 32, "127.0.0.1:%u", ntohs(addr.sin_port));
	return fd;
}

static struct trace *recording(const char *host)
{
	char repo[64];
	struct trace_info info = { .workload = (char[]){ "w" },
				   .repo = repo,
				   .runs = 1 };
	struct trace_builder *b = NULL;
	struct trace *t = NULL;

	snprintf(repo, sizeof(repo), "%s/r", host);
	cr_assert_eq(trace_builder_new(&info, &b, NULL), 0);
	cr_assert_eq(trace_builder_finish(b, &t, NULL), 0);
	return t;
}

static bool is_sending(struct trace_lookup *t, enum sink_kind kind)
{
	bool busy;

	pthread_mutex_lock(&t->lock);
	busy = t->sinks[kind].busy;
	pthread_mutex_unlock(&t->lock);
	return busy;
}

Test(trace_lookup, a_registry_that_hangs_gets_a_recording_for_a_while_only)
{
	struct lookup_fixture f;
	AUTO(trace) t = NULL;
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int peer = -1;
	char host[32];

	setup(&f);
	fd = listen_silently(host);
	f.n.cfg.trace_oci = (char[]){ "push" };
	f.n.cfg.stall_timeout = 3600 * NS_PER_S;
	f.n.node.origins =
		origins_new(&f.n.cfg, &f.n.node.is_ending, oci_store_open);
	start(&f, false);
	t = recording(host);
	f.image->state.plain_http = true;
	cr_assert_eq(trace_keep(f.t, f.image, t, NULL), 0);
	peer = accept(fd, NULL, NULL);
	cr_assert_geq(peer, 0);
	cr_expect(is_sending(f.t, SINK_OCI));
	test_clock_step(121 * NS_PER_S);
	while (is_sending(f.t, SINK_OCI))
		unit_pause();
	cr_expect_eq(spool_waiting(f.t->sinks[SINK_OCI].spool), 1);
	end(&f);
	origins_free(f.n.node.origins);
}

/* ---- environments, whose blobs are in stores */

#define STORE "s3://bkt/env"

static void use_environment(struct lookup_fixture *f)
{
	images_put(f->image);
	f->image =
		test_node_add_from(&f->n, 2, STORE "/?endpoint=http://secret@h",
				   "env/data/key/folder");
}

Test(trace_lookup, asks_for_an_environments_trace_by_its_stores_name)
{
	struct lookup_fixture f;
	struct trace_answer a;

	setup(&f);
	use_environment(&f);
	/* An environment has no registry: there are no origins to ask. */
	f.n.cfg.trace_oci = (char[]){ "push" };
	start(&f, true);
	f.folder.rc = 0;
	cr_expect(trace_lookup_has_any(f.t, f.image));
	cr_assert_eq(trace_lookup_find(f.t, f.image, NULL, &a, NULL), 0);
	cr_expect(a.found);
	cr_expect_str_eq(a.workload, ENVIRONMENT_WORKLOAD);
	cr_expect_str_eq(f.service.workload, ENVIRONMENT_WORKLOAD);
	/* The place is named without options, which may contain secrets, and without the folder. */
	cr_expect_str_eq(f.service.repo, STORE);
	cr_expect_str_eq(f.folder.repo, STORE);
	cr_expect_eq(f.service.n_asked, 1);
	end(&f);
}

Test(trace_lookup, asks_a_service_that_refuses_one_image_about_others)
{
	struct lookup_fixture f;

	setup(&f);
	start(&f, true);
	f.service.rc = -EACCES;
	(void)find(&f, "w");
	f.service.rc = 0;
	cr_expect(find(&f, "other").found);
	end(&f);
}

/* How many recordings wait for the service after it refused one of this repository. */
static size_t waits_when_refused(const char *repo, struct lookup_fixture *f)
{
	AUTO(trace) t = recording(repo);

	cr_assert_eq(trace_keep(f->t, f->image, t, NULL), 0);
	while (is_sending(f->t, SINK_SERVICE))
		unit_pause();
	return spool_waiting(f->t->sinks[SINK_SERVICE].spool);
}

Test(trace_lookup, a_recording_that_the_service_refuses_is_the_nodes_alone)
{
	struct lookup_fixture f;
	struct fake_traces sender;

	setup(&f);
	use_environment(&f);
	f.n.cfg.service = (char[]){ "http://127.0.0.1:9" };
	f.n.cfg.node_name = (char[]){ "n" };
	fake_traces_init(&sender);
	start(&f, true);
	trace_store_free(f.t->sender);
	f.t->sender = &sender.base;
	sender.put_rc = -EACCES;
	cr_expect_eq(waits_when_refused(STORE, &f), 0);
	cr_expect_eq(sender.n_kept, 1);
	cr_expect_eq(f.folder.n_kept, 1);
	/* A refused recording of an image waits: the service's token may get the right later. */
	cr_expect_eq(waits_when_refused("h:5000", &f), 1);
	end(&f);
	fake_traces_fini(&sender);
}
