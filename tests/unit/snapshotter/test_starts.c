// SPDX-License-Identifier: Apache-2.0
/* The table of starts: how they begin and end, and which figures are kept. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/starts_priv.h"
#include "snapshotter/node/traces/trace_lookup_priv.h"
#include "tests/unit/snapshotter/test_node.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/pause.h"

TestSuite(starts, .timeout = 120);

struct starts_fixture {
	struct test_node n;
	struct fake_traces folder;
	struct image *image;
	struct mounted mount; /* a complete mount, whose reads are not seen */
	atomic_bool is_gone;
	struct remote_call call;
};

static void open_starts(struct starts_fixture *f)
{
	struct node *n = &f->n.node;
	const struct starts_of of = { .cfg = n->cfg,
				      .origins = n->origins,
				      .gate = n->gate,
				      .prefetches = n->prefetches,
				      .traces = n->traces,
				      .n_unready = &n->n_unready_starts };

	cr_assert_eq(starts_open(&of, &n->starts, NULL), 0);
}

static void setup(struct starts_fixture *f)
{
	static const struct trace_user nobody = { .found = NULL };
	static char none[] = "none";

	memset(f, 0, sizeof(*f));
	test_node_open(&f->n);
	fake_traces_init(&f->folder);
	f->n.cfg.wait = none;
	f->image = test_node_add(&f->n, 1);
	f->n.node.origins =
		origins_new(&f->n.cfg, &f->n.node.is_ending, oci_store_open);
	cr_assert(f->n.node.origins);
	cr_assert_eq(trace_lookup_open(&f->n.cfg, f->n.node.origins,
				       &f->n.node.is_ending, &nobody,
				       &f->n.node.traces, NULL),
		     0);
	f->n.node.traces->wait_ns = 60 * NS_PER_S;
	trace_store_free(f->n.node.traces->folder);
	f->n.node.traces->folder = &f->folder.base;
	test_clock_hold();
	test_node_open_prefetches(&f->n);
	open_starts(f);
	remote_call_init(&f->call, &f->n.node.is_ending, &f->is_gone,
			 clock_now_ns(), 60 * NS_PER_S);
}

static void end(struct starts_fixture *f)
{
	starts_close(f->n.node.starts);
	trace_lookup_close(f->n.node.traces);
	origins_free(f->n.node.origins);
	images_put(f->image);
	test_node_close(&f->n);
	fake_traces_fini(&f->folder);
}

static int try_begin(struct starts_fixture *f, struct start_request r,
		     struct start_reply *ret, struct error *err)
{
	r.user = r.user ? r.user : "user";
	r.mount = &f->mount;
	r.call = &f->call;
	return starts_begin(f->n.node.starts, f->image, &r, ret, err);
}

static struct start_reply begin(struct starts_fixture *f,
				struct start_request r)
{
	struct start_reply reply;
	struct error err = ERROR_INIT;

	cr_assert_eq(try_begin(f, r, &reply, &err), 0, "%s", err.msg);
	return reply;
}

static struct starts_stats stats_of(struct starts_fixture *f)
{
	struct starts_stats s;

	starts_get_stats(f->n.node.starts, &s);
	return s;
}

/* Wait for the figures of `n` starts; the caller frees the list. */
static json_t *await_figures(struct starts_fixture *f, size_t n)
{
	json_t *list = starts_explain(f->image);

	while (json_array_size(list) < n) {
		json_decref(list);
		unit_pause();
		list = starts_explain(f->image);
	}
	return list;
}

static const char *figure(json_t *list, const char *name)
{
	return json_string_value(
		json_object_get(json_array_get(list, 0), name));
}

Test(starts, end_when_somebody_says_that_they_are_ready)
{
	struct starts_fixture f;
	struct start_reply reply;
	struct start_name which = { .number = 0 };
	json_t *list;
	int64_t ns;

	setup(&f);
	reply = begin(&f, (struct start_request){ .workload = "w" });
	cr_expect_eq(stats_of(&f).under_way, 1);
	test_clock_step(3 * NS_PER_S);
	which.number = reply.number;
	cr_assert_eq(starts_ready(f.n.node.starts, &which, &ns, NULL), 0);
	cr_expect_eq(ns, 3 * NS_PER_S);
	cr_expect_eq(starts_ready(f.n.node.starts, &which, &ns, NULL), -ENOENT);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "end"), "ready");
	cr_expect_str_eq(figure(list, "workload"), "w");
	cr_expect_str_eq(figure(list, "trace"), "none");
	cr_expect_eq(json_integer_value(json_object_get(json_array_get(list, 0),
							"ready_ms")),
		     3000);
	json_decref(list);
	cr_expect_eq(stats_of(&f).ready, 1);
	cr_expect_eq(stats_of(&f).under_way, 0);
	end(&f);
}

Test(starts, are_named_by_number_user_or_the_groups_of_a_process)
{
	static const struct start_name names[] = {
		{ .user = "a" },
		{ .cgroups = "0::/k8s.io/second/init\n" },
	};
	static const struct start_name others[] = {
		{ .number = 1 },
		{ .user = "c" },
		{ .cgroups = "0::/k8s.io/third\n" },
	};
	struct starts_fixture f;
	int64_t ns;

	setup(&f);
	(void)begin(&f, (struct start_request){ .user = "a" });
	(void)begin(&f, (struct start_request){ .user = "b",
						.bundle = "/none/second" });
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_eq(starts_ready(f.n.node.starts, &others[i], &ns,
					  NULL),
			     -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cr_expect_eq(starts_ready(f.n.node.starts, &names[i], &ns,
					  NULL),
			     0);
	cr_expect_eq(stats_of(&f).under_way, 0);
	end(&f);
}

Test(starts, of_one_user_are_one_at_a_time)
{
	struct starts_fixture f;
	json_t *list;

	setup(&f);
	(void)begin(&f, (struct start_request){ .workload = "first" });
	(void)begin(&f, (struct start_request){ .workload = "second" });
	cr_expect_eq(stats_of(&f).under_way, 1);
	cr_expect_eq(stats_of(&f).unready, 1);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "workload"), "first");
	cr_expect_str_eq(figure(list, "end"), "gone");
	json_decref(list);
	starts_end(f.n.node.starts, "nobody");
	cr_expect_eq(stats_of(&f).under_way, 1);
	starts_end(f.n.node.starts, "user");
	cr_expect_eq(stats_of(&f).under_way, 0);
	end(&f);
}

/* Move the clock, and begin a start, which wakes the watching thread. */
static void step(struct starts_fixture *f, int64_t ns)
{
	test_clock_step(ns);
	(void)begin(f, (struct start_request){ .user = "another" });
}

Test(starts, end_with_their_window)
{
	const struct start_request shorter = { .user = "b",
					       .workload = "w",
					       .window_ns = 10 * NS_PER_S };
	struct starts_fixture f;
	json_t *list;

	setup(&f);
	(void)begin(&f, (struct start_request){ .user = "a" });
	(void)begin(&f, shorter);
	step(&f, 10 * NS_PER_S);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "end"), "window");
	cr_expect_str_eq(figure(list, "workload"), "w");
	json_decref(list);
	cr_expect_eq(stats_of(&f).under_way, 2);
	step(&f, 110 * NS_PER_S);
	/* The start of "a", and the start that the second step() replaced. */
	list = await_figures(&f, 3);
	json_decref(list);
	cr_expect_eq(stats_of(&f).under_way, 1);
	end(&f);
}

Test(starts, end_when_their_file_is_there)
{
	struct starts_fixture f;
	AUTO_FREE char *path = NULL;
	json_t *list;

	setup(&f);
	path = fs_join(f.n.dir, "ready");
	cr_assert(path);
	(void)begin(&f,
		    (struct start_request){ .workload = "w", .user = "other" });
	cr_expect_eq(f.n.node.n_unready_starts, 0);
	(void)begin(&f, (struct start_request){ .ready_file = path });
	cr_expect_eq(f.n.node.n_unready_starts, 1);
	cr_assert_eq(fs_replace_file(path, "", 0, 0600, NULL), 0);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "end"), "ready");
	cr_expect_eq(f.n.node.n_unready_starts, 0);
	json_decref(list);
	end(&f);
}

static void wait_unready(struct starts_fixture *f, size_t n)
{
	while (f->n.node.n_unready_starts != n)
		unit_pause();
}

/* Wait until the bundles of all starts under way were read. */
static void wait_bundles(struct starts *all)
{
	const struct container_start *s;
	bool is_left = true;

	while (is_left) {
		unit_pause();
		is_left = false;
		pthread_mutex_lock(&all->lock);
		for (s = all->first; s; s = s->next)
			is_left = is_left || s->bundle;
		pthread_mutex_unlock(&all->lock);
	}
}

Test(starts, hold_the_rest_after_their_window_until_ready_or_gone)
{
	static const char config[] = "{\"process\":{\"args\":[\"true\"]}}";
	struct start_request r = { .workload = "w", .ready_file = "/no/file" };
	AUTO_FREE char *bundle = NULL, *path = NULL, *ready = NULL;
	struct start_name which = { .number = 0 };
	struct starts_fixture f;
	json_t *list;
	int64_t ns;

	setup(&f);
	ready = fs_join(f.n.dir, "ready");
	bundle = fs_join(f.n.dir, "c1");
	path = bundle ? fs_join(bundle, "config.json") : NULL;
	cr_assert(ready && path);
	cr_assert_eq(mkdir(bundle, 0700), 0);
	cr_assert_eq(fs_replace_file(path, config, strlen(config), 0600, NULL),
		     0);
	(void)begin(&f, (struct start_request){ .user = "unmarked" });
	r.user = "leaves";
	(void)begin(&f, r);
	r.user = "says so";
	which.number = begin(&f, r).number;
	r.user = "makes it";
	r.ready_file = ready;
	(void)begin(&f, r);
	r.user = "ends";
	r.ready_file = "/no/file";
	r.bundle = bundle;
	(void)begin(&f, r);
	wait_bundles(f.n.node.starts);
	step(&f, 120 * NS_PER_S);
	list = await_figures(&f, 5);
	cr_expect_str_eq(figure(list, "end"), "window");
	json_decref(list);
	cr_expect_eq(stats_of(&f).under_way, 1);
	cr_expect_eq(stats_of(&f).unready, 5);
	cr_expect_eq(f.n.node.n_unready_starts, 4);
	starts_end(f.n.node.starts, "leaves");
	cr_expect_eq(f.n.node.n_unready_starts, 3);
	cr_assert_eq(starts_ready(f.n.node.starts, &which, &ns, NULL), 0);
	cr_expect_eq(ns, 120 * NS_PER_S);
	cr_expect_eq(starts_ready(f.n.node.starts, &which, &ns, NULL), -ENOENT);
	cr_expect_eq(f.n.node.n_unready_starts, 2);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(bundle), 0);
	step(&f, NS_PER_S);
	wait_unready(&f, 1);
	cr_assert_eq(fs_replace_file(ready, "", 0, 0600, NULL), 0);
	step(&f, NS_PER_S);
	wait_unready(&f, 0);
	end(&f);
}

Test(starts, take_the_name_of_what_their_bundle_runs)
{
	const char *words[] = { "sleep", "1" };
	AUTO_FREE char *key = trace_workload_key(words, 2);
	static const char config[] =
		"{\"process\":{\"args\":[\"sleep\",\"1\"]}}";
	AUTO_FREE char *bundle = NULL, *path = NULL;
	struct starts_fixture f;
	json_t *list;
	int64_t ns;

	setup(&f);
	bundle = fs_join(f.n.dir, "c1");
	path = bundle ? fs_join(bundle, "config.json") : NULL;
	cr_assert(path);
	cr_assert_eq(mkdir(bundle, 0700), 0);
	cr_assert_eq(fs_replace_file(path, config, strlen(config), 0600, NULL),
		     0);
	(void)begin(&f, (struct start_request){ .bundle = bundle });
	/* Wait until the watching thread has read the bundle. */
	for (bool has = false; !has; unit_pause()) {
		json_t *all = starts_under_way(f.n.node.starts);

		has = strcmp(figure(all, "workload"), key) == 0;
		json_decref(all);
	}
	cr_assert_eq(starts_ready(f.n.node.starts,
				  &(struct start_name){ .user = "user" }, &ns,
				  NULL),
		     0);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "workload"), key);
	json_decref(list);
	end(&f);
}

Test(starts, tell_what_is_known_of_them)
{
	struct starts_fixture f;
	struct start_reply reply;

	setup(&f);
	f.folder.rc = 0;
	f.folder.match = TRACE_MATCH_RELATIVE;
	reply = begin(&f, (struct start_request){ .workload = "w" });
	cr_expect(reply.found);
	cr_expect_eq(reply.match, TRACE_MATCH_RELATIVE);
	cr_expect_not(reply.recording, "its reads are not seen");
	cr_expect_eq(stats_of(&f).with_trace, 1);
	end(&f);
}

Test(starts, with_a_prediction_are_without_a_trace)
{
	struct starts_fixture f;
	struct start_reply reply;
	json_t *list;

	setup(&f);
	f.folder.rc = 0;
	f.folder.match = TRACE_MATCH_PREDICTED;
	reply = begin(&f, (struct start_request){ .workload = "w" });
	cr_expect(reply.found);
	cr_expect_eq(reply.match, TRACE_MATCH_PREDICTED);
	cr_expect_eq(stats_of(&f).with_trace, 0);
	/* The image's next start is still recorded. */
	cr_expect(starts_would_record(f.n.node.starts, f.image));
	/* A prediction is counted when the start is over. */
	step(&f, 120 * NS_PER_S);
	list = await_figures(&f, 1);
	cr_expect_str_eq(figure(list, "trace"), "predicted");
	json_decref(list);
	while (stats_of(&f).predicted != 1)
		unit_pause();
	end(&f);
}

Test(starts, do_not_begin_for_who_has_left)
{
	struct error err = ERROR_INIT;
	struct starts_fixture f;
	struct start_reply reply;

	setup(&f);
	atomic_store(&f.is_gone, true);
	cr_expect_eq(try_begin(&f, (struct start_request){ .workload = "w" },
			       &reply, &err),
		     -ECANCELED);
	cr_expect_eq(stats_of(&f).begun, 0);
	end(&f);
}

Test(starts, need_a_mount)
{
	const struct start_request r = { .user = "u",
					 .workload = "w",
					 .call = NULL };
	struct error err = ERROR_INIT;
	struct starts_fixture f;
	struct start_request of_none;
	struct start_reply reply;

	setup(&f);
	of_none = r;
	of_none.call = &f.call;
	cr_expect_eq(starts_begin(f.n.node.starts, f.image, &of_none, &reply,
				  &err),
		     -ENOENT);
	cr_expect(strstr(err.msg, "is not mounted"), "%s", err.msg);
	end(&f);
}

Test(starts, are_bounded)
{
	struct error err = ERROR_INIT;
	struct starts_fixture f;
	struct start_reply reply;
	char user[16];

	setup(&f);
	for (int i = 0; i <= STARTS_MAX; i++) {
		snprintf(user, sizeof(user), "%d", i);
		cr_assert_eq(try_begin(&f,
				       (struct start_request){
					       .user = user, .workload = "w" },
				       &reply, &err),
			     i < STARTS_MAX ? 0 : -EAGAIN);
	}
	cr_expect_str_eq(err.msg, "256 starts are under way");
	cr_expect_eq(stats_of(&f).begun, STARTS_MAX);
	end(&f);
}

/* Close and open the starts with another --record, as a new bootseerd would. */
static void open_anew(struct starts_fixture *f, char *record)
{
	starts_close(f->n.node.starts);
	f->n.cfg.record = record;
	open_starts(f);
}

Test(starts, would_be_recorded_while_no_trace_is_known)
{
	static char always[] = "always", off[] = "off";
	struct starts_fixture f;

	setup(&f);
	cr_expect(starts_would_record(f.n.node.starts, f.image));
	open_anew(&f, off);
	cr_expect_not(starts_would_record(f.n.node.starts, f.image));
	open_anew(&f, always);
	cr_expect(starts_would_record(f.n.node.starts, f.image));
	cr_expect_eq(f.folder.n_asked, 1, "nobody is asked for these two");
	end(&f);
}
