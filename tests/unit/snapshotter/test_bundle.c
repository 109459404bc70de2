// SPDX-License-Identifier: Apache-2.0
/* The contents of a container's config.json, and the job for which its start's events are
 * written. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "profiler/emit/emit.h"
#include "recorder/recorder.h"
#include "snapshotter/node/starts/bundle.h"
#include "snapshotter/node/starts/start_events.h"

TestSuite(bundle, .timeout = 120);

#define CRI "io.kubernetes.cri."
#define POD(space, name) \
	"\"" CRI "sandbox-id\":\"1\",\"" CRI "sandbox-namespace\":\"" space \
	"\",\"" CRI "sandbox-name\":\"" name "\",\"" CRI \
	"sandbox-uid\":\"u-1\",\"" CRI "container-name\":\"main\""
#define CONFIG(env, annotations) \
	"{\"process\":{\"args\":[\"a\",\"b\"],\"env\":[" env "]}," \
	"\"annotations\":{" annotations "}}"

static struct start_owner owner(const char *text, const char *space)
{
	struct error err = ERROR_INIT;
	struct bundle b;

	cr_assert_eq(bundle_parse(text, strlen(text), space, &b, &err), 0, "%s",
		     err.msg);
	bundle_fini(&b);
	return b.owner;
}

static void expect_job(const char *text, const char *space, const char *job)
{
	struct start_owner o = owner(text, space);

	cr_expect_str_eq(o.job, job, "'%s' in %s of %s", o.job, space, text);
}

Test(bundle, has_the_words_that_it_runs)
{
	const char *words[] = { "a", "b" };
	AUTO_FREE char *key = trace_workload_key(words, 2);
	static const char text[] = CONFIG("", "");
	struct bundle b;

	cr_assert_eq(bundle_parse(text, strlen(text), "default", &b, NULL), 0);
	cr_expect_str_eq(b.key, key);
	cr_expect_str_eq(b.owner.job, "");
	cr_expect_eq(b.owner.rank, STAGE_NONE);
	bundle_fini(&b);
}

Test(bundle, names_the_job_of_its_environment)
{
	struct start_owner o =
		owner(CONFIG("\"BOOTSEER_JOB=no\",\"BOOTSEER_JOB=team/j\","
			     "\"BOOTSEER_ATTEMPT=2\",\"RANK=3\"",
			     ""),
		      "default");

	cr_expect_str_eq(o.job, "team/j", "the last one counts");
	cr_expect_eq(o.attempt, 2);
	cr_expect_eq(o.rank, 3);
	expect_job(CONFIG("\"BOOTSEER_JOB=a b\"", ""), "default", "");
	expect_job(CONFIG("\"BOOTSEER_JOB=\"", ""), "default", "");
	expect_job(CONFIG("\"XBOOTSEER_JOB=j\",3,\"BOOTSEER_JOB\"", ""),
		   "default", "");
	o = owner(CONFIG("\"BOOTSEER_JOB=j\",\"BOOTSEER_RANK=x\","
			 "\"BOOTSEER_ATTEMPT=-1\"",
			 ""),
		  "default");
	cr_expect_eq(o.attempt, STAGE_NONE);
	cr_expect_eq(o.rank, STAGE_NONE);
}

Test(bundle, of_a_pod_speaks_for_its_own_namespace_alone)
{
	expect_job(CONFIG("", POD("team-a", "p-0")), BUNDLE_CRI, "team-a/p-0");
	expect_job(CONFIG("\"BOOTSEER_JOB=j\"", POD("team-a", "p-0")),
		   BUNDLE_CRI, "team-a/j");
	expect_job(CONFIG("\"BOOTSEER_JOB=team-b/j\"", POD("team-a", "p-0")),
		   BUNDLE_CRI, "team-a/team-b/j");
	expect_job(CONFIG("\"BOOTSEER_JOB=../j\"", POD("team-a", "p-0")),
		   BUNDLE_CRI, "team-a/../j");
	expect_job(CONFIG("\"BOOTSEER_JOB=j x\"", POD("team-a", "p-0")),
		   "other", "team-a/p-0");
	/* Pod names that no kubelet would set give no job, and BOOTSEER_JOB does not replace
	 * them. */
	expect_job(CONFIG("\"BOOTSEER_JOB=team-b/j\"", ""), BUNDLE_CRI, "");
	expect_job(CONFIG("\"BOOTSEER_JOB=team-b/j\"", POD("a_b", "p")),
		   "default", "");
	expect_job(CONFIG("\"BOOTSEER_JOB=team-b/j\"", POD("a/b", "p")),
		   "default", "");
	expect_job(CONFIG("\"BOOTSEER_JOB=team-b/j\"",
			  "\"" CRI "sandbox-id\":\"1\""),
		   "default", "");
}

Test(bundle, that_is_not_whole_is_none)
{
	static const char *const none[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"process\":{\"args\":[]}}",
		"{\"process\":{\"args\":[1]}}",
		"{\"process\":{\"args\":[\"a\"",
	};
	struct bundle b;

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		cr_expect_eq(bundle_parse(none[i], strlen(none[i]), "default",
					  &b, NULL),
			     -EINVAL, "%s", none[i]);
}

/* ---------------------------------------------------------------- what is said --- */

static char dir[32];

static char *make_dir(void)
{
	strcpy(dir, "/tmp/bundle.XXXXXX");
	cr_assert(mkdtemp(dir));
	return dir;
}

static void say(struct start_events *e, const struct start_stages *s)
{
	start_events_begin(e, s);
	start_events_end(e, s);
}

static void said(const char *in, struct buf *ret)
{
	AUTO_FREE char *path = fs_join(in, "bootseerd.events");

	cr_assert_eq(fs_read_file(path, 1 << 20, ret, NULL), 0);
}

Test(bundle, stages_are_said_of_jobs_alone_and_where_somebody_follows)
{
	AUTO_FREE char *later = fs_join(make_dir(), "later");
	struct start_owner nobody = { .attempt = STAGE_NONE,
				      .rank = STAGE_NONE };
	struct start_owner j = { .job = "j", .attempt = 1, .rank = 2 };
	struct start_stages s = { .owner = &nobody, .image = "h/a:1" };
	struct start_events *e;
	AUTO_BUF text = BUF_INIT;
	int64_t now = clock_now_ns();

	say(NULL, &s);
	cr_assert_eq(start_events_new(later, &e, NULL), 0);
	s.start = (struct stage_span){ .begin_ns = now - 5, .end_ns = now };
	s.start.facts[STAGE_FACT_MISSES] = 3;
	s.hot = (struct stage_span){ .begin_ns = now - 5 };
	say(e, &s);
	s.owner = &j;
	say(e, &s); /* no folder of events: nothing is written */
	/* Nothing is written into a folder that others may change. */
	cr_assert_eq(mkdir(later, 0700), 0);
	cr_assert_eq(chmod(later, 0777), 0);
	say(e, &s);
	cr_expect_eq(rmdir(later), 0, "it is empty");
	cr_assert_eq(mkdir(later, 0700), 0);
	s.owner = &nobody;
	say(e, &s);
	s.owner = &j;
	say(e, &s);
	said(later, &text);
	cr_expect_not(strstr(text.data, "image.prepare"));
	cr_expect(strstr(text.data, "stage=image.hot ev=begin"));
	cr_expect_not(strstr(text.data, "stage=image.hot ev=end"));
	cr_expect(strstr(text.data, "stage=image.start ev=end"));
	cr_expect(strstr(text.data, "misses=3"));
	cr_expect(strstr(text.data, "image=h/a:1"));
	cr_expect(strstr(text.data, "rank=2"));
	start_events_free(e);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(bundle, stages_are_bounded_and_one_that_cannot_be_said_is_left_out)
{
	struct start_owner j = { .job = "j",
				 .attempt = STAGE_NONE,
				 .rank = STAGE_NONE };
	struct start_stages s = { .owner = &j, .image = "no image" };
	AUTO_FREE char *file = fs_join(make_dir(), "bootseerd.events");
	struct start_events *e;
	int64_t now = clock_now_ns();

	/* A folder with the name of the events' file prevents writing. */
	cr_assert_eq(mkdir(file, 0700), 0);
	cr_assert_eq(start_events_new(dir, &e, NULL), 0);
	s.start = (struct stage_span){ .begin_ns = now };
	say(e, &s);
	cr_assert_eq(rmdir(file), 0);
	say(e, &s);
	cr_expect_eq(unlink(file), 0);
	say(e, &s);
	cr_expect_eq(access(file, F_OK), 0, "it is made again");
	for (unsigned int i = 0; i < START_EVENTS_HOUR_MAX; i++)
		say(e, &s);
	cr_expect_eq(unlink(file), 0);
	say(e, &s);
	cr_expect_neq(access(file, F_OK), 0, "the hour has had its share");
	start_events_free(e);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

static bool is_said(struct start_events *e, const char *job)
{
	struct start_owner j = { .attempt = STAGE_NONE, .rank = STAGE_NONE };
	struct start_stages s = { .owner = &j };
	AUTO_FREE char *file = fs_join(dir, "bootseerd.events");

	(void)snprintf(j.job, sizeof(j.job), "%s", job);
	s.start = (struct stage_span){ .begin_ns = clock_now_ns() };
	(void)unlink(file);
	start_events_begin(e, &s);
	return access(file, F_OK) == 0;
}

Test(bundle, stages_of_one_namespace_leave_some_for_others)
{
	struct start_events *e;
	unsigned int n = 0;
	char job[32];

	cr_assert_eq(start_events_new(make_dir(), &e, NULL), 0);
	/* A namespace gets half of the events, however many jobs it invents. */
	do
		(void)snprintf(job, sizeof(job), "evil/%u", n++);
	while (n <= START_EVENTS_HOUR_MAX && is_said(e, job));
	cr_expect_leq(n, START_EVENTS_HOUR_MAX / 2 + 1);
	for (n = 0; n < 2000; n++)
		cr_assert(is_said(e, "good/j"), "%u", n);
	cr_expect(is_said(e, "by-root"));
	start_events_free(e);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}
