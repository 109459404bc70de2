// SPDX-License-Identifier: Apache-2.0
/*
 * The import statements that run when a Python module is imported: those of its own code, not of
 * its functions and classes. Pure; accepts any bytes, and finds nothing in bytes that are no
 * module.
 */
#ifndef BOOTSEER_IMAGE_CLOSURE_PYTHON_IMPORTS_H
#define BOOTSEER_IMAGE_CLOSURE_PYTHON_IMPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

/* An "import module" or "from module import item". The texts lie in the scanned bytes and
 * have no NUL at their end. */
struct python_import {
	const char *module; /* "a.b"; may be empty when level > 0 */
	size_t module_len;
	unsigned int level; /* leading dots */
	const char *item;   /* NULL: none; never "*" */
	size_t item_len;
};

/* Gets each import. A result other than 0 ends the scan and is returned. */
typedef int python_import_fn(void *arg, const struct python_import *i);

/* Scan source text. */
int python_scan_text(const char *text, size_t len, python_import_fn *each,
		     void *arg) MUST_CHECK;

/* Scan byte code, a .pyc file, of Python 3.7 to 3.13. -ENOTSUP: of another version, or
 * damaged. -ENOMEM. */
int python_scan_code(const void *data, size_t len, python_import_fn *each,
		     void *arg) MUST_CHECK;

#endif
