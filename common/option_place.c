// SPDX-License-Identifier: Apache-2.0
/* Find where the configuration file sets a value that a check refused. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/option_priv.h"

/* The first option that a message names, such as "--root"; NULL: it names none. */
static const struct option_spec *
find_option_in_message(const struct option_spec *options, const char *msg)
{
	const char *p = strstr(msg, "--");
	size_t len = 0;

	if (!p)
		return NULL;
	for (p += 2; isalnum((unsigned char)p[len]) || p[len] == '-'; len++)
		;
	return option_find(options, p, len);
}

static bool is_on_command_line(const char *key, int argc, char **argv)
{
	size_t len = strlen(key);

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strncmp(argv[i], "--", 2) == 0 &&
		    strncmp(argv[i] + 2, key, len) == 0 &&
		    (argv[i][2 + len] == '\0' || argv[i][2 + len] == '='))
			return true;
	return false;
}

int option_refuse(const struct option_program *prog, const void *cfg, int argc,
		  char **argv, int rc, struct error *err)
{
	const struct option_spec *o =
		find_option_in_message(prog->options, err->msg);
	const struct option_spec *config =
		option_find(prog->options, "config", 6);
	const char *path = NULL;
	unsigned int line;

	if (config)
		path = *(char *const *)(const void *)((const char *)cfg +
						      config->offset);
	if (!o || !path || is_on_command_line(o->key, argc, argv))
		return rc;
	line = option_file_line(path, o->key);
	return line ? error_wrap(err, rc, "configuration '%s': line %u", path,
				 line)
		    : rc;
}
