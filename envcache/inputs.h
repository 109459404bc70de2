// SPDX-License-Identifier: Apache-2.0
/*
 * Inputs of a command besides its words, as far as they can be found without running it: files
 * that the words name, files included by those, lock files and settings of package managers,
 * variables that these use, and the type of GPU. docs/environments.md has the rules.
 */
#ifndef BOOTSEER_ENVCACHE_INPUTS_H
#define BOOTSEER_ENVCACHE_INPUTS_H

#include <sys/types.h>
#include <time.h>

#include "envcache/envcache.h"

/* Files are hashed whole up to this many bytes in total; beyond it, only pieces are. */
#define ENV_INPUT_BYTES (UINT64_C(1) << 30)

/* A file that the command makes itself, with its state now. */
struct env_left_out {
	char *name;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct env_inputs {
	/* Items of the kinds "config", "file", "gpu" and "variable"; each has a different kind and
	 * name. */
	struct env_item *items;
	size_t n, cap;
	/* Dependencies of the command that are not among the items, as noun phrases for
	 * messages. */
	char **unknown;
	size_t n_unknown, cap_unknown;
	struct env_left_out *left_out;
	size_t n_left_out, cap_left_out;
};

/* All is borrowed. */
struct env_inputs_from {
	char *const *command;
	const struct env_targets *targets; /* files in them belong to the
	                                    * base, not to the inputs */
	char *const *environment;          /* in the form of environ(7) */
	const char *root;                  /* "": the system's root */
	/* Names of files that the command makes itself, which are left out. */
	char *const *made;
	bool reads_script; /* standard input is a pipe or a file */
	bool gpu_alone;    /* only the type of GPU is an input */
};

int env_inputs_gather(const struct env_inputs_from *from,
		      struct env_inputs *ret, struct error *err) MUST_CHECK;
void env_inputs_fini(struct env_inputs *in);

/* Find the files that the command makes: those in `known` (may be NULL), and those that are in
 * `after` but not in `before`.  A known file that existed before and that the command did not
 * write is an input instead; *ret_unwritten is such a file, or NULL. *ret ends with NULL; free it
 * by env_names_free(). 1: the result differs from `known`. */
int env_inputs_made(const struct env_inputs *before,
		    const struct env_inputs *after, char *const *known,
		    char ***ret, const char **ret_unwritten,
		    struct error *err) MUST_CHECK;
void env_names_free(char **names);

/* The stored list of files that a command makes itself and also names.  `words` is the command's
 * key without base and inputs.  The list is kept as long as the snapshot `of`.  -ENOENT: there is
 * no list. */
int env_made_get(struct object_store *s, const struct env_key *words,
		 char ***ret, struct error *err) MUST_CHECK;
int env_made_put(struct object_store *s, const struct env_key *words,
		 const struct digest *of, char *const *names,
		 struct error *err) MUST_CHECK;

#endif
