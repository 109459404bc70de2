// SPDX-License-Identifier: Apache-2.0
/* A set-up command and the parts of its key. */
#ifndef BOOTSEER_ENVCACHE_WORK_H
#define BOOTSEER_ENVCACHE_WORK_H

#include "envcache/inputs.h"

/* Parts of a key that the user gave as options. */
struct env_parts {
	char **targets, **values, **files;
	char *image;
	bool no_auto, merge;
};

/* A command, its targets, and its dependencies, in their present state. */
struct env_work {
	const struct env_parts *parts; /* borrowed, as is the command */
	char *const *command;
	struct env_targets targets;
	char **made; /* files that the command makes itself; NULL: none known */
	struct env_inputs inputs;
	struct env_scan *scan; /* NULL: not scanned */
};
/* Find the target folders: those that were named, else the default ones. */
int env_work_find_targets(struct env_work *w, struct error *err) MUST_CHECK;
/* Find the command's inputs besides its words; replaces earlier results. */
int env_work_find_inputs(struct env_work *w, struct error *err) MUST_CHECK;
/* Read from the store which files the command makes itself. */
int env_work_find_made(struct env_work *w, struct object_store *s,
		       struct error *err) MUST_CHECK;
/* Compute the key from what was found. */
int env_work_key(const struct env_work *w, struct env_key *ret,
		 struct error *err) MUST_CHECK;
/* Compute the key of the command's words alone, under which notes are stored. */
int env_work_key_words(const struct env_work *w, struct env_key *ret,
		       struct error *err) MUST_CHECK;
/* Scan targets and inputs again.  -ESTALE: the key is no longer `key`. */
int env_work_look_again(struct env_work *w, const struct env_key *key,
			struct error *err) MUST_CHECK;
/* After the command: store in `s` (NULL: nowhere) the list of files that it named and made, for
 * later runs in the same folder.  -ESTALE: a file that the list leaves out of keys was an input in
 * this run. */
int env_work_note_made(const struct env_work *w, const struct env_key *key,
		       struct object_store *s, struct error *err) MUST_CHECK;
void env_work_fini(struct env_work *w);

#endif
