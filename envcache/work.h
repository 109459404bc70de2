// SPDX-License-Identifier: Apache-2.0
/* A set-up command, and what its key is made of. */
#ifndef BOOTSEER_ENVCACHE_WORK_H
#define BOOTSEER_ENVCACHE_WORK_H

#include "envcache/inputs.h"

/* Parts of a key, as whoever runs the command says them. */
struct env_parts {
	char **targets, **values, **files;
	char *image;
	bool no_auto, merge;
};

/* A command, its targets, and what both depend on, as they are now. */
struct env_work {
	const struct env_parts *parts; /* borrowed, as is the command */
	char *const *command;
	struct env_targets targets;
	char **made; /* files that the command makes itself; NULL: none is known */
	struct env_inputs inputs;
	struct env_scan *scan; /* NULL: nobody has looked */
};
/* Find the folders that the command installs into: those that were named, else the usual ones. */
int env_work_find_targets(struct env_work *w, struct error *err) MUST_CHECK;
/* Find what the command depends on beside its words; what was found before goes. */
int env_work_find_inputs(struct env_work *w, struct error *err) MUST_CHECK;
/* Find what the store knows of files that the command makes. */
int env_work_find_made(struct env_work *w, struct object_store *s,
		       struct error *err) MUST_CHECK;
/* The key of what was found so far. */
int env_work_key(const struct env_work *w, struct env_key *ret,
		 struct error *err) MUST_CHECK;
/* That of the command's words: notes on it are found by this. */
int env_work_key_words(const struct env_work *w, struct env_key *ret,
		       struct error *err) MUST_CHECK;
/* Look at targets and inputs anew.  -ESTALE: the key is not `key` any more. */
int env_work_look_again(struct env_work *w, const struct env_key *key,
			struct error *err) MUST_CHECK;
/* The command has run: note in `s` (NULL: nowhere) what it named and made, for later runs on the
 * same folder.  -ESTALE: a file that is in no key for such a note was an input this time. */
int env_work_note_made(const struct env_work *w, const struct env_key *key,
		       struct object_store *s, struct error *err) MUST_CHECK;
void env_work_fini(struct env_work *w);

#endif
