// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "job_text.h"

TestSuite(job_file, .timeout = 120, .init = job_text_forget_launcher);

static void expect_refused(const char *text, const char *why)
{
	struct error err = ERROR_INIT;
	struct job_file f;

	cr_expect_eq(job_text_read(text, &f, &err), -EINVAL, "%s", text);
	cr_expect(strstr(err.msg, why), "%s: %s", text, err.msg);
}

Test(job_file, says_which_key_is_wrong_and_how)
{
	expect_refused("comand = 'x'\n", "there is no key 'comand'");
	expect_refused("[image]\nref = 'x'\n", "there is no key 'image.ref'");
	expect_refused("[image]\nplain-http = true\n",
		       "image: 'reference' is missing");
	expect_refused("[image]\nreference = ''\n",
		       "image.reference: a text is wanted");
	expect_refused("[image]\nreference = 'a'\nmounts = 'a:b'\n",
		       "image.mounts: a list is wanted");
	expect_refused("[image]\nreference = 'a'\nplain-http = 1\n",
		       "image.plain-http: true or false");
	expect_refused("image = 'a'\n", "image: a table is wanted");
	expect_refused("command = []\n", "command: no word is in it");
	expect_refused("command = ['a', 1]\n", "command: a list of texts");
	expect_refused("[environment]\ncommand = 'x'\n",
		       "environment: 'store' is missing");
	expect_refused("[environment]\nstore = 'file:///e'\n",
		       "environment: 'command' is missing");
	expect_refused("[environment]\nstore = '/e'\ncommand = 'x'\n",
		       "environment.store: '/e' is no store");
	expect_refused("[checkpoint.a]\nstore = 'file:///c'\n",
		       "checkpoint.a: 'dir' is missing");
	expect_refused("[checkpoint.a]\nstore = 'file:///c'\ndir = 'c'\n",
		       "checkpoint.a.dir: 'c' is no absolute path");
	expect_refused("[checkpoint.a]\ndir = '/c'\n",
		       "checkpoint.a: a 'store' to mount, or what to");
	expect_refused("[checkpoint.a]\ndir = '/c'\nprefetch = []\n",
		       "checkpoint.a: a 'store' to mount, or what to");
	expect_refused("[stages]\nready-file = 'r'\n",
		       "stages.ready-file: 'r' is no absolute path");
	expect_refused("name = 'a b'\n", "is no name of a job");
	expect_refused("[image\n", "");
}

Test(job_file, has_no_prefetch_that_leaves_the_store)
{
	static const char *const names[] = { "/etc/shadow", "../x", "a/../../x",
					     "-rf" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char text[200];

		(void)snprintf(text, sizeof(text),
			       "[checkpoint.a]\nstore = 'file:///c'\n"
			       "dir = '/c'\nprefetch = ['ok', '%s']\n",
			       names[i]);
		expect_refused(text, "is no name in the store");
	}
}

Test(job_file, has_as_many_checkpoints_as_there_is_room_for)
{
	char text[8192] = "";
	struct error err = ERROR_INIT;
	struct job_file f;

	for (unsigned int i = 0; i < JOB_CKPTS_MAX - 1; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       "[checkpoint.c%u]\nstore = 'file:///c'\n"
			       "dir = '/c%u'\n",
			       i, i);
	cr_assert_eq(job_text_read(text, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f.n_ckpts, JOB_CKPTS_MAX - 1);
	job_file_fini(&f);
	(void)strcat(text, "[checkpoint.z]\nstore = 'file:///c'\ndir = '/z'\n");
	expect_refused(text, "more than 15 checkpoints");
}

Test(job_file, has_a_command_of_words_or_for_the_shell)
{
	struct job_file f;

	cr_assert_eq(job_text_read("command = ['a', 'b c']\n", &f, NULL), 0);
	cr_expect_str_eq(f.command[1], "b c");
	cr_expect_null(f.command[2]);
	job_file_fini(&f);
	cr_assert_eq(job_text_read("command = 'a b'\n", &f, NULL), 0);
	cr_expect_str_eq(f.command[0], "/bin/sh");
	cr_expect_str_eq(f.command[2], "a b");
	job_file_fini(&f);
}

static void expect_named(const char *text, const char *name, const char *rank)
{
	struct error err = ERROR_INIT;
	struct job_file f;

	cr_assert_eq(job_text_read(text, &f, &err), 0, "%s", err.msg);
	if (name)
		cr_expect_str_eq(f.name, name);
	cr_expect_str_eq(f.rank, rank);
	job_file_fini(&f);
}

Test(job_file, has_its_name_and_rank_of_launchers)
{
	expect_named("name = 'mine'\n", "mine", "0");
	(void)setenv("SLURM_JOB_NAME", "slurm", 1);
	(void)setenv("SLURM_NODEID", "12", 1);
	expect_named("name = 'mine'\n", "mine", "12");
	expect_named("", "slurm", "12");
	(void)setenv("BOOTSEER_JOB", "given", 1);
	(void)setenv("BOOTSEER_RANK", "7", 1);
	expect_named("name = 'mine'\n", "given", "7");
	(void)setenv("BOOTSEER_RANK", "7; rm", 1);
	expect_named("", "given", "0");
}

Test(job_file, has_stages_when_somebody_asks_for_them)
{
	struct job_file f;

	cr_assert_eq(job_text_read("", &f, NULL), 0);
	cr_expect_not(f.stages.is_there);
	job_file_fini(&f);
	(void)setenv("BOOTSEER_JOB", "j", 1);
	(void)setenv("BOOTSEER_SERVICE", "https://s", 1);
	cr_assert_eq(job_text_read("", &f, NULL), 0);
	cr_expect(f.stages.is_there);
	cr_expect_str_eq(f.stages.service, "https://s");
	job_file_fini(&f);
	cr_assert_eq(job_text_read("[stages]\nservice = 'https://t'\n", &f,
				   NULL),
		     0);
	cr_expect_str_eq(f.stages.service, "https://t");
	job_file_fini(&f);
}
