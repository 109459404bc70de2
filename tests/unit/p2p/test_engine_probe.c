// SPDX-License-Identifier: Apache-2.0
/* What a node without images says of its trackers. */
#include <arpa/inet.h>
#include <criterion/criterion.h>

#include "common/clock.h"
#include "p2p/engine/engine.h"
#include "tests/unit/blockstore/cache_dir.h"
#include "tests/unit/p2p/fake_tracker.h"
#include "tests/unit/p2p/wait.h"

TestSuite(engine_probe, .timeout = 120);

struct probed {
	struct cache_dir dir;
	struct p2p *p2p;
	atomic_uint n_notes;
	atomic_int last; /* enum p2p_note */
};

static void on_note(void *arg, enum p2p_note what, const char *about,
		    const char *why)
{
	struct probed *b = arg;

	cr_expect(strncmp(about, "http://", 7) == 0, "%s", about);
	atomic_store(&b->last, what);
	atomic_fetch_add(&b->n_notes, 1);
}

static void begin(struct probed *b, const char *tracker)
{
	char *const urls[] = { (char *)(uintptr_t)tracker, NULL };
	const struct p2p_config cfg = { .listen = "127.0.0.1:0",
					.node = "n1",
					.trackers = urls,
					.neighbours = 8,
					.memory = 64 << 20,
					.dir = b->dir.path,
					.note = on_note,
					.note_arg = b };
	struct error err = ERROR_INIT;

	cr_assert_eq(p2p_open(&cfg, &b->p2p, &err), 0, "%s", err.msg);
}

static void copy_state(void *arg, const struct p2p_tracker_info *i)
{
	*(const char **)arg = i->state;
}

static bool is_state(struct p2p *p, const char *wanted)
{
	const char *state = "none";

	p2p_each_tracker(p, copy_state, &state);
	return strcmp(state, wanted) == 0;
}

Test(engine_probe, a_tracker_is_known_to_be_good_before_the_first_image)
{
	struct probed b = { .p2p = NULL };
	struct fake_tracker *t;
	struct tracker_stats s;

	t = fake_tracker_start();
	cache_dir_make(&b.dir);
	begin(&b, fake_tracker_url(t));
	wait_for(is_state(b.p2p, "good"));
	/* Nobody took part in anything by that, and nothing is news. */
	fake_tracker_stats(t, &s);
	cr_expect_eq(s.images, 0);
	cr_expect_eq(atomic_load(&b.n_notes), 0);
	p2p_close(b.p2p);
	cache_dir_remove(&b.dir);
	fake_tracker_free(t);
}

static void count_lost(void *arg, const char *url, const char *why)
{
	cr_expect_str_eq(url, "http://127.0.0.1:9");
	*(int *)arg += *why != '\0';
}

Test(engine_probe, one_that_is_away_is_told_before_the_first_image)
{
	struct probed b = { .p2p = NULL };
	int lost = 0;

	cache_dir_make(&b.dir);
	begin(&b, "http://127.0.0.1:9");
	wait_for(is_state(b.p2p, "lost"));
	wait_for(atomic_load(&b.n_notes) == 1);
	cr_expect_eq(atomic_load(&b.last), P2P_TRACKER_LOST);
	p2p_probe_trackers(b.p2p, count_lost, &lost);
	cr_expect_eq(lost, 1);
	cr_expect_eq(atomic_load(&b.n_notes), 1, "that is no news");
	p2p_close(b.p2p);
	cache_dir_remove(&b.dir);
}

/* Nobody accepts there; the kernel connects it all the same. */
static int listen_silently(char url[64])
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(fd, 16), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(url, 64, "http://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

Test(engine_probe, one_that_says_nothing_does_not_keep_a_node_from_ending)
{
	struct probed b = { .p2p = NULL };
	struct p2p_stats s = { .tracker_calls_total = 0 };
	char url[64];
	int fd = listen_silently(url);

	cache_dir_make(&b.dir);
	begin(&b, url);
	wait_for((p2p_get_stats(b.p2p, &s), s.tracker_calls_total));
	p2p_close(b.p2p);
	/* It was not waited for: else it would be lost by now. */
	cr_expect_eq(atomic_load(&b.n_notes), 0);
	cache_dir_remove(&b.dir);
	close(fd);
}
