// SPDX-License-Identifier: Apache-2.0
/*
 * Options of a program as one table: command line, configuration file, --help,
 * manual and completion come from it.
 */
#ifndef BOOTSEER_COMMON_OPTION_H
#define BOOTSEER_COMMON_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

enum option_type {
	OPTION_BOOL,     /* bool; "--key" or "--key=no" */
	OPTION_STRING,   /* char *, owned by the configuration; NULL if unset */
	OPTION_FILE,     /* STRING with the name of a readable file */
	OPTION_LIST,     /* char **, NULL-terminated, owned; may repeat */
	OPTION_INTEGER,  /* uint64_t */
	OPTION_SIZE,     /* uint64_t bytes; "10G", "512K", powers of 1024 */
	OPTION_DURATION, /* int64_t nanoseconds; "5s", "250ms", "2m", "1h" */
	OPTION_ENUM,     /* char *; one of `values`, owned */
};

struct option_spec {
	const char *key; /* long option and configuration key: "cache-quota" */
	char letter;     /* short option, or 0 */
	enum option_type type;
	size_t offset;             /* offset of the member in the configuration
	                            * struct */
	const char *def;           /* default as text; NULL: unset, 0, false */
	const char *min, *max;     /* bounds as text; NULL: no bound */
	const char *arg;           /* name of the value in --help: "DIR" */
	const char *const *values; /* for OPTION_ENUM, NULL-terminated; for
	                            * OPTION_FILE: words allowed instead of a file */
	const char *help;          /* description in one sentence */
	const char *absent;        /* OPTION_FILE: cure if it is missing */
	const char *bare; /* value of "--key" without "="; such an option
	                   * takes no next word */
	bool no_file;     /* allowed on the command line only */
};

/* A program (or one subcommand of it) as --help shows it. */
struct option_program {
	const char *name;    /* "bootseerd", "bootseer image convert" */
	const char *usage;   /* "[OPTIONS] SRC DST" */
	const char *summary; /* what it does: one or more sentences */
	const struct option_spec *options; /* ends with key NULL */
	const char *examples;              /* lines, or NULL */
	const char *see_also; /* "bootseerd(8)"; NULL: bootseer(1) */
	/* Number of operands; max 0: exactly min; max -1: any number. */
	int min_args, max_args;
};

/* Actions that the command line asked for besides its options. */
enum option_action {
	OPTION_ACTION_RUN,
	OPTION_ACTION_EXIT,  /* --help, --version were printed on stdout */
	OPTION_ACTION_CHECK, /* --check-config: also exit, but after files
	                      * were checked */
};

/*
 * Fill `cfg` (zeroed by the caller) with the defaults, then the configuration
 * file if the table has a "config" option and it was given, then the command
 * line.  --help and --version are built in.  `*ret_args` is the first operand's
 * index in argv.  -EINVAL names the option, its bounds and the cure.
 */
int option_parse(const struct option_program *prog, void *cfg, int argc,
		 char **argv, enum option_action *ret, int *ret_args,
		 struct error *err) MUST_CHECK;

/*
 * Call this with the result `rc` of a check of the parsed configuration.  If its message names an
 * option ("--root ...") that was set by the configuration file and not by the command line, this
 * puts file and line before the message.  Returns `rc`.
 */
int option_refuse(const struct option_program *prog, const void *cfg, int argc,
		  char **argv, int rc, struct error *err);

/* Release what the table's members own. */
void option_fini(const struct option_spec *options, void *cfg);

/* Write the configuration as a file that option_parse() reads. */
void option_dump(const struct option_spec *options, const void *cfg, FILE *out);
void option_help(const struct option_program *prog, FILE *out);

/* The options as a section of a manual page, in scdoc's language. */
void option_scdoc(const struct option_program *prog, FILE *out);

/*
 * Completion for a shell ("bash", "zsh", "fish"; -EINVAL otherwise) of a program
 * with subcommands: `programs` ends with NULL, their names share the first word
 * ("bootseer image convert").  Every program answers the undocumented options
 * --generate-man and --generate-bash, -zsh, -fish, which the build uses.
 */
int option_completion(const char *shell,
		      const struct option_program *const *programs,
		      FILE *out) MUST_CHECK;

/* Options that each daemon has; `at` is the member's offset. */
extern const char *const option_log_levels[];

#define OPTION_LOG_LEVEL(at) \
	{ \
		.key = "log-level", .type = OPTION_ENUM, .arg = "LEVEL", \
		.offset = (at), .def = "info", .values = option_log_levels, \
		.help = "Write lines up to this level." \
	}
#define OPTION_CONFIG(at) \
	{ \
		.key = "config", .type = OPTION_STRING, .arg = "FILE", \
		.offset = (at), .no_file = true, \
		.help = "Read options from this file first." \
	}

/* Parsers of single values. */
int option_parse_size(const char *text, uint64_t *ret,
		      struct error *err) MUST_CHECK;
int option_parse_duration(const char *text, int64_t *ret_ns,
			  struct error *err) MUST_CHECK;
int option_parse_bool(const char *text, bool *ret,
		      struct error *err) MUST_CHECK;

#endif
