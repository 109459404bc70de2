// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on checkpoint files share. */
#ifndef BOOTSEER_CLI_CKPT_H
#define BOOTSEER_CLI_CKPT_H

#include "ckpt-fuse/ckpt.h"
#include "cli/store_access.h"

/* First member of such a command's configuration. */
struct ckpt_access {
	struct store_access base;
	uint64_t memory;
	struct object_store *store; /* opened before run(), whose it is */
};

#define CKPT_ACCESS_OPTIONS \
	{ .key = "memory", \
	  .type = OPTION_SIZE, \
	  .def = "256M", \
	  .min = "16M", \
	  .offset = offsetof(struct ckpt_access, memory), \
	  .help = "Memory for what is on its way to the store." }, \
		STORE_ACCESS_OPTIONS(struct ckpt_access, base, \
				     STORE_TIMEOUT_CKPT)

/* Open the store that the first operand names.  For struct command.open. */
int ckpt_open_first(void *config, char **args, struct error *err) MUST_CHECK;
/* -EINVAL: it is no URL of a store, or has wrong options.  Of who leaves it to another
 * process to open the store. */
int ckpt_check_url(const char *url, struct error *err) MUST_CHECK;

/* The path below a folder of the store: ":" or "" is the root.  Slashes at its end are cut
 * off of `arg`. */
const char *ckpt_store_path(char *arg);

/* A bar on stderr for one file after another. */
struct ckpt_bar {
	struct progress *bar;
	const char *what;
	uint64_t before,
		total; /* of files that are done, of all; 0: not known */
};
void ckpt_bar_step(void *bar, uint64_t done, uint64_t total);

/* All files below a folder, or the one that `path` is, by name.  */
typedef int ckpt_walk_fn(void *arg, const char *path, struct error *err);
int ckpt_walk(struct object_store *s, const char *path, ckpt_walk_fn *fn,
	      void *arg, struct error *err) MUST_CHECK;

#endif
