// SPDX-License-Identifier: Apache-2.0
/* Tests logs whose lines take long to search, with a clock that the pattern advances. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "profiler/follow/follower.h"
#include "tests/unit/test_clock.h"

TestSuite(followed_log, .timeout = 60);

#define LINES 100
#define LINE "2026-01-02T03:04:05Z stdout F step 1 step 1\n"

/* A fake pattern that takes long for each line. */
bool train_line_is(const struct train_line *t, const char *line, size_t len)
{
	(void)t;
	(void)line;
	(void)len;
	test_clock_step(NS_PER_MS);
	return false;
}

static void write_log(const char *pods)
{
	AUTO_FREE char *dir = fs_join(pods, "evil_p_u/c");
	AUTO_FREE char *path = NULL;
	FILE *out;

	cr_assert_eq(fs_mkdir_p(dir, 0755, NULL), 0);
	path = fs_join(dir, "0.log");
	out = fopen(path, "we");
	cr_assert(out);
	for (int i = 0; i < LINES; i++)
		cr_assert(fputs(LINE, out) >= 0);
	cr_assert_eq(fclose(out), 0);
}

Test(followed_log, gives_way_to_others_before_it_is_read)
{
	char pods[] = "/tmp/followed-log-XXXXXX";
	char none[] = "";
	const struct follow_config cfg = { .pods = pods, .events = none };
	struct event_follower f = { .cfg = &cfg,
				    .node = "n",
				    .pods_fd = -1,
				    .events_fd = -1,
				    .allowance.cfg = { .logs_max = 1 } };
	struct error err = ERROR_INIT;
	struct followed_log *l;
	char *files[] = { NULL };
	uint64_t before = 0;
	int turns = 0;

	cr_assert(mkdtemp(pods));
	write_log(pods);
	f.chunk = malloc(READ_CHUNK);
	f.train = (struct train_line *)f.chunk; /* only needs to be non-NULL */
	cr_assert(f.chunk);
	test_clock_hold();
	follow_scan(&f, files);
	cr_assert(f.logs);
	for (; f.stats.lines < LINES && turns < LINES; turns++) {
		cr_assert_gt(followed_log_read(&f, f.logs, &err), 0, "%s",
			     err.msg);
		cr_expect_leq(f.stats.lines - before, 10);
		before = f.stats.lines;
	}
	/* Each line was read once, and several in each turn. */
	cr_expect_eq(f.stats.lines, LINES);
	cr_expect_eq(f.stats.bytes, LINES * strlen(LINE));
	cr_expect_lt(turns, LINES);
	l = f.logs;
	HASH_DEL(f.logs, l);
	allowance_drop_log(&f.allowance, &l->share);
	followed_log_free(l);
	allowance_fini(&f.allowance);
	close(f.pods_fd);
	free(f.chunk);
	cr_assert_eq(fs_remove_tree(pods, NULL), 0);
}
