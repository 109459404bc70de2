// SPDX-License-Identifier: Apache-2.0
/* Commands refuse wrong arguments before any request to a registry, a store or bootseerd. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "common/cleanup.h"

#define WORDS_MAX 16

static void forget_service(void)
{
	(void)unsetenv("BOOTSEER_SERVICE");
}

TestSuite(commands, .init = forget_service, .timeout = 60);

/* Check a command line, given as words with blanks between them: 0, or the error. */
static int check_words(const struct command *c, const char *line,
		       struct error *err)
{
	AUTO_FREE void *config = calloc(1, c->config_size);
	AUTO_FREE char *text = strdup(line);
	char *argv[WORDS_MAX + 2] = { (char *)(uintptr_t)c->program.name };
	enum option_action action;
	int argc = 1, first = 0, rc;

	cr_assert(config && text);
	for (char *save = NULL, *w = strtok_r(text, " ", &save); w;
	     w = strtok_r(NULL, " ", &save)) {
		cr_assert_leq(argc, WORDS_MAX);
		/* An empty word is written as ''. */
		argv[argc++] = strcmp(w, "''") == 0 ? w + 2 : w;
	}
	rc = option_parse(&c->program, config, argc, argv, &action, &first,
			  err);
	if (rc == 0 && c->check)
		rc = c->check(config, argv + first, err);
	option_fini(c->program.options, config);
	return rc;
}

/* A command line, and part of the expected error; NULL: it is accepted. */
struct command_line {
	const struct command *command;
	const char *words, *refusal;
};

static void expect_lines(const struct command_line *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		int rc = check_words(l[i].command, l[i].words, &err);

		if (!l[i].refusal)
			cr_expect_eq(rc, 0, "%s %s: %s",
				     l[i].command->program.name, l[i].words,
				     err.msg);
		else
			cr_expect(rc < 0 && strstr(err.msg, l[i].refusal),
				  "%s %s: %d '%s', wanted is '%s'",
				  l[i].command->program.name, l[i].words, rc,
				  err.msg, l[i].refusal);
	}
}

Test(commands, on_images_refuse_what_is_none)
{
	static const struct command_line lines[] = {
		{ &image_check_command, "docker://h.example/a:1", NULL },
		{ &image_check_command, "docker://h.example/a:1 x", "x" },
		{ &image_check_command,
		  "--artifact sha256:12 docker://h.example/a:1", "--artifact" },
		{ &image_inspect_command, "--artifact 12 docker://h/a:1",
		  "--artifact" },
		{ &image_ls_command, "''", "" },
		{ &image_prefetch_command, "--hot h/a:1", NULL },
		{ &image_prefetch_command, "--hot --all h/a:1",
		  "only one of --hot, --all and --stop" },
		{ &image_prefetch_command, "--nodes n1 h/a:1",
		  "--nodes and --service want each other" },
		{ &image_prefetch_command, "--service http://s h/a:1",
		  "--nodes and --service want each other" },
		{ &image_prefetch_command,
		  "--nodes n1 --service http://s --stop h/a:1",
		  "--stop is for this node" },
		{ &image_prefetch_command,
		  "--nodes all --service http://s --wait h/a:1",
		  "--wait wants names" },
		{ &image_prefetch_command,
		  "--nodes n1,n2 --service http://s --wait h/a:1", NULL },
		{ &image_ready_command, "--user u --start 7",
		  "name the same thing" },
		{ &image_record_command, "h/a:1 --ready-file run/ready",
		  "no absolute path" },
		{ &image_record_command, "h/a:1 --ready-file /run/ready",
		  NULL },
		{ &image_record_command, "h/a:1 --ready-line (",
		  "--ready-line '('" },
		{ &image_record_command, "h/a:1 --ready-line ^ready$", NULL },
		{ &image_record_command, "h/a:1 --mount /a:/b", NULL },
		{ &image_record_command, "h/a:1 --mount /a:/b:ro", NULL },
		{ &image_record_command, "h/a:1 --mount /a:/b:rw",
		  "is not SOURCE:TARGET[:ro]" },
		{ &image_record_command, "h/a:1 --mount a:/b",
		  "is not SOURCE:TARGET[:ro]" },
		{ &image_record_command, "h/a:1 --mount /a",
		  "is not SOURCE:TARGET[:ro]" },
		{ &image_explain_command, "--pod p --json",
		  "--json is for an image" },
		{ &key_new_command, "--name a\tb key", "option '--name'" },
	};

	expect_lines(lines, ARRAY_SIZE(lines));
}

Test(commands, that_convert_refuse_a_target_that_cannot_be)
{
	static const struct command_line lines[] = {
		{ &image_convert_new_command, "h.example/team",
		  "--service URL" },
		{ &image_convert_new_command,
		  "--service http://s h.example/team", NULL },
		{ &image_convert_new_command, "--service http://s docker://h",
		  "is no PREFIX" },
		{ &image_convert_new_command, "--service http://s h/*",
		  "is no PREFIX" },
		{ &image_convert_new_command, "--service http://s h/team/",
		  "is no PREFIX" },
		{ &image_convert_command, "docker://h/a:1 docker://h/b:1",
		  NULL },
		{ &image_convert_command, "docker://h/a:1 ''", "" },
	};

	expect_lines(lines, ARRAY_SIZE(lines));
}

Test(commands, on_checkpoints_know_which_side_is_the_store)
{
	static const struct command_line lines[] = {
		{ &ckpt_cp_command, "file:///s a :b", NULL },
		{ &ckpt_cp_command, "file:///s :a b", NULL },
		{ &ckpt_cp_command, "file:///s a b", "begins with a colon" },
		{ &ckpt_cp_command, "file:///s :a :b", "begins with a colon" },
		{ &ckpt_cp_command, "file:///s '' :b", "a path is empty" },
		{ &ckpt_rm_command, "file:///s :", "the whole store" },
		{ &ckpt_rm_command, "file:///s ///", "the whole store" },
		{ &ckpt_rm_command, "file:///s a/", NULL },
		{ &ckpt_mount_command, "ftp://h/s /mnt",
		  "is no kind of store" },
		{ &ckpt_mount_command, "--metrics here file:///s /mnt",
		  "--metrics" },
		{ &ckpt_mount_command, "--metrics 127.0.0.1:0 file:///s /mnt",
		  NULL },
	};

	expect_lines(lines, ARRAY_SIZE(lines));
}

Test(commands, on_environments_refuse_a_store_or_key_that_is_none)
{
	static const struct command_line lines[] = {
		{ &env_ls_command, "file:///s", NULL },
		{ &env_ls_command, "/s", "is no store" },
		{ &env_key_command, "--key A=1 -- true", NULL },
		{ &env_key_command, "--key A -- true", "is no NAME=VALUE" },
		{ &env_key_command, "--key =1 -- true", "is no NAME=VALUE" },
		{ &env_key_command, "--key-file /no/such -- true",
		  "--key-file '/no/such'" },
		{ &env_key_command, "--image latest -- true", "--image" },
		{ &env_key_command, "--store /s -- true", "is no store" },
		{ &env_run_command, "--store file:///s -- true", NULL },
		{ &env_run_command, "--store s3:/b -- true", "is no store" },
		{ &env_run_command,
		  "--store file:///s --service ftp://x -- true", "x" },
		{ &env_socket_command, "", "--store URL" },
		{ &env_prefetch_command, "--nodes n1 file:///s k",
		  "--nodes wants --service" },
		{ &env_prefetch_command, "--wait 1m file:///s k",
		  "--wait wants --nodes with names" },
		{ &env_prefetch_command,
		  "--nodes all --service http://s --wait 1m file:///s k",
		  "--wait wants --nodes with names" },
		{ &node_gc_command, "", "say what to give back" },
		{ &node_gc_command, "--cache much", "--cache" },
		{ &node_gc_command, "--cache 10G", NULL },
		{ &node_gc_command, "--images", NULL },
	};

	expect_lines(lines, ARRAY_SIZE(lines));
}

Test(commands, on_starts_and_traces_refuse_what_no_service_can_answer)
{
	static const struct command_line lines[] = {
		{ &stage_begin_command, "env", NULL },
		{ &stage_begin_command, "a,b", "is no name of a stage" },
		{ &stage_begin_command, "--attempt many env", "--attempt" },
		{ &stage_begin_command, "--job a,b env", "--job 'a,b'" },
		{ &stage_begin_command, "--node a/b env", "--node 'a/b'" },
		{ &stage_end_command, "--status -1 env", "--status" },
		{ &stage_run_command, "env", "arguments is missing" },
		{ &stage_run_command, "env -- true", NULL },
		{ &stage_send_command, "-", "name the bootseer-registry" },
		{ &start_ls_command, "", "name the bootseer-registry" },
		{ &start_ls_command, "--service http://s", NULL },
		{ &start_show_command, "--service http://s", "a start" },
		{ &start_show_command, "--service http://s 12", NULL },
		{ &trace_rm_command, "--service http://s h/a:1",
		  "say which with --workload, or --all" },
		{ &trace_rm_command,
		  "--service http://s --all --workload w h/a:1",
		  "say which with --workload, or --all" },
		{ &trace_push_command, "--local h/a:1", "name a FILE" },
	};

	expect_lines(lines, ARRAY_SIZE(lines));
}

Test(commands, take_the_service_of_the_environment)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(setenv("BOOTSEER_SERVICE", "http://s", 1), 0);
	cr_expect_eq(check_words(&start_ls_command, "", &err), 0, "%s",
		     err.msg);
	cr_assert_eq(setenv("BOOTSEER_SERVICE", "", 1), 0);
	cr_expect_eq(check_words(&start_ls_command, "", &err), -EINVAL);
}
