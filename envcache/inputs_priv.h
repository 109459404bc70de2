// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the files inputs*.c share. */
#ifndef BOOTSEER_ENVCACHE_INPUTS_PRIV_H
#define BOOTSEER_ENVCACHE_INPUTS_PRIV_H

#include "envcache/inputs.h"

/* Where the words are. */
struct text_place {
	int depth;      /* nesting level of texts; 0: the command's own words */
	bool is_script; /* the text is a script, not a list of requirements */
};

/* The text of a script or list, which is examined again when a new folder is found. */
struct known_text {
	struct text_place at;
	char *text;
};

struct gather {
	const struct env_inputs_from *from;
	struct env_inputs *in;
	uint64_t whole;     /* bytes left that are hashed whole */
	unsigned int tools; /* package managers that were named, as bits */
	bool is_settled;    /* all folders are known */
	struct known_text *texts;
	size_t n_texts, cap_texts;
	/* Folders that the command changes to, relative to the working folder. */
	char **folders;
	size_t n_folders, cap_folders;
};

/* Add an item; an existing one is not changed. */
int inputs_add(struct gather *g, const char *kind, const char *name,
	       const struct digest *value, const char *shown,
	       struct error *err) MUST_CHECK;
int inputs_add_text(struct gather *g, const char *kind, const char *name,
		    const char *value, struct error *err) MUST_CHECK;
bool inputs_has(const struct gather *g, const char *kind, const char *name);
int inputs_note(struct gather *g, struct error *err, const char *fmt, ...)
	PRINTF(3, 4) MUST_CHECK;
/* Add the content of a regular file; *ret_is_new is set if it was not added before. */
int inputs_add_file(struct gather *g, const char *name, const char *path,
		    bool *ret_is_new, struct error *err) MUST_CHECK;

/* Add the files that the command's words name. */
int inputs_look_at_command(struct gather *g, struct error *err) MUST_CHECK;
/* Examine the file at `path` as a list of requirements; ignored if there is no file. */
int inputs_look_at_list(struct gather *g, const char *path,
			struct error *err) MUST_CHECK;

/* Is it the name or path of a package manager? */
bool inputs_is_tool(const char *word);
/* If it is a package manager, its files and settings become inputs. */
void inputs_note_tool(struct gather *g, const char *word);
/* Add the settings, and files in the working folder, of the named package managers. */
int inputs_add_tools(struct gather *g, struct error *err) MUST_CHECK;
int inputs_add_gpu(struct gather *g, struct error *err) MUST_CHECK;

#endif
