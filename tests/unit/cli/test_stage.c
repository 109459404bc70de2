// SPDX-License-Identifier: Apache-2.0
/* The owner of an event: from options, its own line, and the environment. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stage.h"

static void clear_environment(void)
{
	static const char *const names[] = { "BOOTSEER_JOB", "BOOTSEER_ATTEMPT",
					     "BOOTSEER_NODE", "BOOTSEER_RANK",
					     "RANK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unsetenv(names[i]);
}

TestSuite(stage, .init = clear_environment, .timeout = 60);

static void expect_text(struct stage_text t, const char *want)
{
	cr_expect(t.n == strlen(want) && (!t.n || memcmp(t.s, want, t.n) == 0),
		  "'%.*s', wanted is '%s'", (int)t.n, t.s, want);
}

Test(stage, takes_what_was_said_before_what_the_environment_says)
{
	struct stage_owner said = { .job = (char[]){ "mine" },
				    .attempt = (char[]){ "3" },
				    .node = (char[]){ "n1" },
				    .rank = (char[]){ "4" } };
	struct stage_event e;

	(void)setenv("BOOTSEER_JOB", "theirs", 1);
	(void)setenv("BOOTSEER_ATTEMPT", "7", 1);
	(void)setenv("BOOTSEER_NODE", "n9", 1);
	(void)setenv("BOOTSEER_RANK", "8", 1);
	stage_say(&said, "env", STAGE_BEGIN, &e);
	expect_text(e.job, "mine");
	expect_text(e.node, "n1");
	expect_text(e.stage, "env");
	cr_expect_eq(e.attempt, 3);
	cr_expect_eq(e.rank, 4);
	stage_say(&(struct stage_owner){ .job = NULL }, "env", STAGE_BEGIN, &e);
	expect_text(e.job, "theirs");
	expect_text(e.node, "n9");
	cr_expect_eq(e.attempt, 7);
	cr_expect_eq(e.rank, 8);
}

Test(stage, leaves_out_what_the_environment_says_wrongly)
{
	struct stage_event e;

	(void)setenv("BOOTSEER_JOB", "no job,", 1);
	(void)setenv("BOOTSEER_RANK", "first", 1);
	(void)setenv("RANK", "2", 1);
	stage_say(&(struct stage_owner){ .job = NULL }, "env", STAGE_BEGIN, &e);
	expect_text(e.job, "");
	cr_expect_eq(e.rank, 2, "torchrun's variable is left");
	cr_expect_eq(e.attempt, STAGE_NONE);
	(void)setenv("RANK", "second", 1);
	stage_say(&(struct stage_owner){ .job = NULL }, "env", STAGE_BEGIN, &e);
	cr_expect_eq(e.rank, STAGE_NONE);
}

Test(stage, has_the_node_of_its_line_unless_this_one_has_a_name)
{
	struct stage_event e = STAGE_EVENT_INIT;

	e.source = stage_text("pod-7");
	stage_own(&(struct stage_owner){ .job = NULL }, &e);
	expect_text(e.node, "pod-7");
	e = (struct stage_event)STAGE_EVENT_INIT;
	e.source = stage_text("pod-7");
	(void)setenv("BOOTSEER_NODE", "n9", 1);
	stage_own(&(struct stage_owner){ .job = NULL }, &e);
	expect_text(e.node, "n9");
	/* Members that the event has itself are not changed. */
	e.node = stage_text("n3");
	e.attempt = 5;
	stage_own(&(struct stage_owner){ .node = (char[]){ "n1" },
					 .attempt = (char[]){ "6" } },
		  &e);
	expect_text(e.node, "n3");
	cr_expect_eq(e.attempt, 5);
}
