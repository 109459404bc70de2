/* SPDX-License-Identifier: Apache-2.0 */
/* A file of containerd's configuration with its previous content, to be able to restore it. */
#ifndef BOOTSEER_CLI_KEPT_FILE_H
#define BOOTSEER_CLI_KEPT_FILE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

struct kept_file {
	char *path; /* owned; set before the rest */
	struct buf text;
	bool is_there;
};

/* Read the file; a missing one is no error, and its text is "". */
int kept_file_read(struct kept_file *f, struct error *err) MUST_CHECK;

/* Write `text` to the file, keeping its mode; NULL removes the file. */
int kept_file_put(const struct kept_file *f, const char *text,
		  struct error *err) MUST_CHECK;

/* Restore the file to what kept_file_read() found. */
int kept_file_restore(const struct kept_file *f, struct error *err) MUST_CHECK;

void kept_file_fini(struct kept_file *f);

#endif
