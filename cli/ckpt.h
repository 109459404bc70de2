// SPDX-License-Identifier: Apache-2.0
/* What the commands on checkpoint files have in common. */
#ifndef BOOTSEER_CLI_CKPT_H
#define BOOTSEER_CLI_CKPT_H

#include "ckpt-fuse/ckpt.h"
#include "cli/command.h"

/* First member of such a command's configuration. */
struct ckpt_access {
	char *ca_file;
	uint64_t memory;
};

#define CKPT_ACCESS_OPTIONS \
	{ .key = "memory", \
	  .type = OPTION_SIZE, \
	  .def = "256M", \
	  .min = "16M", \
	  .offset = offsetof(struct ckpt_access, memory), \
	  .help = "Memory for what is on its way to the store." }, \
	{ \
		.key = "ca-file", .type = OPTION_FILE, \
		.offset = offsetof(struct ckpt_access, ca_file), \
		.help = "Certificates (PEM) that the store's server is " \
			"checked with, instead of the system's." \
	}

int ckpt_store_open(const struct ckpt_access *a, const char *url,
		    struct object_store **ret, struct error *err) MUST_CHECK;

/* -EINVAL: the first operand is no URL of a store, or has wrong options.
 * For struct command.check. */
int ckpt_check_first(const void *config, char **args, struct error *err);

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
