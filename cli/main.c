// SPDX-License-Identifier: Apache-2.0
/* The program bootseer: finds the command, parses its options, runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/env_daemon_init.h"
#include "cli/job_init.h"
#include "cli/job_read.h"
#include "cli/plain_output.h"
#include "common/text.h"

#define EXIT_USAGE 2

static const struct command *const commands[] = {
	&image_convert_command,
	&image_convert_new_command,
	&image_inspect_command,
	&image_check_command,
	&image_sign_command,
	&image_verify_command,
	&image_ls_command,
	&image_rm_command,
	&image_mount_command,
	&image_umount_command,
	&image_record_command,
	&image_prefetch_command,
	&image_explain_command,
	&image_ready_command,
	&key_new_command,
	&key_show_command,
	&trace_push_command,
	&trace_pull_command,
	&trace_ls_command,
	&trace_show_command,
	&trace_merge_command,
	&trace_rm_command,
	&ckpt_cp_command,
	&ckpt_ls_command,
	&ckpt_stat_command,
	&ckpt_verify_command,
	&ckpt_rm_command,
	&ckpt_gc_command,
	&ckpt_adopt_command,
	&ckpt_mount_command,
	&ckpt_umount_command,
	&ckpt_status_command,
	&env_run_command,
	&env_key_command,
	&env_ls_command,
	&env_inspect_command,
	&env_diff_command,
	&env_verify_command,
	&env_rm_command,
	&env_umount_command,
	&env_socket_command,
	&env_pin_command,
	&env_unpin_command,
	&env_gc_command,
	&env_export_command,
	&env_import_command,
	&env_prefetch_command,
	&p2p_status_command,
	&node_status_command,
	&node_doctor_command,
	&node_gc_command,
	&node_fetch_command,
	&node_join_command,
	&node_leave_command,
	&stage_begin_command,
	&stage_end_command,
	&stage_mark_command,
	&stage_run_command,
	&stage_send_command,
	&start_ls_command,
	&start_show_command,
	&start_compare_command,
	&start_watch_command,
	&start_export_command,
	&start_checkpoints_command,
	&job_run_command,
	&ops_chains_command,
	&ops_cost_command,
	&ops_nodes_command,
	&ops_phases_command,
	&ops_restart_command,
	&ops_precursors_command,
	&ops_watch_command,
	&ops_report_command,
	&ops_recover_command,
};

/* The number of words in a command's name after "bootseer", or 0 if argv does not match. */
static int count_name_words(const struct command *c, int argc, char **argv)
{
	const char *name = strchr(c->program.name, ' ');
	int n = 0;

	while (name && *name) {
		size_t len = strcspn(++name, " ");

		n++;
		if (n >= argc || strlen(argv[n]) != len ||
		    strncmp(argv[n], name, len) != 0)
			return 0;
		name += len;
	}
	return n;
}

/* Is `word` the first word of this command's name?  Groups such as "image" and "node" are not
 * commands. */
static bool is_command_of_group(const struct command *c, const char *word)
{
	const char *name = strchr(c->program.name, ' ') + 1;
	size_t len = strlen(word);

	return strncmp(name, word, len) == 0 && name[len] == ' ';
}

static bool is_group(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (is_command_of_group(commands[i], word))
			return true;
	return false;
}

static bool wants_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Print the commands of a group, or all commands if it is NULL. */
static void print_help(FILE *out, const char *group)
{
	fputs("Usage: bootseer COMMAND [OPTIONS] [ARGUMENTS]\n\n"
	      "Make container images start lazily.\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!group || is_command_of_group(commands[i], group))
			fprintf(out, "  %-18s%s\n",
				strchr(commands[i]->program.name, ' ') + 1,
				commands[i]->brief);
	fputs("\n'bootseer COMMAND --help' tells what each does.\n", out);
}

/* Kept short, so that the mistake is the last line on the screen. */
static void refuse_unknown_command(int argc, char **argv)
{
	const char *group = is_group(argv[1]) ? argv[1] : NULL;

	if (group && argc == 2)
		fprintf(stderr, "bootseer %s: a command of it is wanted",
			group);
	else if (*argv[1] == '-')
		fprintf(stderr,
			"bootseer: '%s': options stand behind the command: "
			"bootseer COMMAND [OPTIONS] [ARGUMENTS]",
			argv[1]);
	else
		fprintf(stderr, "bootseer: no such command: %s%s%s", argv[1],
			argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
	fprintf(stderr, ": see 'bootseer %s%s--help'\n", group ? group : "",
		group ? " " : "");
}

static int fail_command(const struct command *c, void *config, int status,
			struct error *err)
{
	/* The message may contain text from a registry, a node or a file's name. */
	text_make_printable(err->msg);
	fprintf(stderr, "%s: %s\n", c->program.name, err->msg);
	option_fini(c->program.options, config);
	return status;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	AUTO_FREE void *config = calloc(1, c->config_size);
	struct error err = ERROR_INIT;
	enum option_action action;
	int first = 0, rc;

	if (!config) {
		fprintf(stderr, "bootseer: out of memory\n");
		return EXIT_FAILURE;
	}
	rc = option_parse(&c->program, config, argc, argv, &action, &first,
			  &err);
	if (rc == 0 && action == OPTION_ACTION_RUN && c->check)
		rc = c->check(config, argv + first, &err);
	if (rc < 0)
		return fail_command(c, config, EXIT_USAGE, &err);
	if (action == OPTION_ACTION_RUN && c->open)
		rc = c->open(config, argv + first, &err);
	if (rc == -EINVAL)
		return fail_command(c, config, EXIT_USAGE, &err);
	if (rc == 0 && action == OPTION_ACTION_RUN)
		rc = c->run(config, argv + first, &err);
	if (rc < 0)
		return fail_command(c, config,
				    c->failed ? c->failed : EXIT_FAILURE, &err);
	option_fini(c->program.options, config);
	if (c->is_status && rc > 0)
		return rc;
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Print the text that the build makes manuals and completions from. */
static int generate_text(const char *what)
{
	const struct option_program *programs[ARRAY_SIZE(commands) + 1] = {
		NULL
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		programs[i] = &commands[i]->program;
		if (strcmp(what, "man") == 0) {
			printf("## %s %s\n\n%s\n\n", programs[i]->name,
			       programs[i]->usage, programs[i]->summary);
			option_scdoc(programs[i], stdout);
		}
	}
	if (strcmp(what, "man") == 0)
		return EXIT_SUCCESS;
	return option_completion(what, programs, stdout) < 0 ? EXIT_USAGE
							     : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const char prefix[] = "--generate-";

	plain_output_begin();
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		int n = count_name_words(commands[i], argc, argv);

		if (n)
			return run_command(commands[i], argc - n, argv + n);
	}
	if (argc == 3 && strcmp(argv[1], DAEMON_INIT) == 0)
		return daemon_init_main(argv[2]);
	if (argc == 4 && strcmp(argv[1], DAEMON_WATCH) == 0)
		return daemon_watch_main(argv[2], argv[3]);
	if (argc > 3 && strcmp(argv[1], JOB_INIT) == 0)
		return job_init_main(argv[2], argv + 3);
	if (argc > 4 && strcmp(argv[1], JOB_READ) == 0)
		return job_read_main(argv[2], argv[3], argv + 4);
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("bootseer " BOOTSEER_VERSION);
		return EXIT_SUCCESS;
	}
	if (argc > 1 && argc <= 3 && wants_help(argv[argc - 1]) &&
	    (argc == 2 || is_group(argv[1]))) {
		print_help(stdout, argc == 2 ? NULL : argv[1]);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strncmp(argv[1], prefix, strlen(prefix)) == 0)
		return generate_text(argv[1] + strlen(prefix));
	if (argc > 1)
		refuse_unknown_command(argc, argv);
	else
		print_help(stderr, NULL);
	return EXIT_USAGE;
}
