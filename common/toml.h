// SPDX-License-Identifier: Apache-2.0
/*
 * A parser for the part of TOML 1.0 that containerd's hosts.toml and job files use: tables, dotted
 * and quoted keys, strings of one line, booleans, arrays, inline tables.  Does no I/O.
 */
#ifndef BOOTSEER_COMMON_TOML_H
#define BOOTSEER_COMMON_TOML_H

#include <jansson.h>
#include <stddef.h>

#include "common/error.h"

#define TOML_BYTES_MAX (64u << 10)

/*
 * Parse the document into a JSON object with keys in the order of the text.  Numbers and dates are
 * not parsed and become null.  -EINVAL with the line: it is no TOML, or has a multi-line string or
 * an array of tables, which are not supported; -EFBIG.
 */
int toml_parse(const char *text, size_t len, json_t **ret,
	       struct error *err) MUST_CHECK;

#endif
