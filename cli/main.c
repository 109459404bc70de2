// SPDX-License-Identifier: Apache-2.0
/* bootseer: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct command *const commands[] = {
	&command_image_mount, &command_image_umount, &command_node_status,
	&command_node_doctor, &command_node_gc,
};

int command_fail(const struct error *err)
{
	fprintf(stderr, "bootseer: %s\n", err->msg);
	return 1;
}

bool command_parse(const struct command *c, void *cfg, int argc, char **argv,
		   int *ret_operand, int *ret_status)
{
	struct error err = ERROR_INIT;
	enum option_action action;
	int rc;

	rc = option_parse(c->program, cfg, argc, argv, &action, ret_operand,
			  &err);
	if (rc == 0 && action == OPTION_ACTION_RUN)
		return true;
	*ret_status = rc < 0 ? 2 : 0;
	if (rc < 0)
		fprintf(stderr, "bootseer: %s\n", err.msg);
	option_fini(c->program->options, cfg);
	return false;
}

/* "image mount" of "bootseer image mount". */
static const char *words_of(const struct command *c)
{
	return strchr(c->program->name, ' ') + 1;
}

static void usage(FILE *out)
{
	size_t i;

	fputs("Usage: bootseer COMMAND [OPTIONS] [ARGUMENTS]\n\n"
	      "Make container images start lazily, and ask the node about "
	      "them.\n\nCommands:\n",
	      out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-14s %s\n", words_of(commands[i]),
			commands[i]->program->summary);
	fputs("\n'bootseer COMMAND --help' tells a command's options.\n"
	      "See bootseer(1).\n",
	      out);
}

/* How many words of argv[1..] are this command's name; 0: another one. */
static int match(const struct command *c, int argc, char **argv)
{
	const char *w = words_of(c);
	size_t len;
	int n = 0;

	while (*w) {
		len = strcspn(w, " ");
		if (n + 1 >= argc || strlen(argv[n + 1]) != len ||
		    strncmp(argv[n + 1], w, len) != 0)
			return 0;
		n++;
		w += len + (w[len] == ' ');
	}
	return n;
}

/* What the build asks for: the manual's options, completions. */
static int generate(const char *what)
{
	const struct option_program *programs[ARRAY_SIZE(commands) + 1];
	struct error err = ERROR_INIT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		programs[i] = commands[i]->program;
	programs[i] = NULL;
	if (strcmp(what, "man") == 0) {
		for (i = 0; programs[i]; i++)
			option_scdoc(programs[i], stdout);
		return 0;
	}
	if (option_completion(what, programs, stdout) == 0)
		return 0;
	error_set(&err, 22, "unknown option '--generate-%s'", what);
	(void)command_fail(&err);
	return 2;
}

int main(int argc, char **argv)
{
	static const char make[] = "--generate-";
	size_t i;
	int n;

	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("bootseer " BOOTSEER_VERSION);
		return 0;
	}
	if (argc > 1 && strncmp(argv[1], make, sizeof(make) - 1) == 0)
		return generate(argv[1] + sizeof(make) - 1);
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		n = match(commands[i], argc, argv);
		if (n > 0)
			return commands[i]->run(argc - n, argv + n);
	}
	if (argc > 1 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		usage(stdout);
		return 0;
	}
	if (argc > 1)
		fprintf(stderr, "bootseer: unknown command '%s'\n\n", argv[1]);
	usage(stderr);
	return 2;
}
