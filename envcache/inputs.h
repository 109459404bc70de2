// SPDX-License-Identifier: Apache-2.0
/*
 * Inputs of a command beside its words, as far as they can be told without running it:
 * files that its words name, files that those include, lock files and settings of package
 * managers, variables that they obey, the type of GPU. docs/environments.md has the
 * rules.
 */
#ifndef BOOTSEER_ENVCACHE_INPUTS_H
#define BOOTSEER_ENVCACHE_INPUTS_H

#include <sys/types.h>
#include <time.h>

#include "envcache/envcache.h"

/* Files are hashed whole up to so many bytes together; of what is beyond some pieces are. */
#define ENV_INPUT_BYTES (UINT64_C(1) << 30)

/* A file that the command makes itself, as it is now. */
struct env_left_out {
	char *name;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct env_inputs {
	/* Items of the kinds "config", "file", "gpu" and "variable"; no two have kind and
	 * name alike. */
	struct env_item *items;
	size_t n, cap;
	/* Noun phrases: what the command depends on and is not among them, for people. */
	char **unknown;
	size_t n_unknown, cap_unknown;
	struct env_left_out *left_out;
	size_t n_left_out, cap_left_out;
};

/* All is borrowed. */
struct env_inputs_from {
	char *const *command;
	const struct env_targets *targets; /* what is in them is of the base */
	char *const *environment;          /* as environ(7) has it */
	const char *root;                  /* "": the system's */
	/* Files by name that the command makes itself: they are left out. */
	char *const *made;
	bool reads_script; /* standard input is a pipe or a file */
	bool gpu_alone;    /* nothing else counts */
};

int env_inputs_gather(const struct env_inputs_from *from,
		      struct env_inputs *ret, struct error *err) MUST_CHECK;
void env_inputs_fini(struct env_inputs *in);

/* Names of files that the command makes, in *ret, which ends with NULL: those that `known` has,
 * which may be NULL, and those of `after` that `before` has not.  One of `known` that was there
 * and that the command did not write is an input, and none of them: *ret_unwritten is one, or
 * NULL.  1: they are others than `known`.  Freed by env_names_free(). */
int env_inputs_made(const struct env_inputs *before,
		    const struct env_inputs *after, char *const *known,
		    char ***ret, const char **ret_unwritten,
		    struct error *err) MUST_CHECK;
void env_names_free(char **names);

/* The files that a command of this key, which has no base and no inputs, makes of those
 * that it names itself; the note lasts as long as the snapshot of `of`. -ENOENT: nothing
 * is noted. */
int env_made_get(struct object_store *s, const struct env_key *words,
		 char ***ret, struct error *err) MUST_CHECK;
int env_made_put(struct object_store *s, const struct env_key *words,
		 const struct digest *of, char *const *names,
		 struct error *err) MUST_CHECK;

#endif
