// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on checkpoint files share. */
#ifndef BOOTSEER_CLI_CKPT_H
#define BOOTSEER_CLI_CKPT_H

#include "ckpt-fuse/ckpt.h"
#include "cli/store_access.h"

/* First member of the configuration of each command on checkpoint files. */
struct ckpt_access {
	struct store_access base;
	uint64_t memory;
	struct object_store *store; /* opened before run(), which then owns
	                             * it */
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
/* Check the URL of a store that another process will open.  -EINVAL: it is malformed or has wrong
 * options. */
int ckpt_check_url(const char *url, struct error *err) MUST_CHECK;

/* The path of an operand within the store: ":" or "" is the root.  Cuts slashes off the end of
 * `arg`. */
const char *ckpt_store_path(char *arg);

/* A progress bar on stderr over several files. */
struct ckpt_bar {
	struct progress *bar;
	const char *what;
	uint64_t before,
		total; /* bytes of finished files; of all, 0: unknown */
};
void ckpt_bar_step(void *bar, uint64_t done, uint64_t total);

/* Call `fn` for every file below the folder `path`, or for the file `path`, in order of names. */
typedef int ckpt_walk_fn(void *arg, const char *path, struct error *err);
int ckpt_walk(struct object_store *s, const char *path, ckpt_walk_fn *fn,
	      void *arg, struct error *err) MUST_CHECK;

#endif
