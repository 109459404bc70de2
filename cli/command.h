// SPDX-License-Identifier: Apache-2.0
/* The commands of `bootseer`, one file each; main.c has the table. */
#ifndef BOOTSEER_CLI_COMMAND_H
#define BOOTSEER_CLI_COMMAND_H

#include "common/option.h"

struct command {
	const struct option_program *program; /* named "bootseer image mount" */
	/* argv[0] is the last word of the name.  Returns the exit status: 0,
	 * 1 it failed, 2 the command line is wrong. */
	int (*run)(int argc, char **argv);
};

extern const struct command command_image_mount;
extern const struct command command_image_umount;
extern const struct command command_node_status;
extern const struct command command_node_doctor;
extern const struct command command_node_gc;

/* Print "bootseer: MESSAGE" on standard error; returns the exit status. */
int command_fail(const struct error *err);

/*
 * Parse as option_parse() does, and say what is wrong.  Returns true to go on;
 * otherwise `*ret_status` is what to end with, and `cfg` was released.
 */
bool command_parse(const struct command *c, void *cfg, int argc, char **argv,
		   int *ret_operand, int *ret_status);

#endif
