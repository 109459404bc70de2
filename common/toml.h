// SPDX-License-Identifier: Apache-2.0
/*
 * TOML 1.0 as containerd's hosts.toml has it, and files of jobs: tables, dotted and quoted
 * keys, strings of one line, booleans, arrays, inline tables.  Pure.
 */
#ifndef BOOTSEER_COMMON_TOML_H
#define BOOTSEER_COMMON_TOML_H

#include <jansson.h>
#include <stddef.h>

#include "common/error.h"

#define TOML_BYTES_MAX (64u << 10)

/*
 * The document as a JSON object, whose keys are in the order of the text; numbers and dates,
 * which are not looked at, are null.  -EINVAL with the line: it is no TOML, or has a string
 * of several lines or an array of tables, which are not known here; -EFBIG.
 */
int toml_parse(const char *text, size_t len, json_t **ret,
	       struct error *err) MUST_CHECK;

#endif
