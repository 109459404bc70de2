// SPDX-License-Identifier: Apache-2.0
/* Structured log lines on stderr, for program code (libraries return errors). */
#ifndef BOOTSEER_COMMON_LOG_H
#define BOOTSEER_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"

enum log_level {
	LOG_LEVEL_ERROR,   /* the operator must act */
	LOG_LEVEL_WARNING, /* handled; the line says what was done instead */
	LOG_LEVEL_INFO,    /* a state changed */
	LOG_LEVEL_DEBUG,
};

/* Lines above `level` are dropped; INFO at start.  Any thread. */
void log_set_level(enum log_level level);

/* When standard error is a file: drop lines once the file has `most` bytes, and errors once it has
 * twice as much. 0, the default: write every line.  Any thread. */
void log_set_file_max(uint64_t most);

/* Would a line of this level be written, given the bound of log_set_file_max()? */
bool log_has_room(enum log_level level);

/* Parse "error", "warning", "info" or "debug"; -EINVAL otherwise. */
int log_level_parse(const char *text, enum log_level *ret) MUST_CHECK;

/*
 * Write one line: "level module: event key=value ...".  Control characters of
 * the message are escaped, so text from outside cannot forge a line.
 */
void log_line(enum log_level level, const char *module, const char *fmt, ...)
	PRINTF(3, 4);

#define log_error(module, ...) log_line(LOG_LEVEL_ERROR, module, __VA_ARGS__)
#define log_warning(module, ...) \
	log_line(LOG_LEVEL_WARNING, module, __VA_ARGS__)
#define log_info(module, ...) log_line(LOG_LEVEL_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) log_line(LOG_LEVEL_DEBUG, module, __VA_ARGS__)

#endif
