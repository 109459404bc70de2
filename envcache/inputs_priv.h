// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the files inputs*.c share. */
#ifndef BOOTSEER_ENVCACHE_INPUTS_PRIV_H
#define BOOTSEER_ENVCACHE_INPUTS_PRIV_H

#include "envcache/inputs.h"

/* Where words stand. */
struct text_place {
	int depth; /* texts within one another; 0: the words of the command */
	bool is_script; /* a file's, and no list of requirements */
};

/* A script's or list's, which is read again when a folder is new. */
struct known_text {
	struct text_place at;
	char *text;
};

struct gather {
	const struct env_inputs_from *from;
	struct env_inputs *in;
	uint64_t whole;     /* bytes that are still hashed whole */
	unsigned int tools; /* package managers that were named, by bits */
	bool is_settled;    /* all folders are known */
	struct known_text *texts;
	size_t n_texts, cap_texts;
	/* Folders that the command goes to, as seen from the working folder. */
	char **folders;
	size_t n_folders, cap_folders;
};

/* An item that is there already is left as it is. */
int inputs_add(struct gather *g, const char *kind, const char *name,
	       const struct digest *value, const char *shown,
	       struct error *err) MUST_CHECK;
int inputs_add_text(struct gather *g, const char *kind, const char *name,
		    const char *value, struct error *err) MUST_CHECK;
bool inputs_has(const struct gather *g, const char *kind, const char *name);
int inputs_note(struct gather *g, struct error *err, const char *fmt, ...)
	PRINTF(3, 4) MUST_CHECK;
/* The content of a regular file; sets *ret_is_new where it was not there yet. */
int inputs_add_file(struct gather *g, const char *name, const char *path,
		    bool *ret_is_new, struct error *err) MUST_CHECK;

/* Files that the words of the command name. */
int inputs_look_at_command(struct gather *g, struct error *err) MUST_CHECK;
/* The file at `path`, as a list of requirements; what is no file is let be. */
int inputs_look_at_list(struct gather *g, const char *path,
			struct error *err) MUST_CHECK;

/* Is it a package manager's name, or path? */
bool inputs_is_tool(const char *word);
/* Its files and settings count, then. */
void inputs_note_tool(struct gather *g, const char *word);
/* Files of the working folder, and settings, of the package managers that were named. */
int inputs_add_tools(struct gather *g, struct error *err) MUST_CHECK;
int inputs_add_gpu(struct gather *g, struct error *err) MUST_CHECK;

#endif
