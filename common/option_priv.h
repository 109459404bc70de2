// SPDX-License-Identifier: Apache-2.0
/* Shared by the option_*.c files only. */
#ifndef BOOTSEER_COMMON_OPTION_PRIV_H
#define BOOTSEER_COMMON_OPTION_PRIV_H

#include "common/buf.h"
#include "common/option.h"

/* Parse `text` into the option's member; messages do not name the option. */
int option_set(const struct option_spec *o, void *cfg, const char *text,
	       struct error *err) MUST_CHECK;

/* Release and unset the member; a list then starts empty. */
void option_clear(const struct option_spec *o, void *cfg);

/* Read a configuration file into `cfg`; unknown keys are errors. */
int option_read_file(const struct option_program *prog, void *cfg,
		     const char *path, struct error *err) MUST_CHECK;

/* Line of `key` in a configuration file; 0: it is not there. */
unsigned int option_file_line(const char *path, const char *key);

/* Name of the value in help texts; NULL for a switch. */
const char *option_value_name(const struct option_spec *o);

/* Append the option's help sentence, its values and default, and whether it may repeat. */
int option_describe(const struct option_spec *o, struct buf *ret) MUST_CHECK;

/* Is the member of this type a single text? */
bool option_is_text(enum option_type type);

/* Look up a key; NULL when the table does not have it. */
const struct option_spec *option_find(const struct option_spec *options,
				      const char *key, size_t len);

/* The value of "--key" without "="; NULL: the next word is the value. */
const char *option_bare(const struct option_spec *o);

#endif
